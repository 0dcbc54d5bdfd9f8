"""Real workers in this process that compute at the same time, each by a clock of its own that passes when the test says so."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection
from contextvars import Context, copy_context
from pathlib import Path

from network.frames import Message
from network.testing import VirtualClock
from network.wire import Sent
from nn.dataset.interface import Arrays
from nn.model import Model
from parallel_sgd.engine.channel import Key, Wait
from parallel_sgd.engine.plan import WorkerPlan
from parallel_sgd.engine.training import Hooks
from parallel_sgd.engine.worker import Worker, build_worker
from parallel_sgd.record.report import TrainingReport

Flight = tuple[float, int, int, int, Message]  # arrival, number, sender, receiver


class Cluster:
    """Runs `plan`: packets arrive `link(sender, receiver)` seconds after they were posted; a worker that waits goes on when the
    packet that it needs arrives. `begins(node, epoch, batch)` is called at the begin of every batch.

    Attributes: `clocks` of the workers, by node; `running`, the node whose turn it is.
    """

    def __init__(
        self,
        plan: WorkerPlan,
        model: Model,
        data: Arrays,
        folder: Path,
        link: Callable[[int, int], float],
        begins: Callable[[int, int, int], None],
    ) -> None:
        self.nodes = list(plan.assignment.nodes)
        self.clocks = {node: VirtualClock() for node in self.nodes}
        self.running = self.nodes[0]
        self._link = link
        self._flying: list[Flight] = []
        self._count = 0
        self._workers: dict[int, Worker] = {}
        self._contexts: dict[int, Context] = {}
        self._waits: dict[int, Wait | None] = {}
        self._reports: dict[int, TrainingReport] = {}
        for node in self.nodes:
            self.running = node
            inside = folder / f"Node-{node}-Retrieve"
            inside.mkdir(parents=True)
            report = self._reports[node] = TrainingReport(inside, "T", node, [metric.name for metric in model.metrics])

            def faults(epoch: int, batch: int, node: int = node) -> bool:
                begins(node, epoch, batch)
                return False

            context = self._contexts[node] = copy_context()
            hooks = Hooks(report, faults=faults)
            clock = self.clocks[node].monotonic
            copy = Model.from_bytes(model.to_bytes())
            self._workers[node] = context.run(build_worker, plan, copy, data, _Channel(self, node), clock, hooks)

    def run(self) -> None:
        for node in self.nodes:
            self._go_on(node)
        while self._flying:
            arrival, _, sender, receiver, message = heapq.heappop(self._flying)
            clock = self.clocks[receiver]
            clock.advance(max(0.0, arrival - clock.monotonic()))
            self.running = receiver
            self._contexts[receiver].run(self._workers[receiver].exchange.deliver, sender, message)
            wait = self._waits.get(receiver)
            if wait is not None and self._contexts[receiver].run(wait.ready):
                self._go_on(receiver)
        assert not any(self._waits.values()), "somebody waits for ever"
        for node, report in self._reports.items():
            exchange = self._workers[node].exchange
            report.costs(exchange.accounts.costs(), exchange.names)
            report.close()

    def post(self, sender: int, receiver: int, key: Key, content: object) -> Sent:
        self._count += 1
        arrival = self.clocks[sender].monotonic() + self._link(sender, receiver)
        heapq.heappush(self._flying, (arrival, self._count, sender, receiver, Message(key, content, 100, 10)))
        return Sent(100, 10)

    def _go_on(self, node: int) -> None:
        self.running = node
        try:
            self._waits[node] = self._contexts[node].run(next, self._workers[node].process)
        except StopIteration:
            self._waits[node] = None


class _Channel:
    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self._cluster, self.node_id = cluster, node_id
        self.clock = cluster.clocks[node_id]

    def peers(self) -> Collection[int]:
        return [node for node in self._cluster.nodes if node != self.node_id]

    def transport(self, _peer: int) -> str:
        return "tcp"

    def suspects(self) -> Collection[int]:
        return ()

    def post(self, target: int, key: Key, content: object) -> Sent:
        return self._cluster.post(self.node_id, target, key, content)

    def flush(self) -> None: ...

    def poll(self) -> None: ...

    def flushed(self) -> bool:
        return True
