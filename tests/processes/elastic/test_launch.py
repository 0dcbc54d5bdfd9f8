"""Elastic jobs on real processes: workers are killed, stopped, frozen, removed and added while a function trains on, or all are
lost at once, and it goes on from what was kept.
"""

from __future__ import annotations

import logging
import os
import queue
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from network import NodeAssignment, Request
from parallel_sgd import JobFailed, elastic
from parallel_sgd.elastic.job import StateFile
from parallel_sgd.elastic.worker import ElasticWorker
from parallel_sgd.elastic.worker_handle import NotStarted, Running, Task, WorkerHandle
from rpc import Reclaimer
from rpc.elastic import Worker
from rpc.monitor import monitor_batch_begin, monitor_batch_end
from rpc.submit.groups import pack_executable
from rpc.support.identity import new_job_id
from tests.processes.elastic.jobs import SAMPLES, Stage, gate, learn_each_sample_once, log_of, pause, three_epochs
from tests.processes.harness import LIMIT, SLACK, Cluster, cluster, lasting_port, wait_for

from ...statements import covers

pytestmark = pytest.mark.processes
SOON = 0.05  # seconds between looks for hosts
PATIENCE = 4.0  # seconds of limits that are to pass where the test wants that, and nowhere else, though a process stands still
EPOCHS = 4


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Four agents with two slots each."""
    with cluster(tmp_path_factory.mktemp("elastic")) as made:
        made.start(4, "--slots", "2", "--listen", "127.0.0.1")
        yield made


@pytest.fixture
def free(agents: Cluster) -> Iterator[Cluster]:
    """These agents, which are free when a job has ended."""
    assert agents.idle()
    yield agents
    wait_for(agents.idle, "the agents to be free")


def launch(stage: Stage, function: Any, *args: Any, **options: Any) -> dict[int, Any]:
    try:
        return elastic.launch(function, stage.nodes(), (str(stage.folder), *args), discovery_every=SOON, **options)
    finally:
        stage.close()


@covers("EL-2", "EL-3", "EL-8", "EL-11", "EL-19", "EL-23", "EL-25", "EL-26", "EL-28")
def test_an_epoch_in_which_workers_come_and_go_and_die(free: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Three changes of hosts and two kills in one epoch: each
    sample is learned exactly once, newcomers take rank 0's state, survivors keep their process and their order."""
    stage = Stage(free, tmp_path, a=1, b=1, c=1)
    seen: dict[str, list[int]] = {}
    seconds: list[float] = []

    def story() -> None:
        first = seen["first"] = stage.pids(2)
        os.kill(first[1], signal.SIGKILL)
        begun = time.monotonic()
        survivors = seen["killed"] = stage.pids(2, other_than=first)
        stage.open(2)
        seconds.append(time.monotonic() - begun)
        stage.pids(5)
        # with port 9 the next round comes to nothing, and nobody who waits for it is harmed; both are found at once, else a
        # round of the old ones comes in between
        stage.slots = {**stage.slots, "d": 1, "127.0.0.1:9": 1}
        seen["added"] = stage.pids(5, other_than=survivors)
        stage.open(5)
        stage.pids(8)
        del stage.slots["a"]
        seen["removed"] = stage.pids(8, other_than=seen["added"])
        stage.open(8)
        stage.pids(11)
        stage.slots["a"] = 1
        back = seen["back"] = stage.pids(11, other_than=seen["removed"])
        os.kill(back[0], signal.SIGKILL)
        seen["last"] = stage.pids(11, other_than=back)
        stage.open(11)

    stage.meanwhile(story)
    with caplog.at_level(logging.INFO):
        results = launch(stage, learn_each_sample_once, [2, 5, 8, 11], discovery=stage.discovery)
    a, b, c = seen["first"]
    d, again = seen["added"][2], seen["back"][2]
    assert seen == {
        "first": [a, b, c],
        "killed": [a, c],
        "added": [a, c, d],
        "removed": [c, d],
        "back": [c, d, again],
        "last": [d, again],
    }
    assert len({a, b, c, d, again}) == 5
    assert seconds[0] < 5.0 + SLACK
    assert sorted(results) == [0, 1]
    for learned, steps, sizes, _, _ in results.values():
        assert learned == [1.0] * SAMPLES and steps == SAMPLES // 4
        assert sizes[0] == 3 and sizes[-1] == 2
    assert results[0][3] == [  # of d, which came in third place
        *("sync", "func"),
        *("reset 1 of 2", "callback 1 of 2", "func"),  # hosts were only removed, so nobody needs the state
        *("reset 1 of 3", "callback 1 of 3", "sync", "func"),
        *("restore", "reset 0 of 2", "callback 0 of 2", "sync", "func"),
    ]
    host = str(stage.agent("a").address)
    assert f"{host}[0] has been removed from elastic job" in log_of(stage.agent("a"), a)
    told = [record.getMessage() for record in caplog.records]
    assert sum(line.startswith("Round ") and " of job " in line for line in told) == 6


