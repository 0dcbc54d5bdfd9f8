"""Traits of a codec: all that the engine needs to know of a class before it makes an object of it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal, get_args

Meaning = Literal["gradients", "updates", "parameters"]
_MEANINGS: Final = (None, "gradients", "updates", "parameters")
Scope = Literal["variable", "model"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)


@dataclass(frozen=True)
class PacketTraits:
    """Traits of the packets that come to a codec; a packet that they do not allow is refused, naming the sender.

    Args:
        forms: the contents that come, each a type, or a tuple or list of types: `((int, np.ndarray), np.ndarray)`, with
            `(int, ...)` for any number of integers. Empty: not looked at.
        finite: arrays hold finite numbers only.
        keeps_type: arrays have the type of the array that was put for the variable, as well as its shape.
        alike: a packet of one of `forms` whose one array has shape and type of the array that is put, of finite numbers,
            needs no `check`; its sender is verified in `receive_blocks`.

    Raises: TypeError naming the argument.
    """

    forms: tuple[Any, ...] = ()
    finite: bool = True
    keeps_type: bool = False
    alike: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.forms, tuple):
            raise TypeError(f"PacketTraits 'forms' must be a tuple of types, got {type(self.forms).__name__}")
        _check_booleans(self)


@dataclass(frozen=True)
class Traits:
    """Traits of a codec class: `traits = Traits(needs_server=True)`; of a subclass, `replace(Plain.traits, agrees=False)`.

    Args:
        keeps_content: `BlockWeight.content` may be kept until the batch's result has been taken. A codec that says False reads
            it within `update_blocks`, except that of its worker's last block, which stays; this saves a copy per block.
        takes_sums: it adds up blocks along the tree and goes by `BlockWeight.span`, so it may be given two as one `BlockSum`.
            Counts for the class that says it, not for its subclasses.
        reads_in_place: it writes into no array that it receives, and keeps none beyond the next batch. Such an array may lie in
            memory of a sender on the same host; for other codecs it is copied from there.
        takes_first_copy: the first copy of a block counts, so that a job with redundant blocks can go on without a lost node.
        needs_server: it sends to the parameter server, so a job without one is refused.
        serves: the same class also runs on the parameter server, and is its default there.
        takes: the meaning of the arrays that the optimizer has to put: "gradients", "updates" or "parameters"; None: any.
        gives: the meaning of the results; None: that of the arrays that were put.
        agrees: all workers get equal results in every batch. Where not, they train models of their own.
        synchronous: a result is made of the packets of all workers in the same batch, so asynchronous sync types refuse it.
        asynchronous: packets count in any batch, so SynchronizedSGD, which keeps batches apart, refuses it.
        by_arrival: the last bits of a result depend on the packets that arrive first, so that no batch can be computed again.
        awaits_answer: an answer to a worker's packet comes without waiting for any other worker's batch, and the result is made
            of it; so a worker waits for it under asynchronous sync types too.
        elementwise: it treats every number by itself, so that it may be given neighbouring variables as one vector, with the
            number of the first. Counts for the class that says it, not for its subclasses.
        passes_on: its result is an array that came, unchanged, or was put, so that no check of the result is needed.
        parameters: all keys of `codec_extra_parameters` that it may read, so that others can be refused before a job starts;
            None: not told. Counts for the class that says it, not for its subclasses.
        packets: traits of the packets that come to it.
        scope: "variable": each variable has a codec; "model": one codec, with id 0, gets all variables as one flat vector, in
            the order of their ids, and so does that of the parameter server. In a class it may also stand as `scope = "model"`.

    Raises: TypeError or ValueError naming the argument, the expectation and the value that came.
    """

    keeps_content: bool = True
    takes_sums: bool = False
    reads_in_place: bool = False
    takes_first_copy: bool = False
    needs_server: bool = False
    serves: bool = False
    takes: Meaning | None = None
    gives: Meaning | None = None
    agrees: bool = True
    synchronous: bool = False
    asynchronous: bool = False
    by_arrival: bool = False
    awaits_answer: bool = False
    elementwise: bool = False
    passes_on: bool = False
    parameters: tuple[Hashable, ...] | None = None
    packets: PacketTraits = field(default_factory=PacketTraits)
    scope: Scope = "variable"

    def __post_init__(self) -> None:
        for name in ("takes", "gives"):
            value = getattr(self, name)
            if not isinstance(value, (str, type(None))) or value not in _MEANINGS:
                raise ValueError(f"Traits '{name}' must be 'gradients', 'updates', 'parameters' or None, got {value!r}")
        if not isinstance(self.scope, str) or self.scope not in SCOPES:
            raise ValueError(f"Traits 'scope' must be 'variable' or 'model', got {self.scope!r}")
        if not isinstance(self.packets, PacketTraits):
            raise TypeError(f"Traits 'packets' must be PacketTraits(..), got {type(self.packets).__name__}")
        if not isinstance(self.parameters, (tuple, type(None))):
            raise TypeError(f"Traits 'parameters' must be a tuple of keys or None, got {type(self.parameters).__name__}")
        _check_booleans(self)
        if self.synchronous and self.asynchronous:
            raise ValueError(
                "Traits 'synchronous' and 'asynchronous' must not both be True: one says the opposite of the other"
            )

    def with_forms(self, *forms: Any) -> Traits:
        """Return traits of an object to which packets of these `forms` come, written as in `PacketTraits`."""
        return replace(self, packets=replace(self.packets, forms=forms))

    def of_subclass(self) -> Traits:
        """Return the traits that a subclass without its own inherits: all but `elementwise` and `takes_sums`."""
        # a subclass may change what is done with each number, so it must say again that vectors and sums suit it
        return replace(self, elementwise=False, takes_sums=False) if self.elementwise or self.takes_sums else self


def _check_booleans(traits: Traits | PacketTraits) -> None:
    for each in fields(traits):
        # by the text of the annotation: types are texts under `from __future__ import annotations`
        value = getattr(traits, each.name)
        if each.type == "bool" and not isinstance(value, bool):
            raise TypeError(f"{type(traits).__name__} '{each.name}' must be True or False, got {value!r}")


#: Class attributes of codecs that were written before `Traits`, by name: the field that they stand for.
IN_PACKETS: Final[Mapping[str, str]] = {
    "forms": "forms",
    "sends_finite": "finite",
    "keeps_type": "keeps_type",
    "takes_alike": "alike",
}
_NO_FLAGS: Final = ("elementwise", "packets", "parameters", "scope")  # fields that no former attribute stands for
FORMER_FLAGS: Final = (*(each.name for each in fields(Traits) if each.name not in _NO_FLAGS), *IN_PACKETS)


def with_former(traits: Traits, flags: Mapping[str, Any]) -> Traits:
    """Return traits with the values of attributes of the former names."""
    packets = {IN_PACKETS[name]: value for name, value in flags.items() if name in IN_PACKETS}
    if "forms" in packets:
        # it may be a list in old classes
        packets["forms"] = tuple(packets["forms"])
    own = {name: value for name, value in flags.items() if name not in IN_PACKETS}
    own = {name: bool(value) if name not in ("takes", "gives") else value for name, value in own.items()}
    packets = {name: bool(value) if name != "forms" else value for name, value in packets.items()}
    return replace(traits, **own, packets=replace(traits.packets, **packets))


def former(traits: Traits, name: str) -> Any:
    """Return the value of a former class attribute."""
    return getattr(traits.packets, IN_PACKETS[name]) if name in IN_PACKETS else getattr(traits, name)


def told(flags: Mapping[str, Any]) -> str:
    """Return the code that says the same in the present form, for messages."""
    own = [f"{name}={value!r}" for name, value in flags.items() if name not in IN_PACKETS]
    packets = [
        f"{IN_PACKETS[name]}={'(..)' if name == 'forms' else repr(value)}"
        for name, value in flags.items()
        if name in IN_PACKETS
    ]
    own += [f"packets=PacketTraits({', '.join(packets)})"] if packets else []
    return f"traits = Traits({', '.join(own)})"
