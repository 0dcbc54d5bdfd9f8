"""A job of several attempts in memory: hosts come, go and die, each with a disk of its own, on a virtual clock."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from network.testing import VirtualClock
from nn.model import Model
from parallel_sgd.checkpoint import Keeper, Resumption, Store
from parallel_sgd.checkpoint.choose import choose
from parallel_sgd.checkpoint.keeper import Checkpointing
from parallel_sgd.checkpoint.locate import FOLDER, HeldCheckpoints, stores_of
from parallel_sgd.engine.channel import Key, Parameter_Server
from parallel_sgd.engine.parameter_server import Server, build_server
from parallel_sgd.engine.plan import WorkerPlan, likes_of, reassigned
from parallel_sgd.engine.progress import START
from parallel_sgd.engine.training import Hooks
from parallel_sgd.engine.worker import Worker, build_worker
from parallel_sgd.record.ledger import Grid, Ledger, collect
from parallel_sgd.record.report import TrainingReport
from parallel_sgd.record.table import Earlier
from parallel_sgd.simulation.kernel import Build, MemoryChannel, run_in_process
from tests.parallel_sgd.digits_job import digits
from tests.parallel_sgd.networks import mlp

JOB = "20260101-000000-abcdef"


class Ends(Exception):
    """What ends an attempt; all workers but the victim leave as they do on agents."""


@dataclass(frozen=True)
class Attempt:
    """The hosts of an attempt, worker 0 first, and how it ends: never, or with packet number `packets` that is sent.

    Its sender is then killed where `kills`; else the attempt ends for everybody, because hosts are to come or to go.
    """

    hosts: str
    packets: int = -1
    kills: bool = True


@dataclass
class Cluster:
    """Runs the attempts of one job; afterwards `models` are those of the last, `ended` is how many ended before their time."""

    plan: WorkerPlan
    root: Path
    server: bool = False
    seed: int = 0
    clock: VirtualClock = field(default_factory=VirtualClock)
    models: dict[int, Model] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root.mkdir(exist_ok=True)
        self._data = digits()
        self._content = mlp().to_bytes()
        self._rng = np.random.default_rng(self.seed)
        self._packets = 0
        self.ended = 0

    def run(self, attempts: Sequence[Attempt]) -> Ledger | None:
        """The ledger of the job."""
        for number, attempt in enumerate(attempts):
            for disk in self.root.iterdir():  # who is not a member any more is gone with its disk
                if disk.name not in attempt.hosts:
                    shutil.rmtree(disk)
            self._run(number, attempt)
        files = {node: sorted(self._out(host, node).glob("*.csv")) for node, host in enumerate(attempts[-1].hosts)}
        batches = len(self._data[0]) // (self.plan.options.block_size * self.plan.assignment.block_count)
        assignment = self.plan.assignment
        return collect("job", files, Grid(self.plan.options.epoch, batches, assignment.block_count, assignment.redundancy))

    def values(self) -> set[bytes]:
        """The different weights that the workers of the last attempt have."""
        return {model.store.values.tobytes() for model in self.models.values()}

    def _run(self, number: int, attempt: Attempt) -> None:
        plan = replace(self.plan, attempt=number, assignment=reassigned(self.plan.assignment, len(attempt.hosts)))
        resumptions = self._resumptions(attempt.hosts, plan)
        ended = False
        undo: list[Callable[[], None]] = []
        self._packets = 0
        self.models.clear()

        def link(sender: int, _receiver: int, _key: Key) -> tuple[float, ...]:
            self._packets += 1
            nonlocal ended
            if self._packets > attempt.packets >= 0 and sender >= 0 and not ended:
                ended = True
                if attempt.kills:
                    undo.append(_as_it_is(self._out(attempt.hosts[sender], sender)))
                raise Ends
            return tuple(self._rng.random(1 + self._rng.integers(0, 2)).tolist())

        builds: dict[int, Build] = {
            node: partial(self._worker, plan, host, resumptions.get(node)) for node, host in enumerate(attempt.hosts)
        }
        if self.server:
            builds[Parameter_Server] = partial(self._server, plan)
        try:
            run_in_process(builds, self.clock, link=link)
        except Ends:
            self.ended += 1
        for bring_back in undo:  # what a killed worker has done since has not reached its disk
            bring_back()

    def _worker(self, plan: WorkerPlan, host: str, resumption: Resumption | None, channel: MemoryChannel) -> Worker:
        node = channel.node_id
        self.models[node] = model = Model.from_bytes(self._content, {})
        out = self._out(host, node)
        out.mkdir(parents=True, exist_ok=True)
        earlier = resumption.earlier() if resumption is not None else Earlier(out, START) if plan.attempt else None
        return build_worker(
            plan,
            model,
            self._data,
            channel,
            self.clock.monotonic,
            Hooks(TrainingReport(out, "job", node, ["accuracy"], earlier)),
            Checkpointing(resumption, Keeper(Store(out.parent / FOLDER, JOB), plan.header(JOB, node)), job=JOB),
        )

    def _server(self, plan: WorkerPlan, channel: MemoryChannel) -> Server:
        return build_server(plan, likes_of(mlp().store), channel, self.clock.monotonic, start_limit=1.0)

    def _resumptions(self, hosts: str, plan: WorkerPlan) -> dict[int, Resumption]:
        """What the workers of an attempt agree on."""
        holdings = {node: HeldCheckpoints(stores_of(self.root / host, JOB)) for node, host in enumerate(hosts)}
        choice = choose({node: held.offers for node, held in holdings.items()}, plan.assignment.nodes)
        if choice is None:
            return {}
        return {
            node: Resumption(
                holdings[source.holder].load(source.owner, choice.position), choice.whole, holdings[node].tables(node)
            )
            for node, source in choice.sources.items()
        }

    def _out(self, host: str, node: int) -> Path:
        return self.root / host / f"{JOB}.{node}" / "out"


def _as_it_is(out: Path) -> Callable[[], None]:
    """A function that brings tables and checkpoints of a worker back to where they are now."""
    tables = {path: path.read_bytes() for path in out.iterdir()}
    checkpoints = {path.name for path in (out.parent / FOLDER).glob("*.safetensors")}

    def bring_back() -> None:
        for path, content in tables.items():
            path.write_bytes(content)
        for path in (out.parent / FOLDER).glob("*.safetensors"):
            if path.name not in checkpoints:
                path.unlink()

    return bring_back
