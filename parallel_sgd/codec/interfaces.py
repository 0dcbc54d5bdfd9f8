"""The interface of all codecs: passive objects that return packets and never block, sleep or touch a socket."""

from __future__ import annotations

import inspect
import sys
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import FrameType, GenericAlias, MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np

from network.names import did_you_mean
from nn.arrays import Array as Array
from nn.arrays import MaybeNone
from nn.extension import Extension, OverrideWarning, checked_call, conflict, is_ours, listed, mistakable, slips
from parallel_sgd.engine.block_tree import Copy, Span
from parallel_sgd.engine.unusable import Like, Unusable, check_arrays, check_form
from rpc.support.logs import get_logger

from .traits import FORMER_FLAGS, SCOPES, Meaning, Traits, former, told, with_former

Operation = Callable[[Array | None, Array], Array]


class BlockWeight(NamedTuple):
    """Contribution of one block to one variable.

    Args:
        content: the gradient (or update, or weights, by `op_type`) averaged over the block's samples, read-only; an array of
            the variable's shape.
        block_id: the block, counted from 0.
    """

    content: Array
    block_id: int

    @property
    def span(self) -> Span:
        """The blocks in the sum: [low, high)."""
        return self.block_id, self.block_id + 1


class BlockSum(BlockWeight):
    """Sum over two blocks that the tree of merging adds up first, for codecs that say `takes_sums`; the second one is
    `block_id`."""

    @property
    def span(self) -> Span:
        return self.block_id - 1, self.block_id + 1


class Misused(TypeError):
    """Error of a codec that calls a method of its base class with arguments of a wrong kind."""


def _where(frame: FrameType) -> str:
    """Return the place of a call, in words that follow those of an error."""
    return f", in {frame.f_code.co_name} ({frame.f_code.co_filename}:{frame.f_lineno})"


INTEGERS: Final = frozenset({int})
"""Types of the ids and integers of nearly all packets; NumPy's take a longer look."""


class netEncapsulation:
    """Packet with a content for one node or several. The guide lists the types that may travel.

    `netEncapsulation[tuple[int, ndarray]]` is allowed in annotations.

    Args:
        targets: the node that gets the packet, or several; a worker's id, or `Parameter_Server`.
        content: the object to send, often a tuple of integers and one array.
    """

    __slots__ = ("content", "targets")
    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

    def __init__(self, targets: int | Iterable[int], content: object) -> None:
        # nearly always: each packet of a step comes by here
        if type(targets) is tuple and INTEGERS.issuperset(map(type, targets)):
            self.targets: tuple[int, ...] = targets
        # NumPy's integers are ids, too: assignments may hold them
        elif isinstance(targets, (int, np.integer)):
            self.targets = (targets,)
        else:
            try:
                each = iter(targets)
            except TypeError:
                each = iter((targets,))  # type: ignore[arg-type] # refused below
            # an error of a generator is its own
            self.targets = tuple(each)
            if isinstance(targets, (str, bytes, bytearray)) or not all(
                isinstance(target, (int, np.integer)) for target in self.targets
            ):
                raise TypeError(f"netEncapsulation 'targets' must be a node id or several, got {targets!r}")
        self.content = content

    def target(self) -> list[int]:
        """Return the nodes that the packet goes to."""
        return list(self.targets)

    def __repr__(self) -> str:
        return f"netEncapsulation(targets={self.targets}, content={type(self.content).__name__})"


#: What a codec may return: nothing, one packet, or any iterable of packets (a generator too).
Packets = netEncapsulation | Iterable[netEncapsulation] | None


class Exchange(Protocol):
    """Exchange pattern: the nodes that talk to each other, the first argument of `Codec.of`. `parallel_sgd.codec.compose` has
    the patterns that ship."""

    def compose(self, **parts: Any) -> type[Codec]:
        """Return a codec class that exchanges in this way."""


