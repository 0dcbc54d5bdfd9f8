"""Names that a base class claims: `Extension`, the metaclass of every class that users derive from, refuses hiding one.

A subclass may use any name that its base does not claim. A method that the engine calls may be overridden by a method that
the same call fits, an attribute that it reads by a value of the same type; anything else is refused when the class or the
object is made, since an error of the engine itself would come later, on another machine, and name neither class nor attribute.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import warnings
from abc import ABCMeta
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import (
    Any,
    Concatenate,
    Final,
    Literal,
    NamedTuple,
    NoReturn,
    ParamSpec,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

__all__ = ["Extension", "HiddenName", "MissingAttribute", "OverrideWarning", "also"]

P = ParamSpec("P")
Owner = TypeVar("Owner")
if sys.version_info >= (3, 14):
    # Annotations are evaluated there when they are read, and one of a user may name what exists for type checkers only.
    from annotationlib import Format, get_annotations

    def signature_of(called: Callable[..., Any]) -> inspect.Signature:
        """Return the signature of a callable, also where an annotation cannot be evaluated; raise as `inspect.signature`."""
        return inspect.signature(called, annotation_format=Format.FORWARDREF)

    def annotations_of(function: Callable[..., Any]) -> Mapping[str, Any]:
        """Return the annotations of a function by argument; those that cannot be evaluated are forward references."""
        return get_annotations(function, format=Format.FORWARDREF)

else:

    def signature_of(called: Callable[..., Any]) -> inspect.Signature:
        """Return the signature of a callable, also where an annotation cannot be evaluated; raise as `inspect.signature`."""
        return inspect.signature(called)

    def annotations_of(function: Callable[..., Any]) -> Mapping[str, Any]:
        """Return the annotations of a function by argument, as they stand."""
        found: Mapping[str, Any] = getattr(function, "__annotations__", {})
        return found


Made = TypeVar("Made")
Called = TypeVar("Called", bound=Callable[..., Any])
#: Packages of classes that claim names and hide none; every other class is a user's.
_OURS: Final = frozenset({"nn", "network", "rpc", "parallel_sgd", "executor", "psgd"})

#: Arguments that may stand for a `*name` of a base.
_MOST_EXTRA: Final = 8


class HiddenName(TypeError):
    """Error: a user's class hides a name that its base claims; the message gives the name and the remedy."""


class MissingAttribute(AttributeError):
    """Error: an object has no such attribute; the message gives the word here for one of Keras or torch."""

    def __str__(self) -> str:
        # Made when it is shown: code that asks for an attribute that may be missing shows none.
        from nn.keras_names import attribute_here  # noqa: PLC0415 - for this error alone

        return super().__str__() + attribute_here(type(self.obj), self.name or "")


class OverrideWarning(UserWarning):
    """Warning: a method takes the place of one that the engine needs, and nothing tells whether that is meant."""


class _Claims(NamedTuple):
    """Statements of a base class about its names, see `Extension`."""

    free: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()
    given: frozenset[str] = frozenset()
    internal: frozenset[str] = frozenset()
    mistakable: frozenset[str] = frozenset()
    passes: Mapping[str, tuple[Any, ...]] = types.MappingProxyType({})
    widened: Mapping[str, int] = types.MappingProxyType({})
    uncalled: Mapping[str, str] = types.MappingProxyType({})
    former: tuple[type, ...] = ()


class _Name(NamedTuple):
    """One claimed name.

    `owner` defines it, `shown` is the class of ours that a user derives from; then come value and text of the annotation.
    """

    owner: type
    shown: type
    name: str
    value: Any
    told: str
    claims: _Claims

    @property
    def kind(self) -> Any:
        """The type that the annotation means, or else that of a plain value."""
        # When it is asked for: most classes hide none of these names, and a text takes longer than all else here.
        return _kind(self.owner, self.told, self.value)

    def __str__(self) -> str:
        return f"{self.shown.__name__}.{self.name}"


_NOTHING: Final = object()


class _Shown:
    """Attribute that shows one that the engine keeps under another name; a subclass may have the name for itself."""

    def __init__(self, kept: str) -> None:
        self.kept = kept

    def __get__(self, item: object, owner: type) -> Any:
        # Without a `__set__`: what an object has under this name in its own `__dict__` comes before this.
        return self if item is None else getattr(item, self.kept)


def shown(kept: str) -> Any:
    """Return the value of an attribute that only shows the one of another name: `step: int = shown("_step_number")`.

    The engine does not read it, so that a subclass may have an attribute or a method of that name. Code that sets it on an
    object of ours has to set the other one.
    """
    return _Shown(kept)


class _Renamed:
    """Method under a name that it had before; a subclass may have the name for itself."""

    def __init__(self, now: str, offered: bool, as_before: Callable[[Any], Any] | None = None) -> None:
        self.now, self.offered, self._as_before = now, offered, as_before

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, item: object, owner: type) -> Any:
        if item is None:
            return self
        # In the order in which Python looks for a method.
        bodies = [vars(base) for base in type(item).__mro__ if self.now in vars(base)]
        # an override of the former name calls `super()` by it, and must not come back to itself
        present = [body[self.now] for body in bodies if body[self.now] is not body.get(self.name)]
        if len(present) == len(bodies):
            warnings.warn(f"{type(item).__name__}.{self.name}() is now {self.now}()", DeprecationWarning, stacklevel=2)
        method = present[0].__get__(item, type(item))
        as_before = self._as_before
        return method if as_before is None else lambda *args, **keywords: as_before(method(*args, **keywords))


def renamed(now: str, *, offered: bool = False, as_before: Callable[[Any], Any] | None = None) -> Any:
    """Return the attribute for the former name of a method, which goes on working: `delta = renamed("write_change")`.

    Args:
        now: the present name.
        offered: whether authors were told to override it. An override by the former name is then taken, with a warning, if the
            engine's call fits it and it calls `super()` or names an argument as the method does; any other is the author's.
        as_before: returns, for a result of the present method, what the former one returned; None where both are the same.
    """
    return _Renamed(now, offered, as_before)


