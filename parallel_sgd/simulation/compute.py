"""Times of block steps on simulated nodes: laws, their written forms, and the time of each step.

    5ms  0.005           the same for each step
    measured             the same, timed here once
    exponential 5ms 2ms  5 ms and an exponential part with a mean of 2 ms
    pareto 5ms 2.5       at least 5 ms, with a tail of shape 2.5
    lognormal 5ms 0.3    a median of 5 ms; its logarithm has a standard deviation of 0.3
    trace FILE           from a CSV file: a column of seconds, or columns `node,seconds`

A draw is a function of seed, node, epoch, batch and block, so it depends on no order of events. It has the same bits on all
machines: its uniform numbers are integers, and logarithm and exponential are those of `decimal`, which are rounded correctly.
"""

from __future__ import annotations

import csv
import math
import re
import statistics
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import numpy as np

from network.names import did_you_mean
from network.units import TIME, seconds_of
from nn.random import keyed

from ..engine.batches import Batches
from .timeline import LONGEST_SECONDS

__all__ = [
    "Compute",
    "Constant",
    "Exponential",
    "Law",
    "LogNormal",
    "Pareto",
    "Schedule",
    "Trace",
    "compute_of",
    "law_of",
    "time_of",
]

MEASURED: Final = "measured"
DEFAULT: Final = "default"
_TIME: Final = re.compile(TIME)
_NUMBER: Final = re.compile(r"\d{1,9}(?:\.\d{1,30})?")  # so short that its number is finite
_FORMS: Final = "a time such as '5ms', 'measured', 'exponential 5ms 2ms', 'pareto 5ms 2.5', 'lognormal 5ms 0.3' or 'trace FILE'"
_MOST_LINES: Final = 10_000_000

#: Digits that tell a float; its functions are rounded correctly, those of a machine's library are not.
_EXACT: Final = Context(prec=17, traps=[])

Draw = Callable[[], np.random.Generator]


class Law(Protocol):
    """Law of the seconds of block steps on a node of speed 1."""

    def seconds(self, node: int, number: int, draw: Draw) -> float:
        """Return the seconds of a block step.

        Args:
            node: the node.
            number: of the step among those of the node, from 0.
            draw: makes the generator of the step.
        """

    def median(self, node: int) -> float:
        """Return the median of the seconds of a node."""


@dataclass(frozen=True)
class Constant(Law):
    """Law of equal seconds for each block step.

    Args:
        value: the seconds, at least 0.

    Raises: ValueError for a value out of range.
    """

    value: float

    def __post_init__(self) -> None:
        _check("value", self.value)

    def seconds(self, node: int, number: int, draw: Draw) -> float:
        return self.value

    def median(self, node: int) -> float:
        return self.value


@dataclass(frozen=True)
class Exponential(Law):
    """Law Delta + X, X exponential: P(X > t) = exp(-t / mean). (Lee et al., "Speeding up distributed machine learning using
    codes", 2018.)

    Args:
        least: Delta in seconds, at least 0.
        mean: mean of the exponential part in seconds, at least 0.

    Raises: ValueError for a value out of range.
    """

    least: float
    mean: float

    def __post_init__(self) -> None:
        _check("least", self.least)
        _check("mean", self.mean)

    # the inverse of the distribution function at 1 - U, which is distributed as U
    def seconds(self, node: int, number: int, draw: Draw) -> float:
        return self.least - self.mean * _log(_uniform(draw()))

    def median(self, node: int) -> float:
        return self.least + self.mean * math.log(2)


@dataclass(frozen=True)
class Pareto(Law):
    """Law of Pareto: P(X > t) = (least / t) ** shape for t >= least.

    Args:
        least: the least seconds, at least 0.
        shape: alpha, above 0; at 1 and below the mean is infinite.

    Raises: ValueError for a value out of range.
    """

    least: float
    shape: float

    def __post_init__(self) -> None:
        _check("least", self.least)
        _check("shape", self.shape, above=True)

    def seconds(self, node: int, number: int, draw: Draw) -> float:
        return self.least * _exp(-_log(_uniform(draw())) / self.shape)

    def median(self, node: int) -> float:
        return float(self.least * 2 ** (1 / self.shape))


