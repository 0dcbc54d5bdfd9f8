"""Names for the parts of a model, so that a file can name the parts to build without being able to say how.

A built-in class is written as `<kind>.<class>`, a user's own as `custom:<class>`; the latter is found only among the classes
that the caller of `load` passes. So it is for functions: a file holds their names.

Arguments are checked against the constructor's signature before it is called.
"""

from __future__ import annotations

import inspect
import types
import typing
from abc import ABCMeta
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeAlias

from nn.arguments import Configurable, config_of, short
from nn.extension import annotations_of, signature_of

CustomObjects: TypeAlias = Mapping[str, Callable[..., Any]]
"""Classes and functions of a user's own, by their names."""

_CUSTOM = "custom:"
_SAME = "same"
_FUNCTION = "function"
_FUNCTIONS = "nn.function"

#: Modules of the classes of each kind, and their base classes. They are imported when a file names them.
_KINDS: Mapping[str, tuple[str, str]] = types.MappingProxyType(
    {
        "activation": ("nn.activation", "Activation"),
        "constraint": ("nn.constraint", "Constraint"),
        "gradient_descent": ("nn.gradient_descent", "IGradientDescent"),
        "initializer": ("nn.initializer", "Initializer"),
        "layer": ("nn.layer", "Layer"),
        "loss": ("nn.loss", "Loss"),
        "metric": ("nn.metric", "Metric"),
        "optimizer": ("nn.optimizer", "IOptimizer"),
        "regularizer": ("nn.regularizer", "Regularizer"),
        "schedule": ("nn.gradient_descent.schedule", "Schedule"),
        "weight_decay": ("nn.gradient_descent", "KernelDecay"),
    }
)

_MODEL = ("nn.model", "Model")


class UnknownClassError(ValueError):
    """A description names a class that is neither built in nor passed by the caller."""


def find_built_in(name: str) -> type[Any] | None:
    """Return the class of the package that a file may name `<kind>.<class>`, None where there is none."""
    kind, _, own = name.partition(".")
    return _public(*_KINDS[kind], own) if kind in _KINDS else None


def find_model(name: str) -> type[Any] | None:
    """Return the model of the package that a file may name `model.<class>`, None where there is none."""
    kind, _, own = name.partition(".")
    return _public(*_MODEL, own) if kind == "model" else None


def _public(package: str, base: str, name: str) -> type[Any] | None:
    """Return the public class of a package that is derived from its `base` and can be made."""
    # Imported when a file names it: most files name few kinds.
    module = import_module(package)
    # Public names only: a file may not reach what a module imports.
    if name not in module.__all__:
        return None
    found = getattr(module, name)
    if inspect.isclass(found) and issubclass(found, getattr(module, base)) and not inspect.isabstract(found):
        return found
    return None


def class_name(found: type[Any]) -> str:
    """Return the name under which a file refers to a class."""
    own = found.__name__
    if found.__module__.startswith("nn.model."):
        return f"model.{own}"
    if found.__module__.startswith("nn."):
        for kind in _KINDS:
            # The very class: two kinds may have one of the same name, such as `Constant`.
            if find_built_in(f"{kind}.{own}") is found:
                return f"{kind}.{own}"
    return _CUSTOM + own


def find_class(name: object, base: type[Any], custom_objects: CustomObjects) -> type[Any]:
    """Return the class of a name.

    Raises UnknownClassError for a name that is not known, ValueError for a class that is not derived from `base`.
    """
    if isinstance(name, str) and name.startswith(_CUSTOM):
        found = custom_objects.get(name.removeprefix(_CUSTOM))
        if found is None:
            # A file may be a stranger's, and its texts of any length.
            own = name.removeprefix(_CUSTOM)[:80]
            raise UnknownClassError(f"class {own!r} is not part of nn; pass it as custom_objects={{{own!r}: <the class>}}")
    else:
        found = find_built_in(name) or find_model(name) if isinstance(name, str) else None
        if found is None:
            raise UnknownClassError(f"no class of nn is registered as {str(name)[:80]!r}")
    if not isinstance(found, type) or not issubclass(found, base):
        raise ValueError(f"expected a class derived from {base.__name__}, got {str(name)[:80]!r}")
    return found


def function_name(function: types.FunctionType) -> str:
    """Return the name under which a file refers to a function."""
    built_in = function.__module__ == _FUNCTIONS and function.__name__ in import_module(_FUNCTIONS).__all__
    return function.__name__ if built_in else _CUSTOM + function.__name__


