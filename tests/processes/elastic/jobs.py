"""Functions for elastic jobs that stop at gates, where tests let things happen, and the tests' side of these gates."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from network import NodeAssignment
from parallel_sgd import elastic
from parallel_sgd.elastic import ElasticSampler, HostsUpdatedInterrupt, ObjectState, run
from tests.processes.harness import LIMIT, AgentProcess, Cluster, wait_for

SAMPLES, BATCH = 60, 4


class Noting(ObjectState):
    """Notes the order of what happens to it on this worker."""

    def restore(self) -> None:
        note("restore")
        super().restore()

    def reset(self) -> None:
        note(f"reset {elastic.rank()} of {elastic.size()}")

    def sync(self) -> None:
        note("sync")
        super().sync()


NOTES: list[str] = []


def note(text: str) -> None:
    NOTES.append(text)


def pause(seconds: float) -> None:
    time.sleep(seconds)


def gate(folder: str, name: str, state: Any) -> None:
    """Tell who is here, and wait until the test opens the gate; hosts may come and go, and workers be lost, meanwhile.

    Each worker notes at which of its checks it was interrupted.
    """
    pids = np.zeros(elastic.size(), np.int64)
    pids[elastic.rank()] = os.getpid()
    everybody = elastic.allreduce(pids, "sum").tolist()
    at, opened = Path(folder, f"at-{name}"), [Path(folder, f"open-{name}"), Path(folder, "open-all")]
    if elastic.rank() == 0:
        draft = at.with_suffix(".new")
        draft.write_text(json.dumps(everybody))
        draft.rename(at)
    checks = 0
    while not elastic.broadcast(any(path.exists() for path in opened) if elastic.rank() == 0 else None):
        checks += 1
        try:
            state.check_host_updates()
        except HostsUpdatedInterrupt as update:
            with Path(folder, f"interrupts-{os.getpid()}").open("a") as file:
                file.write(f"{name} {checks} {update.skip_sync}\n")
            raise
        pause(0.005)


def learn_each_sample_once(folder: str, gates: list[int]) -> Any:
    """One epoch of a model that counts how often it has learned each sample; returns what is known of it at the end."""
    state = Noting(sampler=ElasticSampler(SAMPLES, BATCH, seed=1), learned=np.zeros(SAMPLES), steps=0, sizes=[])
    state.register_reset_callbacks([lambda: note(f"callback {elastic.rank()} of {elastic.size()}")])

    @run
    def train(state: Noting) -> Any:
        note("func")
        state.sizes.append(elastic.size())
        for rows in state.sampler:
            if state.steps in gates:
                gate(folder, str(state.steps), state)
            mine = np.zeros(SAMPLES)
            mine[rows] = 1
            state.learned += elastic.allreduce(mine, "sum")
            state.sampler.record_batch()
            state.steps += 1
            state.commit()
        return state.learned.tolist(), state.steps, state.sizes, NOTES, os.getpid()

    return train(state)


def three_epochs(folder: str) -> Any:
    """EL-24: the hosts change after each epoch; every worker notes at which of its calls it was interrupted."""
    state = ObjectState(epoch=0, batch=0)

    @run
    def train(state: ObjectState) -> int:
        while state.epoch < 3:
            while state.batch < 10:
                elastic.barrier()
                state.batch += 1
                state.commit()
            try:
                if state.epoch < 2:
                    gate(folder, f"epoch-{state.epoch}", state)
            except HostsUpdatedInterrupt:
                state.epoch, state.batch = state.epoch + 1, 0  # not committed, and not lost
                raise
            state.epoch, state.batch = state.epoch + 1, 0
        return elastic.rank()

    return train(state)


class Stage:
    """The test's side: the hosts that discovery finds, the gates, and what happens at them, in a thread of its own."""

    def __init__(self, cluster: Cluster, folder: Path, **slots: int) -> None:
        self.folder = folder
        self._agents = dict(zip("abcdefgh", cluster.agents, strict=False))
        self._key_file = cluster.key_file
        self.slots = slots  # by the letter of an agent, or the address of a host that is none
        self.problem: BaseException | None = None
        self._thread: threading.Thread | None = None

    def discovery(self) -> list[str]:
        slots = list(self.slots.items())  # another thread changes them
        return [f"{self._agents[name].address if name in self._agents else name} slots={count}" for name, count in slots]

    def agent(self, name: str) -> AgentProcess:
        return self._agents[name]

    def nodes(self) -> NodeAssignment:
        """The first workers: one for each slot."""
        nodes = NodeAssignment(key_file=self._key_file)
        for name, count in self.slots.items():
            for _ in range(count):
                nodes.add(len(nodes), self._agents[name].address)
        return nodes

    def meanwhile(self, act: Callable[[], None]) -> None:
        """Let `act` run beside the job; what goes wrong there shows in `close`."""

        def guarded() -> None:
            try:
                act()
            except BaseException as error:  # it is raised in the test's thread
                self.problem = error
                self.open("all")

        self._thread = threading.Thread(target=guarded, daemon=True)
        self._thread.start()

    def pids(self, name: object, other_than: list[int] | None = None) -> list[int]:
        """The processes at a gate, by rank, once they are there, and others than those."""

        def there() -> list[int] | None:
            path = self.folder / f"at-{name}"
            pids: list[int] = json.loads(path.read_text()) if path.exists() else []
            return pids if pids and pids != other_than else None

        found: list[int] = wait_for(there, f"other processes than {other_than} at gate {name}")
        return found

    def open(self, name: object) -> None:
        (self.folder / f"open-{name}").touch()

    def close(self) -> None:
        if self._thread is not None:
            self._thread.join(2 * LIMIT)
            assert not self._thread.is_alive()
        if self.problem is not None:
            raise self.problem


def log_of(agent: AgentProcess, pid: int) -> str:
    """The log of a job process, once it has ended."""

    def ended() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"  # its agent may stand still
        except OSError:
            return True

    wait_for(ended, f"the end of process {pid}")
    for path in agent.work.glob("jobs/*/Fit-*.log"):
        text = path.read_text()
        if f"pid {pid}," in text:
            return text
    raise AssertionError(f"no log of process {pid}")
