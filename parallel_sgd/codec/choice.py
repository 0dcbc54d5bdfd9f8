"""Choice of a codec for each variable: one for all, or chosen by its id, its name, its layer, its size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import isabstract
from typing import Any

from network.names import did_you_mean
from nn import arguments
from nn.extension import nearest

from .interfaces import Codec

CodecChoice = type[Codec] | Mapping[int, type[Codec]] | None
NamedChoice = type[Codec] | Mapping[Any, type[Codec]] | None


def choose_codecs(choice: CodecChoice, default: type[Codec], variables: int, name: str = "codec") -> list[type[Codec]]:
    """Return the codec class of each variable: one for all, or a dict by variable id, the rest `default`.

    Raises: TypeError for an object that is no codec class, ValueError for a variable that the model does not have, and for a
        codec of the scope "model" in a dict; they call the choice `name`.
    """
    for kind in choice.values() if isinstance(choice, Mapping) else ():
        if _is_codec(kind) and kind.traits.scope == "model":
            raise ValueError(
                f"'{name}' must not have {kind.__name__} in a dict: its scope is \"model\", one codec for all variables; write "
                f"{name}={kind.__name__}"
            )
    return _chosen(choice, default, variables, name)


def is_whole(kinds: Sequence[type[Codec]]) -> bool:
    """Tell whether the codecs that were chosen for the variables are one, of the scope "model"."""
    # of this scope all are, or none: a dict holds none
    return bool(kinds) and kinds[0].traits.scope == "model"


def _chosen(choice: CodecChoice, default: type[Codec], variables: int, name: str) -> list[type[Codec]]:
    # a class for all is a dict of all, so that one loop checks both
    chosen: Mapping[int, type[Codec]] = choice if isinstance(choice, Mapping) else {}
    if choice is not None and not isinstance(choice, Mapping):
        chosen = dict.fromkeys(range(variables), choice)
    for variable, kind in chosen.items():
        if not _is_codec(kind):
            raise TypeError(f"'{name}' must be a subclass of Codec or a dict of them by variable id, got {shown(kind)}")
        if variable not in range(variables):
            raise ValueError(f"'{name}' names variable {variable!r}, but the model has the variables 0..{variables - 1}")
    return [chosen.get(variable, default) for variable in range(variables)]


def by_variable(choice: NamedChoice, names: Sequence[str], name: str = "codec") -> CodecChoice:
    """Return a choice by variable id in place of one by id, variable name (`dense_1/kernel`) or layer name (`dense_1`).

    The more exact key counts: an id before a variable's name before a layer's. `names` are those of the variables.
    Raises: ValueError for a name that the model does not have; it calls the dict `name`.
    """
    if not isinstance(choice, Mapping):
        return choice
    chosen: dict[Any, type[Codec]] = {}
    # layers first, variables second, ids last: the later update wins
    for key in (key for key in choice if isinstance(key, str)):
        # a slash ends the name: layer `dense_1` is not the beginning of `dense_10`
        found = [variable for variable, own in enumerate(names) if own.startswith(f"{key}/")]
        if not found and key not in names:
            layers = dict.fromkeys(own.rpartition("/")[0] for own in names)
            near = did_you_mean(key, [*layers, *names])
            raise ValueError(f"'{name}' names {key!r}, but the model has the layers {', '.join(layers)}{near}")
        chosen.update(dict.fromkeys(found, choice[key]))
    chosen.update({variable: choice[own] for variable, own in enumerate(names) if own in choice})
    return chosen | {key: kind for key, kind in choice.items() if not isinstance(key, str)}


def choose_server_codecs(choice: CodecChoice, workers: CodecChoice, default: type[Codec], variables: int) -> list[type[Codec]]:
    """Return the codec class of each variable on the parameter server: `choice`, or else the workers' own where it `serves`.

    `default` is that of the workers. Raises: as `choose_codecs`, which calls the choice `ps_codec`.
    """
    if choice is not None and not isinstance(choice, Mapping):
        return choose_codecs(choice, default, variables, "ps_codec")
    # codecs that serve run at both ends; a worker's codec that does not needs one of the server's own
    own = enumerate(choose_codecs(workers, default, variables))
    if choice is not None:
        choose_codecs(choice, default, variables, "ps_codec")  # refuses what may not stand in a dict
    return _chosen({**{i: kind for i, kind in own if kind.traits.serves}, **(choice or {})}, default, variables, "ps_codec")


def _is_codec(kind: object) -> bool:
    # isabstract: a class with a method missing would fail on the nodes, after everything was sent
    return isinstance(kind, type) and issubclass(kind, Codec) and not isabstract(kind)


def shown(kind: object) -> str:
    """Return the text for an object that was given as a class, in an error; an incomplete class with the methods that it lacks,
    and those of nearly these names, an object of a class with the class.
    """
    if isinstance(kind, Codec):
        return f"an object of {type(kind).__name__}; give the class, the job makes the objects: {type(kind).__name__}"
    missing = sorted(getattr(kind, "__abstractmethods__", ())) if isinstance(kind, type) else ()
    own = [name for name in vars(kind) if not hasattr(Codec, name)] if missing else []
    told = [f"{name} (it has {near})" if (near := nearest(name, own, 0.8)) else name for name in missing]
    return f"{kind!r}, which lacks {', '.join(told)}" if missing else repr(kind)


@dataclass(frozen=True, kw_only=True)
class SizeAdaptive:
    """Choice of a codec by size: `codec=SizeAdaptive(big=DGC)`.

    Biases and small layers gain nothing from compression: the cost of a packet beside its payload stays. The choice may also
    stand in a dict: `codec={"dense_1": SizeAdaptive(big=QSGD)}`.

    Args:
        min: variables of fewer elements use `small`, the others `big`.
        small: None is the job's default codec, dense and exact.
        big: the codec of large variables.

    Raises: TypeError for an object that is no codec class, ValueError for one of the scope "model", TypeError or ValueError
        where `min` is no integer of at least 0.
    """

    min: int = 1024
    small: type[Codec] | None = None
    big: type[Codec]

    def __post_init__(self) -> None:
        arguments.integer(self, "min", self.min, minimum=0)
        for name, kind in (("small", self.small), ("big", self.big)):
            if not _is_codec(kind) and (kind is not None or name == "big"):
                raise TypeError(f"SizeAdaptive '{name}' must be a subclass of Codec, got {kind!r}")
            if kind is not None and kind.traits.scope == "model":
                raise ValueError(
                    f"SizeAdaptive '{name}' must be a codec of single variables, got {kind.__name__}, whose scope is \"model\""
                )

    def choose(self, size: int) -> type[Codec] | None:
        """Return the codec of a variable of `size` elements; None is the job's default."""
        return self.small if size < self.min else self.big


#: What `codec` and `ps_codec` may be: a class, a choice by size, or a dict of both by variable id, variable name or layer name.
CodecArgument = NamedChoice | SizeAdaptive | Mapping[Any, type[Codec] | SizeAdaptive]


def by_size(choice: CodecArgument, names: Sequence[str], sizes: Sequence[int], name: str = "codec") -> CodecChoice:
    """Return a choice by variable id, or one class for all, in place of one by `names` and `sizes` of the variables.

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
            # any class will do for an id out of range, which `choose_codecs` refuses with the model's count
            kind = kind.choose(sizes[variable]) if variable in range(len(sizes)) else kind.big
        if kind is not None:
            chosen[variable] = kind
    return chosen
