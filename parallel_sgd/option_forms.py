"""Forms: how the value of an option stands on the command line and in `job.toml`.

Most values stand there as they are; any other kind of value has a class here that reads and writes it, and a name in `FORMS`.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from nn.callback import Callback
from nn.model.class_weights import BALANCED

from .batch_sync.sync.interface import SyncSetting
from .profiles import FixedBlocks


class Unnamed(ValueError):
    """Only a program can make it; the message says what it is."""


class Form:
    """A value that stands there as it is, or as the text that `type` of its flag reads."""

    kinds: ClassVar[tuple[type, ...]] = ()  # of what may stand in the file; by default that of the flag
    settings: Mapping[str, Any] = {}  # of the flag: what `add_argument` takes

    def meant(self, option: str, given: Any) -> Any:
        """What is meant by a word that `parallel()` is given; `option` is what messages call it."""
        return given

    def read(self, option: str, given: Any) -> Any:
        """The value of what stands there."""
        return given

    def write(self, value: Any) -> Any:
        """What stands in the file for a value, None for nothing.

        Raises: Unnamed for one that has no text.
        """
        check_plain(value)
        return value


class LeftOut(Form):
    """What has another place in the file."""

    def write(self, value: Any) -> None:
        pass


class Text(Form):
    """A text in any case."""

    def write(self, value: Any) -> Any:
        return str(value)


class Threads(Text):
    """A number, or `auto`."""

    def read(self, option: str, given: str) -> str | int:
        try:
            return given if given == "auto" else int(given)
        except ValueError:
            raise ValueError(f"{option} must be an integer or auto, got {given!r}.") from None


class OnceEvery(Form):
    """A number of batches, or a text; `off` for None."""

    def read(self, option: str, given: str) -> str | int:
        return int(given) if given.isdecimal() else given

    def write(self, value: Any) -> str:
        return "off" if value is None else str(value)


class PathOrText(Form):
    """The path of a file, or a text."""

    def write(self, value: Any) -> Any:
        return super().write(os.fspath(value) if isinstance(value, os.PathLike) else value)


class Pairs(Form):
    """KEY=VALUE, several times."""

    kinds = (list,)
    settings = {"action": "append", "default": [], "metavar": "KEY=VALUE"}

    def read(self, option: str, given: list[str]) -> dict[str, float | int | str]:
        pairs: dict[str, float | int | str] = {}
        for text in given:
            key, separator, value = text.partition("=")
            if not key or not separator:
                raise ValueError(f"{option} must be KEY=VALUE, got {text!r}.")
            try:
                pairs[key] = number(value)
            except ValueError:
                pairs[key] = value
        return pairs

    def write(self, value: Mapping[Any, Any]) -> list[str]:
        for key, item in value.items():
            if not isinstance(key, str) or type(item) not in (int, float, str):
                raise Unnamed(f"{key!r} has a value that no text stands for")
        return [f"{key}={item}" for key, item in value.items()]


class Weights(Form):
    """CLASS=WEIGHT with commas between them, where a class is a number or a name of the data; or balanced."""

    def read(self, option: str, given: str | None) -> dict[int | str, float] | str | None:
        if given is None or given.strip() == BALANCED:
            return given and BALANCED
        pairs = [part.rpartition("=") for part in given.split(",")]
        try:
            if not all(label.strip() for label, _, _ in pairs):
                raise ValueError
            return {_class(label.strip()): float(weight) for label, _, weight in pairs}
        except ValueError:
            raise ValueError(f"{option} must be CLASS=WEIGHT with commas between them, or balanced, got {given!r}.") from None

    def write(self, value: Mapping[int | str, float] | str | None) -> str | None:
        if value is None or isinstance(value, str):
            return value
        if any("," in str(label) or str(label) != str(label).strip() for label in value):
            raise Unnamed("a class whose name has a comma or blanks at its ends")
        return ",".join(f"{label}={weight!r}" for label, weight in value.items())


def _class(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdecimal() else text


class RuleParameters(Form):
    """Numbers behind the learning rate with commas between them; in the file all parameters, the learning rate among them."""

    kinds = (list, dict)
    settings = {"default": "", "metavar": "A,B"}

    def read(self, option: str, given: str | list[Any] | dict[str, Any]) -> tuple[Any, ...] | dict[str, Any]:
        if not isinstance(given, str):
            return dict(given) if isinstance(given, dict) else tuple(given)
        try:
            return tuple(number(part) for part in given.split(",") if part.strip())
        except ValueError:
            raise ValueError(f"{option} must be numbers with commas between them, got {given!r}.") from None

    def write(self, value: Any) -> Any:
        return super().write(dict(value) if isinstance(value, Mapping) else list(value))


class Parts(Form):
    """A class, or what is made of one: by a word of the `part`, `module.Class` or `file.py:Class`."""

    def __init__(self, part: str, **settings: str) -> None:
        self.part, self.settings = part, settings

    def meant(self, option: str, given: Any) -> Any:
        if isinstance(given, Mapping):
            return {key: self.meant(option, value) for key, value in given.items()}
        return _readers()[self.part](option, given) if isinstance(given, str) else given

    def read(self, option: str, given: Any) -> Any:
        return self.meant(option, given)

    def write(self, value: Any) -> Any:
        if isinstance(value, SyncSetting):
            return f"{value.forms[0].partition(':')[0]}:{value.staleness:g}"
        if isinstance(value, FixedBlocks):
            return f"fixed:{value.blocks}"
        if isinstance(value, Mapping):
            return {str(key): class_text(kind) for key, kind in value.items()}
        return None if value is None else class_text(value)


class Codecs(Parts):
    """A codec, or several by the number of a variable, or the name of one or of a layer; none where nothing is given."""

    kinds = (str, dict)

    def read(self, option: str, given: str | dict[str, Any] | None) -> Any:
        if isinstance(given, dict):
            return self.meant(option, {int(name) if name.isdecimal() else name: kind for name, kind in given.items()})
        return self.meant(option, given) if given else None


class Callbacks(Form):
    """NAME:KEY=VALUE with commas between them, several times; `none` for nothing, in place of what a job file has."""

    part: ClassVar[str] = "callback"
    kinds = (list,)
    settings = {"action": "append", "default": [], "metavar": "NAME[:KEY=VALUE,..]"}

    def read(self, option: str, given: list[str]) -> list[Any]:
        return [] if given == ["none"] else [made for text in given for made in _readers()[self.part](option, text)]

    def write(self, value: Any) -> list[str]:
        return [self._text(made) for made in value]

    def _text(self, made: Callback) -> str:
        """`get_config` must tell all arguments: no hash would show that one is another."""
        given, kind = made.get_config(), type(made)
        if untold := inspect.signature(kind).parameters.keys() - given.keys():
            raise Unnamed(f"{kind.__name__}, whose get_config() does not tell {', '.join(sorted(untold))}")
        return object_text(kind, given)


class Writers(Callbacks):
    """Likewise; those that have no text, or may have a password in it, are left out: no result depends on writers."""

    part: ClassVar[str] = "writer"

    def write(self, value: Any) -> list[str]:
        return [text for made in value if (text := self._text(made))]

    def _text(self, made: Any) -> str:
        kind = type(made)
        if not kind.__module__.startswith(f"{__package__}.writers.") or kind.__name__.startswith("_"):
            return ""
        values = ((name, getattr(made, name, None)) for name in inspect.signature(kind).parameters)
        given = {name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in values}
        return "" if "@" in str(given) else object_text(kind, given)


def _readers() -> Mapping[str, Callable[[str, str], Any]]:
    from .named_parts import READERS  # noqa: PLC0415 - who gives classes does not load the tables of words

    return READERS


def number(text: str) -> float | int:
    try:
        return int(text)
    except ValueError:
        return float(text)


def check_plain(value: Any) -> None:
    """Raises: Unnamed for what is no plain value, or holds one that is none."""
    if isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            check_plain(item)
    elif value is not None and type(value) not in (bool, int, float, str):
        raise Unnamed(f"an object of a program, {type(value).__name__}")


def class_text(kind: Any) -> str:
    """By what name the command line finds a class.

    Raises: Unnamed for one that is not where its module says.
    """
    module, name = kind.__module__, getattr(kind, "__qualname__", "")
    place = sys.modules.get(module)
    if not name.isidentifier() or getattr(place, name, None) is not kind:
        raise Unnamed(f"made in a program, {name or kind!r}")
    if module.partition(".")[0] in ("nn", "parallel_sgd"):
        return str(name)
    file = getattr(place, "__file__", None)
    if module == "__main__" and file is None:
        raise Unnamed(f"a class of an interactive session, {name}")
    return f"{os.path.abspath(file)}:{name}" if file and "." not in module else f"{module}:{name}"


def object_text(kind: type[Any], given: Mapping[str, Any]) -> str:
    """`NAME:KEY=VALUE,..` for an object of this class with these arguments.

    Raises: Unnamed.
    """
    check_plain(given)
    return class_text(kind) + (":" if given else "") + ",".join(f"{name}={value!r}" for name, value in given.items())


FORMS: Final[Mapping[str, Form]] = {
    "plain": Form(),
    "assignment": Parts("assignment", default="iid"),
    "callbacks": Callbacks(),
    "codec": Codecs("codec"),
    "every": OnceEvery(),
    "left out": LeftOut(),
    "optimizer": Parts("optimizer", default="psgd"),
    "pairs": Pairs(),
    "parameters": RuleParameters(),
    "path": PathOrText(),
    "rule": Parts("rule", default="adam", metavar="RULE"),
    "sync": Parts("sync", default="ssgd", metavar="TYPE"),
    "text": Text(),
    "threads": Threads(),
    "weights": Weights(),
    "writers": Writers(),
}
"""As `flag()` names them."""
