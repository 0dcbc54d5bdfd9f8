"""Executors of one's own that crash, exit, hang or lose their agent, and are started again from what they have saved."""

from __future__ import annotations

import ctypes
import logging
import os
import re
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from network.errors import PeerLost
from rpc import AbsSimpleExecutor, Communication, Coordinator, Reclaimer
from rpc.monitor import monitor_batch_begin, monitor_batch_end, monitor_epoch_end, monitor_train_end

from ..statements import covers
from .harness import LIMIT, Cluster, lasting_port, wait_for

EPOCHS, BATCHES = 4, 3


def lives(pid: str) -> bool:
    """Whether there is such a process; one whose parent has died stays in the table until somebody looks."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Saving(AbsSimpleExecutor):
    """Counts batches, saves after each epoch, and goes on from the last one that all have saved; `shipped["faults"]` tells for
    each attempt that has begun at which (node, epoch, batch) which fault comes, `shipped["folder"]` is where the processes are
    noted."""

    signals = True

    def run(self, com: Communication) -> Any:
        folder = Path(self.shipped["folder"])
        left = [path.name for path in folder.glob("pid-*") if lives(path.read_text())]
        com.barrier()  # nobody is noted before everybody has looked
        (folder / f"pid-{com.attempt}-{com.rank}").write_text(str(os.getpid()))
        turn = len(list(folder.glob(f"pid-*-{com.rank}"))) - 1  # no attempt whose start was given up
        saved = [int(path.name.partition("-")[2]) for path in com.output_directory.glob("epoch-*")]
        first = int(com.allreduce([max(saved, default=0)], "min")[0])
        seen = []
        for epoch in range(first, EPOCHS):
            for batch in range(BATCHES):
                monitor_batch_begin(epoch, batch)
                self.meet_fault(com, turn, epoch, batch)
                com.barrier()
                seen.append([epoch, batch])
                monitor_batch_end()
            (com.output_directory / f"epoch-{epoch + 1}").touch()
            monitor_epoch_end()
        monitor_train_end()
        return [left, com.attempt, first, seen]

    def meet_fault(self, com: Communication, turn: int, epoch: int, batch: int) -> None:
        faults = self.shipped["faults"]
        *place, fault = faults[min(turn, len(faults) - 1)]
        if place != [com.rank, epoch, batch]:
            return
        if fault in ("SIGKILL", "SIGSTOP"):
            os.kill(os.getpid(), signal.Signals[fault])
        elif fault == "exit":
            sys.exit(3)
        elif fault == "raise":
            raise ArithmeticError("no such sum")
        elif fault == "segfault":
            ctypes.string_at(0)
        elif fault == "wait":
            com.get_one()


def begun_attempts(folder: Path) -> list[int]:
    """Numbers of the attempts that have begun on both nodes, as noted there; a start that was given up has a number, too."""
    notes = [[int(path.name.split("-")[1]) for path in folder.glob(f"pid-*-{rank}")] for rank in (0, 1)]
    assert sorted(notes[0]) == sorted(notes[1])
    return sorted(notes[0])


def run(
    cluster: Cluster, folder: Path, faults: list[list[Any]], max_restarts: int, look: Any = None, stall: float = 3.0
) -> tuple[Coordinator, dict[int, Any]]:
    """On two nodes; the coordinator at the end, and the results."""
    with cluster.request(cluster.nodes(2)) as com:
        coordinator = Coordinator(com, directory=folder / "files", stall=stall)
        objects = {"faults": faults, "folder": str(folder)}
        coordinator.submit_group(Saving, objects=objects, on_failure="restart", max_restarts=max_restarts)
        coordinator.resources_dispatch(lambda node, request: None)
        results, error = coordinator.join(look=None if look is None else lambda: look(coordinator.job))
        assert error == bool(coordinator.failures)
        return coordinator, results


@covers("FD-7", "FD-8", "FD-9", "FD-12")
def test_whatever_ends_a_process(trio: Cluster, tmp_path: Path) -> None:
    """a signal, an exit code, an exception, a segmentation fault and a stall lead to the same
    recovery: no process of any earlier attempt is left, and what all had finished is not done again."""
    faults = [
        [1, 1, 0, "SIGKILL"],
        [0, 1, 1, "exit"],
        [1, 2, 0, "raise"],
        [0, 2, 1, "segfault"],
        [1, 3, 0, "SIGSTOP"],
        [1, 9, 9, "none"],
    ]
    coordinator, results = run(trio, tmp_path, faults, 5)
    begun = begun_attempts(tmp_path)
    assert results == {key: [[], begun[-1], 3, [[3, batch] for batch in range(BATCHES)]] for key in range(2)}
    assert (coordinator.restarts, coordinator.failures, coordinator.attempt, len(begun)) == (5, {}, begun[-1], 6)
    own = [verdict for verdict in coordinator.verdicts if verdict.rank == 0]
    assert [(v.node, v.epoch - 1, v.batch - 1, v.attempt) for v in own] == [
        (*fault[:3], attempt) for attempt, fault in zip(begun[:-1], faults[:-1], strict=True)
    ]
    assert [(v.kind, v.signal, v.exit_code) for v in own] == [
        ("crashed", 9, -1),
        ("exited", 0, 3),
        ("crashed", 0, -1),
        ("crashed", 11, -1),
        ("stuck", 0, -1),
    ]
    assert len({path.read_text() for path in tmp_path.glob("pid-*")}) == 12


@covers("FD-20")
@pytest.mark.long
def test_the_same_place_three_times(trio: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is not tried again; all verdicts are there, and the log of the node comes home with every attempt in it."""
    caplog.set_level(logging.INFO)
    coordinator, results = run(trio, tmp_path, [[1, 0, 2, "exit"]], 9)
    assert not results and coordinator.failures[1][0] == "failed" and coordinator.restarts == 2
    assert "Giving up: the same failure has come 3 times at the same place, so it would come again." in caplog.text
    own = [verdict for verdict in coordinator.verdicts if verdict.rank == 0]
    begun = begun_attempts(tmp_path)
    assert [(v.node, v.epoch, v.batch, v.exit_code, v.attempt) for v in own] == [(1, 1, 3, 3, n) for n in begun]
    assert len(begun) == 3
    log = next(path for path in coordinator.files[1] if path.name.startswith("Fit-1"))
    told = {int(number) for number in re.findall(r"attempt (\d+),", log.read_text("utf-8"))}
    assert {number + 1 for number in begun} <= told <= set(range(1, begun[-1] + 2))


