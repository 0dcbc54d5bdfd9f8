"""Plan of faults: public, seeded, replayable, written by node and step. It decides; `perform` and a `Proxy` carry it out.

Use in a job. The submitter reads `FaultPlan.parse(text, seed)`, checks it with `check(nodes)` and ships `str(plan)` and the
seed. Each job process reads them again and asks at BEGIN of every batch, with epoch and batch counted from 0:

    for fault in plan.at(node, epoch, batch, attempt):
        perform(fault, poison=...)                      # `poison` makes this batch's loss not a number
    for fault in plan.links_at(node, epoch, batch, attempt):
        routes[fault.receiver].inject(fault)            # the node's own connections lead through `Proxy.interpose`

Every process counts and logs its own firings; the log of a killed one ends with the line of its fault.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from numbers import Integral

from .fault import FIRST, Fault, LinkFault, ProcessFault, Step, node_text, parse_fault

_log = logging.getLogger(__name__)


class FaultPlan:
    """Faults by node and step. Each fires at most once in an attempt that it belongs to (one with `@a*`: in every attempt).

    Args:
        faults: the clauses, in their order.
        seed: seed of their random draws.

    Attributes: `faults` and `seed`, as given, `counts` (how often each clause has fired, 0 included), and `log`, one line per
    firing: it is the same for the same plan, seed and order of steps.

    >>> plan = FaultPlan.parse("kill 1@e1.b3; +500ms 0>1")
    >>> [str(fault) for fault in plan.at(node=1, epoch=0, batch=2)]
    ['kill 1@e1.b3']
    >>> plan.counts
    Counter({'kill 1@e1.b3': 1, '+500ms 0>1': 0})
    """

    def __init__(self, faults: Iterable[Fault] = (), seed: int = 0) -> None:
        try:
            self.faults = tuple(faults)
        except TypeError:
            self.faults = ()
            wrong: list[object] = [faults]
        else:
            wrong = [each for each in self.faults if not isinstance(each, Fault)]
        if wrong:
            raise TypeError(f"FaultPlan 'faults' must be Fault objects, as FaultPlan.parse() makes them, got {wrong[0]!r:.80}")
        if isinstance(seed, bool) or not isinstance(seed, Integral):
            raise TypeError(f"FaultPlan 'seed' must be an integer, got {seed!r:.80}")
        self.seed: int = int(seed)
        # 0 for each clause: a fault that never fired shows in the report
        self.counts: Counter[str] = Counter({str(fault): 0 for fault in self.faults})
        self.log: list[str] = []
        # (number of the clause, attempt, node): a link between two nodes fires once at each
        self._fired: set[tuple[int, int, int | None]] = set()

    @classmethod
    def parse(cls, text: str, seed: int = 0) -> FaultPlan:
        """Read clauses that are separated by ';' (see `fault`); a text without any is a plan without faults.

        Args:
            text: the clauses.
            seed: of the plan's random draws.

        Raises: ValueError naming the clause, the expectation, and the text that came.
        """
        if not isinstance(text, str):
            raise ValueError(f"A fault plan must be a text such as 'kill 1@e1.b3; +500ms 0>1', got {text!r}.")
        if not text.strip():
            return cls(seed=seed)
        clauses = text.split(";")
        # a ';' at the end is allowed; an empty clause elsewhere is an error of `parse_fault`
        if not clauses[-1].strip():
            clauses.pop()
        return cls([parse_fault(clause) for clause in clauses], seed)

    def __str__(self) -> str:
        return "; ".join(map(str, self.faults))

    def __repr__(self) -> str:
        return f"FaultPlan.parse({str(self)!r}, seed={self.seed})"

    def __eq__(self, other: object) -> bool:
        # not what has fired: a plan that was read from the text of another is equal
        return isinstance(other, FaultPlan) and (self.faults, self.seed) == (other.faults, other.seed)

    def __hash__(self) -> int:
        return hash((self.faults, self.seed))

    def check(self, nodes: Collection[int], epochs: int | None = None) -> None:
        """Check that the job, which has `nodes`, has all nodes of the plan, and comes to its epochs.

        Args:
            nodes: ids of the nodes of the job.
            epochs: number of its epochs; None where it is not known.

        Raises: ValueError naming the clause, and the nodes or the epochs that there are.
        """
        for fault in self.faults:
            named = [fault.node] if isinstance(fault, ProcessFault) else [fault.sender, fault.receiver]
            missing = [node_text(node) for node in named if node not in nodes]
            if missing:
                there = ", ".join(map(node_text, sorted(nodes)))
                raise ValueError(f"The fault clause {str(fault)!r} names node {missing[0]}; the job has the nodes {there}.")
            if epochs is not None and fault.step is not None and fault.step.epoch >= epochs:
                raise ValueError(f"The fault clause {str(fault)!r} names epoch {fault.step.epoch + 1}; the job has {epochs}.")

    def check_batches(self, batches: int, epochs: int | None = None) -> None:
        """Check that the job comes to the batches of the plan's faults.

        Those of later attempts, which may deal batches to fewer workers, are left alone unless all attempts are alike. A link
        fault begins when its place is passed, which that behind the last batch of the job never is.

        Args:
            batches: number of batches of an epoch.
            epochs: number of epochs of a job, the attempts of which have all as many batches in an epoch; else None.

        Raises: ValueError naming the clause and the number of batches.
        """
        for fault in self.faults:
            is_known = fault.attempt == FIRST or epochs is not None
            if is_known and fault.step is not None and _is_beyond(fault, batches, epochs):
                batch = (fault.step.batch or 0) + 1
                raise ValueError(f"The fault clause {str(fault)!r} names batch {batch}; an epoch of the job has {batches}.")

    def never(self, epochs: int, restarts: int, batches: int | None = None) -> list[str]:
        """Return the clauses of a job that has ended to whose epoch, batch or attempt it never came.

        Args:
            epochs: epochs that it has trained.
            restarts: how often it was started again.
            batches: the most batches that one of its epochs had; None where it is not known.
        """
        return [
            str(fault)
            for fault in self.faults
            if (fault.step is not None and fault.step.epoch >= epochs)
            or (fault.attempt is not None and fault.attempt > restarts)
            or (batches is not None and _is_beyond(fault, batches, epochs))
        ]

    def at(self, node: int, epoch: int, batch: int, attempt: int = 0) -> list[ProcessFault]:
        """List the faults that happen to a process now; each is returned once.

        Args:
            node: id of the process's node.
            epoch: that it begins, counted from 0.
            batch: that it begins, counted from 0.
            attempt: of the job, counted from 0.
        """
        due = [
            (number, fault)
            for number, fault in enumerate(self.faults)
            if isinstance(fault, ProcessFault)
            and fault.node == node
            and fault.attempt in (None, attempt)
            and fault.step.is_at(epoch, batch)
        ]
        return [fault for number, fault in due if self._fire(number, epoch, batch, attempt)]

    def links_at(self, node: int, epoch: int, batch: int, attempt: int = 0) -> list[LinkFault]:
        """List the faults that begin now on links of `node`, which is the `sender` of all returned ones; each is returned once.

        Args:
            node: id of a node that sends on the links.
            epoch: that it begins, counted from 0.
            batch: that it begins, counted from 0.
            attempt: of the job, counted from 0.
        """
        due = []
        for number, fault in enumerate(self.faults):
            if isinstance(fault, LinkFault) and begins(fault, epoch, batch, attempt):
                other = fault.receiver if node == fault.sender else fault.sender
                if fault.concerns(node, other) and self._fire(number, epoch, batch, attempt, node):
                    # seen from this node: it disturbs only what it sends itself
                    due.append(replace(fault, sender=node, receiver=other))
        return due

    def _fire(self, number: int, epoch: int, batch: int, attempt: int, node: int | None = None) -> bool:
        if (number, attempt, node) in self._fired:
            return False
        self._fired.add((number, attempt, node))
        text = str(self.faults[number])
        self.counts[text] += 1
        line = f"attempt {attempt + 1}, {Step(epoch, batch)}: {text}"
        self.log.append(line)
        # before the fault: the log of a process that kills itself ends with this line
        _log.warning("Injected fault in %s.", line)
        return True


def _is_beyond(fault: Fault, batches: int, epochs: int | None) -> bool:
    """Tell if a fault is behind the last batch of an epoch; one of a link of the last epoch, since a later one passes it."""
    step = fault.step
    if step is None or step.batch is None or step.batch < batches:
        return False
    return isinstance(fault, ProcessFault) or (epochs is not None and step.epoch >= epochs - 1)


def begins(fault: LinkFault, epoch: int, batch: int, attempt: int) -> bool:
    """Tell if a link fault has begun when (epoch, batch) of `attempt` is reached, counted from 0."""
    return fault.attempt in (None, attempt) and (fault.step is None or fault.step.has_come(epoch, batch))


# Wakes up the process whose id it is given, after some seconds and then again, until that closes our stdin or dies.
_WAKER = """
import os, select, signal, sys
pid, seconds = int(sys.argv[1]), float(sys.argv[2])
print("here", flush=True)
while not select.select([0], [], [], seconds)[0]:
    os.kill(pid, signal.SIGCONT)
    seconds = 0.05
