"""The certificate of a run: comparisons of the claims of its folder with each other, and with a new computation."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from nn.tensor_files import MAX_FILE, ModelFileError, parse
from rpc.job import PORTABLE
from rpc.submit import node_folder

from ..checkpoint.locate import FOLDER
from ..checkpoint.snapshot import CheckpointError, Snapshot
from ..checkpoint.store import position_of
from ..job_file import JobFile
from ..job_record import MODEL_FILE, NAME
from ..report import KINDS, model_name
from ..run import RunManifest, files_of
from ..verification import changed_settings
from ..weight_hashes import Epochs, chain_of, hash_of
from .door import Door, RecordError
from .files import OUTCOME, TIMELINE
from .identity import Identities, differences
from .kept_data import DATA_FILE
from .outcome import read_outcome
from .tables import read_columns, read_hashes, read_identities

_OF_A_RUN: Final = (NAME, MODEL_FILE, "job.json", OUTCOME, TIMELINE)
_MOST_NAMED: Final = 4  # variables or nodes in a sentence


# ---- the folder by itself


def lacking(run: Path, manifest: RunManifest) -> Iterator[str]:
    """Yield the files that a run of this kind leaves and the manifest lacks, and those of the folder that no list names."""
    outcome = read_outcome(Door(run))
    hurt = outcome.get("incidents") or outcome.get("failures")
    settings = manifest.settings
    title = str(settings.get("options", {}).get("mission_title", ""))
    workers = settings.get("run", {}).get("workers", 0)
    named = {node for node in _nodes(manifest.files) if node >= 0}
    # after a restart fewer workers may have gone on, and a lost one may have left nothing
    nodes = named or {0} if hurt else named | set(range(workers))
    expected = [*_OF_A_RUN]
    for node in sorted(nodes):
        files = [f"{kind}-{title}-N({node}).csv" for kind in KINDS]
        expected += [f"{node_folder(node)}/{name}" for name in (*files, model_name(title, node))]
    failed = _failed(outcome)
    for name in expected:
        if name not in manifest.files and not (_nodes([name]) & failed):
            yield f"{name} is in no list of the run, which leaves one"
    needed = _inputs(settings)
    for name in files_of(run):
        if name not in manifest.files and name not in needed:
            yield f"{name} stands in the folder and in no list of the run"


def _inputs(settings: Mapping[str, Any]) -> set[str]:
    """Return the names of files that a job file names as data or code; whoever repeats a moved run puts them beside it."""
    texts = [*map(str, settings.get("data", {}).values()), *map(str, settings.get("options", {}).values())]
    return {name.rpartition("/")[2] for text in texts for name in re.findall(r"[^\s'\",:=()]+\.\w+", text)}


def contradictions(run: Path, manifest: RunManifest) -> Iterator[str]:
    """Yield where files of the folder contradict each other: weights and their hashes, identities, the figures of the end."""
    told = {str(node): texts for node, texts in read_identities(run).items()}
    recorded = {str(node): texts for node, texts in JobFile.read(run).nodes.items()}
    if not told == recorded == manifest.nodes:
        yield "the identities of the nodes differ between their tables (ID-*.csv), job.toml and the manifest"
    if changed := changed_settings(run / NAME, manifest):
        yield f"job.toml and the manifest differ: {'; '.join(changed)}"
    epochs = read_hashes(run)
    chain, found = [list(link) for link in manifest.chain], chain_of(epochs)
    for place, (expected, other) in enumerate(zip(chain, found, strict=False)):
        if expected != other:
            yield f"the tables of the weights (WH-*.csv) were changed in epoch {found[place][0]}"
            return
    if len(chain) != len(found):
        yield f"the tables of the weights (WH-*.csv) have {len(found)} epochs, the manifest has {len(chain)}"
        return
    yield from _gaps(epochs)
    if not epochs:
        return
    last = max(epochs)
    for path in sorted(run.glob("Node-[0-9]*-Retrieve/MODEL-*.model")):
        yield from _other_weights(path.relative_to(run).as_posix(), path, epochs[last], last, _node_of(path))


def _gaps(epochs: Epochs) -> Iterator[str]:
    """Yield the rows that the hash tables lack: each worker has all variables of each epoch from its first to its last."""
    variables = sorted({variable for rows in epochs.values() for variable in rows})
    spans: dict[int, list[int]] = {}
    for epoch, rows in sorted(epochs.items()):
        for node in {node for values in rows.values() for node in values}:
            spans.setdefault(node, []).append(epoch)
    for node, those in sorted(spans.items()):
        if those != list(range(those[0], those[-1] + 1)):
            yield f"the table of the weights of node {node} lacks an epoch between {those[0]} and {those[-1]}"
        for epoch in those:
            without = [variable for variable in variables if node not in epochs[epoch].get(variable, {})]
            if without:
                yield f"the table of the weights of node {node} lacks {_few(without)} after epoch {epoch}"
                break
    whole = [node for node, those in spans.items() if those[0] == 1 and those[-1] == max(epochs)]
    if epochs and not whole:
        yield f"no table of the weights (WH-*.csv) has all epochs from 1 to {max(epochs)}"


def _other_weights(name: str, path: Path, rows: Mapping[str, Mapping[int, str]], epoch: int, node: int) -> Iterator[str]:
    try:
        arrays, _ = parse(_content(path))
    except (ModelFileError, RecordError, OSError) as error:
        yield f"{name}: {error}"
        return
    wrong = []
    for variable, values in rows.items():
        known = {values[node]} if node in values else set(values.values())
        if variable not in arrays or hash_of(arrays[variable]) not in known:
            wrong.append(variable)
    if wrong:
        yield f"{name}: after epoch {epoch} the variable {_few(wrong)} is another one than in the tables of the weights"


# ---- the folder and a computation


@dataclass(frozen=True)
class Computed:
    """A new computation of epochs of a run.

    Attributes:
        run: the folder of the run in question.
        again: the folder of the computation.
        figures: the figures of its end, as a job returns them.
        start: the number of epochs that were completed where it began.
        until: the last epoch that it was asked for.
        workers: the number of workers that computed.
    """

    run: Path
    again: Path
    figures: Mapping[str, float]
    start: int
    until: int
    workers: int

    def differences(self, file: JobFile, epochs: Epochs) -> Iterator[str]:
        """Yield the claims of the run that the computation does not bear out: weights, evaluations, models, figures.

        Claims about the end of the run (models, figures) are compared where its last epoch was computed.
        """
        computed = {epoch: rows for epoch, rows in read_hashes(self.again).items() if epoch > self.start}
        last = max(computed, default=0)
        if last != self.until:
            yield f"training ends after epoch {last} when it is computed again, the run's tables end after epoch {self.until}"
            return
        same_nodes = len(_node_numbers(epochs)) == len(_node_numbers(computed))
        weights = next(_weights(epochs, computed, same_nodes), "")
        if weights:
            yield weights
        yield from self._evaluations(epochs, same_nodes)
        if self.until == max(epochs):
            yield from self._models(same_nodes)
            yield from self._figures()
        yield from self._checkpoints()

    def _evaluations(self, epochs: Epochs, same_nodes: bool) -> Iterator[str]:
        lost = _failed(read_outcome(Door(self.run)))
        mine, theirs = _evaluations(self.run), _evaluations(self.again)
        for node, rows in mine.items():
            other = theirs.get(node) if same_nodes else theirs.get(min(theirs, default=0))
            for epoch, values in rows.items():
                if self.start < epoch <= self.until and (other is None or other.get(epoch) != values):
                    found = _pairs((other or {}).get(epoch, {}))
                    yield f"node {node}: the evaluation after epoch {epoch} is {found}, its table says {_pairs(values)}"
                    break
            hashed = [epoch for epoch in sorted(epochs) if any(node in values for values in epochs[epoch].values())]
            lacks = [epoch for epoch in hashed if self.start < epoch <= self.until and epoch not in rows]
            if lacks and node not in lost:
                yield f"node {node}: its table has no evaluation after epoch {lacks[0]}"

    def _models(self, same_nodes: bool) -> Iterator[str]:
        theirs = {_node_of(path): path for path in sorted(self.again.glob("Node-[0-9]*-Retrieve/MODEL-*.model"))}
        for path in sorted(self.run.glob("Node-[0-9]*-Retrieve/MODEL-*.model")):
            other = theirs.get(_node_of(path)) if same_nodes else theirs.get(min(theirs, default=0))
            if other is None or _content(path) == _content(other):
                continue
            (arrays, about), (others, expected) = parse(_content(path)), parse(_content(other))
            name = path.relative_to(self.run).as_posix()
            wrong = [each for each in {**arrays, **others} if not _equal(arrays.get(each), others.get(each))]
            if wrong:
                yield f"{name}: after epoch {self.until} {_few(wrong)} is another one than computed"
            elif _config(about) != _config(expected):
                now, then = _config(about), _config(expected)
                keys = [key for key in {**now, **then} if now.get(key) != then.get(key)]
                yield f"{name}: its {_few(keys)} is another one than computed"

    def _figures(self) -> Iterator[str]:
        claimed = read_outcome(Door(self.run)).get("figures")
        if not isinstance(claimed, dict) or not claimed:
            yield f"{OUTCOME} has no figures"
        elif claimed.keys() != self.figures.keys() or not all(_same(claimed[name], self.figures[name]) for name in claimed):
            yield f"{OUTCOME}: the figures are {_pairs(self.figures)}, it says {_pairs(claimed)}"

    def _checkpoints(self) -> Iterator[str]:
        """Compare kept checkpoints with those of the computation at the same position, where it has one."""
        theirs = {path.name: path for path in sorted(self.again.rglob(f"{FOLDER}/*"), reverse=True)}
        for path in sorted(self.run.glob(f"Node-[0-9]*-Retrieve/{FOLDER}/*")):
            position = position_of(path.name)
            if position is None or position.epoch <= self.start or path.name not in theirs:
                continue
            name = path.relative_to(self.run).as_posix()
            try:
                mine, other = Snapshot.read(_content(path)), Snapshot.read(_content(theirs[path.name]))
            except (CheckpointError, RecordError, OSError) as error:
                yield f"{name}: {error}"
                continue
            if mine.header.personal:
                continue
            wrong = [each for each, array in other.arrays.items() if not _equal(mine.arrays.get(each), array)]
            wrong += [each for each, value in other.numbers.items() if mine.numbers.get(each) != value]
            if wrong:
                yield f"{name}: {_few(wrong)} is another one than computed"


def other_identities(file: JobFile, now: Identities) -> list[str]:
    """Return the parts in which the processes that trained a run differ from those that computed it again, in words."""
    was = [text for texts in file.nodes.values() for text in texts]
    if not was:
        return ["processes that it does not tell"]
    portable = file.options.get("bits") == PORTABLE
    return differences(was, [text for texts in now.values() for text in texts], portable=portable)


def left_by_others(manifest: RunManifest) -> list[str]:
    """Return the files that callbacks and writers have left: the manifest names them, and no computation bears them out."""
    known = (*(f"{kind}-" for kind in KINDS), "LEDGER-", "MODEL-", "Fit-", "Worker-", "SOURCE-", "RUN-")
    return [
        name for name in manifest.files if name not in (*_OF_A_RUN, DATA_FILE) and not name.rpartition("/")[2].startswith(known)
    ]


def _weights(epochs: Epochs, computed: Epochs, same_nodes: bool) -> Iterator[str]:
    for epoch in sorted(computed):
        for variable in dict.fromkeys([*epochs.get(epoch, {}), *computed[epoch]]):
            mine, theirs = epochs.get(epoch, {}).get(variable, {}), computed[epoch].get(variable, {})
            for node, value in sorted(mine.items()):
                if value not in ({theirs[node]} if same_nodes and node in theirs else set(theirs.values())):
                    yield f"after epoch {epoch} the variable {variable} is another one than in the run"
            if not mine:
                yield f"after epoch {epoch} the tables of the weights lack the variable {variable}"


def _evaluations(run: Path) -> dict[int, dict[int, dict[str, float]]]:
    """Return the evaluations of each node by epoch."""
    found: dict[int, dict[int, dict[str, float]]] = {}
    for path in sorted(run.glob("Node-[0-9]*-Retrieve/EV-*.csv")):
        columns = read_columns(path)
        numbers = columns.pop("Epoch", [])
        rows = found.setdefault(_node_of(path), {})
        for epoch, *values in zip(numbers, *columns.values(), strict=True):
            if isinstance(epoch, float) and all(isinstance(value, float) for value in values):
                rows[int(epoch)] = dict(zip(columns, values, strict=True))
    return found


def _failed(outcome: Mapping[str, Any]) -> set[int]:
    """Return the nodes that the run lost and could do without."""
    return {int(node) for node, *_ in outcome.get("failures") or ()}


def _content(path: Path) -> bytes:
    """Return the content of a model or checkpoint, a regular file below its folder. Raises: RecordError; FileNotFoundError."""
    return Door(path.parent).read(path.name, MAX_FILE)


def _same(claimed: object, value: float) -> bool:
    return isinstance(claimed, (int, float)) and (claimed == value or (math.isnan(claimed) and math.isnan(value)))


def _equal(one: Any, other: Any) -> bool:
    return one is not None and other is not None and hash_of(one) == hash_of(other)


def _config(metadata: Mapping[str, str]) -> dict[str, Any]:
    content = json.loads(metadata.get("config", "{}"))
    return content if isinstance(content, dict) else {}


def _nodes(names: Iterable[str]) -> set[int]:
    return {int(name.split("-")[1]) for name in names if name.startswith("Node-") and name.split("-")[1].isdecimal()}


def _node_of(path: Path) -> int:
    return int(path.parent.name.split("-")[1])


def _node_numbers(epochs: Epochs) -> set[int]:
    return {node for rows in epochs.values() for values in rows.values() for node in values}


def _few(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items()) or "none"