def find_function(name: object, custom_objects: CustomObjects) -> Callable[..., Any]:
    """Return the function of a name; raise UnknownClassError for one that is not known, ValueError for another object."""
    text = str(name)[:80]
    if isinstance(name, str) and name.startswith(_CUSTOM):
        own = text.removeprefix(_CUSTOM)
        found = custom_objects.get(name.removeprefix(_CUSTOM))
        if found is None:
            raise UnknownClassError(
                f"function {own!r} is not part of nn; pass it as custom_objects={{{own!r}: <the function>}}"
            )
    else:
        functions = import_module(_FUNCTIONS)
        if name not in functions.__all__:
            raise UnknownClassError(f"no function of nn.function is named {text!r}")
        found = getattr(functions, str(name))
    if not isinstance(found, types.FunctionType):
        raise ValueError(f"expected a function, got {short(found)} for {text!r}")
    return found


def describe(value: Any, seen: dict[int, int] | None = None) -> Any:
    """Return a description of a configurable object, or of a plain value, as JSON can hold it.

    Args:
        value: to be described.
        seen: the numbers of the objects so far that are one wherever they stand, by `id`; a second place of such an object,
            such as of a layer that is used twice, refers to it: ``{"same": 0}``.
    """
    seen = {} if seen is None else seen
    if isinstance(value, Configurable):
        if id(value) in seen:
            return {_SAME: seen[id(value)]}
        config = {**describe_arguments(value, seen), **value._config_within()}
        described = {"class": class_name(type(value)), "config": config}
        # Numbered behind its arguments: `build` makes these first and counts in the same order.
        if value._one_everywhere:
            seen[id(value)] = len(seen)
        return described
    if isinstance(value, (list, tuple)):
        return [describe(item, seen) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, types.FunctionType) and value.__name__.isidentifier():
        return {_FUNCTION: function_name(value)}
    raise TypeError(f"a configuration holds numbers, texts, lists and parts of models, got {type(value).__name__} {value!r}")


def describe_arguments(value: Configurable, seen: dict[int, int] | None = None) -> dict[str, Any]:
    """Return the description of the constructor's arguments; raise ValueError where they do not fit the constructor.

    Args:
        value: the object with the arguments.
        seen: as in `describe`.
    """
    seen = {} if seen is None else seen
    config = {name: describe(argument, seen) for name, argument in config_of(value).items()}
    kind = type(value).__name__
    _check_arguments(type(value), config, "get_config() of", f"; class {kind}(.., configured=True) tells what self.{{0}} is")
    for name in vars(value).get("_passed", ()):
        if name not in config:
            raise ValueError(
                f"get_config() of {kind} must return {name!r}, which its constructor was given, got "
                f"{', '.join(config) or 'no argument'}; class {kind}(.., configured=True) tells that self.{name} is it"
            )
    return config


def build(
    description: object,
    base: type[Any],
    custom_objects: CustomObjects,
    made: list[Configurable] | None = None,
) -> Any:
    """Return the object of a description, which must be an instance of `base`; raise ValueError naming the fault.

    Args:
        description: as `describe` gives it.
        base: the class of which the object must be.
        custom_objects: classes of a user's own, by name.
        made: the objects so far that are one wherever they stand, in the order of their numbers.
    """
    made = [] if made is None else made
    if isinstance(description, dict) and description.keys() == {_SAME}:
        number = description[_SAME]
        # bool is a kind of int: `true` in a file would be part 1
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < len(made):
            raise ValueError(f"'{_SAME}' must be the number of one of the {len(made)} parts before it, got {str(number)[:80]}")
        return made[number]
    if not isinstance(description, dict) or description.keys() != {"class", "config"}:
        raise ValueError(f"the description of a {base.__name__} must have 'class' and 'config', got {str(description)[:80]}")
    found = find_class(description["class"], base, custom_objects)
    built = construct(found, description["config"], custom_objects, made)
    # As `describe` counts: behind the parts in its arguments.
    if isinstance(built, Configurable) and built._one_everywhere:
        made.append(built)
    return built


def code_of(*parts: object) -> list[type[Any] | types.FunctionType]:
    """Return the classes of `parts` and of their arguments, and functions among these, each once.

    A part may be an object or, for a part that is configured by class, a class.
    """
    found: dict[type[Any] | types.FunctionType, None] = {}
    todo = list(parts)
    while todo:
        part = todo.pop()
        if isinstance(part, Configurable):
            found[type(part)] = None
            # Also within parts of nn: a layer may hold a user's activation.
            todo += config_of(part).values()
        elif isinstance(part, (list, tuple)):
            todo += part
        elif isinstance(part, (type, types.FunctionType)):
            found[part] = None
    return list(found)


def custom_classes(*parts: object) -> dict[str, Callable[..., Any]]:
    """Return of `code_of` the classes and functions that are no part of nn, by name: `load` needs these."""
    named = {each: class_name(each) if isinstance(each, type) else function_name(each) for each in code_of(*parts)}
    return {each.__name__: each for each, name in named.items() if name.startswith(_CUSTOM)}


