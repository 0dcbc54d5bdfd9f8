"""Claims of a run besides its weights and steps: counts of packets in its tables, and settings and model in `outcome.json`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from ..options.job_options import options
from .door import Door
from .job_file import JobFile
from .outcome import OUTCOME, read_outcome
from .table import NODE
from .tables import read_table

_MADE: Final = re.compile(r" \(\d+ and \d+ after the transform\)$")
_LINK: Final = ("Codec", "Name", "Peer", "Direction")
_BATCH: Final = ("Codec", "Epochs", "Batches")
#: Columns that depend on the job alone; bytes on the wire depend on transports, too.
_COUNTS: Final = {"AC": ("Packets", "Raw"), "BY": ("Packets sent", "Bytes sent", "Packets received", "Bytes received")}
#: Bytes by which a variable's share of a packet may differ; packets are whole.
_ROUNDED: Final = {kind: tuple(0 if name.startswith("Packets") else 1 for name in names) for kind, names in _COUNTS.items()}
#: Codec that the product itself may choose, with packets that depend on the number of hosts.
_BY_HOSTS: Final = "Ring"
ELSEWHERE: Final = frozenset({"epoch", "resume", "bits", "blas_threads"})
"""Options that decide about a result, and that a computation has of its own."""

Packets = Mapping[tuple[object, ...], tuple[float, ...]]


def computed_table(path: Path, again: Path) -> Path | None:
    """Return the table of a new computation with the node and kind of a table of a run; None where it has none.

    Args:
        path: the table of the run.
        again: the folder of the computation, which has a title of its own.
    """
    node, kind = path.parent.name.split("-")[1], path.name.partition("-")[0]  # of workers alone, whose numbers have no sign
    # a title may end like a node's name, so the ending is compared as a whole
    common = not path.name.endswith(f"-N({node}).csv")
    theirs = sorted(again.glob(f"Node-{node}-Retrieve/{kind}-*.csv"))
    return next((each for each in theirs if each.name.endswith(")" + ".csv") != common), None)


# ---- packets


def wrong_packets(run: Path, again: Path, until: int, *, whole: bool) -> Iterator[str]:
    """Yield the counts of packets and bytes of a run that are smaller than those of a new computation of it.

    Args:
        run: the folder of the run.
        again: the folder of the computation.
        until: the last epoch that was computed.
        whole: whether that is the last one of the run; the accounts of links are of all epochs.
    """
    for kind, name, mine, theirs in _tables(run, again, until, whole=whole):
        for key in theirs:
            told, expected = mine.get(key, ()), theirs[key]
            if not told or _lacks(told, expected, kind):
                yield f"{name}: {_place(key)} is {_sizes(told)}, computed is {_sizes(expected)}"
                break


def further_packets(run: Path, again: Path, until: int, *, whole: bool) -> list[str]:
    """Return the tables that count more packets than a new computation: requests for late blocks are honest ones.

    Args:
        run, again, until, whole: as for `wrong_packets`.
    """
    return [
        name
        for kind, name, mine, theirs in _tables(run, again, until, whole=whole)
        if any(key not in theirs or _lacks(theirs[key], counts, kind) for key, counts in mine.items())
    ]


def _lacks(one: tuple[float, ...], other: tuple[float, ...], kind: str) -> bool:
    """Tell if counts of one table are smaller than those of another, by more than a rounding."""
    # variables that travel as one vector share its bytes, rounded for each transport by itself
    return any(mine < theirs - rounded for mine, theirs, rounded in zip(one, other, _ROUNDED[kind], strict=True))


def depend_on_hosts(run: Path, again: Path, file: JobFile) -> bool:
    """Tell if a run or its computation has packets of a codec that the product chose by the number of hosts."""
    return "codec" not in file.options and any(
        _BY_HOSTS in read_table(Door(place), path.relative_to(place))[0].get("Codec", [])
        for place in (run, again)
        for path in _paths(place, "BY")
    )


def _tables(run: Path, again: Path, until: int, *, whole: bool) -> Iterator[tuple[str, str, Packets, Packets]]:
    """Yield kind and name of each table of packets, with its counts and those that were computed."""
    last = max(_last_batch(run), _last_batch(again))
    gathered = _gathered(run, last) | _gathered(again, last)
    # packets of sync types and checkpoints belong to no variable: they depend on what is kept
    codecs = {key[0] for path in _paths(again, "AC") for key in _packets(again, path, None)}
    for kind in ("AC", "BY") if whole else ("BY",):
        # the accounts of a link do not tell its packets of checkpoints from those of batches, which the other table has
        counted = codecs - gathered if kind == "AC" else codecs
        for path in _paths(run, kind):
            other = computed_table(path, again)
            theirs = {} if other is None else _packets(again, other, until, counted, last)
            yield kind, path.relative_to(run).as_posix(), _packets(run, path, until, counted, last), theirs


def _paths(run: Path, kind: str) -> list[Path]:
    return sorted(run.glob(f"Node-[0-9]*-Retrieve/{kind}-*.csv"))


def _gathered(run: Path, last: float) -> set[object]:
    """Return the codecs that gather a state of which each worker has a shard: they have packets behind the last batch of an
    epoch, and how many depends on how often checkpoints are made."""
    tables = (read_table(Door(run), path.relative_to(run))[0] for path in _paths(run, "BY"))
    return {
        codec
        for columns in tables
        for codec, batch in zip(columns.get("Codec", []), columns.get("Batches", []), strict=True)
        if last and isinstance(batch, float) and batch > last
    }


def _last_batch(run: Path) -> float:
    """Return the number of batches of an epoch, 0 where no table of steps tells it."""
    tables = (read_table(Door(run), path.relative_to(run))[0] for path in _paths(run, "TR"))
    return max((float(batch) for columns in tables for batch in columns.get("Batches", [])), default=0)


def _packets(run: Path, path: Path, until: int | None, codecs: set[object] | None = None, last: float = 0) -> Packets:
    """Return the counts of a table up to an epoch, by link or batch: those of all transports of a link together.

    Packets behind the last batch of an epoch, if that is told, are left out.
    """
    columns, _ = read_table(Door(run), path.relative_to(run))
    kind = path.name.partition("-")[0]
    names = _LINK if kind == "AC" else _BATCH
    keys, counts = ([columns.get(each, []) for each in those] for those in (names, _COUNTS[kind]))
    # several workers may share a table, and two variables a name
    rows = len(keys[0])
    whose = zip(columns.get(NODE, [0.0] * rows), columns.get("Variable", [0.0] * rows), strict=True)
    found: dict[tuple[object, ...], tuple[float, ...]] = {}
    for *key, owner, values in zip(*keys, whose, zip(*counts, strict=True), strict=True):
        # rows of zeros tell a reader of the running job how far the table goes, and stand there as time went
        if key[1] == "" or (codecs is not None and key[0] not in codecs) or not any(values):
            continue
        if kind == "BY" and ((until is not None and key[1] > until) or (last and key[2] > last)):
            continue
        place = (*key, owner)
        found[place] = tuple(map(sum, zip(found.get(place, (0.0,) * len(values)), values, strict=True)))
    return found


def _place(key: tuple[object, ...]) -> str:
    return " ".join(f"{each:g}" if isinstance(each, float) else str(each) for each in key[:-1])


def _sizes(counts: tuple[float, ...]) -> str:
    return ", ".join(f"{each:.0f}" for each in counts) or "none"


# ---- outcome.json


def other_problems(run: Path, again: Path) -> Iterator[str]:
    """Yield that `outcome.json` tells other blocks that were not applied exactly once than a new computation of all batches."""
    told, computed = (read_outcome(Door(place)).get("problems", []) for place in (run, again))
    if told != computed:
        yield f"{OUTCOME} tells the problems {'; '.join(told) or 'none'}, computed are {'; '.join(computed) or 'none'}"


def other_words(run: Path, again: Path, file: JobFile, elsewhere: Collection[str] = ()) -> Iterator[str]:
    """Yield the settings, samples and parts of the model that `outcome.json`, and so the page of the run, tells otherwise than
    that of a new computation.

    Args:
        run: the folder of the run.
        again: the folder of the computation.
        file: the job file of the run.
        elsewhere: options that the computation has of its own, for other workers.
    """
    told, computed = (read_outcome(Door(place)) for place in (run, again))
    mine, theirs = told.get("settings", {}), computed.get("settings", {})
    # of a run that was fetched the page may have been made from job.toml, in its words
    written = {name: str(value) for name, value in {"data": file.dataset or "", **file.options}.items()} if file.fetched else {}
    for name, about in options():
        decides = about.flag is not None and about.flag.decides and name not in {*ELSEWHERE, *elsewhere, *file.unnamed}
        # of a run that was fetched not all is known
        expected = {theirs.get(name), written.get(name, theirs.get(name))}
        if decides and (name in mine or not file.fetched) and mine.get(name) not in expected:
            yield f"{OUTCOME} says '{name}' {mine.get(name, 'nothing')}, computed with {theirs.get(name)}"
    samples, computed_with = mine.get("data", ""), theirs.get("data", "")
    if not _MADE.search(samples):
        # a run of a release that told the samples of the data set alone
        computed_with = _MADE.sub("", computed_with)
    if samples == written.get("data"):
        samples = ""
    # samples that were kept have lost the name of their set, and a path may be another one here
    if file.kept is not None or "/" in samples:
        samples, computed_with = (text.rpartition(", ")[2] for text in (samples, computed_with))
    if samples != computed_with and (samples or not file.fetched):
        yield f"{OUTCOME} says that the data are {samples or 'none'}, computed with {computed_with}"
    shown, model = (content.get("model", {}) for content in (told, computed))
    for key in shown if file.fetched else {**model, **shown}:
        if shown.get(key) != model.get(key):
            yield f"{OUTCOME}: the {key} of the model differs from that of the model of the run"
