"""Puts one worker of a job together, whatever carries its packets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nn.gradient_descent import ADAMOptimizer
from nn.model import Model
from nn.optimizer import OpContainer, PSGDOptimizer

from .batch_sync import SyncChoice, SynchronizedSGD
from .batches import Batches
from .buffers import BUFFERS, buffers_codec
from .channel import Channel
from .codec.bank import CodecBank, CodecChoice, choose_codecs
from .codec.interfaces import Codec
from .codec.plain import Plain
from .codec.settings import JobSettings
from .exchange import BlockExchange
from .profiles import ISetting
from .report import TrainingReport
from .sharded_exchange import shard_codecs
from .training import Samples, Training, TrainingProcess


@dataclass(frozen=True)
class WorkerPlan:
    """What all workers of a job agree on. `timeout_ms` is `ssgd_timeout_limit`; the other names are those of `parallel()`.

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

    def __post_init__(self) -> None:
        if isinstance(self.epochs, bool) or not isinstance(self.epochs, int) or self.epochs < 1:
            raise ValueError(f"'epoch' must be a positive integer, got {self.epochs!r}")
        if not self.timeout_ms > 0:
            raise ValueError(f"'ssgd_timeout_limit' must be a positive number of milliseconds, got {self.timeout_ms!r}")


@dataclass(frozen=True)
class Worker:
    """A worker ready to run: drive `process`, hand what arrives to `exchange.deliver`, in one `contextvars` context."""

    model: Model
    exchange: BlockExchange
    process: Training


def build_worker(
    plan: WorkerPlan,
    model: Model,
    data: Samples,
    channel: Channel,
    clock: Callable[[], float],
    *,
    report: TrainingReport | None = None,
    progress: Callable[[int], None] | None = None,
) -> Worker:
    """Build the worker `channel.node_id`; it trains `model`, which is set up, from its current weights.

    Settings for the codecs are installed in the running context. `clock` returns monotonic seconds.

    Raises: ValueError or TypeError when plan, model and data do not fit; whatever a codec's constructor raises.
    """
    blocks = plan.assignment.node_2_block[channel.node_id]
    batches = Batches(len(data[0]), plan.block_size, plan.assignment.block_count)
    names = tuple(variable.name for variable in model.store.variables)
    kinds = choose_codecs(plan.codec, plan.default_codec, len(names))
    if plan.optimizer.op_type.by_shard:
        kinds, names = shard_codecs(plan.assignment)
    if model.store.buffers:
        kinds.append(buffers_codec(kinds, plan.default_codec, plan.sync_type))
        names += (BUFFERS,)
    settings = JobSettings(
        plan.assignment,
        plan.codec_parameters,
        values=[variable.value for variable in model.store.variables],
        rule=plan.optimizer.rule,
        seed=plan.seed,
    )
    bank = CodecBank(kinds, settings, channel, plan.attempt)
    sync = plan.sync_type(bank, plan.timeout_ms / 1000, clock, names)
    exchange = BlockExchange(bank, sync)
    process = TrainingProcess(
        model,
        plan.optimizer.build(model.store, exchange),
        exchange,
        data,
        batches,
        blocks,
        epochs=plan.epochs,
        seed=plan.seed,
        clock=clock,
        report=report,
        progress=progress,
    )
    return Worker(model, exchange, bank.accounts.watch.timed(process.run()))
