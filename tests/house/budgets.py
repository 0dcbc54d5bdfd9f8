"""The budgets: what is counted, how it stands, and where it shall go.

`now` is what no change may exceed; who gets below it writes the new figure here, so that it stays. Totals (files, lines) leave
some room, because everybody adds to them; raise one with the reason in the same commit. The others only ever get better.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tests.house import files, graph, running

MOST_LINES, MOST_PARAMETERS = 400, 8
ELSEWHERE = {"cryptography", "pandas", "tqdm"}  # what no worker needs whose peers are all on its machine


class Count(NamedTuple):
    """A figure, and what it is made of where it is too high."""

    value: float
    parts: tuple[str, ...] = ()


class Budget(NamedTuple):
    """One row of the table; `at_least` turns it round."""

    name: str
    now: float
    goal: float
    measure: Callable[[], Count]
    at_least: bool = False

    @property
    def limit(self) -> float:
        """What must hold today."""
        return min(self.now, self.goal) if self.at_least else max(self.now, self.goal)

    def exceeded(self, value: float) -> bool:
        """Whether that is not within the budget."""
        return value < self.limit if self.at_least else value > self.limit


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


TEXT = (
    Budget("product files", 463, 430, lambda: Count(len(files.lengths()))),
    Budget("product lines", 78_700, 59_000, lambda: Count(sum(files.lengths().values()))),
    Budget("median lines of a file", 153, 100, lambda: Count(statistics.median(files.lengths().values())), at_least=True),
    Budget("longest file", 397, 400, _longest_file),
    Budget("files with an old word in their name or a class", 0, 0, lambda: _of(files.old_words())),
    Budget("longest import chain", 22, 24, lambda: _of(graph.longest_chain())),
    Budget("import cycles, type imports counted", 0, 0, lambda: _of(map(" = ".join, graph.cycles()))),
    Budget("modules that product code never imports", 0, 0, lambda: _of(graph.never_imported())),
    Budget("modules of rpc that parallel_sgd imports", 12, 12, lambda: _of(sorted(graph.face("parallel_sgd", "rpc")))),
    Budget("most parameters of a function that is not public", 8, MOST_PARAMETERS, _parameters),
    Budget("functions that are not public with more than 8", 0, 0, lambda: _of(files.many_parameters(MOST_PARAMETERS))),
    Budget("test lines", 72_150, 45_000, lambda: Count(sum(files.test_lines().values()))),
    Budget("share of test lines in the outer wall", 0.52, 0.5, lambda: Count(files.wall_share()), at_least=True),
    Budget("share of test lines in files that lean on internals", 0.613, 0.5, lambda: Count(files.internal_share())),
)
JOB = (
    Budget("modules that a worker imports before its first batch", 175, 330, _imported("worker")),
    Budget("lines of these", 27_600, 27_500, _lines("worker")),
    Budget("codecs among them that are not the job's", 0, 0, lambda: _of(running.foreign_codecs())),
    Budget("packages in a worker that only TCP and the submitter need", 0, 0, _unneeded),
    Budget("modules that a submitter imports", 225, 400, _imported("submitter")),
    Budget("lines of these", 39_000, 38_900, _lines("submitter")),
    Budget("modules that an agent imports", 62, 75, _imported("agent")),
    Budget("files that a gradient passes, without the rule", 13, 12, lambda: _of(sorted(running.way().files))),
    Budget("files that a gradient passes both out and back", 5, 12, lambda: _of(sorted(running.way().both))),
    Budget("files that a gradient enters more than twice", 0, 0, _crowded),
    Budget("calls per batch (Plain, 4 variables, 1 peer)", 156, 300, lambda: Count(running.calls_per_batch())),
)
