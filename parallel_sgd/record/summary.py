"""Summary of a run in a few lines: its best epoch, how its seconds were spent, and the time that one worker alone would have
needed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from nn.callback.monitor import Monitor
from nn.model.history import VALIDATION

from ..engine.accounts import Times
from .history import EPOCH, Figures, JobHistory
from .numbers import figure, seconds
from .over_clients import is_over_clients, lines_over_clients

__all__ = ["Best", "Effort", "best_epoch", "crowd_sentence", "effort_of", "epoch_line"]

_LOSS: Final = "Loss"
#: Ratio of times from which on several workers are called faster than one, as it is shown with two digits.
_FASTER: Final = 1.05
_ALIKE: Final = 1.25  # ratio of times below which one is about as long as the other


class Best(NamedTuple):
    """Best value of a figure.

    Args:
        epoch: the epoch, from 1, after which the figure was best.
        name: name of the figure.
        value: its value.
    """

    epoch: int
    name: str
    value: float

    def __str__(self) -> str:
        return f"epoch {self.epoch}, test {_figure(self.name, self.value)}"


class Effort(NamedTuple):
    """Seconds of the workers from the first batch to the end, by the kind of work.

    Attributes:
        workers: how many there were.
        seconds: from the first batch to the end, of the slowest worker.
        alone: the seconds in which all workers computed, added up, each block once: the most that one worker alone would
            have needed. It would apply the rule and evaluate once, in place of once per worker, share no cache and no memory
            bus with others, and could take larger blocks.
        computing: the share of their time in which the workers computed, 0 to 1.
        waiting: in which they waited for others.
    """

    workers: int
    seconds: float
    alone: float
    computing: float
    waiting: float

    @property
    def speed_up(self) -> float:
        """Ratio of the most that one worker alone would have needed to the time of the workers."""
        return self.alone / self.seconds

    @property
    def shares(self) -> str:
        """Shares as words: computing, exchanging, waiting."""
        computing, waiting = round(100 * self.computing), round(100 * self.waiting)
        # the rest of the rounded ones, so that the three are 100 together; of halves it could be 1 below 0
        return f"computing {computing} %, exchanging {max(0, 100 - computing - waiting)} %, waiting {waiting} %"

    def told(self, crowded: bool = False) -> str:
        """Return the most that one worker alone would have needed, as a sentence.

        Args:
            crowded: the workers shared cores, so that their seconds of computing include their waits for a core.
        """
        turns = ", which took turns," if crowded else ""
        took, alone = seconds(self.seconds), seconds(self.alone)
        told = f"{self.workers} workers{turns} took {took}; one alone would have needed at most {alone}"
        if crowded:
            return f"{told}."
        if self.speed_up < _FASTER:
            # two times that nearly agree do not show it by themselves
            alike = ", about as long" if self.speed_up > 1 / _ALIKE else ""
            return f"{told}{alike}: more workers are not faster here."
        return f"{told}: together up to {self.speed_up:.2g} times as fast."


def best_epoch(history: JobHistory) -> Best | None:
    """Return the best epoch of a `history` on test data: by the first metric with a name that tells if large is good, else by
    the loss.
    """
    tested = [name for name in history.columns() if name.startswith(VALIDATION) and not is_over_clients(name)]
    names = [name for name in tested if not name.endswith(_LOSS)]
    for name in (*names, VALIDATION + _LOSS):
        try:
            # asks what callbacks would ask: whether more of it is better
            monitor = Monitor(history, name)
        except ValueError:  # a metric of the user's own
            continue
        best: Best | None = None
        for row in history.rows:
            if name in row and monitor.better(row[name], None if best is None else best.value):
                best = Best(int(row[EPOCH]), name.removeprefix(VALIDATION), row[name])
        if best is not None:
            return best
    return None


def effort_of(times: Iterable[Times], copies: int = 1, workers: int = 0) -> Effort | None:
    """Return how workers have spent their time; None where no worker has told it.

    Args:
        times: seconds of each worker, or of a sample of them.
        copies: number of workers that computed each block; one worker alone would have computed it once.
        workers: number of all workers, where it is larger than that of the sample.
    """
    told = [each for each in times if each.total > 0]
    if not told:
        return None
    whole = sum(each.total for each in told)
    compute, wait = sum(each.compute for each in told), sum(each.wait for each in told)
    every = max(len(told), workers)
    # redundant blocks were computed several times, which one worker alone would not do
    alone = compute / copies * (every / len(told))
    return Effort(every, max(each.total for each in told), alone, compute / whole, wait / whole)


def epoch_line(row: Figures, epochs: int) -> str:
    """Return an epoch as a line: its number of so many, its figures in training, and those on test data.

    Args:
        row: figures of the epoch, as a row of `JobHistory`.
        epochs: number of epochs of the job.

    >>> epoch_line({"epoch": 3, "Loss": 0.25, "accuracy": 0.5, "val_Loss": 0.125, "val_accuracy": 0.75}, 10)
    'epoch  3/10   Loss 0.2500   accuracy 0.5000   test: Loss 0.1250   accuracy 0.7500'
    """
    parts = [f"epoch {int(row[EPOCH]):{len(str(epochs))}d}/{epochs}"]
    parts += [_figure(name, value) for name, value in row.items() if name != EPOCH and not name.startswith(VALIDATION)]
    tests = [name for name in row if name.startswith(VALIDATION) and not is_over_clients(name)]
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for column in tests:
        name = column.removeprefix(VALIDATION)
        for found, label in ((column, "test"), *lines_over_clients(name)):
            if found in row:
                groups[label].append(_figure(name, row[found]))
    for label, (first, *others) in groups.items():
        parts += [f"{label}: {first}", *others]
    return "   ".join(parts)


def crowd_sentence(workers: int, cores: int) -> str:
    """Return the sentence on workers that share the cores of one machine; "" where each can have one.

    Args:
        workers: number of workers on the machine.
        cores: number of cores that they may use.
    """
    if workers <= cores:
        return ""
    shared = f"{cores} core{'s' * (cores != 1)}"
    return f"{workers} workers share {shared} of this machine and take turns: more of them are not faster."


def _figure(name: str, value: float) -> str:
    return f"{name} {figure(value)}"


def times_of(tables: Mapping[str, Iterable[object]]) -> Times:
    """Return the seconds of a worker in the columns of its table `TI`."""
    sums = [sum(each for each in tables.get(name.capitalize(), ()) if isinstance(each, float)) for name in Times._fields]
    return Times(*map(float, sums))