class Extension(ABCMeta):
    """Metaclass of a class that users derive from. Nothing is checked later than when an object has been made.

    `class Codec(metaclass=Extension, free=["record"])`. A base says of its names:

    Args:
        free: methods for authors, which the engine never calls, so that a subclass may use the name for anything.
        fixed: attributes that the constructor or the engine sets, so that the class body of a subclass cannot.
        given: attributes that the engine sets on the object later, so that its constructor cannot, either.
        internal: methods that no guide offers for overriding: one that replaces it without `super()` is warned of.
        mistakable: methods that are offered under a word that authors use otherwise: one that replaces it is warned of unless
            it calls `super()` or names an argument as the base does.
        passes: of methods with optional parameters, the arguments that the engine passes: their number, then keywords. Without
            a row it passes the required ones.
        widened: methods that got arguments, with the number that they took before: an override that takes these alone goes on
            working, with a warning.
        uncalled: methods that the engine of another library calls and that of this one does not, with the remedy: a subclass
            that has one is warned.
        former: classes with names that the base had before, and still reads: claimed as if it defined them.
        bases: as of any class.
        namespace: attributes that the body of the class defines.
        name: as of any class.
    """

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **keywords: Any) -> Extension:
        # What is left is for `__init_subclass__`, which knows none of these.
        claims = {field: keywords.pop(field) for field in _Claims._fields if field in keywords}
        if claims:
            rest: dict[str, Any] = {
                field: claims.pop(field) for field in ("passes", "widened", "uncalled", "former") if field in claims
            }
            names: dict[str, Any] = {field: frozenset(each) for field, each in claims.items()}
            namespace["_claims"] = _Claims(**names, **rest)
        return super().__new__(cls, name, bases, namespace, **keywords)

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_keywords: Any) -> None:
        super().__init__(name, bases, namespace)
        # Both before the check, which would refuse the forms of before.
        if not is_ours(cls):
            _take_former(cls, namespace)
            _take_narrow(cls)
        check_class(cls)
        if not is_ours(cls):
            _warn_of_uncalled(cls, namespace)

    def __call__(cls: type[Made], *args: Any, **keywords: Any) -> Made:
        try:
            made: Made = type.__call__(cls, *args, **keywords)
        except AttributeError as error:
            _explain(cls, error)
            raise
        except TypeError as error:
            # an abstract class that can be called makes an object of another one, with arguments of its own
            problem = _unmade(cls, error) if inspect.isabstract(cls) else misfit(cls, args, keywords)
            if problem is not None:
                raise TypeError(problem) from None
            if _is_answer(error):
                raise error.with_traceback(None) from None
            raise
        except (ValueError, OSError, LookupError) as error:
            if _is_answer(error):
                raise error.with_traceback(None) from None
            raise
        check_begun(type(made), made)
        check_object(made)
        if hasattr(cls, "_made"):
            made._made = True  # type: ignore[attr-defined]
            if (args or keywords) and not is_ours(cls):
                # of what a file would lose without a word
                vars(made)["_passed"], vars(made)["_handed_on"] = _names_passed(cls, args, keywords)
        return made

    # By derivation alone: to ask whether a number is a layer, an ABC first asks all classes of layers, once for each type.
    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__

    def register(cls, subclass: type) -> NoReturn:
        """Refuse a virtual subclass: the engine calls what the base defines.

        Args:
            subclass: the class.
        """
        raise TypeError(f"{cls.__name__} has no virtual subclasses: {subclass.__name__} must derive from it")

    def __dir__(cls) -> list[str]:
        """List the names of the class for completion, which looks at the class of an object, too."""
        return listed(cls, super().__dir__(), getattr(cls, "_unlisted", ()))

    @property
    def __signature__(cls) -> inspect.Signature:
        """The constructor's, for `help`, editors and code that checks arguments."""
        maker = inspect.getattr_static(cls, "__init__")
        # The constructor is the first of both that Python does not supply.
        if maker is object.__init__:
            maker = inspect.getattr_static(cls, "__new__")
            if maker is object.__new__:
                return inspect.Signature()
        own = signature_of(getattr(maker, "__func__", maker))
        return own.replace(parameters=list(own.parameters.values())[1:])


def listed(kind: type, names: Iterable[str], unlisted: Collection[str] = ()) -> list[str]:
    """Return the names that completion offers of an object or a class: public ones that are not former names of others.

    Args:
        kind: the class.
        names: all names, as `object.__dir__` gives them.
        unlisted: public names for the engine.
    """
    # Double underscores stay: Python shows them only where they are asked for.
    public = (name for name in names if name.startswith("__") or not (name[0] == "_" or name in unlisted))
    return sorted(name for name in public if not isinstance(inspect.getattr_static(kind, name, None), _Renamed))


def also(
    **names: str,
) -> Callable[[Callable[Concatenate[Owner, P], None]], Callable[Concatenate[Owner, P], None]]:
    """Let a constructor take keywords by other names, Keras's or those of version 0.9, as in `@also(strides="stride")`.

    The constructor raises TypeError for a keyword that is given by both names. Its attribute `aliases` holds them.
    """

    def decorate(constructor: Callable[Concatenate[Owner, P], None]) -> Callable[Concatenate[Owner, P], None]:
        @functools.wraps(constructor)
        def construct(self: Owner, /, *args: P.args, **keywords: P.kwargs) -> None:
            for other in names.keys() & keywords.keys():
                if names[other] in keywords:
                    raise TypeError(
                        f"{type(self).__name__} '{names[other]}' must be given once, got '{other}' too, which is the same"
                    )
                keywords[names[other]] = keywords.pop(other)
            constructor(self, *args, **keywords)

        construct.aliases = names  # type: ignore[attr-defined]
        return construct

    return decorate


