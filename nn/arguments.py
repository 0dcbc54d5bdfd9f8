"""Arguments of constructors: checks, with errors that name the class, the argument, the expectation and the value that came;
and `Configurable`, the base of classes with arguments that a model file holds.
"""

from __future__ import annotations

import inspect
import math
import os
import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Set
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from numbers import Integral, Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from nn.arrays import BATCH, LENGTH, Shape
from nn.extension import Extension, is_ours, level_of_user, listed, signature_of
from nn.extension import also as also
from nn.extension import did_you_mean as did_you_mean
from nn.extension import missing_attribute as missing_attribute

Word = TypeVar("Word", bound=str)

KINDS_OF_STATE = ("rule:", "history:", "callback:")
"""Beginnings of names of arrays in a model file that are no variables."""


def integer(owner: object, name: str, value: Any, minimum: int) -> int:
    """Return `value` as an int of at least `minimum`; raise TypeError or ValueError otherwise."""
    # The common case, before the slower question whether it is a number of another kind.
    if type(value) is int and value >= minimum:
        return value
    kind = "a positive integer" if minimum == 1 else f"an integer of at least {minimum}"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{_name(owner)} '{name}' must be {kind}, got {value!r}")
    if value < minimum:
        raise ValueError(f"{_name(owner)} '{name}' must be {kind}, got {value}")
    return int(value)


def number(
    owner: object, name: str, value: Any, low: float = -math.inf, high: float = math.inf, *, open_low: bool = False
) -> float:
    """Return `value` as a finite float with low <= value < high (low < value if `open_low`).

    Args:
        owner: object or class with the argument, which errors name.
        name: name of the argument, for errors.
        value: the number; a bool is none.
        low: least value that is allowed; default: any.
        high: first value above the range; default: no upper bound.
        open_low: whether `low` itself is refused.

    Raises:
        TypeError: for a value that is no number.
        ValueError: for one outside the range, infinity and NaN.
    """
    limits = [f"{'>' if open_low else '>='} {low:g}"] if low > -math.inf else []
    limits += [f"< {high:g}"] if high < math.inf else []
    bound = " and ".join(limits) or "that is finite"
    # bool is a kind of int, but True in place of a rate or a share is a mistake
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{_name(owner)} '{name}' must be a number {bound}, got {value!r}")
    result = float(value)
    if not math.isfinite(result) or result < low or result >= high or (open_low and result == low):
        raise ValueError(f"{_name(owner)} '{name}' must be a number {bound}, got {value}")
    return result


def share(owner: object, name: str, value: Any) -> float:
    """Return `value` if it is a number from 0 to 1; see `number`.

    Args:
        owner: object or class with the argument, which errors name.
        name: name of the argument, for errors.
        value: the share.
    """
    # the upper bound of `number` is the first value beyond the range, and 1 is allowed
    found = number(owner, name, value, 0.0)
    if found > 1:
        raise ValueError(f"{_name(owner)} '{name}' must be a number from 0 to 1, got {value}")
    return found


def instance(owner: object, name: str, value: Any, kind: type[Any], source: str = "") -> Any:
    """Return `value` if it is an instance of `kind`; a class in its place gets the hint to call it.

    Args:
        owner: class or function with the argument.
        name: name of the argument.
        value: the argument.
        kind: the class.
        source: words on where instances come from, for the error.
    """
    expected = f"{_name(owner)} '{name}' must be an instance of {kind.__name__}{source}"
    if isinstance(value, type) and issubclass(value, kind):
        raise TypeError(f"{expected}, got the class; write {value.__name__}()")
    if not isinstance(value, kind):
        # A context manager in place of what it gives.
        hint = f"; write 'with .. as {name}:'" if inspect.isgenerator(getattr(value, "gen", None)) else ""
        raise TypeError(f"{expected}, got {type(value).__name__} {short(value)}{hint}")
    return value


