"""What all nodes of a job agree on: the plan of its workers, and the codecs of the parameter server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nn.gradient_descent import ADAMOptimizer
from nn.optimizer import OpContainer, PSGDOptimizer

from .batch_sync import SyncChoice, SynchronizedSGD
from .batches import ORDERS, SHUFFLED
from .buffers import buffers_codec
from .checkpoint.commits import NEVER
from .checkpoint.position import Progress
from .checkpoint.schedule import Every
from .checkpoint.snapshot import Header
from .codec.bank import CodecChoice, choose_codecs, choose_server_codecs
from .codec.interfaces import Codec
from .codec.plain import Plain
from .profiles import ISetting


@dataclass(frozen=True)
class WorkerPlan:
    """What all workers of a job agree on. `timeout_ms` is `ssgd_timeout_limit`; the other names are those of `parallel()`.
    `commit_every` is 0 where nobody starts again, `order` is one of `batches.ORDERS`, `class_weight` what `Model.fit` takes.

    Raises: ValueError when a number is out of range.
    """

    assignment: ISetting
    block_size: int = 64
    epochs: int = 10
    seed: int = 0
    optimizer: OpContainer = field(default_factory=lambda: OpContainer(PSGDOptimizer, ADAMOptimizer))
    codec: CodecChoice = None
    default_codec: type[Codec] = Plain
    codec_parameters: Mapping[Any, Any] = field(default_factory=dict)
    sync_type: SyncChoice = SynchronizedSGD
    timeout_ms: float = 10_000
    attempt: int = 0
    checkpoint_every: Every = None
    commit_every: int = NEVER
    order: str = SHUFFLED
    class_weight: Mapping[int, float] | None = None

    def header(self, job: str, node: int, title: str) -> Header:
        """What all checkpoints of a node of the job have in common."""
        assignment = self.assignment
        return Header(
            job=job,
            attempt=self.attempt,
            node=node,
            title=title,
            seed=self.seed,
            order=self.order,
            progress=Progress(),
            personal=True,
            blocks=[[int(block) for block in blocks] for blocks in assignment.node_2_block],
            optimizer=self.optimizer.op_type.__name__,
            rule=self.optimizer.gd_type.__name__,
        )

    def __post_init__(self) -> None:
        if isinstance(self.epochs, bool) or not isinstance(self.epochs, int) or self.epochs < 1:
            raise ValueError(f"'epoch' must be a positive integer, got {self.epochs!r}")
        if not self.timeout_ms > 0:
            raise ValueError(f"'ssgd_timeout_limit' must be a positive number of milliseconds, got {self.timeout_ms!r}")
        if self.order not in ORDERS:
            raise ValueError(f"'order' must be one of {', '.join(ORDERS)}, got {self.order!r}")


def server_codecs(plan: WorkerPlan, codec: CodecChoice, variables: int, has_buffers: bool) -> list[type[Codec]]:
    """The codec of each variable on the server, and of the buffers where they go there."""
    kinds = choose_server_codecs(codec, plan.codec, plan.default_codec, variables)
    workers = choose_codecs(plan.codec, plan.default_codec, variables)
    buffers = buffers_codec(workers, plan.default_codec, plan.sync_type)
    if has_buffers and buffers.serves:
        kinds.append(buffers)
    return kinds
