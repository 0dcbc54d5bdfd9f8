"""Comparisons of `psgd verify` between a run and its manifest, by file, of a model by epoch and variable, of the settings by
option, of the data set by array and rows; and the checkpoint that the run has kept from which an epoch can be computed again.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from nn.dataset.interface import AbsDataset, row_borders
from nn.tensor_files import ModelFileError, parse, read_file
from rpc.submit import Run, node_folder
from rpc.support.logs import SUBMIT_LOGGER, get_logger

from ..checkpoint.choose import Choice, choose
from ..checkpoint.locate import FOLDER, HeldCheckpoints, stores_of_run
from ..checkpoint.snapshot import VALUE, CheckpointError, Snapshot
from ..checkpoint.store import Disk, position_of
from ..engine.channel import Parameter_Server
from .door import Door
from .files import JOB_FILE
from .job_file import JobFile
from .job_record import MODEL_FILE
from .kept_data import DATA_FILE, load_kept
from .paths import as_seen
from .run import RunManifest
from .tables import read_hashes
from .weight_hashes import Epochs, hash_of

_MOST_RANGES: Final = 4  # of rows, in a sentence
_log = get_logger(SUBMIT_LOGGER)


def damages(run: Path, manifest: RunManifest) -> Iterator[str]:
    """Yield the differences from the manifest, by file, and where it can be told by setting, epoch and variable."""
    # all hashes of the weights once, to name epoch and variable
    epochs, door = read_hashes(run), Door(run)
    for name, expected in manifest.files.items():
        path = run / name
        try:
            found = door.sha256(name)
        # a file that is gone is told like one that was changed
        except FileNotFoundError as error:
            yield f"{name} cannot be read: {error.strerror}"
            continue
        if found != expected:
            yield f"{name} was changed{_where(path, manifest, epochs)}"


def _where(path: Path, manifest: RunManifest, epochs: Epochs) -> str:
    if path.name == JOB_FILE:
        return f": {'; '.join(changed_settings(path, manifest)) or 'in its layout'}"
    if path.name == DATA_FILE:
        try:
            rows = manifest.settings.get("rows")
            differs = "; ".join(differing_rows(rows if isinstance(rows, dict) else {}, load_kept(path, None)))
        except (OSError, ValueError) as error:
            return f": {error}"
        return f": {differs}" if differs else ", outside of the samples"
    known: Mapping[str, Collection[str]] = {}
    # which variables, if it is a model
    if path.name == MODEL_FILE and manifest.start:  # an older run has none
        when, known = "at the start", {name: (value,) for name, value in manifest.start.items()}
    elif path.name.startswith("MODEL-") and epochs:
        last = max(epochs)
        when, known = f"after epoch {last}", {name: values.values() for name, values in epochs[last].items()}
    if known:
        try:
            arrays, _ = parse(read_file(path), sealed=False)
        except (ModelFileError, OSError) as error:
            return f": {error}"
        wrong = [name for name, array in arrays.items() if name in known and hash_of(array) not in known[name]]
        return f": {when} the variable {', '.join(wrong)} had another value" if wrong else ", outside of the variables"
    return ""


def damaged_checkpoints(run: Path, epochs: Epochs) -> Iterator[str]:
    """Yield the checkpoints that the run has kept and that have changed since, by file, epoch and variable; the manifest has
    none of them, for they may be deleted.
    """
    for path in sorted(run.glob(f"Node-[0-9]*-Retrieve/{FOLDER}/*")):
        position = position_of(path.name)
        if position is None:
            continue
        name, known = path.relative_to(run), epochs.get(position.epoch, {}) if position.batch == 0 else {}
        try:
            content = Disk().read(path)
            arrays, _ = parse(content, sealed=False)
        except (ModelFileError, OSError) as error:
            yield f"{name} cannot be read: {error}"
            continue
        # the manifest has no checkpoints, but the tables have the hashes of their weights
        hashes = {each: hash_of(arrays[f"{VALUE}/{each}"]) for each in known if f"{VALUE}/{each}" in arrays}
        wrong = [each for each, values in known.items() if hashes.get(each) not in values.values()]
        if wrong:
            yield f"{name} was changed: after epoch {position.epoch} the variable {', '.join(wrong)} had another value"
            continue
        # weights as told, and something else is not
        try:
            Snapshot.read(content)
        except CheckpointError:
            yield f"{name} was changed, outside of the variables"


def changed_data(file: JobFile, data: AbsDataset) -> str:
    """Return the differences of a data set from that of the run, by array, rows, file and epoch; "" if there are none."""
    if file.data_sha256 == data.checksum():
        return ""
    found = differing_rows(file.rows, data)
    said = "; ".join(found)
    # an older run has no checksums by rows
    if not said:
        return f"the SHA-256 of its samples is {data.checksum()}, {as_seen(file.path)} has {file.data_sha256}"
    use = "trained" if any(each.startswith("train") for each in found) else "evaluated"
    return f"{said}; so every epoch would be {use} on others"


def differing_rows(rows: Mapping[str, str], data: AbsDataset) -> list[str]:
    """Return which rows of a data set are not those of a run, by array and file.

    Args:
        rows: `row_checksums` of the data set that the run had.
        data: the data set of today.
    """
    now, found = data.row_checksums(), []
    for name, was in rows.items():
        if differs := rows_that_differ(was, now[name]):
            source = data.source_of(name)
            found.append(f"{name}{f' ({source})' if source else ''}: {differs}")
    return found


def rows_that_differ(was: str, now: str) -> str:
    """Return the rows that differ between two texts of `row_checksums_of`, or that the arrays are not alike; "" if none do.

    >>> rows_that_differ("uint8 2x3 0854897f 6dda9c91", "uint8 2x3 0854897f 00000000")
    'row 1'
    >>> rows_that_differ("uint8 2x3 0854897f 6dda9c91", "uint8 1x3 0854897f")
    'it was uint8 2x3, it is uint8 1x3'
    """
    (kind, before), (other_kind, after) = ((" ".join(words[:2]), words[2:]) for words in (was.split(), now.split()))
    if kind != other_kind:
        return f"it was {kind}, it is {other_kind}"
    borders = row_borders(int(kind.split()[1].split("x")[0]))
    if not len(before) == len(after) == len(borders) - 1:  # of a release with other blocks
        return "" if was == now else "some rows"
    wrong = [number for number, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]
    ranges: list[list[int]] = []  # blocks that follow each other are one
    for number in wrong:
        if ranges and ranges[-1][1] == borders[number]:
            ranges[-1][1] = borders[number + 1]
        else:
            ranges.append([borders[number], borders[number + 1]])
    shown = [f"{low} to {high - 1}" if high - low > 1 else str(low) for low, high in ranges[:_MOST_RANGES]]
    more = f" and {len(ranges) - _MOST_RANGES} more ranges" if len(ranges) > _MOST_RANGES else ""
    single = len(ranges) == 1 and ranges[0][1] - ranges[0][0] == 1
    return f"{'row' if single else 'rows'} {', '.join(shown)}{more}" if ranges else ""


def changed_settings(path: Path, manifest: RunManifest) -> list[str]:
    """Return the settings of a job file that differ from those that the run had."""
    try:
        now = Door(path.parent).toml(path.name)
    except (OSError, ValueError) as error:
        return [str(error)]
    was, is_now = _flat(manifest.settings), _flat(now)
    # by table and name, so that a moved line is no change
    changed = [name for name in {**was, **is_now} if was.get(name) != is_now.get(name)]
    return [f"'{name}' was {was.get(name)!r}, it is {is_now.get(name)!r}" for name in changed]


def _flat(tables: Mapping[str, Any]) -> dict[str, Any]:
    single = {name: value for name, value in tables.items() if not isinstance(value, dict)}
    return single | {f"{t}.{name}": v for t, values in tables.items() if isinstance(values, dict) for name, v in values.items()}


@dataclass(frozen=True)
class Nearest:
    """Checkpoints from which all workers go on."""

    held: HeldCheckpoints
    choice: Choice

    @property
    def epoch(self) -> int:
        return self.choice.position.epoch

    def copy(self, place: Path) -> Path:
        """Make a folder with these files, and no others, for `resume`; return it."""
        # links and other checkpoints stay behind: `resume` finds just these
        for owner in {source.owner for source in self.choice.sources.values()}:
            file = self.held.file(owner, self.choice.position)
            if file is not None:
                folder = place / node_folder(owner) / FOLDER
                folder.mkdir(parents=True)
                shutil.copyfile(file, folder / file.name)
        return place


def nearest(folder: Path, epochs: Epochs, before: int, workers: int, server_keeps: bool) -> Nearest | None:
    """Return the newest checkpoint of a run after an earlier epoch than `before`, from which so many workers get the same bits.

    One that is damaged, or that has other weights than the tables of the run, is told of, and an earlier one is taken; None
    where there is none.
    """
    run = Run.read(folder)
    held = HeldCheckpoints([] if run is None else stores_of_run(run))
    # ends of epochs alone: between them there are no hashes to compare with
    offers = [offer for offer in held.offers if offer.batch == 0 and 0 < offer.epoch < before]
    while offers:
        choice = choose({0: offers}, range(workers), Parameter_Server if server_keeps else None)
        if choice is None or not choice.whole:
            # each worker would need a state of its own that was not kept
            return None
        found = Nearest(held, choice)
        wrong = _differs(found, epochs)
        if not wrong:
            return found
        _log.warning("%s It is skipped.", wrong)
        # older than the faulty one
        offers = [offer for offer in offers if offer.position < choice.position]
    return None


def _differs(found: Nearest, epochs: Epochs) -> str:
    """Return the fault of the weights of a checkpoint, "" if there is none."""
    known = epochs.get(found.epoch, {})
    for owner in sorted({source.owner for source in found.choice.sources.values() if source.owner >= 0}):
        try:
            values = found.held.load(owner, found.choice.position).part(VALUE)
        except CheckpointError as error:
            return str(error)
        for name, hashes in known.items():
            if name not in values or hash_of(values[name]) not in hashes.values():
                file = found.held.file(owner, found.choice.position)
                when = f"after epoch {found.epoch} its variable {name} had another value"
                return f"The checkpoint {file} is not of this run: {when}."
    return ""