"""


class InjectedFault(RuntimeError):
    """Error that the fault `raise` raises."""


def perform(
    fault: ProcessFault, *, poison: Callable[[], None] | None = None, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Let a fault happen to this process, in the calling thread.

    A stop returns when the process goes on, whichever process sent the SIGCONT.

    Args:
        fault: the fault.
        poison: makes the loss of the running batch not a number.
        sleep: passes the seconds of a hang.

    Raises: InjectedFault for `raise`, SystemExit for `exit`, ValueError for `nan` without `poison`.
    """
    if fault.kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault.kind == "stop":
        _stop(fault.seconds)
    elif fault.kind == "hang":
        _hang(fault.seconds, sleep)
    elif fault.kind == "exit":
        # not os._exit: what cleans up on leaving does so, as for a user's own exit
        raise SystemExit(1 if fault.code is None else fault.code)
    elif fault.kind == "raise":
        raise InjectedFault(f"Injected fault: {fault}.")
    elif fault.kind == "nan" and poison is not None:
        poison()
    else:
        raise ValueError(f"perform needs 'poison' for the fault {str(fault)!r}, got None.")


def _stop(seconds: float | None) -> None:
    if seconds is None:
        os.kill(os.getpid(), signal.SIGSTOP)
        return
    # a process of its own, as no thread runs while this one is stopped; -I -S for the shortest start
    command = [sys.executable, "-I", "-S", "-c", _WAKER, str(os.getpid()), str(seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as waker:
        if waker.stdout is not None:
            waker.stdout.readline()  # it counts from here on; should it wake us before we sleep, it does so again
        os.kill(os.getpid(), signal.SIGSTOP)
        if waker.stdin is not None:
            waker.stdin.close()


def _hang(seconds: float | None, sleep: Callable[[float], None]) -> None:
    if seconds is not None:
        sleep(seconds)
        return
    while True:
        sleep(3600.0)
