"""What the processes of a small job have imported, and the way of a gradient through one of them."""

from __future__ import annotations

import inspect
import json
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from nn.gradient_descent import SGDOptimizer
from nn.optimizer import PSGDOptimizer
from parallel_sgd import codec
from tests.house.graph import modules
from tests.programs import python
from tests.sources import PACKAGES, ROOT

Event = list[str]  # kind, file, function, the caller's file
READY, FINISH = PSGDOptimizer.gradient_ready.__name__, PSGDOptimizer.finish_batch.__name__


@dataclass(frozen=True)
class Observed:
    """The modules of ours and all packages in each process, and the events of each batch of the worker, in order of
    time."""

    imported: dict[str, set[str]]
    packages: dict[str, set[str]]
    batches: list[list[Event]]

    def lines(self, process: str) -> int:
        """Lines of the modules that a process has imported."""
        return sum(len(modules()[name].read_text("utf-8").splitlines()) for name in self.imported[process])


@cache
def observed() -> Observed:
    """Run the job of `tests.house.job`."""
    with tempfile.TemporaryDirectory() as folder:
        finished = python(Path(folder), "-m", "tests.house.job", folder)
        if finished.returncode:
            raise RuntimeError(f"The job failed:\n{finished.stderr[-3000:]}")
        processes = {"worker": "worker", "submitter": "submitter", "agent": "agent-0"}
        loaded = {name: json.loads(Path(folder, f"{file}.json").read_text()) for name, file in processes.items()}
        imported = {name: _ours(modules) for name, modules in loaded.items()}
        packages = {name: {module.partition(".")[0] for module in modules} for name, modules in loaded.items()}
        batches: list[list[Event]] = []
        for event in json.loads(Path(folder, "calls.json").read_text()):
            if event[0] == "batch":
                batches.append([])
            else:
                batches[-1].append(event)
        return Observed(imported, packages, batches)


def foreign_codecs() -> list[str]:
    """Codecs of ours whose modules the worker has imported, other than the job's and what that is made from."""
    codecs = {
        kind for name in codec.__all__ if isinstance(kind := getattr(codec, name), type) and issubclass(kind, codec.Codec)
    }
    loaded = observed().imported["worker"]
    own = {kind.__module__ for kind in codec.Plain.__mro__}
    return sorted(kind.__name__ for kind in codecs if kind.__module__ in loaded - own)


def _ours(loaded: dict[str, str | None]) -> set[str]:
    return {name for name in loaded if name.split(".")[0] in PACKAGES} & modules().keys()


def _place(file: str) -> str | None:
    """The path of a file of the product, else None."""
    path = Path(file)
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) and path.parts[len(ROOT.parts)] in PACKAGES else None


def calls_per_batch() -> int:
    """How many functions of the product a worker calls in one batch, forward and backward included: the least number that a
    tenth of the batches have, for a worker that waits longer asks its sockets more often.

    A generator that goes on counts as called once more.
    """
    counts = Counter(
        sum(event[0] == "call" and _place(event[1]) is not None for event in batch) for batch in observed().batches
    )
    return min(count for count, batches in counts.items() if batches * 10 >= sum(counts.values()))


@dataclass
class Way:
    """The files that the gradients of one batch pass, on the way out and on the way back, and how often each is entered.

    Out is what is called below `gradient_ready`, while backward runs, and from the begin of `finish_batch` until a socket is
    given something to send for the last time, unless that was with the last gradient. Back is what is called from there until
    the optimizer calls its rule.
    """

    out: set[str] = field(default_factory=set)
    back: set[str] = field(default_factory=set)
    entries: Counter[str] = field(default_factory=Counter)
    gradients: int = 0
    steps: list[tuple[str, str, bool]] = field(default_factory=list, compare=False)
    """File, function, and whether that is on the way out, of every call from another file, in order of time."""

    def enter(self, direction: set[str], event: Event) -> None:
        """Count a call, if it is one of the product."""
        _, file, function, caller = event
        if place := _place(file):
            direction.add(place)
            if file != caller:
                self.steps.append((place, function, direction is self.out))
            self.entries[place] += file != caller

    @property
    def files(self) -> set[str]:
        """All of them."""
        return self.out | self.back

    @property
    def both(self) -> set[str]:
        """Those that are passed on the way out and again on the way back."""
        return self.out & self.back

    @property
    def crowded(self) -> dict[str, float]:
        """Files that are entered, by calls from other files, more than twice for each gradient: how often."""
        often = {file: count / self.gradients for file, count in self.entries.most_common()}
        return {file: count for file, count in often.items() if count > 2}


@cache
def way() -> Way:
    """The way in most batches of which the worker did not wait: how many these are hangs on what else the machine has to do.

    Raises: ValueError when this worker sends nothing, reads nothing, or calls no rule, as far as it can be seen.
    """
    found = list(ways([event for batch in observed().batches for event in batch]))
    if not found:
        raise ValueError(f"No batch has {READY}(), {FINISH}(), calls of send and recv of a socket and one of the rule.")
    fewest = min(len(each.files) for each in found)
    found = [each for each in found if len(each.files) == fewest]
    usual = statistics.mode(sum(each.entries.values()) for each in found)
    return next(each for each in found if sum(each.entries.values()) == usual)


def ways(events: Sequence[Event]) -> Iterator[Way]:
    """The way in each batch that was seen wholly: not where what the other worker sends was read with a batch before."""
    rule = {inspect.getfile(kind) for kind in inspect.getmro(SGDOptimizer)[:-1]}
    now, waiting, sent, left, came = Way(), list[Event](), 0, False, False
    stack: list[str] = []
    finishing = False
    for event in events:
        kind, file, function, _ = event
        if kind == "return":
            del stack[-1:]
        elif kind == "socket":
            if function.startswith("send"):
                sent, left = len(waiting), True
            came = came or (finishing and function.startswith("recv"))
        else:
            stack.append(function)
            finishing = finishing or (function == FINISH and now.gradients > 0)
            if finishing and file in rule:
                for number, each in enumerate(waiting):
                    now.enter(now.out if number < sent else now.back, each)
                if left and came:
                    yield now
                now, waiting, sent, left, came, finishing = Way(), [], 0, False, False, False
            elif finishing:
                waiting.append(event)
            elif READY in stack:
                now.gradients += function == READY
                now.enter(now.out, event)
