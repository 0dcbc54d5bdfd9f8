"""Plan of the workers of a job, on which all its nodes agree, and the codecs of the parameter server."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

from numpy.typing import NDArray

from nn.optimizer import OpContainer
from nn.value.store import VariableStore

from .. import codec as codecs  # it loads compositions when they are asked for: a worker of a plain codec needs none
from ..batch_sync.sync.interface import SyncChoice
from ..checkpoint.snapshot import Header
from ..codec.choice import CodecChoice, choose_codecs, choose_server_codecs, is_whole
from ..codec.interfaces import Codec
from ..codec.plain import DummyCodec, Plain
from ..codec.settings import JobSettings
from ..profiles.blockassignment.abstract import ISetting
from ..profiles.blockassignment.assignments import FixedBlockAssignment
from .batches import ORDERS, SHUFFLED, Batches, Rounds
from .progress import Progress
from .unusable import Like

if TYPE_CHECKING:
    from ..options.job_options import PlainOptions


@dataclass(frozen=True)
class WorkerPlan:
    """Settings on which all nodes of a job agree, and the values that follow from them.

    Args:
        assignment: the nodes that compute each block.
        options: the options, in which nothing is left open.
        default_codec: codec of the variables for which the options name none.
        order: one of `batches.ORDERS`.
        attempt: number of the attempt, from 0.
        limits: lengths to which blocks of sequences are cut, see `nn.dataset.transforms.Buckets`; () for none.

    Raises: ValueError for another order.
    """

    assignment: ISetting
    options: PlainOptions
    default_codec: type[Codec] = Plain
    order: str = SHUFFLED
    attempt: int = 0
    limits: tuple[int, ...] = ()

    @property
    def dealt(self) -> str:
        """Words for the order, with all on which it depends besides seed and epoch."""
        return f"{self.order}, cut to {', '.join(map(str, self.limits))} steps" if self.limits else self.order

    @cached_property
    def optimizer(self) -> OpContainer:
        # built on first use, and once: workers inside one process share the plan
        options = self.options
        if options.clients is not None:
            return options.clients.container(options.op_type)
        return OpContainer(options.op_type, options.gd_type, options.gd_params)

    @property
    def population(self) -> str:
        """Identity of the population of clients; "" for a job without clients."""
        options = self.options
        return "" if options.clients is None else options.clients.identity(options.seed)

    def batches(self, samples: int) -> Batches:
        """Return the batches of an epoch.

        Args:
            samples: number of samples of the training set.

        Raises: ValueError when there is not a single full batch.
        """
        clients, size, blocks = self.options.clients, self.options.block_size, self.assignment.block_count
        return Batches(samples, size, blocks) if clients is None else Rounds(samples, size, blocks, clients.rounds)

    @property
    def codec(self) -> CodecChoice:
        return cast("CodecChoice", self.options.codec)

    @property
    def server_codec(self) -> CodecChoice:
        return cast("CodecChoice", self.options.ps_codec)

    @property
    def codec_parameters(self) -> Mapping[Hashable, Any]:
        return self.options.codec_extra_parameters or {}

    def settings(self, values: Sequence[NDArray[Any]] = ()) -> JobSettings:
        """Return the settings of the job that codecs may know, on a worker with the `values` of its variables."""
        contributors, options = None, self.options
        if options.clients is not None:
            from ..federated.contributors import ClientContributors  # noqa: PLC0415 - for a job with clients

            contributors = ClientContributors(options.clients, options.seed, options.block_size)
        return JobSettings(
            self.assignment,
            self.codec_parameters,
            values=values,
            rule=self.optimizer.rule,
            seed=options.seed,
            contributors=contributors,
        )

    @property
    def timeout(self) -> float:
        """Seconds after which a result is overdue."""
        # the option is in milliseconds, as in version 0.9; the rest of the code counts seconds
        return self.options.ssgd_timeout_limit / 1000

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise ValueError(f"'order' must be one of {', '.join(ORDERS)}, got {self.order!r}")

    def header(self, job: str, node: int) -> Header:
        """Return the header that all checkpoints of a node of the job have in common."""
        assignment = self.assignment
        return Header(
            job=job,
            attempt=self.attempt,
            node=node,
            title=self.options.mission_title,
            seed=self.options.seed,
            order=self.dealt,
            # filled in by the keeper for each checkpoint
            progress=Progress(),
            personal=True,
            # plain integers: they go into JSON
            blocks=[[int(block) for block in blocks] for blocks in assignment.node_2_block],
            optimizer=self.options.op_type.__name__,
            rule=self.optimizer.gd_type.__name__,
            clients=self.population,
        )


def server_codecs(plan: WorkerPlan, variables: int, has_buffers: bool) -> list[type[Codec]]:
    """Return the codec of each variable on the server, one where the workers' has the scope "model", and of the buffers where
    they go there.
    """
    # the server derives codecs as the workers do: what travels under a variable must be understood at both ends
    kinds = choose_server_codecs(plan.server_codec, plan.codec, plan.default_codec, variables)
    workers = choose_codecs(plan.codec, plan.default_codec, variables)
    if is_whole(workers):
        kinds = kinds[:1]
    buffers = buffers_codec(workers, plan.default_codec, plan.options.sync_type)
    # of a codec that does not serve, the server gets no packets
    if has_buffers and buffers.traits.serves:
        kinds.append(buffers)
    return kinds


def reassigned(assignment: ISetting, workers: int) -> ISetting:
    """Deal the blocks of `assignment` to another number of workers, contiguous, with as much of its redundancy as fits.

    The number of blocks stays, so a batch holds the same samples and its result has the same bits.

    Raises: ValueError when there are more workers than blocks.
    """
    if workers == assignment.node_count:
        return assignment
    blocks = assignment.block_count
    if workers > blocks:
        raise ValueError(f"A batch of {blocks} blocks cannot be dealt to {workers} workers; each needs a block")
    # groups of equal size: each block has the same number of holders
    # 1 divides any number of workers, so there always is one
    fitting: Collection[int] = [r for r in range(1, assignment.redundancy + 1) if workers % r == 0]
    return FixedBlockAssignment(workers, max(fitting), blocks)


def likes_of(store: VariableStore, joined: Sequence[range] = (), whole: bool = False) -> list[Like]:
    """Return shape and type of the values put for each variable of a model, or for those that are joined, or for the `whole` of
    it, and for its buffers, if it has any, last.
    """
    # by these the bank refuses a foreign array before the first own one is put (SEC-24)
    likes = [Like.of(variable.value) for variable in store.variables]
    if whole:
        likes = [whole_like(likes)]
    elif joined:
        vectors = [likes[each.start : each.stop] for each in joined]
        # a vector lies in the model's flat memory, so it has one dimension; a variable alone keeps its shape
        likes = [each[0] if len(each) == 1 else Like((sum(like.size for like in each),), each[0].dtype) for each in vectors]
    return [*likes, Like.of(store.buffer_values)] if store.buffers else likes


def whole_like(likes: Sequence[Like]) -> Like:
    """Return shape and type of the flat vector of all variables, which are like `likes`."""
    return Like((sum(like.size for like in likes),), likes[0].dtype)


#: Stands for a variable's name in accounts and messages.
BUFFERS: Final = "buffers"


class OwnBuffers(DummyCodec):
    """Mean over the worker's own blocks: for workers that train models of their own, or wait for no other.

    It is done when the worker has put its last block, so it needs neither peers nor a barrier under any sync type.
    """

    traits = replace(DummyCodec.traits, takes_first_copy=True, awaits_answer=True)


def buffers_codec(kinds: Sequence[type[Codec]], lossless: type[Codec], sync_type: SyncChoice) -> type[Codec]:
    """Return the codec of the buffers beside the codecs of the variables, `kinds`, on a worker and on the server.

    It is `lossless`, the job's default codec, as long as all workers have equal parameters in every batch. Where they meet only
    now and then, because a composed codec has a trigger, the buffers meet in the same batches. Else they are OwnBuffers.
    """
    # `staleness` 0 promises that each result holds every block (`ISyncType`), and `agrees` that all nodes get its bits
    if sync_type.staleness == 0 and all(kind.traits.agrees for kind in kinds):
        return lossless
    if sync_type.staleness == 0 and len(set(kinds)) == 1 and issubclass(kinds[0], codecs.compose.Composed):
        composition = kinds[0].composition
        if composition.exchange.agrees and composition.send != "gradient":  # type: ignore[attr-defined]
            exchange = codecs.compose.PS() if lossless.traits.needs_server else codecs.compose.AllToAll()
            return Codec.of(exchange, send="weights", trigger=composition.trigger, name="Buffers")  # type: ignore[attr-defined]
    return OwnBuffers
