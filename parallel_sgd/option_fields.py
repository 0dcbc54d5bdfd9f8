"""What is known of an option of `parallel()` besides its type and default, and the checks of single values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping, Sized
from dataclasses import dataclass, field
from importlib.util import find_spec
from numbers import Integral
from pathlib import Path
from typing import Any, Final

from network import faults
from network.values import encode
from nn import arguments
from nn.callback import Callback
from rpc import limits, shipping, submit
from rpc.files import is_safe_name
from rpc.job import PORTABLE

from .codec.choice import shown
from .report import check_title as check_file_name

VALUE: Final = "value"
CODE: Final = "code"
HERE: Final = "here"
"""How an option reaches the nodes: as a plain value, as an object with its code, or not at all."""


@dataclass(frozen=True)
class Flag:
    """An option on the command line: its names, the group that shows it, and what `add_argument` takes besides.

    Without a `help` the text of the option is shown, and behind either the default, unless the help has one of its own.
    """

    names: tuple[str, ...]
    group: str
    help: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Option:
    """What is known of an option besides its type and default. `check(name, value)` returns the value in its plain form."""

    text: str
    check: Callable[[str, Any], Any]
    flag: Flag | None
    travels: str


def about(
    text: str, check: Callable[[str, Any], Any] | None = None, flag: Flag | None = None, travels: str = VALUE
) -> Mapping[str, Option]:
    """The metadata of a field: it means `text`; one without a `check` is checked with what it depends on, in `spec`."""
    return {"option": Option(text, check or check_any, flag, travels)}


def option(
    default: Any, text: str, check: Callable[[str, Any], Any] | None = None, flag: Flag | None = None, travels: str = VALUE
) -> Any:
    return field(default=default, metadata=about(text, check, flag, travels))


def flag(names: str, group: str, help: str = "", **settings: Any) -> Flag:
    """The flag `names`, separated by blanks."""
    return Flag(tuple(names.split()), group, help, settings)


# ---- checks of a value by the name of its option; each returns the value in its plain form


def check_any(_name: str, value: Any) -> Any:
    return value


def check_instance(kind: type[Any]) -> Callable[[str, Any], Any]:
    return lambda name, value: arguments.instance("parallel()", name, value, kind)


def check_class(base: type[Any], setting: tuple[type[Any], ...] | type[Any] = ()) -> Callable[[str, Any], Any]:

    def check(name: str, value: Any) -> Any:
        if isinstance(value, setting):
            return value
        if not (inspect.isclass(value) and issubclass(value, base)) or inspect.isabstract(value):
            raise TypeError(f"'{name}' must be a complete class derived from {base.__name__}, got {shown(value)}")
        return value

    return check


def check_number(low: float, high: float = float("inf"), *, open_low: bool = False) -> Callable[[str, Any], float]:
    return lambda name, value: arguments.number("parallel()", name, value, low, high, open_low=open_low)


def check_positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"'{name}' must be a positive integer, got {value!r}")
    return value


def check_title(name: str, title: Any) -> str:
    """The title, if result files with it in their names can be fetched from a worker, and a run can have it in its name."""
    if not isinstance(title, str):
        raise TypeError(f"'{name}' must be a text, got {title!r}")
    if not (is_safe_name(f"MODEL-{check_file_name(title)}-N(0000).model") and is_safe_name(submit.run_name(title))):
        raise ValueError(
            f"'{name}' must be at most 100 ASCII letters, digits, spaces or any of ._()+-, without '..', and begin with "
            f"a letter or a digit, got {title!r}"
        )
    return title


def check_parameters(name: str, parameters: Any) -> dict[Hashable, Any]:
    """A dict of plain data by keys that may travel; None is an empty one."""
    if parameters is None:
        return {}
    if not isinstance(parameters, Mapping):
        raise TypeError(f"'{name}' must be a dict, got {type(parameters).__qualname__}")
    try:
        encode(list(parameters.values()))
        shipping.pack({"keys": list(parameters)})
    except TypeError as error:
        raise TypeError(f"'{name}' must hold what may travel: {error}") from error
    return dict(parameters)


def check_seed(name: str, seed: Any) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 63:
        raise ValueError(f"'{name}' must be an integer from 0 to 2^63 - 1, got {seed!r}")
    return seed


def check_threads(name: str, threads: Any) -> int | str:
    if threads != "auto" and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise ValueError(f"'{name}' must be a positive integer or 'auto', got {threads!r}")
    return threads  # type: ignore[no-any-return]


def check_bits(name: str, bits: Any) -> str | None:
    if bits not in (None, PORTABLE):
        raise ValueError(f"'{name}' must be {PORTABLE!r} or None, got {bits!r}")
    return bits  # type: ignore[no-any-return]


def check_fault(_name: str, fault: Any) -> str:
    return str(fault if isinstance(fault, faults.FaultPlan) else faults.FaultPlan.parse(fault))


def check_stall(name: str, seconds: Any) -> float | None:
    return None if seconds is None else check_number(limits.LEAST_SILENCE, limits.MOST_SECONDS)(name, seconds)


def check_switch(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"'{name}' must be True or False, got {value!r}")
    return value


def check_page(name: str, value: Any) -> bool:
    if check_switch(name, value) and not (find_spec("starlette") and find_spec("uvicorn")):
        raise ValueError(f"'{name}' needs Starlette and uvicorn, which are not installed: pip install parallel-sgd[page]")
    return bool(value)


def check_directory(name: str, directory: Any) -> Path:
    if not isinstance(directory, (str, Path)):
        raise TypeError(f"'{name}' must be a path, got {directory!r}")
    return Path(directory)


def check_callbacks(name: str, callbacks: Any) -> tuple[Callback, ...]:
    if isinstance(callbacks, Callback):
        raise TypeError(f"'{name}' must be a list of callbacks, got {type(callbacks).__name__}; write [...]")
    if not isinstance(callbacks, Iterable) or isinstance(callbacks, str):
        raise TypeError(f"'{name}' must be a list of callbacks, got {type(callbacks).__name__}")
    return tuple(arguments.instance("parallel()", name, callback, Callback) for callback in callbacks)


def check_writers(name: str, writers: Any) -> tuple[Any, ...]:
    if not isinstance(writers, str) and isinstance(writers, Sized) and not len(writers):
        return ()
    from .writers import interface  # noqa: PLC0415 - for who follows a job

    return interface.check_writers(name, writers)


def check_weights(name: str, weights: Any) -> dict[int, float] | None:
    if weights is None:
        return None
    if not isinstance(weights, Mapping):
        raise TypeError(f"'{name}' must map class numbers to weights, got {type(weights).__name__}")
    for number in weights:
        if isinstance(number, bool) or not isinstance(number, Integral):
            raise ValueError(f"'{name}' must have class numbers as keys, got {number!r}")
    return {int(number): check_number(0)(f"{name}[{number}]", weight) for number, weight in weights.items()}