class CodecKind(Extension):
    """Metaclass of codecs: reads those that were written before `Traits` and the capabilities, with one warning for each class.

    A class attribute of a former name becomes a field of `traits`, a method of a former name has the class derive from the
    capability that offers it. An attribute of another type or signature is left to `Extension`, which refuses it.
    """

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **keywords: Any) -> CodecKind:
        # these have no former names: they define the present ones
        if namespace.get("__module__") == __name__:  # `Codec` and the capabilities
            return super().__new__(cls, name, bases, namespace, **keywords)  # type: ignore[return-value]
        said = _before_codecs(bases) | namespace
        # a class of before has the method but not the base: it is given the base, so that `isinstance` tells the engine
        missed = [
            capability
            for capability in _CAPABILITIES
            if not any(issubclass(base, capability) for base in bases)
            and any(_stands(each, said[each]) for each in _offers(capability) & said.keys())
        ]
        # in the place of `Codec`, so that methods of the author's own bases still come first
        first = next((place for place, base in enumerate(bases) if base is Codec), len(bases))
        bases = (*bases[:first], *missed, *(base for base in bases[first:] if base is not Codec or not missed))
        kind: Any = super().__new__(cls, name, bases, namespace, **keywords)
        if isinstance(namespace.get("traits"), Traits):
            # a class that travels loses an attribute that is the same object in its base
            kind.traits = replace(kind.traits)
        flags = {each: said[each] for each in FORMER_FLAGS if each in said and _stands(each, said[each])}
        # a property has no value before there is an object: `__call__` reads it
        flags = {each: value for each, value in flags.items() if not hasattr(value, "__get__")}
        joins = "joins" in said and _stands("joins", said["joins"])
        # with `traits` of its own a class speaks for itself, and former names in it are none
        if (flags or joins) and "traits" not in namespace:
            inherited: Traits = kind.traits
            kind.traits = with_former(inherited.of_subclass(), flags)
            if joins:
                kind.traits = replace(kind.traits, elementwise=bool(kind.joins()))
        # only a text can be meant: a method or a number of this name is the author's own
        scope = next((vars(base)["scope"] for base in kind.__mro__ if "scope" in vars(base)), None)
        if isinstance(scope, str) and scope != kind.traits.scope:
            if scope not in SCOPES:
                raise ValueError(f"{name}.scope must be 'variable' or 'model', got {scope!r}{did_you_mean(scope, SCOPES)}")
            own: Traits = kind.traits
            kind.traits = replace(own if "traits" in vars(kind) else own.of_subclass(), scope=scope)
        if not is_ours(kind) and not inspect.isabstract(kind):
            _tell(kind, flags, missed, said, joins)
            _tell_of_near(kind, namespace)
        return kind  # type: ignore[no-any-return]

    def __call__(cls, *args: Any, **keywords: Any) -> Any:
        # the first moment at which attributes are there that a constructor sets
        made: Any = super().__call__(*args, **keywords)
        if not is_ours(cls):  # a property, or an attribute that the constructor sets, under a former name
            # not by `getattr_static`, which takes as long as the rest of a codec that is made: there is one for each variable
            found = {name: vars(base)[name] for base in reversed(cls.__mro__) for name in FORMER_FLAGS if name in vars(base)}
            read = {name for name, each in found.items() if hasattr(each, "__get__")}
            flags = {name: getattr(made, name) for name in FORMER_FLAGS if name in read or name in vars(made)}
            if flags:
                made.traits = with_former(made.traits, flags)
        return made

    def __dir__(cls) -> list[str]:
        """List the names for authors and those of a user's class, for completion; ours have many more for the engine."""
        bases = (base for base in cls.__mro__ if base.__module__ == __name__ or not is_ours(base))
        return listed(cls, {name for base in bases for name in vars(base)})

    # editors and type checkers would take any name for one of these
    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            """Return the value that a former class attribute or method had."""
            if name in FORMER_FLAGS:
                return former(cls.traits, name)
            if name in _FORMER_METHODS:
                return getattr(_FORMER_METHODS[name], name)
            if name == "joins":
                return lambda: cls.traits.elementwise and "traits" in vars(cls)
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")


def _before_codecs(bases: tuple[type, ...]) -> dict[str, Any]:
    """Return the attributes of classes that are no codecs, where these stand before the first codec."""
    # mixins before the first codec hide its names, as in the order of Python's lookup
    found: dict[str, Any] = {}
    for base in bases:
        if isinstance(base, CodecKind):
            break
        for each in base.__mro__[:-1]:
            found = {**vars(each), **found}
    return found


def _stands(name: str, value: object) -> bool:
    """Tell whether a value can stand under a former name, so that it has the meaning of before."""
    return not conflict(Codec, name, value)


def _offers(capability: type) -> frozenset[str]:
    return frozenset(name for name in vars(capability) if not name.startswith("_"))