@covers("EL-24", "EL-9", "EL-18", "EL-13")
@pytest.mark.long
def test_three_epochs_on_changing_hosts(free: Cluster, tmp_path: Path) -> None:
    """Sizes 2, 4, 2, start ranks 0, 0, 2; all workers are interrupted at the same call."""
    stage = Stage(free, tmp_path, a=2)
    seen: list[list[int]] = []

    def story() -> None:
        seen.append(stage.pids("epoch-0"))
        stage.slots["b"] = 2
        seen.append(stage.pids("epoch-1"))
        del stage.slots["a"]

    stage.meanwhile(story)
    assert launch(stage, three_epochs, discovery=stage.discovery) == {0: 0, 1: 1}
    first, both = seen
    assert both[:2] == first and len(both) == 4
    notes = {pid: (tmp_path / f"interrupts-{pid}").read_text().splitlines() for pid in both}
    assert notes[both[0]] == notes[both[1]] and len(notes[both[0]]) == 2
    assert notes[both[2]] == notes[both[3]] == notes[both[0]][1:]
    assert [line.split()[0::2] for line in notes[both[0]]] == [["epoch-0", "False"], ["epoch-1", "True"]]
    pattern = r"Rendezvous (\d): rank (\d) of (\d), started as rank (\d)\."
    told = re.findall(pattern, log_of(stage.agent("a"), both[0])) + re.findall(pattern, log_of(stage.agent("b"), both[2]))[1:]
    assert told == [("1", "0", "2", "0"), ("2", "0", "4", "0"), ("3", "0", "2", "2")]