def construct(found: type[Any], config: object, custom_objects: CustomObjects, made: list[Configurable] | None = None) -> Any:
    """Return an instance of a class for a description of its arguments; raise ValueError naming those that do not fit.

    Args:
        found: the class.
        config: the description.
        custom_objects: classes of a user's own, by name.
        made: as in `build`.
    """
    made = [] if made is None else made
    if not isinstance(config, dict):
        raise ValueError(f"the configuration of {found.__name__} must be an object, got {str(config)[:80]}")
    # Before any argument is built, so that a wrong name costs no work and runs no constructor.
    defaults = _check_arguments(found, config, "description of")
    arguments = {name: _build_argument(value, custom_objects, made) for name, value in config.items()}
    _check_types(found, {name: value for name, value in arguments.items() if not _is_default(value, defaults.get(name))})
    try:
        return found(**arguments)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{found.__name__} cannot be built: {error}") from error


def _build_argument(value: object, custom_objects: CustomObjects, made: list[Configurable]) -> object:
    # Before other dicts, which are descriptions of parts.
    if isinstance(value, dict) and value.keys() == {_FUNCTION}:
        return find_function(value[_FUNCTION], custom_objects)
    if isinstance(value, dict):
        return build(value, Configurable, custom_objects, made)
    if isinstance(value, list):
        return [_build_argument(item, custom_objects, made) for item in value]
    return value


def _check_arguments(found: type[Any], config: Mapping[str, object], what: str, remedy: str = "") -> Mapping[str, object]:
    """Return the defaults of the constructor's arguments; raise ValueError where those of `config` do not fit it."""
    parameters = _parameters(found)
    # A `*names` cannot be given by its name.
    names = {parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL}
    # and one that takes any name says itself which it does not know
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    needed = {
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    unknown, missing = [] if takes_all else sorted(set(config) - names), sorted(needed - set(config))
    if unknown or missing:
        needs = f"needs the argument {missing[0]!r}{remedy.format(missing[0])}" if missing else ""
        own = f"; class {found.__name__}(.., configured=True) tells of those that it has" if remedy else ""
        problem = f"has no argument {unknown[0][:80]!r}{own}" if unknown else needs
        raise ValueError(f"{what} {found.__name__}: the constructor {problem}")
    return {parameter.name: parameter.default for parameter in parameters}


def _is_default(value: object, default: object) -> bool:
    """Tell if an argument is a plain value that the constructor has by itself, so that its type needs no look."""
    return type(value) is type(default) and (value is None or isinstance(value, (bool, int, float, str))) and value == default


def _parameters(found: type[Any]) -> Sequence[inspect.Parameter]:
    """Return the parameters of the constructor.

    That of a class which defines none is written in C, and takes milliseconds to be read.
    """
    if type(found) in (type, ABCMeta) and not any({"__new__", "__init__"} & vars(kind).keys() for kind in found.__mro__[:-1]):
        return ()
    return tuple(signature_of(found).parameters.values())


def _check_types(found: type[Any], arguments: Mapping[str, object]) -> None:
    if not arguments:
        return
    # unwrapped: annotations are those of the module of the constructor itself
    maker = inspect.unwrap(found.__init__)
    try:
        annotations = {name: told for name, told in annotations_of(maker).items() if name in arguments}
        # each text is compiled. With extras: no argument has any, and to look for them takes a fifth of the time
        hints = typing.get_type_hints(
            types.SimpleNamespace(__annotations__=annotations), getattr(maker, "__globals__", {}), include_extras=True
        )
    except NameError:  # a user's class may annotate with names that exist for the type checker only
        return
    for name, value in arguments.items():
        if name in hints and not _matches(value, hints[name]):
            raise ValueError(f"{found.__name__} '{name}' must be {hints[name]}, got {str(value)[:80]!r}")


def _matches(value: object, hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_matches(value, option) for option in typing.get_args(hint))
    if origin is typing.Literal:
        return value in typing.get_args(hint)
    if origin is Callable:
        return isinstance(value, types.FunctionType)
    if origin in (list, tuple, Sequence):
        items = [option for option in typing.get_args(hint) if option is not ...]
        return isinstance(value, (list, tuple)) and all(_matches(item, items[0]) for item in value)
    if hint is Any:
        return True
    if hint in (bool, int, float):
        accepted = (int, float) if hint is float else hint
        # A bool is an int to Python; it must not pass for a number, nor a number for a bool.
        return isinstance(value, accepted) and isinstance(value, bool) == (hint is bool)
    return not isinstance(hint, type) or isinstance(value, hint)