@covers("FD-20")
def test_no_more_than_max_restarts(trio: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Another place each time, but one restart is all that is allowed."""
    coordinator, _ = run(trio, tmp_path, [[1, 0, 1, "raise"], [0, 1, 1, "raise"]], 1)
    assert "Giving up: it was started again as often as 'max_restarts' allows, 1." in caplog.text
    assert coordinator.restarts == 1 and "ArithmeticError: no such sum" in coordinator.failures[0][1]


class Server(AbsSimpleExecutor):
    """Adds up one number from each of two workers."""

    def run(self, com: Communication) -> Any:
        numbers: list[int] = []
        while len(numbers) < 2:
            try:
                numbers.append(com.get_one()[1])  # type: ignore[index]
            except PeerLost:  # nobody has come yet, or whoever came has left
                com.controller.pump(0.05)
        return [com.attempt, sum(numbers)]


class Client(AbsSimpleExecutor):
    """Sends a number; node 1 is killed in the first attempt."""

    def run(self, com: Communication) -> int:
        if (com.attempt, com.rank) == (0, 1):
            os.kill(os.getpid(), signal.SIGKILL)
        com.send_one(-2, com.rank + 1)
        return com.attempt


@covers("FD-7", "FD-9")
def test_a_server_starts_again_with_its_group(trio: Cluster, tmp_path: Path) -> None:
    """All groups of a job begin anew, and find each other."""
    with trio.request(trio.nodes(2, ps=True)) as com:
        coordinator = Coordinator(com, directory=tmp_path)
        coordinator.submit_single(Server, -2, on_failure="restart")
        coordinator.submit_group(Client, [0, 1], on_failure="restart")
        coordinator.resources_dispatch(lambda node, request: None)
        results, error = coordinator.join()
    last = coordinator.attempt  # 1, or more where a start was given up
    assert (results, error, coordinator.restarts) == ({-2: [last, 3], 0: last, 1: last}, False, 1)


@covers("FD-7", "FD-9")
def test_an_agent_that_dies_and_comes_back(own: Cluster, tmp_path: Path) -> None:
    """Its node is waited for, and goes on with what it has saved."""
    options = ("--listen", "127.0.0.1", "--port", str(lasting_port()))
    (first,), (second,) = own.start(1, "--listen", "127.0.0.1"), own.start(1, *options)
    begun = threading.Event()

    def strike() -> None:
        assert begun.wait(LIMIT)  # processes may be in their second epoch before their agent's *started* has come
        for agent in (first, second):  # each saves in its own time, and what one has not saved both do again
            wait_for(lambda agent=agent: list(agent.work.glob("jobs/*/out/epoch-2")), "the second epoch")
        second.end(signal.SIGKILL)
        own.start(1, *options, work=second.work)

    thread = threading.Thread(target=strike)
    thread.start()
    try:
        faults = [[0, 2, 1, "wait"], [0, 9, 9, "none"]]
        coordinator, results = run(own, tmp_path, faults, 3, lambda job: begun.set() or "", stall=LIMIT)
    finally:
        thread.join(2 * LIMIT)
    assert coordinator.restarts == 1
    rest = [[epoch, batch] for epoch in range(2, EPOCHS) for batch in range(BATCHES)]  # though a start may have been given up
    assert list(results.values()) == [[[], coordinator.attempt, 2, rest]] * 2


@covers("FD-20")
@pytest.mark.parametrize("by", ["us", "somebody else"])
@pytest.mark.share(2)
def test_who_is_stopped_stays_so(trio: Cluster, tmp_path: Path, by: str) -> None:
    """What somebody has ended is no failure to recover from."""
    there = [tmp_path / "pid-0-0", tmp_path / "pid-0-1"]

    def look(job: str) -> str:
        if not all(map(Path.exists, there)):
            return ""
        if by == "us":
            return "Enough."
        with trio.request(trio.nodes(2)) as com:
            Reclaimer(com).stop(job)
        return ""

    coordinator, results = run(trio, tmp_path, [[0, 0, 1, "wait"]], 3, look, stall=LIMIT)
    assert (results, coordinator.restarts, coordinator.attempt) == ({}, 0, 0)
    assert {state for state, _ in coordinator.failures.values()} == {"stopped"}