@covers("EL-27", "EL-19")
@pytest.mark.long
def test_a_frozen_host_is_fenced(own: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """a stopped worker counts as failed within N + 1 s; so does one whose whole host stands still, and when that
    goes on it is out: nothing that it sends is accepted, and it says its farewell."""
    own.start(3, "--listen", "127.0.0.1")
    stage = Stage(own, tmp_path, a=1, b=1, c=1)
    frozen = stage.agent("b")

    def story() -> None:
        first = stage.pids(2)
        os.kill(first[2], signal.SIGSTOP)
        second = stage.pids(2, other_than=first)
        assert second == first[:2]
        os.kill(frozen.pid, signal.SIGSTOP)
        os.kill(first[1], signal.SIGSTOP)
        assert stage.pids(2, other_than=second) == first[:1]
        os.kill(first[1], signal.SIGCONT)
        log_of(frozen, first[1])  # it ends by itself, before its agent, which writes down what it has said, wakes up
        os.kill(frozen.pid, signal.SIGCONT)
        words = f"{frozen.address}[0] has been removed from elastic job"
        wait_for(lambda: words in log_of(frozen, first[1]), "its farewell")
        stage.open(2)

    stage.meanwhile(story)
    results = launch(stage, learn_each_sample_once, [2], stall_timeout=2.0)
    assert [learned for learned, *_ in results.values()] == [[1.0] * SAMPLES]
    stuck = re.findall(r"stuck, silent for (\d\.\d+) s", caplog.text)
    assert stuck and 2.0 <= float(stuck[0]) <= 3.0 + SLACK
    wait_for(own.idle, "the agents to be free")


@covers("EL-16", "EL-21")
def test_too_few_workers_for_too_long(free: Cluster, tmp_path: Path) -> None:
    """Below `min_workers` training waits, and ends with the time-out, naming the first failure."""
    stage = Stage(free, tmp_path, a=1, b=1, c=1)
    ended: list[float] = []

    def story() -> None:
        first = stage.pids(2)
        ended.append(time.monotonic())
        os.kill(first[2], signal.SIGKILL)

    stage.meanwhile(story)
    with pytest.raises(JobFailed, match="Timed out waiting for minimum number of slots to become available") as failed:
        launch(stage, learn_each_sample_once, [2], discovery=stage.discovery, min_workers=3, timeout=PATIENCE)
    assert time.monotonic() - ended[0] > PATIENCE
    name = re.escape(f"{stage.agent('c').address}[0]")
    assert re.search(rf"Process name: {name}\nExit code: -9\n.*killed by signal 9", str(failed.value))


def fail_or_hang(folder: str, table: np.ndarray[Any, Any], how: dict[str, int]) -> Any:
    """Rank 0 goes on alone, rank 1 hangs outside all operations, rank 2 raises; they are of one host and another."""
    assert table.sum() == 10.0 * table.size
    if elastic.rank() == how["raises"]:
        elastic.barrier()
        raise ArithmeticError("no such sum")

    @elastic.run
    def train(state: Any) -> Any:
        if elastic.rank() == how["hangs"]:
            Path(folder, "hangs").write_text(str(os.getpid()))
            pause(3600)
        return elastic.allreduce(np.ones(50_000), "sum")

    elastic.barrier()
    return train(elastic.ObjectState(x=0))


@covers("EL-4", "EL-19", "EL-29")
def test_who_raises_and_who_hangs(free: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An exception ends its worker; who keeps the others waiting is named, and given up after the limit."""
    stage = Stage(free, tmp_path, a=1, b=1, c=1)
    table, how = np.full((100, 100), 10.0), {"raises": 2, "hangs": 1}
    results = launch(stage, fail_or_hang, table, how, warn_after=PATIENCE / 4, stop_after=PATIENCE)
    assert list(results) == [0] and results[0].tolist() == [1.0] * 50_000
    assert "ArithmeticError: no such sum" in caplog.text
    assert re.search(r"Missing ranks:\n\t1: \[\d\. allreduce", caplog.text)


@covers("EL-20", "EL-21")
def test_when_all_fail(free: Cluster, tmp_path: Path) -> None:
    """The final error names the first worker that failed, and why."""
    stage = Stage(free, tmp_path, a=1, b=1)

    def broken(folder: str) -> None:
        raise LookupError(folder)

    with pytest.raises(
        JobFailed, match=r"All workers have failed\.\nThe first worker to fail was:\nProcess name: .*\[0\]"
    ) as e:
        launch(stage, broken)
    assert "Exit code: 1\n" in str(e.value) and f"LookupError: {tmp_path}" in str(e.value)
    assert {state for state, _ in e.value.failures.values()} == {"failed"}


@covers("EL-12", "EL-20")
@pytest.mark.long
def test_what_was_kept_outlives_all_workers(free: Cluster, tmp_path: Path) -> None:
    """No survivor of the previous hosts, but a checkpoint: the job goes on from it, up to the limit of resets,
    and so does the next job."""
    stage, kept = Stage(free, tmp_path, a=1), tmp_path / "kept"

    def story() -> None:
        first = stage.pids(5)
        stage.slots = {"c": 1}
        stage.pids(5, other_than=first)
        stage.open(5)
        last = stage.pids(8)[0]
        wait_for(lambda: (StateFile(kept).content or {"plain": {"steps": 0}})["plain"]["steps"] == 8, "the last commit")
        os.kill(last, signal.SIGKILL)

    stage.meanwhile(story)
    options: dict[str, Any] = {"checkpoint": kept, "checkpoint_every": 0}
    with pytest.raises(JobFailed, match="number of resets during elastic job exceeded limit: 1"):
        launch(stage, learn_each_sample_once, [5, 8], discovery=stage.discovery, reset_limit=1, **options)
    stage.open(8)
    stage.slots = {"b": 1, "d": 1}
    results = launch(stage, learn_each_sample_once, [5, 8], **options)
    assert sorted(results) == [0, 1]
    for learned, steps, sizes, *_ in results.values():
        assert learned == [1.0] * SAMPLES and steps == SAMPLES // 4
        assert sizes == [1, 1, 2], "the rounds of both jobs"


@covers("EL-22")
@pytest.mark.long
def test_many_workers_come_and_go(free: Cluster, tmp_path: Path) -> None:
    """The program that drives keeps nothing open of workers that have ended, however many there were."""
    stage = Stage(free, tmp_path, a=1, b=1)
    fell, opened = tmp_path / "fell", []

    def discovery() -> list[str]:
        opened.append(len(os.listdir("/proc/self/fd")))
        return stage.discovery()

    results = launch(stage, fall_often, 6, discovery=discovery, min_workers=2, cool_down=(0.01, 0.01))
    assert sorted(results) == [0, 1] and len(fell.read_text()) == 6
    assert max(opened) < opened[0] + 16, "each worker needs a line, a connection with its agent and a bell"


def fall_often(folder: str, times: int) -> Any:
    """Rank 1 is killed so many times."""

    @elastic.run
    def train(state: Any) -> int:
        fell = Path(folder, "fell")
        if elastic.rank() == 1 and (not fell.exists() or len(fell.read_text()) < times):
            with fell.open("a") as file:
                file.write("x")
            os.kill(os.getpid(), signal.SIGKILL)
        elastic.barrier()
        return elastic.size()

    return train(elastic.ObjectState(x=0))


@covers("EL-21")
@pytest.mark.long
def test_more_workers_than_an_agent_has_slots(own: Cluster) -> None:
    """The reason says what to do about it, at once: nobody waits for a slot that there is not."""
    (agent,) = own.start(1, "--listen", "127.0.0.1")
    nodes = NodeAssignment(key_file=own.key_file).add(0, agent.address).add(1, agent.address)
    with pytest.raises(JobFailed, match=r"has 1 slot, and 2 of the job .*'psgd worker --slots 2'"):
        elastic.launch(int, nodes)


@covers("EL-19")
@pytest.mark.long
def test_who_is_given_up_while_its_agent_stands_still_is_not_started(own: Cluster) -> None:
    """An agent that wakes up again starts nobody for a job that has gone on without it."""
    (agent,) = own.start(1, "--listen", "127.0.0.1")
    settings = {"function": pause, "arguments": [0.0], "watched": False, "keep_every": None}
    bundle = pack_executable(ElasticWorker, settings)
    task = Task(new_job_id(), "elastic", own.key_file, bundle, {}, 0, 1, 0.0)
    told: queue.SimpleQueue[Running | NotStarted] = queue.SimpleQueue()
    os.kill(agent.pid, signal.SIGSTOP)
    recruit = WorkerHandle(Worker(agent.address, 0, 0), 0, task, told.put)
    recruit.close()
    os.kill(agent.pid, signal.SIGCONT)
    recruit.join(LIMIT)
    said = told.get(timeout=0)
    assert isinstance(said, NotStarted) and "It was given up before it had started." in said.reason
    assert not list(agent.work.glob("jobs/*/Fit-*.log")), "no process was started"


# ---- all are lost at once, and one of several on a host


def epochs(folder: str, fault: str, times: int, kept: str) -> Any:
    """`fault` comes in epoch 2, so many times, on all workers. Returns the epochs that this process has seen, and the sizes of
    the group in all of them."""
    state = elastic.ObjectState(epoch=0, sizes=[])
    seen = []

    @elastic.run
    def train(state: Any) -> Any:
        while state.epoch < EPOCHS:
            if state.epoch == 2 and all(Path(folder, f"struck-{rank}").exists() for rank in (0, 2)):
                gate(folder, "again", state)  # who goes on after the kill waits for the spare worker, which is spared
            monitor_batch_begin(state.epoch, 0)
            seen.append(state.epoch)
            elastic.barrier()
            if state.epoch == 2:
                strike(folder, fault, times, kept)
            monitor_batch_end()
            state.epoch += 1
            state.sizes.append(elastic.size())
            state.commit()
        return seen, state.sizes

    return train(state)


def strike(folder: str, fault: str, times: int, kept: str) -> None:
    while (StateFile(kept).content or {"plain": {"epoch": 0}})["plain"]["epoch"] < 2:  # another rank may be ahead
        pause(0.01)
    struck = Path(folder, f"struck-{elastic.rank()}")
    if struck.exists() and len(struck.read_text()) == times:
        return
    with struck.open("a") as file:
        file.write("x")
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "hang":
        pause(3600)
    raise ArithmeticError("no such sum")


def launch_epochs(stage: Stage, fault: str, times: int, **options: Any) -> dict[int, Any]:
    kept = stage.folder / "kept"
    return launch(stage, epochs, fault, times, str(kept), checkpoint=kept, checkpoint_every=0, **options)


@covers("EL-20", "EL-12")
@pytest.mark.long
def test_all_are_killed_and_there_is_a_spare_host(free: Cluster, tmp_path: Path) -> None:
    """The same hosts and the spare one go on from the file; nothing is done twice."""
    stage = Stage(free, tmp_path, a=1, b=1)
    (tmp_path / "struck-2").write_text("x")

    def story() -> None:
        wait_for(lambda: all((tmp_path / f"struck-{rank}").exists() for rank in (0, 1)), "both to be killed")
        stage.slots = {"a": 1, "b": 2}
        wait_for(lambda: len(stage.pids("again")) == 3, "all three")
        stage.open("again")

    stage.meanwhile(story)
    results = launch_epochs(stage, "kill", 1, discovery=stage.discovery, max_workers=3)
    assert sorted(results) == [0, 1, 2]
    for seen, sizes in results.values():
        assert seen == [2, 3] and sizes[2:] == [3, 3]


@covers("EL-20", "EL-27")
@pytest.mark.long
def test_the_only_worker_hangs(free: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """On the same host, without discovery and without a cool-down."""
    results = launch_epochs(Stage(free, tmp_path, a=1), "hang", 1, stall_timeout=1.0)
    assert results[0] == ([2, 3], [1, 1, 1, 1])
    assert "All workers have failed. The job goes on from the state that was kept last." in caplog.text


@covers("EL-20", "EL-21", "FD-20")
@pytest.mark.long
def test_what_fails_three_times_is_not_tried_again(free: Cluster, tmp_path: Path) -> None:
    """The same rank at the same epoch and batch; the message names it."""
    with pytest.raises(JobFailed, match=r"The same failure has come 3 times at the same place.*\nThe first worker") as failed:
        launch_epochs(Stage(free, tmp_path, a=1), "raise", 9)
    assert "epoch 3, batch 1: crashed." in str(failed.value)
    assert (tmp_path / "struck-0").read_text() == "xxx" and len(failed.value.verdicts) == 3


def gather(folder: str) -> int:
    @elastic.run
    def train(state: Any) -> int:
        gate(folder, "here", state)
        return os.getpid()

    return train(elastic.ObjectState(x=0))


@covers("EL-20")
def test_an_agent_that_dies_and_comes_back(own: Cluster, tmp_path: Path) -> None:
    """Its worker dies with it; the host is asked until it answers, and the job goes on."""
    options = ("--listen", "127.0.0.1", "--port", str(lasting_port()))
    (agent,) = own.start(1, *options)
    stage = Stage(own, tmp_path, a=1)

    def story() -> None:
        (first,) = stage.pids("here")
        agent.end(signal.SIGKILL)
        own.start(1, *options, work=agent.work)
        stage.pids("here", other_than=[first])
        stage.open("here")

    stage.meanwhile(story)
    assert launch(stage, gather, checkpoint=tmp_path / "kept") == {0: stage.pids("here")[0]}


@covers("EL-20")
def test_who_is_stopped_stays_so(free: Cluster, tmp_path: Path) -> None:
    """a job that somebody ends (`psgd stop`) is not begun again."""
    stage = Stage(free, tmp_path, a=1, b=1)

    def story() -> None:
        pid = stage.pids("here")[0]
        logs = [path for path in stage.agent("a").work.glob("jobs/*/Fit-*.log") if f"pid {pid}," in path.read_text()]
        with Request(stage.nodes().key_file).request(stage.nodes()) as com:
            Reclaimer(com).stop(logs[0].parent.name.rpartition(".")[0], "Enough.")

    stage.meanwhile(story)
    with pytest.raises(JobFailed, match=r"The job was stopped: .*Enough\.") as failed:
        launch(stage, gather, checkpoint=tmp_path / "kept")
    assert "stopped" in {state for state, _ in failed.value.failures.values()}


@covers("EL-19", "EL-22")
@pytest.mark.long
def test_a_neighbour_on_the_same_host_lives_on(free: Cluster, tmp_path: Path) -> None:
    """Of two workers of one agent one is killed: the other keeps its process; later there are two again."""
    stage = Stage(free, tmp_path, a=2)
    seen: list[list[int]] = []

    def story() -> None:
        seen.append(stage.pids("here"))
        os.kill(seen[0][1], signal.SIGKILL)
        seen.append(stage.pids("here", other_than=seen[0]))
        if len(seen[1]) == 1:  # unless the cool-down was over before the other one had noticed
            seen.append(stage.pids("here", other_than=seen[1]))
        stage.open("here")

    stage.meanwhile(story)
    results = launch(stage, gather, cool_down=(0.5, 0.5))
    survivor, other = seen[0]
    assert [pids[0] for pids in seen] == [survivor] * len(seen)
    assert len(seen[-1]) == 2 and other not in seen[-1]
    assert results == {0: survivor, 1: seen[-1][1]}
