"""Where an epoch of a run can be computed again from: the nearest checkpoint before it that the run has kept."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from rpc.logs import SUBMIT_LOGGER, get_logger
from rpc.submit import Run, node_folder

from ..channel import Parameter_Server
from ..weight_hashes import Epochs, hash_of
from .choose import Choice, choose
from .locate import FOLDER, HeldCheckpoints, stores_of_run
from .snapshot import VALUE, CheckpointError

_log = get_logger(SUBMIT_LOGGER)


@dataclass(frozen=True)
class Nearest:
    """What all workers go on from."""

    held: HeldCheckpoints
    choice: Choice

    @property
    def epoch(self) -> int:
        return self.choice.position.epoch

    def copy(self, place: Path) -> Path:
        """Make a folder with these files, and no others, for `resume`; returns it."""
        for owner in {source.owner for source in self.choice.sources.values()}:
            file = self.held.file(owner, self.choice.position)
            if file is not None:
                folder = place / node_folder(owner) / FOLDER
                folder.mkdir(parents=True)
                shutil.copyfile(file, folder / file.name)
        return place


def nearest(folder: Path, epochs: Epochs, before: int, workers: int, server_keeps: bool) -> Nearest | None:
    """The newest checkpoint of a run after an earlier epoch than `before`, from which so many workers get the same bits.

    One that is damaged, or whose weights are not those in the tables of the run, is told of, and an earlier one is taken; None
    where there is none.
    """
    run = Run.read(folder)
    held = HeldCheckpoints([] if run is None else stores_of_run(run))
    offers = [offer for offer in held.offers if offer.batch == 0 and 0 < offer.epoch < before]
    while offers:
        choice = choose({0: offers}, range(workers), Parameter_Server if server_keeps else None)
        if choice is None or not choice.whole:
            return None
        found = Nearest(held, choice)
        wrong = _differs(found, epochs)
        if not wrong:
            return found
        _log.warning("%s It is skipped.", wrong)
        offers = [offer for offer in offers if offer.position < choice.position]
    return None


def _differs(found: Nearest, epochs: Epochs) -> str:
    """What is wrong with the weights of a checkpoint, "" if nothing is."""
    known = epochs.get(found.epoch, {})
    for owner in sorted({source.owner for source in found.choice.sources.values() if source.owner >= 0}):
        try:
            values = found.held.load(owner, found.choice.position).part(VALUE)
        except CheckpointError as error:
            return str(error)
        for name, hashes in known.items():
            if name not in values or hash_of(values[name]) not in hashes.values():
                file = found.held.file(owner, found.choice.position)
                return (
                    f"The checkpoint {file} is not of this run: after epoch {found.epoch} its variable {name} was another one."
                )
    return ""
