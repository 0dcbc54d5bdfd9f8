"""A small real job: an MLP on the embedded digits, run by workers of this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nn
from network import NodeAssignment
from network.testing import VirtualClock
from nn.dataset.interface import Arrays
from nn.dataset.transforms import ImageCls, Shuffle
from nn.gradient_descent import ADAMOptimizer
from nn.model import Model
from nn.optimizer import OpContainer, PSGDOptimizer
from parallel_sgd.checkpoint.schedule import NEVER
from parallel_sgd.codec import Codec
from parallel_sgd.codec.plain import Plain
from parallel_sgd.engine.batches import SHUFFLED
from parallel_sgd.engine.plan import WorkerPlan
from parallel_sgd.engine.training import Hooks
from parallel_sgd.engine.worker import Worker, build_worker
from parallel_sgd.options.job_options import JobOptions
from parallel_sgd.profiles import ISetting
from parallel_sgd.record.report import TrainingReport
from parallel_sgd.simulation.immediate import Link, reliable
from parallel_sgd.simulation.kernel import MemoryChannel, run_in_process

ADAM = OpContainer(PSGDOptimizer, ADAMOptimizer, gd_params=(1e-3,))


def plan_of(
    assignment: ISetting,
    *,
    optimizer: OpContainer = ADAM,
    default_codec: type[Codec] = Plain,
    order: str = SHUFFLED,
    attempt: int = 0,
    **options: Any,
) -> WorkerPlan:
    """The plan of a job with these options of `parallel()`, which nobody starts again."""
    decided = {"op_type": optimizer.op_type, "gd_type": optimizer.gd_type, "gd_params": optimizer.gd_params}
    decided |= {"checkpoint_every": None, "commit_every": NEVER, **options}
    return WorkerPlan(assignment, JobOptions(NodeAssignment(), **decided), default_codec, order, attempt)


def digits() -> Arrays:
    return ImageCls()(*Shuffle()(*nn.dataset.Digits().load(), seed=3), seed=3)


@dataclass
class DigitsJob:
    """Runs `plan`; afterwards `models`, `workers`, `results` and `progress` hold what each node has."""

    plan: WorkerPlan
    model: Model
    directory: Path | None = None
    link: Link = reliable
    data: Arrays = field(default_factory=digits)
    clock: VirtualClock = field(default_factory=VirtualClock)
    classes: dict[str, Callable[..., Any]] = field(default_factory=dict)  # the test's own that the model is made of

    def __post_init__(self) -> None:
        self.models: dict[int, Model] = {}
        self.workers: dict[int, Worker] = {}
        self.results: dict[int, dict[str, float]] = {}
        self.progress: dict[int, list[int]] = {node: [] for node in self.plan.assignment.nodes}

    def run(self) -> DigitsJob:
        builds = dict.fromkeys(self.plan.assignment.nodes, self._build)
        self.results = run_in_process(builds, self.clock, link=self.link)
        return self

    def weights(self) -> list[bytes]:
        return [model.store.values.tobytes() for model in self.models.values()]

    def _build(self, channel: MemoryChannel) -> Worker:
        node = channel.node_id
        model = Model.from_bytes(self.model.to_bytes(), self.classes)
        report = None
        if self.directory is not None:
            report = TrainingReport(self.directory, "digits", node, [metric.name for metric in model.metrics])
        self.models[node] = model
        self.workers[node] = build_worker(
            self.plan,
            model,
            self.data,
            channel,
            self.clock.monotonic,
            Hooks(report, lambda percent, _: self.progress[node].append(percent)),
        )
        return self.workers[node]