def _tell(kind: Any, flags: Mapping[str, Any], missed: Sequence[type], said: Mapping[str, Any], joins: bool) -> None:
    """Warn of a class in the former style, naming the present form."""
    mistaken = [
        text for name in ("check", "answer", "receive_late") if _FORMER_METHODS[name] in missed and name in said
        for text in [mistakable(kind, Codec, name, said[name])] if text
    ]  # fmt: skip
    # as code that can be copied: the remedy in the sentence
    advice = [f"write {told({**flags, 'elementwise': True} if joins else flags)}"] if flags or joins else []
    advice += [f"derive from {', '.join(each.__name__ for each in missed)}"] if missed else []
    if advice:
        begins = f"{'; '.join(mistaken)}; else" if mistaken else f"{kind.__name__} goes by names that Codec had before Traits:"
        warnings.warn(f"{begins} {', and '.join(advice)}", OverrideWarning, stacklevel=3)


def _tell_of_near(kind: type, namespace: Mapping[str, Any]) -> None:
    """Warn of methods in the body of a user's class with nearly the names of hooks of capabilities that it does not have."""
    hooks = {name: base for base in _CAPABILITIES if not issubclass(kind, base) for name in _offers(base)}
    for name, near in slips(kind, namespace, hooks).items():
        told = f"{kind.__name__}.{name}() is called by nothing here; did you mean {near}() of {hooks[near].__name__}?"
        warnings.warn(told, OverrideWarning, stacklevel=3)


class _Former(Protocol):
    """Names of `Codec` before `Traits` and the capabilities: refused as ever where they are used for anything else."""

    keeps_content: ClassVar[bool]
    takes_sums: ClassVar[bool]
    reads_in_place: ClassVar[bool]
    takes_first_copy: ClassVar[bool]
    needs_server: ClassVar[bool]
    serves: ClassVar[bool]
    takes: ClassVar[Meaning | None]
    gives: ClassVar[Meaning | None]
    agrees: ClassVar[bool]
    synchronous: ClassVar[bool]
    asynchronous: ClassVar[bool]
    by_arrival: ClassVar[bool]
    awaits_answer: ClassVar[bool]
    sends_finite: ClassVar[bool]
    keeps_type: ClassVar[bool]
    forms: tuple[Any, ...]
    takes_alike: ClassVar[bool]
    passes_on: ClassVar[bool]
    staleness: Mapping[int, int]
    copies: tuple[Copy, ...] | None

    @classmethod
    def joins(cls) -> bool: ...
    def check(self, content: Any, like: Like | None) -> None: ...
    def answer(self, node: int) -> Packets: ...
    def receive_late(self, content: Any) -> Packets: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...
    def missing_blocks(self) -> Iterable[int]: ...
    def missing_nodes(self) -> Iterable[int]: ...


