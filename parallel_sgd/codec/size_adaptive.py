"""One codec for large variables, another for small ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import isabstract
from typing import Any

from nn import arguments

from .bank import CodecChoice, NamedChoice, by_variable
from .interfaces import Codec


@dataclass(frozen=True, kw_only=True)
class SizeAdaptive:
    """`codec=SizeAdaptive(big=DGC)`: variables of fewer than `min` elements use `small`, the others `big`.

    Biases and small layers gain nothing from compression: what a packet costs beside its payload stays. `small=None` is the
    job's default codec, dense and exact. It may also stand in a dict: `codec={"dense_1": SizeAdaptive(big=QSGD)}`.

    Raises: TypeError for what is no codec class, TypeError or ValueError where `min` is no integer of at least 0.
    """

    min: int = 1024
    small: type[Codec] | None = None
    big: type[Codec]

    def __post_init__(self) -> None:
        arguments.integer(self, "min", self.min, minimum=0)
        for name, kind in (("small", self.small), ("big", self.big)):
            codec = isinstance(kind, type) and issubclass(kind, Codec) and not isabstract(kind)
            if not codec and (kind is not None or name == "big"):
                raise TypeError(f"SizeAdaptive '{name}' must be a subclass of Codec, got {kind!r}")

    def choose(self, size: int) -> type[Codec] | None:
        """Return the codec of a variable of `size` elements; None is the job's default."""
        return self.small if size < self.min else self.big


#: What `codec` and `ps_codec` may be: a class, a choice by size, or a dict of both by variable id, variable name or layer name.
CodecArgument = NamedChoice | SizeAdaptive | Mapping[Any, type[Codec] | SizeAdaptive]


def by_size(choice: CodecArgument, names: Sequence[str], sizes: Sequence[int], name: str = "codec") -> CodecChoice:
    """A choice by variable id, or one class for all, in place of one by names and sizes, which are those of the variables.

    Raises: ValueError for a name that the model does not have; it calls the argument `name`.
    """
    if isinstance(choice, SizeAdaptive):
        choice = dict.fromkeys(range(len(sizes)), choice)
    found: Any = by_variable(choice, names, name)  # type: ignore[arg-type]
    if not isinstance(found, Mapping):
        return found  # type: ignore[no-any-return]
    chosen: dict[int, type[Codec]] = {}
    for variable, kind in found.items():
        if isinstance(kind, SizeAdaptive):
            kind = kind.choose(sizes[variable]) if variable in range(len(sizes)) else kind.big  # the id is refused later
        if kind is not None:
            chosen[variable] = kind
    return chosen
