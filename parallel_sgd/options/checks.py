"""Checks of one value by the name of its option; each returns the value in its plain form."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Hashable, Mapping, Sized
from importlib.util import find_spec
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from network import faults
from network.values import encode
from nn import arguments
from nn.callback import Callback
from nn.model.class_weights import BALANCED
from rpc import shipping, submit
from rpc.job import BITS
from rpc.support.files import is_safe_name

from ..codec.choice import shown
from ..engine.progress import Position
from ..record.bounds import check_title as check_file_name

if TYPE_CHECKING:
    from ..federated.clients import Clients
    from ..record.keys import SigningKey


def instance(kind: type[Any], source: str = "") -> Callable[[str, Any], Any]:
    """Make a check that a value is an instance of `kind`.

    Args:
        kind: the class.
        source: words on where instances come from.
    """
    return lambda name, value: arguments.instance("parallel()", name, value, kind, source)


def subclass(base: type[Any], setting: tuple[type[Any], ...] | type[Any] = ()) -> Callable[[str, Any], Any]:
    """Make a check that a value is a class derived from `base` that is not abstract, or an instance of `setting`.

    Args:
        base: the class from which the value must be derived.
        setting: type or types whose instances stand for a class with arguments, such as `SyncSetting`.
    """

    def check(name: str, value: Any) -> Any:
        if isinstance(value, setting):
            if hasattr(value, "_check"):
                value._check()  # of all that it needs, as far as its own class can tell
            return value
        if isinstance(value, type) and issubclass(value, setting):
            raise TypeError(f"'{name}' must be an object of {value.__name__}, got the class; write {value.__name__}(..)")
        # an abstract class would fail on the nodes, where it is made
        if not (inspect.isclass(value) and issubclass(value, base)) or inspect.isabstract(value):
            raise TypeError(f"'{name}' must be a complete class derived from {base.__name__}, got {shown(value)}")
        return value

    return check


def number(low: float, high: float = float("inf"), *, open_low: bool = False) -> Callable[[str, Any], float]:
    """Make a check that a value is a number from `low` to `high`; the check returns it as a float.

    Args:
        low: the smallest number that is taken.
        high: the largest number that is taken; default no limit.
        open_low: refuse `low` itself.
    """
    return lambda name, value: arguments.number("parallel()", name, value, low, high, open_low=open_low)


def positive(name: str, value: Any) -> int:
    """Check that a value is an integer of 1 or more.

    Args:
        name: name of the option, for the message.
        value: the value of the option.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"'{name}' must be a positive integer, got {value!r}")
    return value


def kept(name: str, value: Any) -> int | tuple[int, int]:
    """Check that a value is an integer of 1 or more, or the position of a checkpoint that stays (`checkpoint.schedule.Kept`).

    Args:
        name: name of the option, for the message.
        value: the value of the option.
    """
    return (value[0], value[1]) if isinstance(value, Position) else positive(name, value)


def optional(check: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    """Make a check that takes None, and gives any other value to `check`."""
    return lambda name, value: None if value is None else check(name, value)


def title(name: str, value: Any) -> str:
    """Check that result files with the title in their names can be fetched from a worker, and that a run can have it in its
    name.
    """
    if not isinstance(value, str):
        raise TypeError(f"'{name}' must be a text, got {value!r}")
    strange = any(
        "\ud800" <= letter <= "\udfff" for letter in value
    )  # as Python has bytes of a command line that it cannot read
    # longest names that will be made of it: `MODEL-..` of a four-digit node, and the folder of the run
    if strange or not (
        is_safe_name(f"MODEL-{check_file_name(value, name)}-N(0000).model") and is_safe_name(submit.run_name(value))
    ):
        encoding = f", which has bytes that the encoding of this program, {sys.getfilesystemencoding()}, cannot read"
        raise ValueError(
            f"'{name}' must be at most 100 ASCII letters, digits, spaces or any of ._()+-, without '..', and begin with "
            f"a letter or a digit, got {value!r}{encoding if strange else ''}"
        )
    return value


def parameters(name: str, value: Any) -> dict[Hashable, Any]:
    """Check that a value is a dict of plain data by keys that may travel, and return a copy; None stands for an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"'{name}' must be a dict, got {type(value).__qualname__}")
    try:
        # tried as they will travel; the result is made again when the job is sent
        encode(list(value.values()))
        shipping.pack({"keys": list(value)})
    except TypeError as error:
        raise TypeError(f"'{name}' must hold what may travel: {error}") from error
    return dict(value)


def seed(name: str, value: Any) -> int:
    """Check that a value is an integer from 0 to 2^63 - 1."""
    # below 2^63: TOML and the wire have integers of 64 bits with sign
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise ValueError(f"'{name}' must be an integer from 0 to 2^63 - 1, got {value!r}")
    return value


def threads(name: str, value: Any) -> int | str:
    """Check that a value is a positive integer or `auto`."""
    if (not isinstance(value, str) or value != "auto") and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ValueError(f"'{name}' must be a positive integer or 'auto', got {value!r}")
    return value


def bits(name: str, value: Any) -> str | None:
    """Check that a value is None or one of `rpc.job.BITS`."""
    if value is not None and (not isinstance(value, str) or value not in BITS):
        raise ValueError(f"'{name}' must be one of {', '.join(map(repr, BITS))}, or None, got {value!r}")
    return value


def fault(_name: str, value: Any) -> str:
    """Check a plan of faults, and return its text."""
    return str(value if isinstance(value, faults.FaultPlan) else faults.FaultPlan.parse(value))


def switch(name: str, value: Any) -> bool:
    """Check that a value is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"'{name}' must be True or False, got {value!r}")
    return value


