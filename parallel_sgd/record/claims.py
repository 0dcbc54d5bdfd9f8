"""Claims of a run besides its weights and steps: counts of packets in its tables, and settings and model in `outcome.json`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from ..options.job_options import options
from .door import Door
from .job_file import JobFile
from .outcome import OUTCOME, read_outcome
from .table import NODE
from .tables import read_table

_LINK: Final = ("Codec", "Name", "Peer", "Direction")
_BATCH: Final = ("Codec", "Epochs", "Batches")
#: Columns that depend on the job alone; bytes on the wire depend on transports, too.
_COUNTS: Final = {"AC": ("Packets", "Raw"), "BY": ("Packets sent", "Bytes sent", "Packets received", "Bytes received")}
#: Bytes by which a variable's share of a packet may differ.
_ROUNDED: Final = 1
#: Codec that the product itself may choose, with packets that depend on the number of hosts.
_BY_HOSTS: Final = "Ring"
#: Options that a computation has of its own.
_ELSEWHERE: Final = frozenset({"epoch", "resume", "bits", "blas_threads"})

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
    for name, mine, theirs in _tables(run, again, until, whole=whole):
        for key in theirs:
            told, expected = mine.get(key, ()), theirs[key]
            if not told or _lacks(told, expected):
                yield f"{name}: {_place(key)} is {_sizes(told)}, computed is {_sizes(expected)}"
                break


def further_packets(run: Path, again: Path, until: int, *, whole: bool) -> list[str]:
    """Return the tables that count more packets than a new computation: requests for late blocks are honest ones.

    Args:
        run, again, until, whole: as for `wrong_packets`.
    """
    return [
        name
        for name, mine, theirs in _tables(run, again, until, whole=whole)
        if any(key not in theirs or _lacks(theirs[key], counts) for key, counts in mine.items())
    ]


def _lacks(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Tell if counts of one table are smaller than those of another, by more than a rounding."""
    # variables that travel as one vector share its bytes, rounded for each transport by itself
    return any(mine < theirs - _ROUNDED for mine, theirs in zip(one, other, strict=True))


def depend_on_hosts(run: Path, again: Path, file: JobFile) -> bool:
    """Tell if a run or its computation has packets of a codec that the product chose by the number of hosts."""
    return "codec" not in file.options and any(
        _BY_HOSTS in read_table(Door(place), path.relative_to(place))[0].get("Codec", [])
        for place in (run, again)
        for path in _paths(place, "BY")
    )


def _tables(run: Path, again: Path, until: int, *, whole: bool) -> Iterator[tuple[str, Packets, Packets]]:
    """Yield each table of packets with its counts and those that were computed."""
    # packets of sync types and checkpoints belong to no variable: they depend on what is kept
    codecs = {key[0] for path in _paths(again, "AC") for key in _packets(again, path, None)} or None
    for kind in ("AC", "BY") if whole else ("BY",):
        for path in _paths(run, kind):
            other = computed_table(path, again)
            theirs = {} if other is None else _packets(again, other, until, codecs)
            yield path.relative_to(run).as_posix(), _packets(run, path, until, codecs), theirs


def _paths(run: Path, kind: str) -> list[Path]:
    return sorted(run.glob(f"Node-[0-9]*-Retrieve/{kind}-*.csv"))


def _packets(run: Path, path: Path, until: int | None, codecs: set[object] | None = None) -> Packets:
    """Return the counts of a table up to an epoch, by link or batch: those of all transports of a link together."""
    columns, _ = read_table(Door(run), path.relative_to(run))
    kind = path.name.partition("-")[0]
    names = _LINK if kind == "AC" else _BATCH
    keys, counts = ([columns.get(each, []) for each in those] for those in (names, _COUNTS[kind]))
    nodes = columns.get(NODE, [0.0] * len(keys[0]))
    found: dict[tuple[object, ...], tuple[float, ...]] = {}
    for *key, node, values in zip(*keys, nodes, zip(*counts, strict=True), strict=True):
        if key[1] == "" or (codecs and key[0] not in codecs) or (kind == "BY" and until is not None and key[1] > until):
            continue
        place = (*key, node)
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
        decides = about.flag is not None and about.flag.decides and name not in {*_ELSEWHERE, *elsewhere, *file.unnamed}
        if decides and name in mine and mine[name] not in (theirs.get(name), written.get(name)):
            yield f"{OUTCOME} says '{name}' {mine[name]}, computed with {theirs.get(name)}"
    samples, expected = mine.get("data", ""), theirs.get("data", "")
    if samples == written.get("data"):
        samples = ""
    # samples that were kept have lost the name of their set, and a path may be another one here
    if file.kept is not None or "/" in samples:
        samples, expected = (text.rpartition(", ")[2] for text in (samples, expected))
    if samples and samples != expected:
        yield f"{OUTCOME} says that the data are {samples}, computed with {expected}"
    for key, value in told.get("model", {}).items():
        if value != computed.get("model", {}).get(key):
            yield f"{OUTCOME}: the {key} of the model differs from that of the model of the run"
