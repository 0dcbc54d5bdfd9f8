"""Settings that every codec of a job may look up: the block assignment and the job's extra parameters."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol

from nn.gradient_descent.interface import IGradientDescent
from parallel_sgd.engine.block_tree import Span, supplied
from parallel_sgd.engine.channel import Parameter_Server
from parallel_sgd.engine.unusable import Unusable
from parallel_sgd.profiles.blockassignment.abstract import ISetting

if TYPE_CHECKING:
    from .interfaces import Array, Codec


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()
"""`GlobalSettings.get_params(key, REQUIRED)` raises when the job does not give `key`."""


class MissingParameter(LookupError):
    """Error of a codec that needs a parameter which the job did not give.

    Args:
        key: the name of the parameter.
        codec: the name of the codec's class, or empty.
    """

    def __init__(self, key: Hashable, codec: str) -> None:
        who = codec or "A codec"
        super().__init__(f"{who} needs the parameter {key!r}: pass codec_extra_parameters={{{key!r}: ...}}.")
        self.key = key
        self.codec = codec


class Parameters(Mapping[Any, Any]):
    """Extra parameters of the job.

    `asked` are the keys that were looked up on this node, `unread` the places, from 0, of parameters whose key was not.
    """

    def __init__(self, given: Mapping[Any, Any]) -> None:
        # a copy: parameters are the same for the whole job, whatever becomes of the dictionary
        self._given = dict(given)
        self.asked: set[Hashable] = set()

    def __getitem__(self, key: Hashable) -> Any:
        # every reading counts, of `get` too, which comes here
        self.asked.add(key)
        return self._given[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    @property
    def unread(self) -> list[int]:
        """Places in the order in which the job gives them, which is the same on all nodes."""
        # places, not keys: these need not be of a type that travels
        return [place for place, key in enumerate(self._given) if key not in self.asked]


class Contributors(Protocol):
    """Contributors of a job in which a block is that of another one in each batch: the clients of federated learning."""

    count: int
    """Number of all contributors, also of those that have no block in a batch."""

    def of(self, step: tuple[int, int]) -> Sequence[int | None]:
        """Return the contributor of each block of the (epoch, batch), None for a block without one."""

    def weights(self, step: tuple[int, int]) -> Sequence[float]:
        """Return the weight of each block of the (epoch, batch), whose mean over all blocks is 1; 0 for one without a
        contributor."""


class JobSettings:
    """Settings of one job as one node sees them.

    `codec` names the class of the running codec, for messages; `variable` is the id of its variable. `step` is the (epoch,
    batch), counted from 0, of the block that the codec is given; of the packet, where it receives one, and `sender` then is the
    node that sent it.

    Args:
        assignment: the block assignment of the job.
        parameters: its `codec_extra_parameters`.
        values: the live values of the worker's variables; none on a parameter server.
        rule: makes a gradient-descent rule as the job wants it.
        seed: keys all random draws of the job.
        contributors: the clients of each batch in federated learning; None where a block belongs to workers.
    """

    def __init__(
        self,
        assignment: ISetting,
        parameters: Mapping[Any, Any] | None = None,
        *,
        values: Sequence[Array] = (),
        rule: Callable[[], IGradientDescent] | None = None,
        seed: int = 0,
        contributors: Contributors | None = None,
    ) -> None:
        self.assignment = assignment
        self.parameters = Parameters(parameters or {})
        self.values = values
        self.rule = rule
        self.seed = seed
        self.contributors = contributors
        self.codec = ""
        self.variable = 0
        self.step = (-1, -1)
        self.sender: int | None = None
        # filled on demand: with 10,000 workers the spans of all would cost more than those that are met (SIM-20)
        self.spans: dict[int, frozenset[Span]] = {}  # that a node supplies, of those that `check_span` was asked for

    def check_node(self, codec: Codec) -> None:
        """See that a codec runs on a worker or, where it `serves`, on the parameter server.

        Raises: ValueError naming its class and the node.
        """
        node = codec.node_id
        if node not in self.assignment.nodes and not (codec.traits.serves and node == Parameter_Server):
            server = f" and the parameter server {Parameter_Server}" if codec.traits.serves else ""
            workers = list(self.assignment.nodes)
            raise ValueError(f"{type(codec).__name__} runs on the workers {workers}{server}, got node {node}")

    def check_sender(self, node: int) -> None:
        """See that the packet being received comes from `node`; where no sender is known, as without a bank, see to nothing.

        Raises: Unusable where another node has sent it.
        """
        # tests and simulations call codecs without a bank, and then without a sender
        if self.sender is not None and node != self.sender:
            raise Unusable(f"it speaks for node({node})")

    def check_span(self, span: Span, node: int) -> None:
        """See that `node` supplies the sum over the blocks of a span: one of the fewest subtrees that hold just its blocks.

        Raises: Unusable where it does not.
        """
        spans = self.spans.get(node)
        if spans is None and node in self.assignment.nodes:
            blocks = tuple(self.assignment.node_2_block[node])
            # one object for all codecs of a process, by the cache of `supplied`
            spans = self.spans[node] = supplied(self.assignment.block_count, blocks)
        if spans is None or span not in spans:
            raise Unusable(f"it holds a sum over the blocks [{span[0]}, {span[1]}), which node({node}) does not supply")


# a context variable, not a global: workers in one process have settings of their own, also in threads
_CURRENT: ContextVar[JobSettings] = ContextVar("parallel_sgd_job_settings")


class GlobalSettings:
    """Read access for codecs to the settings of their job. Valid in `__init__` or later, not in a class body, which runs before
    there is a job.

    Every worker runs in its own `contextvars` context, so several may share one process.
    """

    @staticmethod
    def get_default() -> ISetting:
        """Return the job's block assignment: `node_count`, `nodes`, `block_count`, `node_2_block`, `get_adversary(block)`...

        Raises: LookupError outside a job.
        """
        return GlobalSettings.current().assignment

    @staticmethod
    def get_params(key: Hashable, default: Any = 0) -> Any:
        """Return a value of the job's `codec_extra_parameters`.

        Args:
            key: the name of the parameter.
            default: the value where the job does not give it; REQUIRED raises instead.

        Raises: MissingParameter when `default` is REQUIRED and the job does not give `key`; LookupError outside a job.
        """
        settings = GlobalSettings.current()
        value = settings.parameters.get(key, default)
        if value is REQUIRED:
            # `in` would not do: a parameter may be given as None
            raise MissingParameter(key, settings.codec)
        return value

    @staticmethod
    def get_value() -> Array:
        """Return the present value of the codec's variable on this worker, read-only and live.

        Raises: LookupError outside a job, and on a parameter server, which has no model.
        """
        settings = GlobalSettings.current()
        if settings.variable >= len(settings.values):
            who = settings.codec or "A codec"
            raise LookupError(f"{who} asks for the value of variable {settings.variable}, which this node does not have")
        view = settings.values[settings.variable].view()
        # live but closed: a codec may look at the parameters and not change them
        view.flags.writeable = False
        return view

    @staticmethod
    def get_rule() -> IGradientDescent:
        """Return a new gradient-descent rule of the job's `gd_type` and `gd_params`.

        Raises: LookupError outside a job, or where the settings have none.
        """
        settings = GlobalSettings.current()
        if settings.rule is None:
            raise LookupError(f"{settings.codec or 'A codec'} asks for the job's gradient-descent rule, which was not given")
        return settings.rule()

    @staticmethod
    def current() -> JobSettings:
        """Return all settings of the running context; `variable` and `step` follow the job. A codec keeps them at its birth.

        Raises: LookupError outside a job.
        """
        try:
            return _CURRENT.get()
        # outside a job LookupError of a context variable says nothing to an author
        except LookupError:
            raise LookupError(
                "GlobalSettings is empty outside a job (a class body runs before it, and the job makes its codecs itself, of "
                "the class that it is given): read it in a codec's __init__ or later, or open "
                "`with GlobalSettings.use(assignment):` in a test."
            ) from None

    @staticmethod
    def install(settings: JobSettings) -> None:
        """Make `settings` those of the running context; a worker calls it once, before its codecs are made."""
        _CURRENT.set(settings)

    @staticmethod
    @contextmanager
    def use(
        assignment: ISetting,
        parameters: Mapping[Any, Any] | None = None,
        *,
        values: Sequence[Array] = (),
        rule: Callable[[], IGradientDescent] | None = None,
    ) -> Iterator[JobSettings]:
        """Install settings for a `with` block, which it gives, for tests of a codec. Their codecs are those of variable 0.

        Args:
            assignment: the block assignment.
            parameters: the parameters that `get_params` reads.
            values: the values of the worker's variables, that of variable 0 first, for `get_value`.
            rule: makes the gradient-descent rule that `get_rule` returns.
        """
        settings = JobSettings(assignment, parameters, values=values, rule=rule)
        token = _CURRENT.set(settings)
        try:
            yield settings
        finally:
            _CURRENT.reset(token)
