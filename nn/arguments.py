"""Arguments of constructors: checks, whose errors name the class, the argument, what is expected and what came; and
`Configurable`, whose arguments a model file holds.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache, wraps
from numbers import Integral, Real
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

from nn.arrays import BATCH, Shape
from nn.extension import Extension, is_ours

P = ParamSpec("P")
Owner = TypeVar("Owner")
Word = TypeVar("Word", bound=str)


def also(**names: str) -> Callable[[Callable[Concatenate[Owner, P], None]], Callable[Concatenate[Owner, P], None]]:
    """Let a constructor take keywords by the names that they had in version 0.9, as in `@also(strides="stride")`.

    The constructor raises TypeError for a keyword that is given by both names.
    """

    def decorate(constructor: Callable[Concatenate[Owner, P], None]) -> Callable[Concatenate[Owner, P], None]:
        @wraps(constructor)
        def construct(self: Owner, /, *args: P.args, **keywords: P.kwargs) -> None:
            for old in names.keys() & keywords.keys():
                if names[old] in keywords:
                    raise TypeError(f"{_name(self)} '{names[old]}' must be given once, got '{old}' too, which is the same")
                keywords[names[old]] = keywords.pop(old)
            constructor(self, *args, **keywords)

        return construct

    return decorate


def integer(owner: object, name: str, value: Any, minimum: int) -> int:
    """Return `value` as an int of at least `minimum`; raise TypeError or ValueError otherwise."""
    if type(value) is int and value >= minimum:
        return value
    kind = "a positive integer" if minimum == 1 else f"an integer of at least {minimum}"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{_name(owner)} '{name}' must be {kind}, got {value!r}")
    if value < minimum:
        raise ValueError(f"{_name(owner)} '{name}' must be {kind}, got {value}")
    return int(value)


def number(owner: object, name: str, value: Any, low: float, high: float = math.inf, *, open_low: bool = False) -> float:
    """Return `value` as a finite float with low <= value < high (low < value if `open_low`)."""
    bound = f"{'>' if open_low else '>='} {low:g}" + ("" if math.isinf(high) else f" and < {high:g}")
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{_name(owner)} '{name}' must be a number {bound}, got {value!r}")
    result = float(value)
    if not math.isfinite(result) or result < low or result >= high or (open_low and result == low):
        raise ValueError(f"{_name(owner)} '{name}' must be a number {bound}, got {value}")
    return result


def instance(owner: object, name: str, value: Any, kind: type[Any]) -> Any:
    """Return `value` if it is an instance of `kind`; a class in its place gets the hint to call it."""
    expected = f"{_name(owner)} '{name}' must be an instance of {kind.__name__}"
    if isinstance(value, type) and issubclass(value, kind):
        raise TypeError(f"{expected}, got the class; write {value.__name__}()")
    if not isinstance(value, kind):
        hint = f"; write 'with .. as {name}:'" if inspect.isgenerator(getattr(value, "gen", None)) else ""
        raise TypeError(f"{expected}, got {type(value).__name__} {short(value)}{hint}")
    return value


def one_of(owner: object, name: str, value: Any, known: Collection[Word]) -> Word:
    """Return `value` if it is one of the `known` words; the error suggests the one that is nearly it."""
    for word in known if isinstance(value, str) else ():
        if word == value:
            return word
    hint = did_you_mean(value, known)
    raise ValueError(f"{_name(owner)} '{name}' must be one of {', '.join(known)}, got {short(value)}{hint}")


def did_you_mean(text: object, known: Iterable[str]) -> str:
    """Return a question that names the word of `known` which is nearly `text`, "" where none is."""
    import difflib  # noqa: PLC0415 - for messages only

    by_lower = {word.lower(): word for word in known}
    found = difflib.get_close_matches(str(text).lower(), by_lower, 1)
    return f"; did you mean {by_lower[found[0]]!r}?" if found else ""


def short(value: object) -> str:
    """Return what stands for a value in a message: one line of at most 80 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def shape(owner: object, name: str, value: Any, *, unknown: int = 0) -> Shape:
    """Return `value` as a tuple of positive lengths, of which at most `unknown` may be -1 (or None)."""
    expected = "a list of positive integers" + (" with at most one -1" if unknown else "")
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError(f"{_name(owner)} '{name}' must be {expected}, got {value!r}")
    axes = tuple(BATCH if axis is None else axis for axis in value)
    for axis in axes:
        if isinstance(axis, bool) or not isinstance(axis, Integral):
            raise TypeError(f"{_name(owner)} '{name}' must be {expected}, got {value!r}")
    if axes.count(BATCH) > unknown or any(axis < 1 and axis != BATCH for axis in axes):
        raise ValueError(f"{_name(owner)} '{name}' must be {expected}, got {value!r}")
    return tuple(int(axis) for axis in axes)