def flag(owner: object, name: str, value: Any) -> bool:
    """Return `value` if it is True or False; all else has a truth value, too, but seldom the one that was meant."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{_name(owner)} '{name}' must be True or False, got {short(value)}")
    return bool(value)


def one_of(owner: object, name: str, value: Any, known: Collection[Word]) -> Word:
    """Return `value` if it is one of the `known` words; the error suggests the one that is nearly it."""
    # The known word is returned, not the equal one that was given: its type tells which words there are.
    for word in known if isinstance(value, str) else ():
        if word == value:
            return word
    # What is no text is none of the words, however it is printed.
    got, hint = (
        (short(value), did_you_mean(value, known)) if isinstance(value, str) else (f"{type(value).__name__} {short(value)}", "")
    )
    raise ValueError(f"{_name(owner)} '{name}' must be one of {', '.join(known)}, got {got}{hint}")


def class_of(owner: object, argument: str, word: str, package: str) -> type[Any]:
    """Return the class that a word stands for, or the class of the package with that name; upper and lower case are alike.

    Args:
        owner: the object or class that takes the word, for the error.
        argument: name of its argument.
        word: the word, or the name of a class.
        package: name of the package with these classes and their `WORDS`.

    Raises ValueError that names owner and argument for another word, lists the words and suggests the one that is meant.
    """
    exported = import_module(package)
    table: Mapping[str, str] = exported.WORDS
    key = word.strip().lower().replace("-", "_").replace(" ", "_")
    name = table.get(key) or {each.lower(): each for each in table.values()}.get(key)
    if name is None:
        from nn.keras_names import ABBREVIATIONS, name_here  # noqa: PLC0415 - for this error alone

        # A word or a name of Keras: `bce`, `SparseCategoricalAccuracy`.
        here = name_here(package, word).removeprefix(f"{package}.")
        meant = ABBREVIATIONS.get(key) or next((each for each, found in table.items() if found == here), "")
        if meant in table:
            raise ValueError(f"{_name(owner)} '{argument}' has no word {short(word)}; write {meant!r}")
        # Raises: the word is not in the table.
        one_of(owner, argument, word, table)
    found: type[Any] = getattr(exported, str(name))
    return found


def part(owner: object, argument: str, given: Any, kind: type[Any], package: str) -> Any:
    """Return the part that was given, an instance of `kind`, or the one that a word stands for.

    Args:
        owner: object with the argument, named by its class in errors.
        argument: name of the argument, for errors.
        given: the part or its word.
        kind: base class of such parts.
        package: package of `nn` that exports them, such as "nn.loss".

    Raises TypeError for anything else, ValueError for an unknown word.
    """
    if isinstance(given, str):
        return class_of(owner, argument, given, package)()
    # Keras takes a function here, and TensorFlow finds its gradient
    if inspect.isroutine(given):
        other = "; or give its value to add_loss() of Model(inputs, outputs)" if package == "nn.loss" else ""
        raise TypeError(
            f"{_name(owner)} '{argument}' must be an instance of {kind.__name__}, got the function {given.__name__}; derive a "
            f"class from {package}.{kind.__name__}, whose help() tells how{other}"
        )
    return instance(owner, argument, given, kind)


def part_name(owner: object, name: Any, *, empty: bool = False) -> str:
    """Return the name of a part of a model, which stands in files in front of those of its variables; None is no name, "".

    Args:
        owner: the part, for messages.
        name: the name.
        empty: whether the empty text may stand for none.

    Raises:
        ValueError: for a name that files could not hold, or hold as that of a state.
    """
    if name is None and not empty:
        return ""
    kind = "text" if empty else "non-empty text"
    if not isinstance(name, str) or not (name or empty) or "/" in name:
        raise ValueError(f"{_name(owner)} 'name' must be a {kind} without '/', got {name!r}")
    if name.startswith(KINDS_OF_STATE):
        raise ValueError(
            f"{_name(owner)} 'name' must not begin with {' or '.join(map(repr, KINDS_OF_STATE))}, as states in model files do, "
            f"got {name!r}"
        )
    if not name.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in name):
        raise ValueError(f"{_name(owner)} 'name' must be a text that UTF-8 has, got {name!r}")
    return name


def short(value: object) -> str:
    """Return the text of a value for a message: one line of at most 80 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def sequence(owner: object, name: str, value: Any, of: str) -> list[Any]:
    """Return the members of a list, a tuple or another collection with an order.

    Args:
        owner: object or class with the argument, which errors name.
        name: name of the argument, for errors.
        value: the collection.
        of: kind of its members, for errors.

    Raises:
        TypeError: for texts, sets, mappings and tables, which have another order or other members than a list, and for
            objects without members.
    """
    # A table has its columns for members.
    if not isinstance(value, (str, bytes, Set, Mapping)) and not hasattr(value, "columns"):
        # An array of no axis says that it is iterable, and is not.
        with suppress(TypeError):
            return list(value)
    raise TypeError(f"{_name(owner)} '{name}' must be a list of {of}, got {short(value)}")


def is_list(value: object) -> bool:
    """Tell whether a value has members, and is no text; an array of no axis has none, though its type is iterable."""
    shape = getattr(value, "shape", None)
    return isinstance(value, Iterable) and not isinstance(value, str) and not (isinstance(shape, tuple) and not shape)