def page(name: str, value: Any) -> bool:
    """Check a switch; True needs Starlette and uvicorn."""
    # found without an import: neither is needed before the page is served
    if switch(name, value) and not (find_spec("starlette") and find_spec("uvicorn")):
        raise ValueError(f"'{name}' needs Starlette and uvicorn, which are not installed: pip install starlette uvicorn")
    return bool(value)


def signing_key(name: str, value: Any) -> SigningKey:
    """Read the private key in a file; a `SigningKey` stays as it is."""
    from ..record.keys import SigningKey  # noqa: PLC0415 - for a job that is signed

    if not isinstance(value, (str, Path, SigningKey)):
        raise TypeError(f"'{name}' must be the path of a private key, got {value!r}")
    return value if isinstance(value, SigningKey) else SigningKey.read(Path(value), f"'{name}'")


def clients(name: str, value: Any) -> Clients | None:
    """Check that a value is None or a population of clients."""
    if value is None:
        return None
    from ..federated.clients import Clients  # noqa: PLC0415 - for a job with clients

    made: Clients = arguments.instance("parallel()", name, value, Clients)
    return made


def directory(name: str, value: Any) -> Path:
    """Check that a value is a path."""
    if not isinstance(value, (str, Path)):
        raise TypeError(f"'{name}' must be a path, got {value!r}")
    if advice := arguments.as_on_windows(os.fspath(value)):
        raise ValueError(
            f"'{name}' must be a path as this system writes it, got {os.fspath(value)!r}: it is one name here, {advice}"
        )
    return Path(value)


def callbacks(name: str, value: Any) -> tuple[Callback, ...]:
    """Check that a value is a list of callbacks."""
    if isinstance(value, Callback):
        raise TypeError(f"'{name}' must be a list of callbacks, got {type(value).__name__}; write [...]")
    if not arguments.is_list(value):
        raise TypeError(f"'{name}' must be a list of callbacks, got {type(value).__name__}")
    return tuple(arguments.instance("parallel()", name, callback, Callback) for callback in value)


def writers(name: str, value: Any) -> tuple[Any, ...]:
    """Check that a value is a list of writers, or of modules of the shape of `wandb`."""
    # nothing given: the writers' module need not be loaded
    if arguments.is_list(value) and isinstance(value, Sized) and not len(value):
        return ()
    from ..writers import interface  # noqa: PLC0415 - for a job with writers

    return interface.check_writers(name, value)


def weights(name: str, value: Any) -> dict[Any, Any] | str | None:
    """Check weights of classes: a mapping by class number or name to numbers from 0, `balanced`, or None.

    Those of a model of several outputs are a mapping from the names of outputs to one of these.
    """
    if value is None or (isinstance(value, str) and value == BALANCED):
        return None if value is None else BALANCED
    if not isinstance(value, Mapping):
        got = repr(value) if isinstance(value, str) else type(value).__name__
        raise TypeError(
            f"'{name}' must map class numbers to weights, got {got}; names of classes and 'balanced' are taken, too"
        )
    for label in value:
        if isinstance(label, bool) or not isinstance(label, (Integral, str)):
            raise ValueError(f"'{name}' must have class numbers or names as keys, got {label!r}")
    if any(isinstance(each, Mapping) or each == BALANCED for each in value.values()):
        return {str(output): weights(f"{name}[{output}]", each) for output, each in value.items()}
    # lazily: a weight is checked under the name of its class
    checked = ((label, number(0)(f"{name}[{label}]", weight)) for label, weight in value.items())
    return {label if isinstance(label, str) else int(label): weight for label, weight in checked}