class Codec(metaclass=CodecKind, free=("record", "of"), fixed=("node_id", "_node_id", "_result"), former=(_Former,)):
    """Base of codecs: one object per worker and variable, for the whole job. Its methods are never called concurrently.

    A codec is done when it has a result, unless `is_done` is overridden; the result is the mean over blocks unless the
    codec says otherwise. `traits` holds all that the engine must know of a class; a codec takes on any other ability by a
    base: `Answering`, `TakingLate`, `Remembering`, `CheckingPackets`, `Tracking`, `Partial`.

    Args:
        node_id: the node that the codec runs on: a worker, counted from 0, or `Parameter_Server`.
    """

    traits: Traits = Traits()
    """Traits of the class; an object may have others."""

    _node_id: int
    _result: Array | None

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._result = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return the value that an attribute or method of a former name had, for a codec without it."""
            # looked up only where ordinary lookup has failed, so it costs nothing for codecs of the present form
            if name in FORMER_FLAGS:
                return former(self.traits, name)
            if name in _FORMER_METHODS:
                # bound to this object, as a method of the class would be
                found = vars(_FORMER_METHODS[name])[name]
                return found.__get__(self) if callable(found) else found
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        """List the names of the class and, on an object of a user's class, its attributes, for completion."""
        return listed(type(self), {*dir(type(self)), *(() if is_ours(type(self)) else vars(self))})

    @property
    def node_id(self) -> int:
        """The node that this codec runs on."""
        return self._node_id

    @abstractmethod
    def update_blocks(self, block_weight: BlockWeight) -> Packets:
        """Take the contribution of one of this worker's blocks; called in the order of `node_2_block`.

        Args:
            block_weight: the block's content, read-only, with the block's id; a `BlockSum` only where `traits.takes_sums`.

        Returns: packets to send in the present batch, or None.
        """

    @abstractmethod
    def receive_blocks(self, content: Any) -> Packets:
        """Take the content of a packet that another node's codec of the same variable sent in the same batch.

        Returns: packets to send in that batch, or None.
        """

    def do_something_to_save_yourself(self) -> Packets:
        """Try to save a result that is overdue; called once for it.

        Returns: packets, which are sent before the worker waits once more; or None, and the worker fails.
        """
        return None

    def dispose(self) -> None:
        """Let go of memory, at the end of the job."""
        self._result = None

    def set_result(self, content: Array | float, operation: Operation | None = None) -> None:
        """Merge an array into the result.

        Args:
            content: the array, added to the result that is there, if any; a number is added to each element.
            operation: None adds; otherwise `operation(old or None, content)` replaces the result.

        Raises: TypeError where `content`, or the result of `operation`, is None, or where an array has another shape than the
            result so far; names the method and the line that called it.
        """
        given: Any = content  # numbers are arrays without axes
        old = self._result
        result = given if operation is None or given is None else operation(old, given)
        if result is None:
            by = "" if content is None else " from 'operation'"
            raise Misused(f"{type(self).__name__}.set_result() takes an array, got None{by}{_where(sys._getframe(1))}")
        if operation is None and old is not None:
            # NumPy would repeat the smaller array; a number, which has no axes, is meant for all elements. `np.shape`, as of
            # lists the engine tells later
            if () not in (np.shape(old), np.shape(result)) and np.shape(old) != np.shape(result):
                shapes = f"{np.shape(result)} for a result of shape {np.shape(old)}"
                raise Misused(
                    f"{type(self).__name__}.set_result() adds arrays of one shape, got {shapes}{_where(sys._getframe(1))}"
                )
            result = old + result
        self._result = result

    def get_result(self) -> Array | MaybeNone:
        """Return the result, or None when there is none; the codec has none from then on."""
        result, self._result = self._result, None
        return result

    def is_done(self) -> bool:
        """Return True when the result is complete."""
        return self._result is not None

    @staticmethod
    @checked_call
    def of(exchange: Exchange, **parts: Any) -> type[Codec]:
        """Compose a codec class: `Codec.of(ShardedPS(), up=ErrorFeedback(TopK(0.01) | Int8()), name="TopKInt8")`.

        A part is an object, which every codec object copies, or a function that makes one, called in the codec's constructor,
        where `GlobalSettings` can be read.

        Args:
            exchange: the exchange pattern, which says the nodes that talk to each other.
            parts: all optional. `up` and `down` are stages of `parallel_sgd.codec.pipeline`, which an array passes on its way
                to the node that merges it, and back; None sends it as it is. `send` is "gradient" (any array that the
                optimizer puts), "weights" or "delta" (parameters, sent as their change since the last exchange). `merge` is a
                merge rule; `trigger` says in which batches there is an exchange; `local` is a rule for a worker's own values
                beside it. `scope` is "variable", where each variable has a codec, or "model": one codec for all of them as one
                flat vector, as with a part of that scope (`Krum`, `Bulyan`, `GlobalTopK`, `GlobalClip`) by default. `name` is
                the name of the class.

        Raises: TypeError or ValueError where parts do not fit together, with the fix in words.
        """
        return exchange.compose(**parts)

    # the one `record` that a user's class may override
    def record(self, message: str) -> None:
        """Write a `message` as a line into the worker's log, with the name of the codec."""
        get_logger("parallel_sgd.codec").info("Codec: %s, Report: %s", type(self).__name__, message)


_NO_AGES: Final[Mapping[int, int]] = MappingProxyType({})


class Answering(Codec):
    """Codec of a parameter server that answers each worker by itself, when the sync type lets that one go on."""

    def answer(self, node: int) -> Packets:
        """Return, on the server, packets with the values that a worker may read now.

        Called once for each batch in which that worker has sent something, after `receive_blocks`, as soon as the sync type
        lets it go on: at once under AsynchronizedSGD, when no worker is more than s batches behind it under
        StaleSynchronous(s), when every worker has sent something in that batch under SynchronizedSGD.

        Args:
            node: the worker that waits for the answer.
        """
        return None


class TakingLate(Codec):
    """Codec that takes, or answers, packets of a batch after its result was taken."""

    def receive_late(self, content: Any) -> Packets:
        """Take a packet of the batch whose result was taken last; returned packets go out under that batch.

        Its sender may still miss something there. Packets of older batches are dropped without asking.

        Args:
            content: the content of the packet, as `receive_blocks` takes it.
        """
        return None


