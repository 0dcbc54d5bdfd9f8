"""Forms: how the value of an option stands on the command line and in `job.toml`.

Most values stand there as they are; any other kind of value has a class here that reads and writes it, and a name in `FORMS`.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from nn.callback import Callback
from nn.extension import signature_of
from nn.model.class_weights import BALANCED
from rpc.code_closure import is_user_file
from rpc.support.places import without_places

from ..batch_sync.sync.interface import SyncSetting
from ..profiles.blockassignment.assignments import FixedBlocks
from ..record.paths import Tell, is_told
from ..record.plain import NoText, decoded, encoded
from .names import is_text, literal_text

Unnamed = NoText
"""Error for a value that only a program can make; the message describes it."""


class Form:
    """Form of a value that stands there as it is, or as the text that `type` of its flag reads."""

    kinds: ClassVar[tuple[type, ...]] = ()  # types of the entry in the file; by default that of the flag
    settings: Mapping[str, Any] = {}  # arguments of `add_argument` for the flag

    def meant(self, option: str, given: Any) -> Any:
        """Return the value that a word given to `parallel()` stands for.

        Args:
            option: name of the option in messages.
            given: the word, or the value itself.
        """
        return given

    def read(self, option: str, given: Any) -> Any:
        """Return the value that a text of the command line or an entry of the file stands for.

        Args:
            option: name of the option in messages.
            given: the text or the entry.
        """
        return given

    def write(self, value: Any, tell: Tell = os.path.abspath) -> Any:
        """Return the entry of the file for a value, None for no entry.

        Args:
            value: the value of the option.
            tell: makes the text that stands for the path of a file; default its absolute path.

        Raises: Unnamed for a value that has no text.
        """
        # a value that is written must be read as the same
        check_plain(value)
        return value


class LeftOut(Form):
    """Form of an option that has another place in the file."""

    def write(self, value: Any, tell: Tell = os.path.abspath) -> None:
        pass


class Text(Form):
    """Form of a value that is always written as a text."""

    def write(self, value: Any, tell: Tell = os.path.abspath) -> Any:
        return str(value)


class Threads(Text):
    """Form of a number, or `auto`."""

    def read(self, option: str, given: str) -> str | int:
        try:
            return given if given == "auto" else int(given)
        except ValueError:
            raise ValueError(f"{option} must be an integer or auto, got {given!r}.") from None


_MOST_DIGITS: Final = 19  # of a number of batches


class OnceEvery(Form):
    """Form of a number of batches, or a text; `off` for None."""

    def read(self, option: str, given: str) -> str | int:
        # a longer number would be no number of batches, and is left to the check of the option
        return int(given) if given.isdecimal() and len(given) < _MOST_DIGITS else given

    def write(self, value: Any, tell: Tell = os.path.abspath) -> str:
        return "off" if value is None else str(value)


class Stays(Form):
    """Form of a number of epochs; the position that a computation asks for stands in no file."""

    def write(self, value: Any, tell: Tell = os.path.abspath) -> Any:
        return None if isinstance(value, tuple) else super().write(value, tell)


class PathOrText(Form):
    """Form of the path of a file, or of a text."""

    def write(self, value: Any, tell: Tell = os.path.abspath) -> Any:
        given = os.fspath(value) if isinstance(value, os.PathLike) else value
        # only texts that name a file now are told as paths; others, such as the word launcher, stay as they are
        return super().write(tell(given) if isinstance(given, str) and os.path.exists(given) else given)


class Pairs(Form):
    """Form of KEY=VALUE, several times."""

    kinds = (list, dict)  # as a table, where the texts would not say all
    settings = {"action": "append", "default": [], "metavar": "KEY=VALUE"}

    def read(self, option: str, given: list[str] | dict[str, Any]) -> dict[Any, Any]:
        if isinstance(given, dict):
            return _decoded(option, given, dict)  # type: ignore[no-any-return]
        pairs: dict[str, float | int | str] = {}
        for text in given:
            key, separator, value = text.partition("=")
            if not key or not separator:
                raise ValueError(f"{option} must be KEY=VALUE, got {text!r}.")
            try:
                # numbers where they look like numbers: the command line has no types
                pairs[key] = number(value)
            except ValueError:
                pairs[key] = value
        return pairs

    def write(self, value: Mapping[Any, Any], tell: Tell = os.path.abspath) -> Any:
        texts = [f"{key}={item}" for key, item in value.items() if type(item) in (int, float, str)]
        try:
            # by repr, which tells 1 from 1.0
            same = repr(self.read("", texts)) == repr(dict(value))
        except ValueError:
            same = False
        # as a table, where texts would be read as something else
        return texts if same else encoded(dict(value))


class Weights(Form):
    """Form of CLASS=WEIGHT with commas between them, or balanced.

    A class is a number, or a name of the data, which stands in quotation marks where it has a comma or looks like a number.
    Weights of several outputs are a table in a file, and have no text.
    """

    kinds = (str, dict)

    def read(self, option: str, given: str | dict[str, Any] | None) -> dict[Any, Any] | str | None:
        if isinstance(given, dict):
            return _decoded(option, given, dict)  # type: ignore[no-any-return]
        if given is None or given.strip() == BALANCED:
            return given and BALANCED
        found: dict[int | str, float] = {}
        place = 0
        try:
            while place < len(given) or not found:
                if (pair := _WEIGHT.match(given, place)) is None:
                    # quoted names may have commas and look like numbers
                    raise ValueError
                quoted, plain, weight = pair.groups()
                found[quoted.replace('""', '"') if quoted else _class(plain)] = float(weight)
                place = pair.end()
        except ValueError:
            raise ValueError(
                f"{option} must be CLASS=WEIGHT with commas between them, or balanced, got {given!r}; a class whose name has a "
                "comma stands in quotation marks."
            ) from None
        return found

    def write(self, value: Mapping[Any, Any] | str | None, tell: Tell = os.path.abspath) -> Any:
        if isinstance(value, str) or not value:
            return value if isinstance(value, str) else None
        if any(isinstance(each, Mapping) or each == BALANCED for each in value.values()):
            return encoded({name: each if isinstance(each, str) else dict(each) for name, each in value.items()})
        return ",".join(f"{_class_text(label)}={weight!r}" for label, weight in value.items())


_WEIGHT = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^",\s](?:[^",]*[^",\s])?))\s*=\s*([^",=]+?)\s*(?:,|$)')


def _class(text: str) -> int | str:
    """Return a class number, or a name; 007 is a name, because a number would lose its zeros."""
    return int(text) if text.lstrip("-").isdecimal() and text == str(int(text)) else text


def _class_text(label: int | str) -> str:
    """Write a class as `Weights` reads it."""
    # quoted where the plain text would be read as something else
    if isinstance(label, str) and (_class(label) != label or set(label) & set('",=') or label != label.strip()):
        return '"' + label.replace('"', '""') + '"'
    return str(label)


class Population(Form):
    """Form of clients: KEY=VALUE with commas between them."""

    def meant(self, option: str, given: Any) -> Any:
        if not isinstance(given, str):
            return given
        from ..federated.text_form import read_clients  # noqa: PLC0415 - for a job with clients

        return read_clients(option, given)

    def read(self, option: str, given: str | None) -> Any:
        return self.meant(option, given) if given else None

    def write(self, value: Any, tell: Tell = os.path.abspath) -> str | None:
        if value is None:
            return None
        from ..federated.text_form import write_clients  # noqa: PLC0415 - for a job with clients

        return write_clients(value, lambda kind, given: object_text(kind, given, tell))


class RuleParameters(Form):
    """Form of numbers behind the learning rate with commas between them; the file has all parameters, the learning rate among
    them.
    """

    kinds = (list, dict)
    settings = {"default": "", "metavar": "A,B"}

    def read(self, option: str, given: str | list[Any] | dict[str, Any]) -> tuple[Any, ...] | dict[str, Any]:
        if isinstance(given, dict):
            return _decoded(option, given, dict)  # type: ignore[no-any-return]
        if isinstance(given, list):
            return tuple(_decoded(option, given, list))
        try:
            return tuple(number(part) for part in given.split(",") if part.strip())
        except ValueError:
            raise ValueError(f"{option} must be numbers with commas between them, got {given!r}.") from None

    def write(self, value: Any, tell: Tell = os.path.abspath) -> Any:
        return encoded(dict(value) if isinstance(value, Mapping) else list(value))


class Parts(Form):
    """Form of a class, or of an object made of one: a word of the `part`, `module.Class` or `file.py:Class`.

    Args:
        part: the kind of part, a key of `named_parts.READERS`.
        settings: further arguments of `add_argument`.
    """

    def __init__(self, part: str, **settings: str) -> None:
        self.part, self.settings = part, settings

    def meant(self, option: str, given: Any) -> Any:
        if isinstance(given, Mapping):
            return {key: self.meant(option, value) for key, value in given.items()}
        if not isinstance(given, str):
            return given
        from .named_parts import read  # noqa: PLC0415 - a job given classes does not load the tables of words

        return read(self.part, option, given)

    def read(self, option: str, given: Any) -> Any:
        return self.meant(option, given)

    def write(self, value: Any, tell: Tell = os.path.abspath) -> Any:
        # the number that stands for N, since file and command line have one text for both
        if isinstance(value, SyncSetting):
            number = value._number
            return f"{value.forms[0].partition(':')[0]}:{'inf' if number == math.inf else int(number)}"
        if isinstance(value, FixedBlocks):
            return f"fixed:{value.blocks}"
        if isinstance(value, Mapping):
            # a JSON-like table has texts as keys: "3" would come back as the variable 3
            if wrong := [key for key in value if isinstance(key, str) and key.isdecimal()]:
                raise Unnamed(f"parts by names that are numbers, {wrong[0]!r}")
            return {str(key): self._named(kind, tell) for key, kind in value.items()}
        return None if value is None else self._named(value, tell)

    def _named(self, kind: Any, tell: Tell) -> str:
        """Return the name of a class; for a class of this project that has no word, with the module before it."""
        text = class_text(kind, tell)
        if ":" not in text:
            try:
                # written only if the reader finds the same class by it
                if _readers()[self.part]("", text) is kind:
                    return text
            except ValueError:
                pass
            return f"{kind.__module__}:{text}"
        return text


class Codecs(Parts):
    """Form of a codec, or of several by the number of a variable, or by the name of one or of a layer; an empty text means
    None.
    """

    kinds = (str, dict)

    def read(self, option: str, given: str | dict[str, Any] | None) -> Any:
        if isinstance(given, dict):
            return self.meant(option, {int(name) if name.isdecimal() else name: kind for name, kind in given.items()})
        return self.meant(option, given) if given else None


class Callbacks(Form):
    """Form of NAME:KEY=VALUE with commas between them, several times; `none` means no callback, in place of those of a job
    file.
    """

    part: ClassVar[str] = "callback"
    kinds = (list,)
    settings = {"action": "append", "default": [], "metavar": "NAME[:KEY=VALUE,..]"}

    def read(self, option: str, given: list[str]) -> list[Any]:
        return [] if given == ["none"] else [made for text in given for made in _readers()[self.part](option, text)]

    def write(self, value: Any, tell: Tell = os.path.abspath) -> list[str]:
        return [self._text(made, tell) for made in value]

    def _text(self, made: Callback, tell: Tell) -> str:
        """Write a callback; `get_config` must tell all arguments, since no hash would show that one of them has changed."""
        given, kind = made.get_config(), type(made)
        if untold := signature_of(kind).parameters.keys() - given.keys():
            raise Unnamed(f"{kind.__name__}, whose get_config() does not tell {', '.join(sorted(untold))}")
        return object_text(kind, given, tell, None)  # their files lie with the nodes


# a user's own writer may have a password under any name
_WRITERS: Final = f"{__name__.partition('.')[0]}.writers."


class Writers(Callbacks):
    """Form of NAME:KEY=VALUE as for callbacks. A writer that has no text, or may have a password or a home in it, is left out:
    no result depends on writers.
    """

    part: ClassVar[str] = "writer"

    def write(self, value: Any, tell: Tell = os.path.abspath) -> list[str]:
        return [text for made in value if (text := self._text(made, tell))]

    def _text(self, made: Any, tell: Tell) -> str:
        kind = type(made)
        if not kind.__module__.startswith(_WRITERS) or kind.__name__.startswith("_"):
            return ""
        values = ((name, getattr(made, name, None)) for name in signature_of(kind).parameters)
        given = {name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in values}
        # an address with a user and a password in it has an `@`
        text = "" if "@" in str(given) else object_text(kind, given, tell, os.path.isabs)
        return text if text == without_places(text) else ""


def _readers() -> Mapping[str, Callable[[str, str], Any]]:
    from .named_parts import READERS  # noqa: PLC0415 - a job given classes does not load the tables of words

    return READERS


def _decoded(option: str, given: Any, kind: type) -> Any:
    """Return the plain data that stands in a job file. Raises: ValueError naming the option."""
    try:
        found = decoded(given)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{option} must be plain data: {error}.") from None
    if not isinstance(found, kind):
        raise ValueError(f"{option} must be {'a table' if kind is dict else 'a list'}, got {str(found)[:60]}.")
    return found


def number(text: str) -> float | int:
    """Return the integer that `text` holds, else the float. Raises: ValueError for a text that is neither."""
    try:
        return int(text)
    except ValueError:
        # an integer first: 1 and 1.0 are different settings
        return float(text)


def check_plain(value: Any) -> None:
    """Refuse a value that is not plain, or holds one that is not. Raises: Unnamed."""
    if isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            check_plain(item)
    # by type: a subclass would come back as its base
    elif value is not None and type(value) not in (bool, int, float, str):
        raise Unnamed(f"an object of a program, {type(value).__name__}")


def class_text(kind: Any, tell: Tell = os.path.abspath) -> str:
    """Return the name by which the command line finds a class.

    Args:
        kind: the class.
        tell: makes the text that stands for its file; default the absolute path.

    Raises: Unnamed for a class that is not found under its name in its module.
    """
    module, name = kind.__module__, getattr(kind, "__qualname__", "")
    place = sys.modules.get(module)
    # found again by the same name, or it is not told
    if not name.isidentifier() or getattr(place, name, None) is not kind:
        raise Unnamed(f"made in a program, {name or kind!r}")
    if module.partition(".")[0] in ("nn", "parallel_sgd"):
        return str(name)
    file = getattr(place, "__file__", None)
    if module == "__main__" and file is None:
        raise Unnamed(f"a class of an interactive session, {name}")
    return f"{tell(file)}:{name}" if file and "." not in module and not _is_installed(file) else f"{module}:{name}"


def _is_installed(file: str) -> bool:
    return not is_user_file(os.path.abspath(file))


def object_text(
    kind: type[Any], given: Mapping[str, Any], tell: Tell, is_file: Callable[[str], bool] | None = os.path.exists
) -> str:
    """Return `NAME:KEY=VALUE,..` for an object of this class with these arguments.

    Args:
        kind: the class.
        given: its arguments by name.
        tell: makes the texts that stand for files.
        is_file: tells for an argument that is a path whether it names a file of this machine; None where no argument does.

    Raises:
        Unnamed: There is no such text, also for an argument that would be taken for the path of a file, and is none.
    """
    check_plain(given)
    parameters = signature_of(kind).parameters
    texts = []
    for name, value in given.items():
        if is_file is not None and isinstance(value, str) and value:
            # an argument that is declared as a path is told relative to the run
            if name in parameters and "PathLike" in str(parameters[name].annotation):
                value = tell(value) if is_file(value) else value
            # a text that begins like a path of ours would be resolved as one when the file is read
            elif is_told(value):
                raise Unnamed(f"{kind.__name__} with {name}={value!r}, which would be taken for a path")
        # a parameter of texts would get the text '3' for the number 3
        if name in parameters and is_text(parameters[name]) and isinstance(value, (bool, int, float)):
            raise Unnamed(f"{kind.__name__} with {name}={value!r}, which would be taken for a text")
        try:
            texts.append(f"{name}={literal_text(value)}")
        except ValueError as error:
            raise Unnamed(f"{kind.__name__} with {name}, {error}") from None
    return class_text(kind, tell) + (":" if given else "") + ",".join(texts)


FORMS: Final[Mapping[str, Form]] = {
    "plain": Form(),
    "assignment": Parts("assignment", default="iid"),
    "callbacks": Callbacks(),
    "clients": Population(),
    "codec": Codecs("codec"),
    "every": OnceEvery(),
    "left out": LeftOut(),
    "optimizer": Parts("optimizer", default="psgd"),
    "pairs": Pairs(),
    "parameters": RuleParameters(),
    "path": PathOrText(),
    "rule": Parts("rule", default="adam", metavar="RULE"),
    "stays": Stays(),
    "sync": Parts("sync", default="ssgd", metavar="TYPE"),
    "text": Text(),
    "threads": Threads(),
    "weights": Weights(),
    "writers": Writers(),
}
"""Forms by the names that `flag()` takes."""