def path(owner: object, name: str, value: Any, of: str = "") -> str:
    """Return a path as a text; raise TypeError for an empty one, and for other objects.

    Args:
        owner: object or class with the argument, which errors name.
        name: name of the argument, for errors.
        value: the path.
        of: kind of its target, for errors, such as "a file".
    """
    found = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(found, str) or not found or "\0" in found:
        raise TypeError(f"{_name(owner)} '{name}' must be {f'the path of {of}' if of else 'a path'}, got {short(value)}")
    return found


def new_path(owner: object, name: str, value: Any, of: str = "") -> str:
    """Return a path of something that will be written, as `path` does; warn of one that Windows would read in another way."""
    found = path(owner, name, value, of)
    if advice := as_on_windows(found):
        warnings.warn(f"{_name(owner)} '{name}' {found!r} is one name here, {advice}", UserWarning, stacklevel=level_of_user())
    return found


def as_on_windows(found: str) -> str:
    """Return advice for a path that is written as for Windows, "" for any other.

    Args:
        found: the path.
    """
    if "\\" not in found or os.sep == "\\":
        return ""
    turned = re.sub(r"\\+", "/", found)
    if re.match("[A-Za-z]:/", turned):
        return f"where drives of Windows have no letters; in WSL it is '/mnt/{turned[0].lower()}{turned[2:]}'"
    return f"where folders are separated by '/': write {turned!r}"


def shape(owner: object, name: str, value: Any, *, unknown: int = 0, lengths: bool = False) -> Shape:
    """Return `value` as a tuple of positive lengths, of which at most `unknown` may be -1 (or None).

    With `lengths` None stands for an axis of any length, `LENGTH`, but in front, where it stands for the batch.
    """
    expected = "a list of positive integers" + (" with at most one -1" if unknown else "")
    if lengths:
        expected += ", and None for axes of any length"
    given = sequence(owner, name, value, expected.removeprefix("a list of "))
    # Keras writes the unknown axes as None.
    axes = tuple((LENGTH if lengths and place else BATCH) if axis is None else axis for place, axis in enumerate(given))
    known = [axis for axis in axes if not (lengths and isinstance(axis, type(LENGTH)))]
    for axis in known:
        if isinstance(axis, bool) or not isinstance(axis, Integral):
            raise TypeError(f"{_name(owner)} '{name}' must be {expected}, got {value!r}")
    if known.count(BATCH) > unknown or any(axis < 1 and axis != BATCH for axis in known):
        raise ValueError(f"{_name(owner)} '{name}' must be {expected}, got {value!r}")
    return tuple(axis if isinstance(axis, type(LENGTH)) else int(axis) for axis in axes)


def _name(owner: object) -> str:
    return owner if isinstance(owner, str) else type(owner).__name__