@dataclass(frozen=True)
class LogNormal(Law):
    """Law median * exp(sigma Z), Z standard normal.

    Args:
        middle: the median in seconds, at least 0.
        sigma: standard deviation of the logarithm, at least 0.

    Raises: ValueError for a value out of range.
    """

    middle: float
    sigma: float

    def __post_init__(self) -> None:
        _check("middle", self.middle)
        _check("sigma", self.sigma)

    def seconds(self, node: int, number: int, draw: Draw) -> float:
        random = draw()
        while True:  # the polar method (Marsaglia and Bray, "A convenient method for generating normal variables", 1964)
            x, y = 2 * _uniform(random) - 1, 2 * _uniform(random) - 1
            square = x * x + y * y
            if 0 < square < 1:
                # unlike log and exp, sqrt is rounded alike on all machines (IEEE 754)
                return self.middle * _exp(self.sigma * x * math.sqrt(-2 * _log(square) / square))

    def median(self, node: int) -> float:
        return self.middle


@dataclass(frozen=True)
class Trace(Law):
    """Seconds from a file, used in the order of the block steps of each node.

    Args:
        columns: seconds by node; under None those of each node that has no column of its own.
        source: the file, for messages.
    """

    columns: Mapping[int | None, Sequence[float]]
    source: str

    def of(self, node: int) -> Sequence[float]:
        """Return the seconds of a node; none where the file has none for it."""
        return self.columns.get(node, self.columns.get(None, ()))

    def seconds(self, node: int, number: int, draw: Draw) -> float:
        return self.of(node)[number]

    def median(self, node: int) -> float:
        return statistics.median(self.of(node))


class Schedule(NamedTuple):
    """Order of the block steps of each node of a job.

    Args:
        batches: those of an epoch.
        blocks: numbers of the blocks of each node, in ascending order.
        epochs: number of epochs.
    """

    batches: Batches
    blocks: Mapping[int, Sequence[int]]
    epochs: int

    def count(self, node: int) -> int:
        """Return the number of block steps of a node; a block without samples takes none."""
        return self.epochs * self._of_epoch(node)

    def number(self, node: int, epoch: int, batch: int, block: int) -> int:
        """Return the number of a block step among those of the node, from 0.

        Args:
            node: the node.
            epoch: the epoch, from 0.
            batch: the batch, from 0.
            block: id of the block.
        """
        blocks = self.blocks[node]
        place = bisect_left(blocks, block)
        if batch == self.batches.whole:  # the tail, where blocks without samples are passed over
            place -= self.batches.idle(blocks[:place])
        return epoch * self._of_epoch(node) + batch * len(blocks) + place

    def _of_epoch(self, node: int) -> int:
        blocks = self.blocks[node]
        return self.batches.count * len(blocks) - self.batches.idle(blocks)


@dataclass(frozen=True)
class Compute:
    """Times of the block steps of all nodes.

    Args:
        laws: law of each node; None is `measured`.
        seed: keys the draws.
        schedule: order of the block steps, once the job is known.
    """

    laws: Mapping[int, Law | None]
    seed: int
    schedule: Schedule | None = None

    @property
    def is_measured(self) -> bool:
        """Whether the seconds of a node are to be measured."""
        return None in self.laws.values()

    def fitted(self, schedule: Schedule, measured: float | None) -> Compute:
        """Return the times of the nodes in a job.

        Args:
            schedule: order of its block steps.
            measured: seconds of a block step, where they were measured.

        Raises: ValueError where a trace is too short, or nothing was measured.
        """
        for node in schedule.blocks:
            law, needed = self.laws[node], schedule.count(node)
            if isinstance(law, Trace) and len(law.of(node)) < needed:
                raise ValueError(
                    f"'compute' for node({node}) must have seconds for each of its {needed} block steps in the trace "
                    f"{law.source!r}, got {len(law.of(node))}"
                )
        if self.is_measured and not measured:
            raise ValueError(f"'compute' must take time where it is measured, got {measured}: give seconds, or 0")
        # from here on a step asks no law that is missing, also where a part of the nodes is measured
        laws = {node: Constant(measured or 0.0) if law is None else law for node, law in self.laws.items()}
        return Compute(laws, self.seed, schedule)

    def seconds(self, node: int, epoch: int, batch: int, block: int) -> float:
        """Return the seconds of a block step on a node of speed 1.

        Args:
            node: the node.
            epoch: the epoch, from 0.
            batch: the batch, from 0.
            block: id of the block.
        """
        law = self.laws[node]
        if type(law) is Constant:  # asked for at each block step: a constant law needs no generator
            return law.value
        if law is None or self.schedule is None:
            raise ValueError("'compute' must be fitted to a job before it is asked for seconds")
        number = self.schedule.number(node, epoch, batch, block) if type(law) is Trace else 0
        # the generator is made by the law that needs one; its key does not depend on the order in which nodes ask
        return law.seconds(node, number, partial(keyed, self.seed, "compute", node, epoch, batch, block))

    def median(self, node: int) -> float:
        """Return the median seconds of the block steps of a node, 0 where it has none."""
        law = self.laws.get(node)
        return 0.0 if law is None else law.median(node)


