"""Elastic jobs that lose all their workers at once and go on from what was kept, and hosts that lose one of several."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from network import Request
from parallel_sgd import JobFailed, elastic
from parallel_sgd.elastic.job import StateFile
from rpc import Reclaimer
from rpc.monitor import monitor_batch_begin, monitor_batch_end
from tests.processes.elastic.jobs import Stage, gate, pause
from tests.processes.harness import Cluster, cluster, wait_for

from ...statements import covers

pytestmark = pytest.mark.processes
EPOCHS = 4
SOON = 0.05  # seconds between looks for hosts


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two agents with two slots each."""
    with cluster(tmp_path_factory.mktemp("lost")) as made:
        made.start(2, "--slots", "2", "--listen", "127.0.0.1")
        yield made


@pytest.fixture
def stage(agents: Cluster, tmp_path: Path) -> Iterator[Stage]:
    """The hosts that there are, which are free when a job has ended."""
    assert agents.idle()
    yield Stage(agents, tmp_path, a=1, b=1)
    wait_for(agents.idle, "the agents to be free")


def launch(stage: Stage, fault: str, times: int, **options: Any) -> dict[int, Any]:
    """`fault` comes in epoch 2, so many times, on all workers, or on that of rank 1 alone."""
    kept = options.get("checkpoint")
    try:
        args = (str(stage.folder), fault, times, kept and str(kept))
        return elastic.launch(epochs, stage.nodes(), args, checkpoint_every=0, discovery_every=SOON, **options)
    finally:
        stage.close()


def epochs(folder: str, fault: str, times: int, kept: str | None) -> Any:
    """Returns the epochs that this process has seen, and the sizes of the group in all of them."""
    state = elastic.ObjectState(epoch=0, sizes=[])
    seen = []

    @elastic.run
    def train(state: Any) -> Any:
        while state.epoch < EPOCHS:
            monitor_batch_begin(state.epoch, 0)
            seen.append(state.epoch)
            elastic.barrier()
            if state.epoch == 2:
                strike(folder, fault, times, kept)
            monitor_batch_end()
            state.epoch += 1
            state.sizes.append(elastic.size())
            state.commit()
        return os.getpid(), seen, state.sizes

    return train(state)


def strike(folder: str, fault: str, times: int, kept: str | None) -> None:
    while kept is not None and (StateFile(kept).content or {"plain": {"epoch": 0}})["plain"]["epoch"] != 2:
        pause(0.01)
    struck = Path(folder, f"struck-{elastic.rank()}")
    done = len(struck.read_text()) if struck.exists() else 0
    if done == times or (fault.endswith("one") and elastic.rank() != 1):
        return
    with struck.open("a") as file:
        file.write("x")
    if fault.startswith("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    if fault.startswith("hang"):
        pause(3600)
    raise ArithmeticError("no such sum")


@covers("EL-20", "EL-12")
def test_all_are_killed_and_there_is_a_spare_host(stage: Stage) -> None:
    """The same hosts and the spare one go on from the file; nothing is done twice."""
    nodes = stage.nodes()
    stage.slots = {"a": 1, "b": 2}
    stage.nodes = lambda: nodes  # type: ignore[method-assign]
    results = launch(stage, "kill all", 1, discovery=stage.discovery, max_workers=3, checkpoint=stage.folder / "kept")
    assert sorted(results) == [0, 1, 2]
    for _, seen, sizes in results.values():
        assert seen == [2, 3] and sizes[2:] == [3, 3]


@covers("EL-20", "EL-27")
def test_the_only_worker_hangs(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """On the same host, without discovery and without a cool-down."""
    stage.slots = {"a": 1}
    results = launch(stage, "hang all", 1, checkpoint=stage.folder / "kept", stall_timeout=1.0)
    assert results[0][1:] == ([2, 3], [1, 1, 1, 1])
    assert "All workers have failed. The job goes on from the state that was kept last." in caplog.text


@covers("EL-20", "EL-21", "FD-20")
def test_what_fails_three_times_is_not_tried_again(stage: Stage) -> None:
    """The same rank at the same epoch and batch; the message names it."""
    stage.slots = {"a": 1}
    with pytest.raises(JobFailed, match=r"The same failure has come 3 times at the same place.*\nThe first worker") as failed:
        launch(stage, "raise all", 9, checkpoint=stage.folder / "kept")
    assert "epoch 3, batch 1: crashed." in str(failed.value)
    assert (stage.folder / "struck-0").read_text() == "xxx" and len(failed.value.verdicts) == 3


@covers("EL-20")
def test_an_agent_that_dies_and_comes_back(own: Cluster, tmp_path: Path) -> None:
    """Its worker dies with it; the host is asked until it answers, and the job goes on."""
    (agent,) = own.start(1, "--listen", "127.0.0.1")
    stage = Stage(own, tmp_path, a=1)
    nodes = stage.nodes()

    def story() -> None:
        (first,) = stage.pids("here")
        agent.end(signal.SIGKILL)
        own.start(1, "--listen", "127.0.0.1", "--port", str(nodes[0].port), work=agent.work)
        stage.pids("here", other_than=[first])
        stage.open("here")

    stage.meanwhile(story)
    try:
        results = elastic.launch(gather, nodes, (str(tmp_path),), checkpoint=tmp_path / "kept")
    finally:
        stage.close()
    assert results == {0: stage.pids("here")[0]}


@covers("EL-20")
def test_who_is_stopped_stays_so(stage: Stage) -> None:
    """a job that somebody ends (`psgd-submit --stop`) is not begun again."""

    def story() -> None:
        pid = stage.pids("here")[0]
        logs = [path for path in stage.agent("a").work.glob("jobs/*/Fit-*.log") if f"pid {pid}," in path.read_text()]
        with Request(stage.nodes().key_file).request(stage.nodes()) as com:
            Reclaimer(com).stop(logs[0].parent.name.rpartition(".")[0], "Enough.")

    stage.meanwhile(story)
    with pytest.raises(JobFailed, match=r"The job was stopped: .*Enough\.") as failed:
        try:
            elastic.launch(gather, stage.nodes(), (str(stage.folder),), checkpoint=stage.folder / "kept")
        finally:
            stage.close()
    assert "stopped" in {state for state, _ in failed.value.failures.values()}


@covers("EL-19", "EL-22")
def test_a_neighbour_on_the_same_host_lives_on(stage: Stage) -> None:
    """Of two workers of one agent one is killed: the other keeps its process; later there are two again."""
    stage.slots = {"a": 2}
    seen: list[list[int]] = []

    def story() -> None:
        seen.append(stage.pids("here"))
        os.kill(seen[0][1], signal.SIGKILL)
        seen.append(stage.pids("here", other_than=seen[0]))
        if len(seen[1]) == 1:  # unless the cool-down was over before the other one had noticed
            seen.append(stage.pids("here", other_than=seen[1]))
        stage.open("here")

    stage.meanwhile(story)
    try:
        results = elastic.launch(gather, stage.nodes(), (str(stage.folder),), cool_down=(0.5, 0.5))
    finally:
        stage.close()
    survivor, other = seen[0]
    assert [pids[0] for pids in seen] == [survivor] * len(seen)
    assert len(seen[-1]) == 2 and other not in seen[-1]
    assert results == {0: survivor, 1: seen[-1][1]}


def gather(folder: str) -> int:
    @elastic.run
    def train(state: Any) -> int:
        gate(folder, "here", state)
        return os.getpid()

    return train(elastic.ObjectState(x=0))