class Settled(metaclass=Extension):
    """Object with public attributes that are fixed once the constructor has returned, but for those that may be set.

    These are properties with a setter and the names in `class Callback(Settled, settable=("folder",))`. A class of a user may
    have any others besides, and set them at any time, but for arguments of constructors and for the parts of a graph.
    """

    _settables: ClassVar[frozenset[str]] = frozenset()
    #: Public names for the engine, which completion leaves out.
    _unlisted: ClassVar[frozenset[str]] = frozenset()

    #: The remedy in place of setting an attribute, by its name.
    _remedies: ClassVar[Mapping[str, str]] = MappingProxyType({})

    _configured: ClassVar[type[Any] | None] = None

    #: Whether the constructor has returned.
    _made: bool = False

    def __init_subclass__(
        cls,
        *,
        settable: Collection[str] = (),
        unlisted: Collection[str] = (),
        remedies: Mapping[str, str] = MappingProxyType({}),
        **kwargs: Any,
    ) -> None:
        super().__init_subclass__(**kwargs)
        cls._settables = cls._settables | frozenset(settable)
        cls._unlisted = cls._unlisted | frozenset(unlisted)
        cls._remedies = MappingProxyType({**cls._remedies, **remedies})

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; refuse a change that would have no effect.

        Raises: AttributeError for an argument of the constructor, unless a property of its name takes it, for a part of a
            graph that is built, and, on an object of a class of this package, for a name that it does not say can be set.
        """
        # Private names are the engine's own affair, and those of constructors: first, as they are set in each step.
        if name[0] != "_" and self._made and name not in _settable(type(self)):
            if self._take(name, value):
                return
            self._refuse(name, "set")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        """Delete an attribute that may be set, or one of a user; refuse any other with AttributeError."""
        if self._made and name[0] != "_":
            self._refuse(name, "deleted")
        object.__delattr__(self, name)

    if not TYPE_CHECKING:  # else a type checker would take every name

        def __getattr__(self, name: str) -> Any:
            """Raise the error for an attribute that is not there, with the word here for one of Keras or torch."""
            return missing_attribute(self, name)

    def __dir__(self) -> list[str]:
        """List the names that a program uses, for completion in editors and notebooks."""
        return listed(type(self), super().__dir__(), self._unlisted)

    def _keep(self, **values: Any) -> None:
        """Set attributes that the object shows and sets itself."""
        # Past `__setattr__`, which refuses.
        vars(self).update(values)

    def _take(self, name: str, value: Any) -> bool:
        """Take an argument that still has its effect, and tell whether it was one."""
        return False

    def _built_from(self, name: str) -> bool:
        """Tell whether an attribute holds parts of a graph that is built."""
        return False

    def _refuse(self, name: str, verb: str) -> None:
        kind, cls = type(self).__name__, type(self)
        if name in self._remedies:
            raise AttributeError(f"{kind} '{name}' cannot be {verb}; {self._remedies[name]}")
        if name in _arguments(cls):
            raise AttributeError(
                f"{kind} '{name}' is an argument of the constructor and cannot be {verb} afterwards; make another {kind}"
            )
        if self._built_from(name):
            raise AttributeError(
                f"{kind} '{name}' cannot be {verb}: the graph was built from what it holds; build another model, and move the "
                "weights by set_weights(get_weights())"
            )
        # An object of a user's class may have any attribute besides.
        if cls.__module__.startswith("nn."):
            from nn.keras_names import attribute_here  # noqa: PLC0415 - for this error alone

            near = attribute_here(cls, name)
            near = near or did_you_mean(name, [each for each in _settable(cls) if not each.startswith("_")])
            raise AttributeError(f"{kind} has no attribute '{name}' that can be {verb}{near}")


class Configurable(Settled, unlisted=("argument",)):
    """A part of a model that a file names by its class and the arguments of its constructor.

    `class Scale(Layer, configured=True)` says that the constructor keeps each argument in an attribute of its name.
    """

    #: Whether an object that stands in several places is one, with one state, as a layer with its variables is.
    _one_everywhere: ClassVar[bool] = False

    def __init_subclass__(cls, *, configured: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if configured:
            cls._configured = cls

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's keyword arguments that build an equal object.

        Values are None, bool, int, float, str, lists of them, or other configurable objects. Without `configured` there are
        none, which suits classes with a constructor that takes no arguments.
        """
        # a constructor that takes `**further` has handed those on to its base, which keeps them
        further = () if self._configured is None else vars(self).get("_handed_on", ())
        return {name: self.argument(name) for name in (*_configured(type(self)), *further)}

    def _config_within(self) -> dict[str, Any]:
        """Return further arguments, as plain data, that a file holds of a part of another one."""
        return {}

    def argument(self, name: str) -> Any:
        """Return one argument as `get_config` gives it."""
        value = getattr(self, name)
        # JSON, and so a model file, has no tuples.
        return list(value) if isinstance(value, (list, tuple)) else value

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.get_config().items())
        return f"{type(self).__name__}({arguments})"


def config_of(value: Configurable) -> dict[str, Any]:
    """Return the configuration that `get_config` of a part gives; raise TypeError naming its class unless that is a dict."""
    config: object = value.get_config()
    if not isinstance(config, dict):
        raise TypeError(f"{type(value).__name__}.get_config() must return a dict of constructor arguments, got {short(config)}")
    return config


@lru_cache(maxsize=1024)
def _configured(cls: type[Configurable]) -> tuple[str, ...]:
    """Return the names of the arguments that an object keeps in attributes, in the order of the constructor that does so."""
    if cls._configured is None:
        return ()
    parameters = list(signature_of(cls._configured.__init__).parameters.values())[1:]
    # those of a `**further` are kept by the base
    return tuple(each.name for each in parameters if each.kind is not each.VAR_KEYWORD)


@lru_cache(maxsize=1024)
def _arguments(cls: type[Settled]) -> frozenset[str]:
    """Return the names of the constructor's arguments that an object keeps: those that `get_config` reads."""
    # Constructors of ours, and the one that keeps its arguments; those of users may change what they keep.
    makers = [base for base in cls.__mro__ if "__init__" in vars(base) and (base is cls._configured or is_ours(base))]
    return frozenset(name for base in makers for name in list(signature_of(vars(base)["__init__"]).parameters)[1:])


@lru_cache(maxsize=1024)
def _settable(cls: type[Settled]) -> frozenset[str]:
    """Return the names that may be set on an object of a class at any time."""
    # From the bodies of the classes: a property that is read may compute or raise.
    found = {name: each for base in reversed(cls.__mro__) for name, each in vars(base).items()}
    with_setter = [name for name, each in found.items() if isinstance(each, property) and each.fset is not None]
    return cls._settables.union(with_setter)