def _unmade(cls: type, error: TypeError) -> str | None:
    """Return the methods that an abstract class lacks; None where the error is one of a constructor."""
    # Python's own words, in all versions; the class may have a `__new__`, so the traceback does not tell.
    if not str(error).startswith(f"Can't instantiate abstract class {cls.__name__} "):
        return None
    lacking = ", ".join(f"{name}()" for name in sorted(cls.__abstractmethods__))  # type: ignore[attr-defined]
    if is_ours(cls):
        return f"{cls.__name__} is a base class: take one that is derived from it, or derive one that defines {lacking}"
    from nn.keras_names import METHODS  # noqa: PLC0415 - for this error alone

    own = {name: each for base in cls.__mro__ if not is_ours(base) for name, each in vars(base).items()}
    others = [f"{name}() is {here}() here" for name, here in METHODS.items() if name in own and f"{here}()" in lacking]
    slips = misspelt(cls, own)
    others += [f"it has {name}()" for name, meant in slips.items() if f"{meant}()" in lacking]
    return "; ".join([f"{cls.__name__} must define {lacking}, which its base class leaves to it", *others])


def misfit(cls: type, args: Sequence[Any], keywords: Mapping[str, Any], shown: str = "") -> str | None:
    """Return the fault of a call of a class: a keyword it does not know, one too many, one missing; None if it fits.

    Args:
        cls: with a constructor in Python.
        args: the positional arguments.
        keywords: those by name; the aliases of `also` count.
        shown: the name of the class in the message; default its own.
    """
    maker = inspect.getattr_static(cls, "__init__")
    if maker is object.__init__:
        parameters = []
    elif isinstance(maker, types.FunctionType):
        parameters = list(signature_of(maker).parameters.values())[1:]
    else:
        return None
    # what only files of models give is no help to a caller
    of_files = getattr(cls, "_of_files", ())
    package = cls.__module__.split(".")[1] if cls.__module__.startswith("nn.") else ""
    return unfit(shown or cls.__name__, parameters, args, keywords, getattr(maker, "aliases", {}), of_files, package)