def compute_of(given: object, seed: int, nodes: Sequence[int]) -> Compute:
    """Return the times of the block steps of nodes.

    Args:
        given: a number of seconds, a text as above, a law, or a dict of these by node, with `default` for the others.
        seed: keys the draws.
        nodes: ids of the workers.

    Raises: ValueError or TypeError naming the field.
    """
    if not isinstance(given, Mapping):
        law = law_of("'compute'", given)
        _check_trace(law, nodes)
        return Compute(dict.fromkeys(nodes, law), seed)
    laws = {key: law_of(f"'compute' for {key!r}", value) for key, value in given.items()}
    for key in laws:
        if key != DEFAULT and (isinstance(key, bool) or key not in nodes):  # True is equal to 1, which is a worker
            raise ValueError(f"'compute' must have workers 0 to {len(nodes) - 1} and {DEFAULT!r} as its keys, got {key!r}")
    lacking = [node for node in nodes if node not in laws]
    if lacking and DEFAULT not in laws:
        raise ValueError(f"'compute' must have each worker, or {DEFAULT!r} for the others, got none for node({lacking[0]})")
    found = {node: laws[node] if node in laws else laws[DEFAULT] for node in nodes}
    for node, law in found.items():
        _check_trace(law, [node])
    return Compute(found, seed)


def time_of(name: str, given: object) -> float:
    """Return seconds, given as a number or as a text such as `5ms`.

    Args:
        name: that of the field, for messages.
        given: the time.

    Raises: ValueError naming the field where it is no time, negative or not finite.
    """
    if isinstance(given, str) and (found := _TIME.fullmatch(given.strip())):
        given = seconds_of(found[1], found[2])
    if isinstance(given, bool) or not isinstance(given, (int, float, np.integer, np.floating)):
        raise ValueError(f"{name} must be a time such as '5ms', or seconds, got {given!r}")
    if not (math.isfinite(given) and given >= 0):
        raise ValueError(f"{name} must be a finite number of seconds of at least 0, got {given!r}")
    if given > LONGEST_SECONDS:
        raise ValueError(f"{name} must be at most {LONGEST_SECONDS:g} seconds, got {given!r}")
    return float(given)


def law_of(name: str, given: object) -> Law | None:
    """Return the law of a written form; None is `measured`.

    Args:
        name: that of the field, for messages.
        given: a number of seconds, a text, or a law.

    Raises: ValueError or TypeError naming the field.
    """
    if isinstance(given, (Constant, Exponential, Pareto, LogNormal, Trace)):
        return given
    if not isinstance(given, str):
        if isinstance(given, (int, float, np.integer, np.floating)) and not isinstance(given, bool):
            return Constant(time_of(name, given))
        raise TypeError(f"{name} must be a number of seconds, {_FORMS}, or a dict of these by node, got {given!r}")
    word, _, rest = given.strip().partition(" ")
    words = rest.split()
    if word == "trace":
        return _trace(name, rest.strip())  # not by words: the name of a file may have spaces
    if word == MEASURED and not words:
        return None
    if _TIME.fullmatch(word) and not words:
        return Constant(time_of(name, word))
    if word not in _KINDS:
        near = did_you_mean(word, [*_KINDS, MEASURED, "trace"]).rstrip("?")
        raise ValueError(f"{name} must be {_FORMS}, got {given!r}{near}")
    kind, first, second = _KINDS[word]
    if len(words) != 2:
        raise ValueError(f"{name} must be '{word}' with its {first} and its {second}, got {given!r}")
    return kind(time_of(f"{name}, {first} of {word},", words[0]), _second(f"{name}, {second} of {word},", words[1], word))


