"""Assembly of one worker of a job, over any channel; and its variables, where several are sent as one vector."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from nn.arrays import Array
from nn.dataset.interface import Arrays
from nn.model import Model
from nn.optimizer import IOptimizer
from rpc.support.logs import get_logger

from ..batch_sync.sync.interface import ISyncType, SyncChoice
from ..batch_sync.sync.synchronized import SynchronizedSGD
from ..checkpoint.keeper import MARK, NO_CHECKPOINTS, Checkpointing, Commits, WorkerKeeper
from ..checkpoint.schedule import Schedule, keeps
from ..checkpoint.snapshot import CALLBACK, CLIENT, EARLIER, CheckpointError
from ..checkpoint.state import (
    Resumption,
    State,
    is_common,
    is_personal,
    restore_codecs,
    restore_optimizer,
    restore_values,
    worker_state,
)
from ..codec.bank import CodecBank
from ..codec.choice import choose_codecs, is_whole
from ..codec.interfaces import Codec
from ..record.block_history import Recorder
from .accounts import Accounts, Joined
from .batches import Batches
from .callbacks import JobCallbacks
from .channel import Channel, Parameter_Server
from .exchange import BlockExchange, ReplacementCheck, is_doubtful
from .plan import BUFFERS, WorkerPlan, buffers_codec, likes_of
from .progress import Part, Position, Progress
from .training import Continuity, Hooks, Training, TrainingProcess, Work

if TYPE_CHECKING:
    from ..federated.memory import Memories

#: A vector that holds as many bytes takes no further variable, and leaves while the gradients before it are computed.
JOINED_BYTES: Final = 1 << 17
_log = get_logger("parallel_sgd.checkpoint")


@dataclass(frozen=True)
class Worker:
    """Worker ready to run: drive `process`, hand arriving packets to `exchange.deliver`, in one `contextvars` context.

    Args:
        model: the model that it trains.
        exchange: its exchange with the other nodes.
        process: the generator of its training.
        callbacks: those of the job, or None.
        sizes: blocks of a batch of each attempt from which it goes on, by number, from 1; empty where there is no ledger.
    """

    model: Model
    exchange: BlockExchange
    process: Training
    callbacks: JobCallbacks | None = None
    sizes: Mapping[int, int] = field(default_factory=dict)

    @property
    def epochs(self) -> int | None:
        """Number of epochs in all where callbacks have a say in that; else None."""
        return None if self.callbacks is None else self.callbacks.epochs


def build_worker(
    plan: WorkerPlan,
    model: Model,
    data: Arrays,
    channel: Channel,
    clock: Callable[[], float],
    hooks: Hooks | None = None,
    checkpointing: Checkpointing = NO_CHECKPOINTS,
) -> Worker:
    """Build the worker `channel.node_id`; it trains `model`, which is set up, from its current weights or from a checkpoint.

    Settings for the codecs are installed in the running context.

    Args:
        plan: settings on which all nodes agree.
        model: the model to be trained; it is changed.
        data: train_x, train_y, test_x, test_y.
        channel: connection of the worker with the other nodes.
        clock: returns monotonic seconds.
        hooks: receivers of its events; default none.
        checkpointing: where the state is saved and from where training goes on; default neither.

    Raises: ValueError or TypeError when plan, model and data do not fit, CheckpointError (a ValueError) for a `resumption` of
    something else; each error of a codec's constructor.
    """
    hooks = hooks or Hooks()
    options, resumption = plan.options, checkpointing.resumption
    blocks = plan.assignment.node_2_block[channel.node_id]
    batches = plan.batches(len(data[0]))
    # before the codecs are made, which look at the values
    start = Progress() if resumption is None else _resumed(plan, model, batches, blocks, resumption, checkpointing.job)
    wiring = _wire(plan, model, channel, clock)
    optimizer = plan.optimizer.build(model.store, wiring.exchange)
    # a callback may look at the merged gradients; else they need not be copied into the store
    optimizer.shows_gradients = bool(options.callbacks)
    # after the codecs were made, whose constructors begin with an empty memory
    if resumption is not None:
        _restore(optimizer, wiring, resumption)
    callbacks = None
    if options.callbacks:
        known = {} if resumption is None else resumption.snapshot.part(CALLBACK)
        # a copy, since workers inside one process have the same options
        callbacks = JobCallbacks(deepcopy(options.callbacks), model, optimizer, hooks.folder, known)
    # with which clients that are in training between two rounds began, the same on all workers
    models = {} if resumption is None else {name: np.array(each) for name, each in resumption.snapshot.part(EARLIER).items()}
    state = partial(_capture, model, optimizer, wiring, callbacks, models)
    # with clients a batch is a round, whose block steps depend on the clients that it draws
    parts = [] if resumption is None or options.clients else resumption.parts(batches, plan.assignment.node_2_block)
    checkpoints = _checkpoints(plan, batches, channel, clock, checkpointing, wiring.bank.accounts, state, parts)
    recorder = None
    # where each worker trains a model of its own, no copy of a block is the one that counts
    if is_common(optimizer, wiring.bank, wiring.sync) and not (hooks.report is None and checkpointing.keeper is None):
        table = None if hooks.report is None else hooks.report.ledger(blocks, start.history)
        recorder = Recorder(wiring.bank, plan.attempt, start.history, table)
    continuity = Continuity(start, checkpoints, recorder, callbacks, models)
    kind: Callable[..., TrainingProcess] = TrainingProcess
    if options.clients is not None:
        from ..federated.training import ClientTraining  # noqa: PLC0415 - for a job with clients

        kind = partial(ClientTraining, wiring.memories)
    if parts and hooks.report is not None:
        hooks.report.went_on(parts)
    # rows of clients are of rounds, and tell their samples themselves
    if batches.tail and options.clients is None and hooks.report is not None:
        hooks.report.blocks(batches, plan.assignment.node_2_block, start.position)
    process = kind(plan, model, optimizer, wiring.exchange, Work(data, batches, blocks), clock, hooks, continuity)
    return Worker(model, wiring.exchange, wiring.bank.accounts.watch.timed(process.run()), callbacks, start.history.sizes)


def _resumed(
    plan: WorkerPlan, model: Model, batches: Batches, blocks: Collection[int], resumption: Resumption, job: str
) -> Progress:
    """Set the model to the values of the checkpoint and return the progress up to there."""
    options = plan.options
    # before the model is changed: a checkpoint of something else must leave it as it was
    resumption.check_clients(plan.population)
    resumption.check(batches, plan.dealt, options.seed, options.epoch)
    restore_values(model, resumption.snapshot)
    for remark in resumption.remarks(options.seed):
        _log.warning("%s", remark)
    return resumption.progress(batches, blocks, job)


class _Wiring(NamedTuple):
    """Parts by which the gradients of a worker become updates: codecs, sync type, exchange, and memories of clients."""

    bank: CodecBank
    sync: ISyncType
    exchange: BlockExchange
    memories: Memories | None


def _wire(plan: WorkerPlan, model: Model, channel: Channel, clock: Callable[[], float]) -> _Wiring:
    """Make the codecs, one for each vector of variables, and the exchange over them; settings are installed for all."""
    options, op_type = plan.options, plan.options.op_type
    names = tuple(variable.name for variable in model.store.variables)
    kinds = choose_codecs(plan.codec, plan.default_codec, len(names))
    values, joined = [variable.value for variable in model.store.variables], list[range]()
    whole = is_whole(kinds)
    if op_type.by_shard:
        from . import sharded_exchange  # noqa: PLC0415 - other workers do without it

        kinds, names = sharded_exchange.shard_codecs(plan.assignment)
    else:
        has_server = plan.default_codec.traits.needs_server
        joined = join(kinds, [value.nbytes for value in values], op_type, options.sync_type, has_server)
        # joined variables have equal codecs: that of the first stands for all
        kinds = [kinds[variables.start] for variables in joined]
    vectors = [Joined(variables, tuple(values[each].size for each in variables)) for variables in joined]
    shapes = [value.shape for value in values]
    if whole:
        # to its codec the model is one variable
        values = [model.store.values]
    if model.store.buffers:
        # behind all variables, so that their numbers are the same with and without buffers
        kinds.append(buffers_codec(kinds, plan.default_codec, options.sync_type))
        names += (BUFFERS,)
    memories = None
    if options.clients is not None:
        from ..federated.remembering import hosting  # noqa: PLC0415 - for a job with clients

        # behind all else: what clients remember is exchanged as one more variable
        memories = hosting(plan, kinds)
        names += (kinds[-1].__name__,) * (memories is not None)
    settings = plan.settings(values)
    bank = CodecBank(kinds, settings, channel, plan.attempt, joined=vectors)
    # a packet of another worker may come before the first own block
    bank.expect(sharded_exchange.shard_likes(settings) if op_type.by_shard else likes_of(model.store, joined, whole))
    spoken = [" to ".join(dict.fromkeys((names[each[0]], names[each[-1]]))) for each in joined]
    sync = options.sync_type(bank, plan.timeout, clock, (*spoken, *names[sum(map(len, joined)) :]))
    replaced = None
    shown = zip(kinds, values, strict=False)  # there are fewer kinds under a sharded rule, and one more for buffers
    doubtful = [variable for variable, (kind, _) in enumerate(shown) if is_doubtful(op_type, kind)]
    if doubtful and channel.node_id == plan.assignment.nodes[0]:  # one worker tells it
        replaced = ReplacementCheck(doubtful, values, [kind.__name__ for kind in kinds], op_type.__name__)
    if whole and (len(shapes) == 1 or not _joins(op_type)):
        from .whole_exchange import WholeExchange  # noqa: PLC0415 - for a codec of all variables, where the optimizer puts each

        return _Wiring(bank, sync, WholeExchange(bank, sync, replaced, names, shapes), memories)
    return _Wiring(bank, sync, BlockExchange(bank, sync, replaced, names, joined), memories)


def _checkpoints(
    plan: WorkerPlan,
    batches: Batches,
    channel: Channel,
    clock: Callable[[], float],
    checkpointing: Checkpointing,
    accounts: Accounts,
    capture: Callable[[], tuple[State, bool]],
    parts: Sequence[Part],
) -> WorkerKeeper | None:
    keeper, options = checkpointing.keeper, plan.options
    if keeper is None or options.checkpoint_every is None:
        return None
    keeper.describe(batches, parts)
    schedule = Schedule(options.checkpoint_every, options.epoch, batches.count, clock, keeps(options.keep_every))
    # the server's codecs remember, too: it takes its checkpoint when marks tell that the workers have taken theirs
    mark = partial(_mark, channel, plan.attempt, accounts) if checkpointing.server_keeps else None
    return WorkerKeeper(keeper, schedule, capture, mark, Commits(options.commit_every))


def _restore(optimizer: IOptimizer, wiring: _Wiring, resumption: Resumption) -> None:
    if not restore_optimizer(optimizer, resumption.snapshot, resumption.whole):
        _log.warning(
            "The checkpoint has the rule's slots of one shard only, so %s begins afresh.", type(optimizer.rule).__name__
        )
    if resumption.whole:
        restore_codecs(wiring.bank, resumption.snapshot)
    remembered = resumption.snapshot.part(CLIENT)
    if wiring.memories is not None:
        wiring.memories.load_state_dict(remembered)
    elif remembered:
        raise CheckpointError("The checkpoint has a memory of clients, which this job has no use for: take its codec again")


def _capture(
    model: Model, optimizer: IOptimizer, wiring: _Wiring, callbacks: JobCallbacks | None, models: Mapping[str, Array]
) -> tuple[State, bool]:
    told = {} if callbacks is None else callbacks.state
    remembered = {} if wiring.memories is None else wiring.memories.state_dict()
    state = worker_state(model, optimizer, wiring.bank, told, remembered, models)
    return state, is_personal(state, optimizer, wiring.bank, wiring.sync)


def _mark(channel: Channel, attempt: int, accounts: Accounts, position: Position, loss: float | None) -> None:
    """Tell the server that everything before this position has been sent to it."""
    # a link keeps the order of packets, so the mark arrives behind all that it covers
    size = channel.post(Parameter_Server, (attempt, *position, MARK), loss)
    if size is not None:
        accounts.sent(MARK, Parameter_Server, size)
    # at once: corked until the next batch, it would delay the checkpoint of the server, or get lost with this worker
    channel.flush()


def join(
    kinds: Sequence[type[Codec]],
    sizes: Sequence[int],
    op_type: type[IOptimizer],
    sync_type: SyncChoice,
    has_server: bool = False,
) -> list[range]:
    """Return the variables of each vector, in their order, each alone where none are joined; all in one where their codec has
    the scope "model".

    Neighbours of one codec are joined as long as a vector holds fewer than `JOINED_BYTES`, from the last variable on, as
    backward computes them. Codec and optimizer must both say, each for itself, that they can do with vectors (`joins`). `sizes`
    are those of the variables in bytes. A parameter server counts variables, so with one none are joined. It is the same on all
    workers.
    """
    if is_whole(kinds):
        return [range(len(kinds))]
    # other sync types, a user's own too, may count on single variables
    joins = _joins(op_type) and sync_type is SynchronizedSGD and not has_server
    found: list[range] = []
    held = 0
    for variable in reversed(range(len(kinds))):
        kind = kinds[variable]
        if joins and found and held < JOINED_BYTES and kind is kinds[variable + 1] and _says_so(kind):
            found[-1] = range(variable, found[-1].stop)
        else:
            found.append(range(variable, variable + 1))
            held = 0
        held += sizes[variable]
    return found[::-1]


def _joins(op_type: type[IOptimizer]) -> bool:
    # `vars`, since a subclass says so for itself (ADR 36)
    return "joins" in vars(op_type) and op_type.joins()


def _says_so(kind: type[Codec]) -> bool:
    # in the class itself, not inherited: a subclass may look at shapes, norms or places
    return "traits" in vars(kind) and kind.traits.elementwise
