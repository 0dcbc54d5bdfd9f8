"""The budgets of the house: shape is a gate, size is printed.

A `Budget` is held by a test, because a cycle, a long chain of imports or a crowded function costs every reader. A `Total`
(files, lines, modules of a process) grows with the tasks of the product: `make house` prints it, and no change fails by it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from tests.house import files, graph, prose, running

MOST_LINES, MOST_PARAMETERS = 400, 8  # a longer file is listed, more parameters are refused
ELSEWHERE = {"cryptography", "pandas", "tqdm"}  # what no worker needs whose peers are all on its machine


class Count(NamedTuple):
    """A figure, and what it is made of where it is too high."""

    value: float
    parts: tuple[str, ...] = ()


class Total(NamedTuple):
    """A row of the table that is printed only; `before` is its figure in the last release, None where git cannot tell."""

    name: str
    measure: Callable[[], Count]
    before: Callable[[], float | None] = lambda: None


class Budget(NamedTuple):
    """A row of the table that a test holds at its limit."""

    name: str
    limit: float
    measure: Callable[[], Count]

    def exceeded(self, value: float) -> bool:
        """Tell if `value` is over the limit."""
        return value > self.limit


def _then(figure: Callable[[list[int]], float], tests: bool = False) -> Callable[[], float | None]:
    def measure() -> float | None:
        lengths = [count for name, count in files.released().items() if name.startswith("tests/") == tests]
        return figure(lengths) if lengths else None

    return measure


def _of(parts: Iterable[object]) -> Count:
    named = tuple(map(str, parts))
    return Count(len(named), named)


def _longest_file() -> Count:
    lengths = files.lengths()
    return Count(max(lengths.values()), tuple(f"{name} {count}" for name, count in lengths.items() if count > MOST_LINES))


def _parameters() -> Count:
    counts = files.many_parameters(0)
    return Count(max(counts.values()), tuple(f"{name} {count}" for name, count in counts.items() if count > MOST_PARAMETERS))


def _imported(process: str) -> Callable[[], Count]:
    return lambda: Count(len(running.observed().imported[process]))


def _unneeded() -> Count:
    return _of(sorted(running.observed().packages["worker"] & ELSEWHERE))


def _lines(process: str) -> Callable[[], Count]:
    return lambda: Count(running.observed().lines(process))


def _crowded() -> Count:
    return _of(f"{name} {count:.3g}" for name, count in running.way().crowded.items())


#: Package: who/what clauses for each 1,000 words of docstrings; docstrings with a first word that is no noun or verb; public
#: arguments that no docstring describes, or of two and more no section `Args:`. The goal is 3, 0 and 0; the number of a package
#: that has more may only fall.
WORDS = {
    "executor": (1.5, 0, 0),
    "network": (1.5, 0, 0),
    "nn": (0.5, 0, 0),
    "parallel_sgd": (0.6, 0, 0),
    "psgd": (1.5, 0, 0),
    "rpc": (1.5, 0, 0),
}


def _words() -> Iterator[Budget]:
    for package, (clauses, first_words, arguments) in WORDS.items():
        yield Budget(f"clauses per 1,000 words of docstrings, {package}", clauses, partial(_clauses, package))
        yield Budget(
            f"first words that are no noun or verb, {package}", first_words, partial(_listed, prose.first_words, package)
        )
        yield Budget(
            f"public arguments not described, or of several not in `Args:`, {package}",
            arguments,
            partial(_listed, prose.undescribed, package),
        )


def _clauses(package: str) -> Count:
    return Count(*prose.clauses(package))


def _listed(found: Callable[[str], list[str]], package: str) -> Count:
    return _of(found(package))


TOTALS = (
    Total("product files", lambda: Count(len(files.lengths())), _then(len)),
    Total("product lines", lambda: Count(sum(files.lengths().values())), _then(sum)),
    Total("median lines of a file", lambda: Count(statistics.median(files.lengths().values())), _then(statistics.median)),
    Total("longest file", _longest_file, _then(max)),
    Total("comments for each 100 lines", lambda: Count(files.comments())),
    Total("modules of rpc that parallel_sgd imports", lambda: _of(sorted(graph.face("parallel_sgd", "rpc")))),
    Total("test lines", lambda: Count(sum(files.test_lines().values())), _then(sum, tests=True)),
    Total("share of test lines in the outer wall", lambda: Count(files.wall_share())),
    Total("share of test lines in files that lean on internals", lambda: Count(files.internal_share())),
    Total("lines that a worker imports before its first batch", _lines("worker")),
    Total("modules that a submitter imports", _imported("submitter")),
    Total("lines of these", _lines("submitter")),
    Total("modules that an agent imports", _imported("agent")),
)
TEXT = (
    Budget("files with an old word in their name or a class", 0, lambda: _of(files.old_words())),
    Budget("longest import chain", 24, lambda: _of(graph.longest_chain())),
    Budget("levels of imports of parallel_sgd", 12, lambda: _of(graph.longest_chain("parallel_sgd"))),
    Budget("import cycles, type imports counted", 0, lambda: _of(map(" = ".join, graph.cycles()))),
    Budget("modules that product code never imports", 0, lambda: _of(graph.never_imported())),
    Budget("loose files at the door of parallel_sgd", 16, lambda: _of(files.loose("parallel_sgd"))),
    Budget("most parameters of a function that is not public", MOST_PARAMETERS, _parameters),
)
JOB = (
    Budget("modules that a worker imports before its first batch", 200, _imported("worker")),
    Budget("codecs among them that are not the job's", 0, lambda: _of(running.foreign_codecs())),
    Budget("packages in a worker that only TCP and the submitter need", 0, _unneeded),
    Budget("files that a gradient passes, without the rule", 13, lambda: _of(sorted(running.way().files))),
    Budget("files that a gradient enters more than twice", 0, _crowded),
    Budget("calls per batch (Plain, 4 variables, 1 peer)", 180, lambda: Count(running.calls_per_batch())),
)
PROSE = tuple(_words())