def _uniform(random: np.random.Generator) -> float:
    """Return a number above 0 and at most 1."""
    # `random` gives 0 and never 1, and the logarithm of 0 is infinite
    return 1.0 - float(random.random())


def _log(x: float) -> float:
    return float(_EXACT.ln(Decimal(x)))


def _exp(x: float) -> float:
    return float(_EXACT.exp(Decimal(x)))


def _second(name: str, word: str, kind: str) -> float:
    if kind == "exponential":
        return time_of(name, word)
    if not _NUMBER.fullmatch(word) or (kind == "pareto" and not float(word)):
        raise ValueError(f"{name} must be a number {'above' if kind == 'pareto' else 'of at least'} 0, got {word!r}")
    return float(word)


_KINDS: Final[Mapping[str, tuple[Callable[[float, float], Law], str, str]]] = {
    "exponential": (Exponential, "least time", "mean of the exponential part"),
    "pareto": (Pareto, "least time", "shape"),
    "lognormal": (LogNormal, "median", "sigma"),
}


def csv_lines(name: str, file: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines of a CSV file that are not empty, each with its number, from 1, and its cells.

    Args:
        name: that of the field, for messages.
        file: path of the file.

    Raises: ValueError naming the field where the file cannot be read.
    """
    try:
        with Path(file).open(encoding="utf-8-sig", newline="") as opened:  # spreadsheets put a mark before the first line
            # a device that never ends must not fill the memory
            rows = list(islice(csv.reader(opened), _MOST_LINES))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{name} must be a CSV file that can be read, got {file!r}: {error}") from None
    for number, row in enumerate(rows, 1):
        cells = [cell.strip() for cell in row]
        if any(cells):
            yield number, cells


def number_in(text: str) -> float | str:
    """Return the number that a cell holds, else its text: a time with its unit, or one that `time_of` refuses with its line."""
    try:
        return float(text)
    except ValueError:
        return text


def _trace(name: str, file: str) -> Trace:
    """Read a trace, and check each of its lines."""
    if not file:
        raise ValueError(f"{name} must be 'trace FILE', got no file")
    columns: dict[int | None, list[float]] = {}
    width = 0
    for number, cells in csv_lines(name, file):
        # by the first line with cells: a file with and without nodes in turns is refused
        width = width or len(cells)
        if number == 1 and cells in (["seconds"], ["node", "seconds"]):
            continue
        where = f"{name}, line {number} of the trace {file!r},"
        if len(cells) != width or width not in (1, 2):
            raise ValueError(f"{where} must be seconds, or node and seconds, got {','.join(cells)!r}")
        if width == 2 and not cells[0].isdecimal():
            raise ValueError(f"{where} must begin with the number of a node, got {cells[0]!r}")
        columns.setdefault(int(cells[0]) if width == 2 else None, []).append(time_of(where, number_in(cells[-1])))
    if not columns:
        raise ValueError(f"{name} must be a trace with seconds, got {file!r}, which has none")
    return Trace(columns, file)


def _check_trace(law: Law | None, nodes: Sequence[int]) -> None:
    if isinstance(law, Trace):
        for node in nodes:
            if not law.of(node):
                raise ValueError(
                    f"'compute' must have seconds of each node in the trace {law.source!r}, got none of node({node})"
                )


def _check(name: str, value: object, above: bool = False) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ValueError(f"'compute' must have a number as its {name!r}, got {value!r}")
    if not (math.isfinite(value) and (value > 0 if above else value >= 0)):
        raise ValueError(
            f"'compute' must have a finite number {'above' if above else 'of at least'} 0 as its {name!r}, got {value!r}"
        )
