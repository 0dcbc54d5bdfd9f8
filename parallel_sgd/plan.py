"""What all nodes of a job agree on: the plan of its workers, and the codecs of the parameter server."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from nn.gradient_descent import ADAMOptimizer
from nn.optimizer import OpContainer, PSGDOptimizer

from .batch_sync.sync.asynchronous import SyncChoice
from .batch_sync.sync.synchronized import SynchronizedSGD
from .batches import ORDERS, SHUFFLED
from .checkpoint.schedule import NEVER, Every
from .checkpoint.snapshot import Header
from .codec import compose
from .codec.choice import CodecChoice, choose_codecs, choose_server_codecs
from .codec.interfaces import Codec
from .codec.plain import DummyCodec, Plain
from .profiles import FixedBlockAssignment, ISetting
from .progress import Progress


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


def reassigned(assignment: ISetting, workers: int) -> ISetting:
    """The blocks of `assignment` dealt to another number of workers, contiguous, with as much of its redundancy as fits.

    The number of blocks stays, so a batch holds the same samples and its result has the same bits.

    Raises: ValueError when there are more workers than blocks.
    """
    if workers == assignment.node_count:
        return assignment
    blocks = assignment.block_count
    if workers > blocks:
        raise ValueError(f"A batch of {blocks} blocks cannot be dealt to {workers} workers; each needs a block")
    fitting: Collection[int] = [r for r in range(1, assignment.redundancy + 1) if workers % r == 0]
    return FixedBlockAssignment(workers, max(fitting), blocks)


#: Stands for a variable's name in accounts and messages.
BUFFERS: Final = "buffers"


class OwnBuffers(DummyCodec):
    """The mean over the worker's own blocks: for workers that train models of their own, or wait for nobody.

    It is done when the worker has put its last block, so it needs neither peers nor a barrier under any sync type.
    """

    takes_first_copy = True
    awaits_answer = True


def buffers_codec(kinds: Sequence[type[Codec]], lossless: type[Codec], sync_type: SyncChoice) -> type[Codec]:
    """The codec of the buffers beside the codecs of the variables, `kinds`, on a worker and on the server.

    `lossless`, the job's default codec, as long as all workers have equal parameters in every batch. Where they meet only now
    and then, because a composed codec has a trigger, the buffers meet in the same batches. Else they are OwnBuffers.
    """
    if sync_type.staleness == 0 and all(kind.agrees for kind in kinds):
        return lossless
    if sync_type.staleness == 0 and len(set(kinds)) == 1 and issubclass(kinds[0], compose.Composed):
        composition = kinds[0].composition
        if composition.exchange.agrees and composition.send != "gradient":  # type: ignore[attr-defined]
            exchange = compose.PS() if lossless.needs_server else compose.AllToAll()
            return Codec.of(exchange, send="weights", trigger=composition.trigger, name="Buffers")  # type: ignore[attr-defined]
    return OwnBuffers