def _name(owner: object) -> str:
    return owner if isinstance(owner, str) else type(owner).__name__


class Configurable(metaclass=Extension):
    """A part of a model that a file names by its class and the arguments of its constructor.

    `class Scale(Layer, configured=True)` says that the constructor keeps each argument in an attribute of its name.
    """

    _configured: ClassVar[type[Configurable] | None] = None

    _made: bool = False
    """Whether the constructor has returned."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; refuse one whose change would have no effect.

        Raises: AttributeError for an argument of the constructor, unless a property of its name takes it, and, on an object
            of a class of this package, for a name that the class does not have.
        """
        if self._made and name[0] != "_" and name not in _settable(type(self)) and not self._takes(name):
            self._refuse(name)
        object.__setattr__(self, name, value)

    def _takes(self, name: str) -> bool:
        """Tell whether an argument may be set now, as it has its effect later."""
        return False

    def _refuse(self, name: str) -> None:
        kind = type(self).__name__
        if name in _arguments(type(self)):
            raise AttributeError(
                f"{kind} '{name}' is an argument of the constructor and cannot be set afterwards; make another {kind}"
            )
        if is_ours(type(self)):
            near = did_you_mean(name, [each for each in _settable(type(self)) if not each.startswith("_")])
            raise AttributeError(f"{kind} has no attribute '{name}' that can be set{near}")

    def __init_subclass__(cls, *, configured: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if configured:
            cls._configured = cls

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's keyword arguments that build an equal object.

        Values are None, bool, int, float, str, lists of them, or other configurable objects. Without `configured` there are
        none, which suits classes whose constructor takes no arguments.
        """
        if self._configured is None:
            return {}
        return {name: self.argument(name) for name in list(inspect.signature(self._configured.__init__).parameters)[1:]}

    def argument(self, name: str) -> Any:
        """Return one argument as `get_config` gives it."""
        value = getattr(self, name)
        return list(value) if isinstance(value, (list, tuple)) else value

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.get_config().items())
        return f"{type(self).__name__}({arguments})"


@lru_cache(maxsize=1024)
def _arguments(cls: type[Configurable]) -> frozenset[str]:
    """Return the names of the constructor's arguments that an object keeps: those that `get_config` reads."""
    makers = [base for base in cls.__mro__ if "__init__" in vars(base) and (base is cls._configured or is_ours(base))]
    return frozenset(name for base in makers for name in list(inspect.signature(vars(base)["__init__"]).parameters)[1:])


@lru_cache(maxsize=1024)
def _settable(cls: type[Configurable]) -> frozenset[str]:
    """Return the names of a class that may be set on an object at any time: properties with a setter, and what the object
    or the engine counts and keeps; neither methods nor arguments of the constructor.
    """
    found: set[str] = set()
    for base in cls.__mro__:
        found.update(inspect.get_annotations(base), vars(base))
    kept = _arguments(cls)

    def takes(name: str) -> bool:
        value = inspect.getattr_static(cls, name, None)
        return value.fset is not None if isinstance(value, property) else name not in kept

    return frozenset(name for name in found if not name.startswith("__") and takes(name))