def unfit(
    shown: str,
    parameters: Sequence[inspect.Parameter],
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    aliases: Mapping[str, str] = types.MappingProxyType({}),
    hidden: Collection[str] = (),
    package: str = "",
) -> str | None:
    """Return the fault of a call: a keyword that is unknown, an argument too many, one that is missing; None if it fits.

    Args:
        shown: name of the callable in the message.
        parameters: of its signature, without the object of a method.
        args: the positional arguments.
        keywords: those by name.
        aliases: other names of parameters, with the parameter.
        hidden: parameters that messages do not list.
        package: package of `nn` with the callable, "" for none.
    """
    kinds = {each.kind for each in parameters}
    # one that is there to be refused, and typed so, is none that a caller could give
    starred = [f"*{each.name}" for each in parameters if each.kind is each.VAR_POSITIONAL and each.annotation != "NoReturn"]
    parameters = [each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    known = [each.name for each in parameters]
    names = [*(name for name in known if name not in hidden), *starred]
    told = (
        ", ".join(names)
        if len(names) <= _MOST_NAMES
        else f"{', '.join(names[:_SOME_NAMES])} and {len(names) - _SOME_NAMES} more"
    )
    every = f"its argument{'s are' if len(names) > 1 else ' is'} {told}"
    for name in keywords:
        if name not in known and name not in aliases and inspect.Parameter.VAR_KEYWORD not in kinds:
            listed = f"but {told}" if told else "it takes none"
            hint = remedy_of(shown, package, name, known) or did_you_mean(name, [*known, *aliases])
            return f"{shown} has no argument {name!r}, {listed}{hint}"
    places = [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]
    if len(args) > len(places) and inspect.Parameter.VAR_POSITIONAL not in kinds:
        if not known:
            return f"{shown} takes no arguments, got {len(args)}"
        most = f"{len(places)} argument{'s' * (len(places) != 1)}"
        return f"{shown} takes at most {most} without a name, got {len(args)}; {every}"
    given = {*places[: len(args)], *(aliases.get(name, name) for name in keywords)}
    for each in parameters:
        if each.default is each.empty and each.name not in given:
            return f"{shown} needs the argument {each.name!r}; {every}"
    twice = next((name for name in places[: len(args)] if name in {aliases.get(each, each) for each in keywords}), None)
    return None if twice is None else f"{shown} {twice!r} must be given once, got it by place and by name"


_MOST_NAMES, _SOME_NAMES = 24, 8
"""Names of arguments of which a message lists all, and how many it lists of more."""


def _is_answer(error: BaseException) -> bool:
    from _psgd_packages import is_answer  # noqa: PLC0415 - for errors alone

    return is_answer(error)


def remedy_of(shown: str, package: str, name: str, known: Collection[str] = ()) -> str:
    """Return a clause with the remedy for an argument of another library that a callable lacks, "" for any other.

    Args:
        shown: name of the callable in messages, "layer()" for a call of a layer.
        package: package of `nn` with the callable.
        name: the argument.
        known: the arguments that the callable has.
    """
    from nn.keras_names import ARGUMENTS, SYNONYMS  # noqa: PLC0415 - for messages only

    found = ARGUMENTS.get(f"{shown}.{name}") or ARGUMENTS.get(f"{package}.{name}")
    if found:
        return f"; {found}"
    meant = SYNONYMS.get(name)
    return f"; did you mean {meant!r}?" if meant in known else ""


def missing_attribute(item: object, name: str) -> Any:
    """Raise the error of Python for an attribute that is not there, with the word here for one of Keras or torch.

    Args:
        item: the object.
        name: the attribute.
    """
    try:
        return object.__getattribute__(item, name)
    except AttributeError as error:
        # A property that fails has an error of its own.
        if name.startswith("_") or error.name != name or error.obj is not item:
            raise
        raise MissingAttribute(*error.args, name=name, obj=item) from None


def level_of_user() -> int:
    """Return the `stacklevel` with which a warning of the function that calls this one shows the line of the user's program."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _OURS:
        frame, level = frame.f_back, level + 1
    return level


def checked_call(function: Called) -> Called:
    """Let a public function or method answer a call that does not fit it in the words of a constructor.

    As in `fit() has no argument 'epocs', but x, label, ..; did you mean 'epochs'?`.
    """
    parameters = list(signature_of(function).parameters.values())
    first = parameters[0].name if parameters else ""
    own, bound = first == "self", first in ("self", "cls")
    if bound:
        del parameters[0]

    def misfit(args: tuple[Any, ...], keywords: dict[str, Any]) -> str | None:
        # an object's method by its name alone, as other messages have it
        name = function.__name__ if own else function.__qualname__
        owner = type(args[0]).__name__ if own and args else ""
        shown = {"__init__": owner, "__call__": f"A call of {owner}"}.get(name, f"{name}()")
        package = "layer()" if name == "__call__" else ""
        return unfit(shown, parameters, args[bound:], keywords, package=package)

    return answering(function, misfit)


def answering(
    function: Called,
    misfit: Callable[[tuple[Any, ...], dict[str, Any]], str | None] | None = None,
    always: tuple[type[Exception], ...] = (),
    users: Callable[[BaseException], types.TracebackType | None] | None = None,
) -> Called:
    """Let a public function raise an error that is an answer to its caller (`is_answer`), or a Ctrl-C whose consequences are
    said, without the frames behind the call.

    Args:
        function: the function or method.
        misfit: given the arguments of a call that raised TypeError, returns the answer where they do not fit, else None: the
            error is then one of the function's own.
        always: kinds of errors that are answers wherever they were raised; TypeError, ValueError and OSError are looked at.
        users: returns the frames of an error that the user's own code has raised, of any kind, from that code on, else None:
            the error is then raised with these.
    """

    told: tuple[type[Exception], ...] = (TypeError, ValueError, OSError, *always) if users is None else (Exception,)

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        try:
            return function(*args, **keywords)
        except told as error:
            problem = misfit(args, keywords) if misfit is not None and isinstance(error, TypeError) else None
            if problem is not None:
                raise TypeError(problem) from None
            if isinstance(error, always) or _is_answer(error):
                raise error.with_traceback(None) from None
            own = None if users is None or sys.flags.dev_mode else users(error)
            if own is not None:
                # with its cause and its context, which are the user's, too
                raise error.with_traceback(own)  # noqa: B904
            raise
        except KeyboardInterrupt as stop:
            from _psgd_packages import is_told  # noqa: PLC0415 - for errors alone

            if is_told(stop) and not sys.flags.dev_mode:
                raise stop.with_traceback(None) from None
            raise

    return call  # type: ignore[return-value]


def nearest(text: object, known: Iterable[str], least: float = 0.6) -> str:
    """Return the word of `known` which has at least the share `least` of its letters alike with `text`, "" where none has."""
    import difflib  # noqa: PLC0415 - for messages only

    by_lower = {word.lower(): word for word in known}
    found = difflib.get_close_matches(str(text).lower(), by_lower, 1, least)
    return by_lower[found[0]] if found else ""


def did_you_mean(text: object, known: Iterable[str]) -> str:
    """Return a question that names the word of `known` which is nearly `text`, "" where none is."""
    found = nearest(text, known)
    return f"; did you mean {found!r}?" if found else ""


def _take_former(cls: type, namespace: Mapping[str, Any]) -> None:
    """Give a user's class under the present name a method that its body overrides by a former one, and say so."""
    offers = {name: each for base in cls.__mro__ for name, each in vars(base).items() if isinstance(each, _Renamed)}
    for name in offers.keys() & namespace.keys():
        now, mine = offers[name].now, namespace[name]
        if offers[name].offered and now not in namespace and isinstance(mine, types.FunctionType):
            claim = claimed_names(cls)[now]
            if not _mistaken(cls, claim, mine, by_name=True) and not _conflict(cls, claim, mine, bound=False):
                setattr(cls, now, mine)
                warnings.warn(
                    f"{cls.__name__}.{name} is taken for {claim}, which it was; rename it", OverrideWarning, stacklevel=3
                )


def _take_narrow(cls: type) -> None:
    """Let a user's class go on with an override of a widened method that takes the arguments of before, and say so."""
    for claim in claimed_names(cls).values():
        if claim.name not in claim.claims.widened:
            continue
        count, mine = claim.claims.widened[claim.name], inspect.getattr_static(cls, claim.name)
        # Not overridden.
        if mine is claim.value or not isinstance(mine, types.FunctionType):
            continue
        signature = _signature(mine, bound=False)
        if _conflict(cls, claim, mine, bound=False) and signature is not None and _binds(signature, count, ()):
            setattr(cls, claim.name, _narrow(mine, count))
            warnings.warn(
                f"{cls.__name__}.{claim.name}{_parameters(signature)} is called with what {claim} took before; it takes "
                f"({', '.join([*signature_of(claim.value).parameters][1:])}) now",
                OverrideWarning,
                stacklevel=3,
            )


def _warn_of_uncalled(cls: type, namespace: Mapping[str, Any]) -> None:
    """Warn of methods in the body of a user's class that would never run: hooks in another library, and misspelt ones."""
    for name, meant in misspelt(cls, namespace).items():
        # of a class that lacks the method the error says it
        if meant not in getattr(cls, "__abstractmethods__", ()):
            told = f"{cls.__name__}.{name}() is called by nothing here; did you mean {meant}()?"
            warnings.warn(told, OverrideWarning, stacklevel=3)
    for name, remedy in uncalled_names(cls).items():
        # a value under such a name is the author's own: no library would call it
        if isinstance(namespace.get(name), types.FunctionType):
            warnings.warn(f"{cls.__name__}.{name}() is called by nothing here; {remedy}", OverrideWarning, stacklevel=3)


def misspelt(cls: type, namespace: Mapping[str, Any]) -> dict[str, str]:
    """Return the methods of a user's class that are one slip of a key away from one that it may define, with that one.

    Args:
        cls: the class.
        namespace: attributes that its body defines.
    """
    hooks = [
        name
        for name, claim in claimed_names(cls).items()
        if name[0] != "_"
        and name not in claim.claims.internal
        and isinstance(claim.value, types.FunctionType)
        # one that the class defines is spelt rightly
        and inspect.getattr_static(cls, name, None) is claim.value
    ]
    return slips(cls, namespace, hooks)


def slips(cls: type, namespace: Mapping[str, Any], hooks: Iterable[str]) -> dict[str, str]:
    """Return the methods of a user's class that are one slip of a key away from one of these hooks, with that one.

    Args:
        cls: the class.
        namespace: attributes that its body defines.
        hooks: names that it may define.
    """
    known = claimed_names(cls).keys() | set(hooks)
    methods = [
        name
        for name, each in namespace.items()
        if isinstance(each, types.FunctionType) and name[0] != "_" and name not in known
    ]
    return {name: meant for name in methods for meant in hooks if _is_slip(name, meant)}


_WORDS: Final = {
    *("await", "border", "context", "decide", "error", "file", "inner", "name", "names", "padding", "part", "scope", "score"),
    *("sparse", "split", "tiles"),
}
"""Words of their own that are one letter away from a hook: users' classes have such methods, and mean them."""


_ENDINGS: Final = ("s", "d", "r", "n", "y")
"""Letters that make another form of a word: `updates`, `updated`, `updater`, `taken`, `ready`."""


def _is_slip(name: str, meant: str) -> bool:
    """Tell whether a name has one letter more, less or in place of another, or two exchanged; underscores do not count."""
    if name in _WORDS:
        return False
    short, long = sorted((name.replace("_", "").lower(), meant.replace("_", "").lower()), key=len)
    # another form of the word is one of its own, and of short words too many are one letter apart
    if name.endswith(_ENDINGS) and name[:-1] == meant:
        return False
    if len(long) < 4 or len(long) - len(short) > 1:
        return False
    apart = next((place for place, (one, other) in enumerate(zip(short, long, strict=False)) if one != other), len(short))
    if len(short) < len(long):
        return short[apart:] == long[apart + 1 :]
    exchanged = short[apart + 1 : apart + 2] + short[apart : apart + 1] + short[apart + 2 :] == long[apart:]
    return exchanged or (len(short) > 4 and short[apart + 1 :] == long[apart + 1 :])


def uncalled_names(cls: type) -> dict[str, str]:
    """Return the names of methods that the bases of a class do not call and another library does, each with its remedy."""
    return {
        name: remedy
        for base in reversed(cls.__mro__)
        if "_claims" in vars(base)
        for name, remedy in vars(base)["_claims"].uncalled.items()
    }


def _narrow(method: types.FunctionType, count: int) -> Callable[..., Any]:
    """Return a method that calls another one with its first `count` arguments."""

    # `functools.wraps` would show the signature of the narrow one, which the engine's call does not fit
    def called(self: Any, *args: Any, **keywords: Any) -> Any:
        return method(self, *args[:count], **keywords)

    called.__name__, called.__qualname__, called.__doc__ = method.__name__, method.__qualname__, method.__doc__
    return called


def check_class(cls: type) -> None:
    """Refuse a user's class if its body hides a name that one of its base classes claims.

    One that lacks abstract methods cannot be used, and is told of them where it is given; its subclasses are looked at.
    Raises: HiddenName naming class, name and remedy.
    """
    if is_ours(cls) or inspect.isabstract(cls):
        return
    claimed = claimed_names(cls)
    for name, mine in _own_names(cls, claimed):
        reason = _conflict(cls, claimed[name], mine, bound=False)
        if reason:
            raise HiddenName(reason)
        _look_at(cls, claimed[name], mine)


def _names_passed(cls: type, args: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the arguments of a call of a class that its own constructor has, and those of bases of ours, which keep them, that
    it hands on as `**further`.
    """
    makers = (vars(base)["__init__"] for base in cls.__mro__ if is_ours(base) and "__init__" in vars(base))
    known = {name for maker in makers for name in signature_of(maker).parameters}
    parameters = [each for each in signature_of(cls).parameters.values() if each.kind is not each.VAR_POSITIONAL]
    aliases = getattr(inspect.getattr_static(cls, "__init__"), "aliases", {})
    places = (each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD))
    given = [*(name for name, _ in zip(places, args, strict=False)), *(aliases.get(name, name) for name in keywords)]
    hands_on = any(each.kind is each.VAR_KEYWORD for each in parameters)
    handed_on = [name for name in given if hands_on and name in known and name not in signature_of(cls).parameters]
    return tuple(name for name in given if name not in known), tuple(handed_on)


def check_begun(cls: type, item: object) -> None:
    """Refuse an object of a user's class with a constructor that has not called its base's, or lacks arguments that it keeps.

    Raises: TypeError naming the class and the call, or the argument, that is missing.
    """
    if is_ours(cls):
        return
    for name, call in _set_by_constructors(cls):
        if name not in vars(item) and inspect.getattr_static(cls, name, None) is None:
            raise TypeError(f"{cls.__name__}.__init__() must call {call}")
    maker = getattr(cls, "_configured", None)
    # one that gives its arguments in another way need not keep them
    if maker is not None and not is_ours(maker) and is_ours(_owner(cls, "get_config")) and is_ours(_owner(cls, "argument")):
        for each in list(signature_of(maker.__init__).parameters.values())[1:]:
            # what is handed on to the base is kept there
            if each.kind is each.VAR_KEYWORD:
                continue
            if each.name not in vars(item) and inspect.getattr_static(cls, each.name, None) is None:
                raise TypeError(
                    f"{cls.__name__}.__init__() must keep the argument {each.name!r} in an attribute of that name, as "
                    "configured=True says of it"
                )


def _owner(cls: type, name: str) -> type:
    return next(base for base in cls.__mro__ if name in vars(base))


@functools.lru_cache(maxsize=256)
def _set_by_constructors(cls: type) -> tuple[tuple[str, str], ...]:
    """Return claimed attributes that constructors of our bases set, each with the call of the nearest of these."""
    bases = [base for base in cls.__mro__ if is_ours(base) and isinstance(vars(base).get("__init__"), types.FunctionType)]
    # without a constructor of its own the class has that of the base
    if not bases or inspect.getattr_static(cls, "__init__") is vars(bases[0])["__init__"]:
        return ()
    call = f"super().__init__({', '.join(_required(vars(bases[0])['__init__']))})"
    found = []
    for base in bases:
        stored = inspect.unwrap(vars(base)["__init__"]).__code__.co_names
        found += [(name, call) for name in vars(base)["_claims"].fixed if name in stored] if "_claims" in vars(base) else []
    return tuple(found)


def check_object(item: object) -> None:
    """Refuse an object of a user's class if its attributes hide a name that one of its base classes claims.

    Raises: HiddenName naming class, name and remedy.
    """
    cls = type(item)
    if is_ours(cls):
        return
    claimed = claimed_names(cls)
    own = getattr(item, "__dict__", {})
    for name in own.keys() & claimed.keys():
        reason = _conflict(cls, claimed[name], own[name], bound=True)
        if reason:
            raise HiddenName(reason)


def check_like(item: object, interface: type) -> None:
    """Refuse an object that is used as an `interface`, derived from it or not, where a name of it does not fit.

    Raises: HiddenName naming class, name and remedy.
    """
    cls = type(item)
    for name, claim in _names_of((interface,)).items():
        if not name.startswith("_") and hasattr(item, name):
            reason = _conflict(cls, claim, getattr(item, name), bound=True, duck=True)
            if reason:
                raise HiddenName(reason)


def claimed_names(cls: type) -> Mapping[str, _Name]:
    """Return the claims, by name, of the base classes of `cls` that are ours."""
    return _names_of(tuple(base for base in cls.__mro__ if is_ours(base)))


# By the classes of ours alone: most classes of users share them.
@functools.lru_cache(maxsize=256)
def _names_of(ours: tuple[type, ...]) -> Mapping[str, _Name]:
    claims = [vars(base)["_claims"] for base in ours if "_claims" in vars(base)]
    joined = _Claims(
        free=frozenset(name for each in claims for name in each.free),
        fixed=frozenset(name for each in claims for name in each.fixed),
        given=frozenset(name for each in claims for name in each.given),
        internal=frozenset(name for each in claims for name in each.internal),
        mistakable=frozenset(name for each in claims for name in each.mistakable),
        # Reversed, so that the row of the most derived class counts.
        passes={name: call for each in reversed(claims) for name, call in each.passes.items()},
        widened={name: count for each in reversed(claims) for name, count in each.widened.items()},
    )
    found: dict[str, _Name] = {}
    # From the most general base on, so that what a class says replaces what its bases say.
    owners = [(each, base) for base in reversed(ours) for each in (*_former_of(base), base)]
    for owner, base in owners:
        told = inspect.get_annotations(owner)
        # An attribute that is annotated without a value is claimed, too.
        for name in [*told, *vars(owner)]:
            if name in _NO_CLAIM or (name.startswith("__") and name != "__call__"):
                continue
            before = found.get(name)
            value = vars(owner).get(name, _NOTHING)
            if isinstance(value, (_Shown, _Renamed)):
                continue
            text = _text(told[name]) if name in told else before.told if before is not None else ""
            # Annotated again: the value is still that of the base.
            if value is _NOTHING and before is not None:
                value = before.value
            # The class that a user knows, and not a base of it that defines the name.
            shown = next(each for each in ours if base in each.__mro__)
            found[name] = _Name(owner, shown, name, value, text, joined)
    return {name: claim for name, claim in found.items() if name not in joined.free}


def _former_of(base: type) -> tuple[type, ...]:
    return vars(base)["_claims"].former if "_claims" in vars(base) else ()


def conflict(base: type, name: str, mine: Any) -> str:
    """Return why `mine` cannot stand in the body of a subclass under a name that `base` claims, "" where it can."""
    return _conflict(base, claimed_names(base)[name], mine, bound=False)


_NO_CLAIM: Final = frozenset(
    {"_claims", "_configured", "_settables", "_remedies", "_made", "_abc_impl", "_is_protocol", "_is_runtime_protocol"}
)


def is_ours(cls: type) -> bool:
    """Tell whether a class is of this project, so that its definitions are claimed and not refused."""
    return cls.__module__.partition(".")[0] in _OURS


def _own_names(cls: type, claimed: Mapping[str, _Name]) -> Iterator[tuple[str, Any]]:
    """Yield the definitions in the bodies of the user's classes under a claimed name, where they come before the claim."""
    met: set[str] = set()
    for base in cls.__mro__:
        if base.__module__ in ("builtins", "abc", "typing"):
            continue
        # The first body in the order of bases is the one that Python finds.
        for name in vars(base).keys() & claimed.keys() - met:
            met.add(name)
            if not is_ours(base):
                yield name, vars(base)[name]
        if is_ours(base):
            # What stands behind a class of ours in the order of bases is hidden by it.
            met.update(name for owner in _former_of(base) for name in vars(owner))


def _text(annotation: Any) -> str:
    """Return the text of an annotation, which is the class itself in a module that does not postpone annotations."""
    return annotation.__name__ if isinstance(annotation, type) and get_origin(annotation) is None else str(annotation)


def _kind(owner: type, told: str, value: Any) -> Any:
    """Return the type that an annotation means, or else that of a plain value; Any where neither says one."""
    if told.startswith("ClassVar["):
        told = told[len("ClassVar[") : -1]
    if told and told != "ClassVar":
        return _meant(owner, told)
    return type(value) if isinstance(value, (bool, int, float, str, tuple)) else Any


@functools.lru_cache(maxsize=1024)
def _meant(owner: type, told: str) -> Any:
    """Return the type that the text of an annotation means in the module of a class; Any where it does not tell."""
    try:
        space = vars(sys.modules[owner.__module__])
        # A text is evaluated as the annotation of something only.
        return get_type_hints(types.SimpleNamespace(__annotations__={"it": told}), space)["it"]
    except NameError:  # a name for type checkers alone: the value is known by the name of its class
        return _Named(told) if told.isidentifier() else Any
    except (TypeError, AttributeError, KeyError):
        return Any


class _Named(NamedTuple):
    """Class that an annotation names and its module does not import."""

    name: str


def _fits(kind: Any, value: Any) -> bool:
    """Tell whether a value is of the type that an annotation means; True where the annotation does not tell."""
    if isinstance(kind, _Named):
        return any(each.__name__ == kind.name for each in type(value).__mro__)
    origin = get_origin(kind)
    if kind is None or kind is type(None):
        return value is None
    alias = kind if origin is None else origin
    if hasattr(alias, "__value__"):  # of the statement `type`, as NumPy has them from 2.5 on
        return _fits(alias.__value__, value)
    if origin in (Union, types.UnionType):
        return any(_fits(each, value) for each in get_args(kind))
    if origin is Literal:
        return value in get_args(kind)
    if origin is type:
        base = get_args(kind)[0]
        return isinstance(value, type) and (not isinstance(base, type) or issubclass(value, base))
    if origin is list:
        return isinstance(value, list) and all(_fits(get_args(kind)[0], each) for each in value)
    kind = origin or kind
    if not isinstance(kind, type):
        return True
    wider: dict[type, Any] = {bool: (bool, np.bool_), int: Integral, float: Real, tuple: (tuple, list)}
    # A bool is an int to Python, a text a sequence; as values of such attributes they are mistakes.
    if (kind in (int, float) and isinstance(value, bool)) or (kind in (Sequence, Collection) and isinstance(value, str)):
        return False
    try:
        return isinstance(value, wider.get(kind, kind))
    except TypeError:  # a protocol that does not look
        return True


def _conflict(cls: type, claim: _Name, mine: Any, *, bound: bool, duck: bool = False) -> str:
    """Return why `mine` cannot stand where a base claims the name, "" where it can.

    `bound`: it is an object's attribute; `duck`: of one that is not derived from the base.
    """
    what = f"{cls.__name__}.{claim.name}"
    # From the strictest claim to the weakest, so that the message names the reason that matters.
    if claim.name in claim.claims.given:
        return f"{what} hides {claim}, which the engine sets; rename it"
    if claim.name in claim.claims.fixed and not bound:
        return f"{what} hides {claim}, which every object has of its own; rename it, or set it in the constructor"
    if _is_method(claim.value):
        return _method_conflict(what, claim, mine, bound=bound, duck=duck)
    if _is_property(claim.value):
        # A property computes what the engine reads; its type shows only when it is read.
        if _is_property(mine) or bound:
            return ""
        if getattr(claim.value, "fset", None) is not None:
            return f"{what} hides {claim}, which every object has of its own; rename it, or set it in the constructor"
        reader: Any = getattr(claim.value, "fget", None)
        told = _text(inspect.get_annotations(reader).get("return", "")) if reader is not None else ""
        if _is_method(mine) or not _fits(_kind(claim.owner, told, _NOTHING), mine):
            return f"{what} is {_a(mine)} and hides {claim}, which the engine reads{_as(told)}; rename it"
        return ""
    if not bound and (_is_property(mine) or inspect.isdatadescriptor(mine)):
        return ""
    # `len` stands for functions of any kind: an attribute that may hold one may be a method.
    if not bound and _is_method(mine) and claim.kind is not Any and not _fits(claim.kind, len):
        return f"{what} is a method and hides {claim}, which the engine reads{_as(claim.told)}; rename it"
    if not _fits(claim.kind, mine):
        return f"{what} is {_a(mine)} and hides {claim}, which the engine reads{_as(claim.told)}; rename it"
    if bound and claim.name in claim.claims.fixed and claim.value is not _NOTHING and not _equal(mine, claim.value):
        return f"{what} hides {claim}, which the engine counts from {claim.value!r}, and is {mine!r}; rename it"
    return ""


def _method_conflict(what: str, claim: _Name, mine: Any, *, bound: bool, duck: bool) -> str:
    # The function in a classmethod or staticmethod.
    theirs = getattr(claim.value, "__func__", claim.value)
    of_class = isinstance(claim.value, (classmethod, staticmethod))
    names = list(signature_of(theirs).parameters.values())
    if not isinstance(claim.value, staticmethod):
        names = names[1:]
    base = f"{claim}({', '.join(_shown(each) for each in names)})"
    if not bound and (_is_property(mine) or inspect.isdatadescriptor(mine)):
        return f"{what} is no method and hides {base}, which the engine calls; rename it"
    if of_class and not bound and isinstance(mine, types.FunctionType):
        return f"{what} hides {base}, which the engine calls on the class; rename it, or make it a classmethod"
    if not callable(mine) and not isinstance(mine, (classmethod, staticmethod, functools.partialmethod)):
        return f"{what} is {_a(mine)} and hides {base}, which the engine calls; rename it"
    if bound and not duck and not getattr(claim.value, "__isabstractmethod__", False):
        # whether a class has an optional method of its own is asked of the class
        return f"{what} is set on the object and hides {base}, which the engine calls; rename it, or define a method"
    signature = _signature(mine, bound=bound)
    # One fitting call is enough, as the numbers of a `*name` are tried one by one.
    if signature is None or any(_binds(signature, *call) for call in _calls(names, claim)):
        return _exchanged(f"{what}{_parameters(signature)}", base, names, signature) if signature is not None else ""
    return f"{what}{_parameters(signature)} hides {base}, which the engine calls; rename it, or let it take these arguments"


def _exchanged(what: str, base: str, names: Sequence[inspect.Parameter], signature: inspect.Signature) -> str:
    """Return why a method is refused that has the arguments of the base's in another order, "" for any other."""
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    theirs, mine = ([each.name for each in some if each.kind in places] for some in (names, signature.parameters.values()))
    mine = mine[: len(theirs)]
    if mine == theirs or set(mine) != set(theirs):
        return ""
    return f"{what} has the arguments of {base} in another order, and the engine gives them by place"


def _signature(mine: Any, *, bound: bool) -> inspect.Signature | None:
    """Return the signature of a method as it is called on an object; None where Python does not know it."""
    try:
        # Its own arguments are bound when it is read from an object.
        if isinstance(mine, functools.partialmethod):
            return None
        found = signature_of(getattr(mine, "__func__", mine) if not bound else mine)
    except (TypeError, ValueError):
        return None
    takes_self = not bound and isinstance(mine, (types.FunctionType, classmethod))
    if not takes_self:
        return found
    try:  # the first argument is the object, also where `*args` takes it
        names = list(found.parameters.values())
        first = names[0].kind
    except IndexError:
        return inspect.Signature([inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)])
    return found if first is inspect.Parameter.VAR_POSITIONAL else found.replace(parameters=names[1:])


def _calls(names: Sequence[inspect.Parameter], claim: _Name) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield how many arguments, and which keywords, the engine passes: one of these must fit."""
    if claim.name in claim.claims.passes:
        count, *keywords = claim.claims.passes[claim.name]
        yield count, tuple(keywords)
        return
    required = [each for each in names if each.default is each.empty]
    count = sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in required)
    keywords = [each.name for each in required if each.kind is each.KEYWORD_ONLY]
    # `*names` may be any number; as many are tried as a call of the engine has at most.
    more = _MOST_EXTRA if any(each.kind is each.VAR_POSITIONAL for each in names) else 0
    yield from ((count + extra, tuple(keywords)) for extra in range(more + 1))


def _binds(signature: inspect.Signature, count: int, keywords: Sequence[str]) -> bool:
    try:
        # Their number counts, not the values.
        signature.bind(*[None] * count, **dict.fromkeys(keywords))
    except TypeError:
        return False
    return True


_UNWRITTEN: Final = 0x155
"""Payload of the NaNs in an array that a method has to fill."""


def written(owner: object, method: str, given: Sequence[Any], out: Any) -> None:
    """Call a method of a user's class that writes into an array, for the first time, and refuse one that does not.

    Args:
        owner: the object with the method.
        method: its name.
        given: its arguments, of which no array but `out` and those that may be changed can be written to.
        out: the floats that it has to write, all of them.

    Raises:
        TypeError: for a method that takes other arguments, or returns something.
        ValueError: for one that writes nothing, or an array that does not fit.
        Errors of other types that the method raises, as they are: its author may catch them.
    """
    name, hook = f"{type(owner).__name__}.{method}", getattr(owner, method)
    if not takes(hook, given, {}):
        raise TypeError(f"{name}{_parameters(signature_of(hook))} is called with {len(given)} arguments, which it must take")
    # numbers that are none, of which the bits are those of no result
    bits = out.view(f"u{out.itemsize}")
    blank = np.array(np.nan, out.dtype).view(bits.dtype) + bits.dtype.type(_UNWRITTEN)
    bits.fill(blank)
    try:
        returned = hook(*given)
    except (TypeError, ValueError) as error:
        # NumPy has types of its own for some that it raises for arrays that do not fit
        if type(error) not in (TypeError, ValueError) and not type(error).__module__.endswith("_exceptions"):
            raise
        hint = "; it may change 'out' and its slots, and nothing else" if "read-only" in str(error) else ""
        raise (TypeError if isinstance(error, TypeError) else ValueError)(f"{name}(): {error}{hint}") from error
    if returned is not None:
        raise TypeError(
            f"{name}() must write its result into 'out', {described(out)}, and return nothing, got {described(returned)}"
        )
    if (bits == blank).all():
        raise ValueError(
            f"{name}() must write its result into 'out', {described(out)}, and has written nothing; out[:] = .. does"
        )


def described(value: object) -> str:
    """Return type and shape of a value that is an array, the type of any other, for people."""
    return f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__


def takes(called: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    """Tell whether a callable takes these arguments, so that a TypeError of the call is one of its own code."""
    try:
        signature_of(called).bind(*args, **keywords)
    except (TypeError, ValueError):
        return False
    return True


def _look_at(cls: type, claim: _Name, mine: Any) -> None:
    """Warn of a method that seems to replace one of the engine's by accident."""
    claims = claim.claims
    if claim.name not in claims.internal | claims.mistakable:
        return
    text = _mistaken(cls, claim, mine, by_name=claim.name in claims.mistakable)
    if text:
        warnings.warn(text, OverrideWarning, stacklevel=4)


def mistakable(cls: type, base: type, name: str, mine: Any) -> str:
    """Return the warning for a method that may stand under a claimed name by accident, "" where it is meant to."""
    return _mistaken(cls, claimed_names(base)[name], mine, by_name=True)


def _mistaken(cls: type, claim: _Name, mine: Any, *, by_name: bool) -> str:
    if not isinstance(mine, types.FunctionType):
        return ""
    theirs, own = _required(claim.value), _required(mine)
    # It goes on to the base's, so it is meant to stand there.
    if "super" in mine.__code__.co_names or (by_name and not {*theirs}.isdisjoint(own)):
        return ""
    base = f"{claim}({', '.join(theirs)})"
    return (
        f"{cls.__name__}.{claim.name}({', '.join(own)}) takes the place of {base}, which the engine calls; rename it unless "
        f"that is meant"
    )


def _required(method: Callable[..., Any]) -> list[str]:
    names = list(signature_of(method).parameters.values())[1:]
    return [each.name for each in names if each.default is each.empty]


def _explain(cls: type, error: AttributeError) -> None:
    """Say of an attribute that cannot be set that it is a base class's.

    Raises: HiddenName.
    """
    if is_ours(cls):
        return
    for name, claim in claimed_names(cls).items():
        # An error of a property names itself in its text alone.
        if isinstance(claim.value, property) and claim.value.fset is None and str(error) == _refusal(cls, claim.value):
            raise HiddenName(f"{cls.__name__}.{name} hides {claim}, which the engine reads; rename it") from error


def _refusal(cls: type, read_only: property) -> str:
    """Return the error text of this Python where the property of an object of `cls` is set; it differs between versions."""
    try:
        read_only.__set__(object.__new__(cls), None)
    except AttributeError as error:
        return str(error)
    return ""


def _is_method(value: Any) -> bool:
    return isinstance(value, (types.FunctionType, classmethod, staticmethod, functools.partialmethod))


def _is_property(value: Any) -> bool:
    return isinstance(value, (property, functools.cached_property))


def _equal(mine: Any, theirs: Any) -> bool:
    return type(mine) is type(theirs) and bool(mine == theirs)


def _a(value: Any) -> str:
    """Return the type of a value, for people."""
    if _is_method(value) or isinstance(value, types.MethodType):
        return "a method"
    if value is None:
        return "None"
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _as(told: str) -> str:
    text = told[len("ClassVar[") : -1] if told.startswith("ClassVar[") else told
    return f" as {text}" if text else ""


def _shown(parameter: inspect.Parameter) -> str:
    return str(parameter.replace(annotation=inspect.Parameter.empty))


def _parameters(signature: inspect.Signature) -> str:
    return f"({', '.join(_shown(each) for each in signature.parameters.values())})"