class Remembering(Codec):
    """Codec that remembers something between two batches, which checkpoints keep."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state that the codec has between two batches, for checkpoints: arrays and numbers, live."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of a state.

        Args:
            state: arrays and numbers by name, as `state_dict` returned them.

        Raises: ValueError for names that the codec does not know.
        """
        if state:
            raise ValueError(f"{type(self).__name__} remembers nothing, got {', '.join(sorted(state))}")


class CheckingPackets(Codec):
    """Codec that checks its packets beyond `traits.packets`: parts, places, codes, the nodes that may send each of them."""

    def check(self, content: Any, like: Like | None) -> None:
        """Refuse a packet that no codec of this kind sends; called with every packet, late ones too, before any other method.

        This one takes arrays of exactly the shape of `like`; of its type, too, where `keeps_type`, else of any real numbers;
        finite unless `PacketTraits.finite` is False; and anything that is no array. A codec whose packets hold other arrays
        (parts, places, codes) looks at them here, all the more as NumPy adds an array of one number, or of one row, to any
        other.

        Args:
            content: the content of the packet.
            like: shape and type of the array that the optimizer puts for the variable; None where it has put none yet, for an
                id that is no variable of the model.

        Raises: Unusable naming the fault.
        """
        check_packet(self, content, like)


class Tracking(Codec):
    """Codec that keeps account of missing blocks and nodes, of the copies in a result, or of the age of gradients."""

    staleness: Mapping[int, int] = _NO_AGES
    """How many gradients that it has applied were how many steps old, where it counts that."""

    copies: tuple[Copy, ...] | None = None
    """The copies that the last result was made of, in the order in which they were merged: ((low, high), node) for the
    sum of `node` over the blocks [low, high); a wider span replaces those within it. None where it does not keep track:
    then a block counts as the copy of the worker itself, else of the first worker that holds it and is there."""

    def missing_blocks(self) -> Iterable[int]:
        """Return the blocks that a time-out message names; a codec that does not keep track returns none."""
        return ()

    def missing_nodes(self) -> Iterable[int]:
        """Return the nodes that a time-out message names where no block is missing."""
        return ()


class CountingPackets(Codec):
    """Codec that knows how many packets it needs, so that a simulation may hand over several of them together.

    It is no capability that authors take on: a wrong number would change times.
    """

    @property
    def counts_packets(self) -> bool:
        """Whether this object knows it."""
        return True

    @abstractmethod
    def fewest_packets(self) -> int:
        """Return how many packets must come, at least, before the codec sends anything or has a result.

        It is asked when all own blocks of a batch are put. Packets that ask for something come only after a time-out, and do
        not count.
        """


class Partial(Tracking):
    """Codec whose result can be made before every block is there, for sync types such as `FirstK`.

    A packet that comes for a batch after `settle` must change neither its result nor the next one.
    """

    @abstractmethod
    def missing_blocks(self) -> Iterable[int]:
        """Return the blocks that the result lacks so far."""

    @abstractmethod
    def settle(self) -> None:
        """Make the result of the blocks that are there, with `set_result`; called where no result is there yet."""


_CAPABILITIES: Final = (Answering, TakingLate, Remembering, CheckingPackets, Tracking)
_FORMER_METHODS: Final[Mapping[str, type[Codec]]] = {name: base for base in _CAPABILITIES for name in _offers(base)}


def copies_of(codec: Codec) -> tuple[Copy, ...] | None:
    """Return `Tracking.copies`; also of a codec that sets it without being derived from `Tracking`, as before."""
    found: tuple[Copy, ...] | None = getattr(codec, "copies", None)
    return found


def age_counts(codec: Codec) -> Mapping[int, int]:
    """Return `Tracking.staleness`, in the same way."""
    found: Mapping[int, int] = getattr(codec, "staleness", _NO_AGES)
    return found


def check_packet(codec: Codec, content: Any, like: Like | None) -> None:
    """Refuse a content that the traits of a codec do not allow, and arrays unlike those that are put for its variable.

    Raises: Unusable naming the fault.
    """
    packets = codec.traits.packets
    # the common case without a call: most packets are tuples of a declared form
    if packets.forms and not (type(content) is tuple and tuple(map(type, content)) in packets.forms):
        check_form(content, packets.forms)
    try:
        check_arrays(content, like, packets.finite, packets.keeps_type)
    except Unusable as error:
        if not is_ours(type(codec)):
            raise Unusable(f"{error} (a codec that sends other arrays says which in 'check')") from None
        raise
