"""Names on a command line, and the classes, or objects with their arguments, that they stand for:
`csv:path=houses.csv,label=price`.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import math
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.machinery import PathFinder
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from network.names import did_you_mean
from nn.extension import signature_of
from rpc.user_code import raised_by


class UnknownName(ValueError):
    """Error for a name that stands for nothing; the message lists the known names or names the fault of the module."""


class ShippedClasses(Mapping[str, Any]):
    """Classes that a package tells to ship, by lower-case name; each is imported when it is looked up.

    Args:
        package: the package, whose attributes the classes are.
        names: names of the classes.
    """

    def __init__(self, package: ModuleType, names: Sequence[str]) -> None:
        self._package = package
        self.names = {name.lower(): name for name in names}

    def __getitem__(self, key: str) -> Any:
        return getattr(self._package, self.names[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, key: object) -> bool:
        return key in self.names


class ExportedClasses(Mapping[str, Any]):
    """Concrete classes that a package exports, by lower-case name; each is imported when it is looked up, all when they are
    listed.

    Args:
        package: the package.
        base: class from which they are derived.
        takes: function that tells if one of them counts.
    """

    def __init__(self, package: ModuleType, base: Any, takes: Callable[[Any], bool]) -> None:
        self._package, self._base, self._takes = package, base, takes
        self._names = {name.lower(): name for name in package.__all__}

    def __getitem__(self, key: str) -> Any:
        name = self._names[key]
        found = getattr(self._package, name)
        # a second name of a class is none of its words
        if not _is_kind(found, self._base) or inspect.isabstract(found) or found.__name__ != name or not self._takes(found):
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[str]:
        return (key for key in self._names if key in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def known_classes(module: ModuleType, base: Any, takes: Callable[[Any], bool] = lambda kind: True) -> Mapping[str, Any]:
    """Return the concrete classes derived from `base` that `module` exports, by lower-case name.

    Args:
        module: the package.
        base: the class.
        takes: function that tells if one of them counts.
    """
    # a package that composes its classes on demand: to list them must not import them all
    # not `getattr`: a package that lacks the name would look for a like one in all that it has, and import that
    shipped = vars(module).get("SHIPPED")
    return ExportedClasses(module, base, takes) if shipped is None else ShippedClasses(module, shipped)


def _no_arguments(name: str, found: Any, rest: str) -> str:
    return f"takes no arguments here, got {rest[:80]!r}; write {name}"


def find_class(
    text: str,
    base: Any,
    known: Mapping[str, Any],
    option: str,
    forms: Sequence[str] = (),
    syntax: Callable[[str, Any, str], str] = _no_arguments,
) -> Any:
    """Return the class that `text` names: a known one, `module.Class`, `module:Class` or `file.py:Class`.

    Args:
        text: the name.
        base: class from which the found one must be derived.
        known: classes by lower-case name.
        option: name of the option in messages.
        forms: other texts that the option takes, as people write them (`stale:N`).
        syntax: called with a known name, its class and the text behind the colon, where these lead nowhere; it says how
            arguments are written.

    Raises: UnknownName.
    """
    if text.lower() in known:
        return known[text.lower()]
    place, separator, name = text.rpartition(":" if ":" in text else ".")
    if not separator or not place or (forms and name.isdecimal()):  # a number is no class: `stael:2` is a form, misspelt
        _give_itself(text, base, option)
        names = [*sorted(set(_spelt(known).values()), key=str.casefold), *forms]
        near = _near(text if not separator else place, known, forms)
        listed = f"Known: {', '.join(names)}"
        # of many the nearest is enough, with the place of all
        if near and len(names) > _MOST_NAMES:
            listed = f"All {len(names)} are in {base.__module__.rpartition('.')[0]}"
        raise UnknownName(f"{option} {text!r} is unknown{near or '.'} {listed}; or write module.Class or file.py:Class.")
    head, colon, rest = text.partition(":")
    # `topk:0.1` is a known name with something behind it
    is_known = bool(colon) and head.lower() in known  # then it is meant, unless a module of this name has the class
    try:
        module = _module(place, option)
    except UnknownName as error:
        if is_known and not os.path.isfile(f"{head}.py"):
            raise UnknownName(f"{option} {head} {syntax(head, known[head.lower()], rest)}") from error
        if name.lower() in known and os.path.isfile(text):  # `houses.csv`: a file to be read, no class
            raise UnknownName(f"{option} {name} {syntax(name, known[name.lower()], text)}") from error
        if place.endswith(".py"):
            beside = {} if os.path.isfile(place) else {each.name: str(each) for each in Path(place).parent.glob("*.py")}
            near = did_you_mean(Path(place).name, beside, meant=beside)
        else:
            near = _near(head, known if colon else {}, forms)
        raise UnknownName(f"{str(error).rstrip('.')}{near or '.'}") from error
    found = getattr(module, name, None)
    if found is None:
        if is_known:
            raise UnknownName(f"{option} {head} {syntax(head, known[head.lower()], rest)}")
        near = did_you_mean(name, [each for each in dir(module) if _is_kind(getattr(module, each, None), base)])
        raise UnknownName(f"{option}: {place} has no {name!r}{near or '.'}")
    if not _is_kind(found, base):
        raise UnknownName(f"{option}: {text} must be a class derived from {base.__name__}.")
    return found


def _give_itself(text: str, base: Any, option: str) -> None:
    """Refuse the name of a class that the program itself, or the notebook, defines: a text cannot name it.

    Raises: UnknownName.
    """
    program = vars(sys.modules["__main__"])
    found = next((each for name, each in program.items() if name.lower() == text.lower() and inspect.isclass(each)), None)
    if found is not None:
        remedy = (
            "give it without quotes" if _is_kind(found, base) else f"derive it from {base.__name__}, and give it without quotes"
        )
        raise UnknownName(f"{option} {text!r} is a class of this program: {remedy}")


def _is_kind(found: object, base: Any) -> bool:
    return inspect.isclass(found) and issubclass(found, base)


def _near(text: str, known: Mapping[str, Any], forms: Sequence[str]) -> str:
    """Suggest the name that may be meant: a class by its name or by its beginning, or the word with which one of the forms
    begins.
    """
    spelt = _spelt(known)
    own = known.names if isinstance(known, ShippedClasses) else {word: kind.__name__ for word, kind in known.items()}
    meant = {each: name for word, name in spelt.items() for each in _words(own[word])}
    meant |= spelt
    meant |= {form.partition(":")[0]: form for form in forms}
    return did_you_mean(text, meant, meant=meant)


def _spelt(known: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the word by which users name the class behind each word: its shortest name, its own (`Digits`) or a word for it
    (`csv`).
    """
    if isinstance(known, ShippedClasses):
        return known.names
    shortest = {kind: word for word, kind in sorted(known.items(), key=lambda item: -len(item[0]))}
    asked = {kind: kind.__name__ if word == kind.__name__.lower() else word for kind, word in shortest.items()}
    return {word: asked[kind] for word, kind in known.items()}


def _words(name: str) -> list[str]:
    """List the words for a class: `ADAMOptimizer` is also named `adam`."""
    return [name, *(name.removesuffix(end) for end in ("Optimizer", "BlockAssignment", "Assignment") if name.endswith(end))]


Guard = Callable[[str, str], None]
"""Function that gets the module or file that a text names, and the option, before anything of it runs; it raises where it
may not."""
_guard: ContextVar[Guard | None] = ContextVar("guard of names", default=None)


class CodeRefused(ValueError):
    """Error for a text that names code that may not run here; the message names the code and the remedy."""


@contextmanager
def guarded(guard: Guard) -> Iterator[None]:
    """Have `guard` judge each module that a text names, in all that happens in the block: names lead to code nowhere else."""
    token = _guard.set(guard)
    try:
        yield
    finally:
        _guard.reset(token)


def place_in(text: str) -> str:
    """Return the module or file of a class in the text of an object, "" for one that ships."""
    return _ARGUMENTS.split(text.strip(), maxsplit=1)[0].rpartition(":")[0]


def files_of(place: str) -> list[Path]:
    """Return the files that run when a module, or a file, is imported, packages first; none where they cannot be found.

    Modules that these import in turn are not among them. Nothing is imported to find out.
    """
    if place.endswith(".py"):
        return [Path(place).absolute()]
    found, path = list[Path](), [os.getcwd(), *sys.path]
    for name in (place.rsplit(".", depth)[0] for depth in range(place.count("."), -1, -1)):
        try:
            spec = PathFinder.find_spec(name, path)
        except (ImportError, ValueError):  # such as a name with a zero in it
            return []
        if spec is None:
            return []
        path = list(spec.submodule_search_locations or ())
        if spec.origin is not None and os.path.isfile(spec.origin):
            found.append(Path(spec.origin).absolute())
    return found


def _module(place: str, option: str) -> ModuleType:
    guard = _guard.get()
    if guard is not None:
        # before the import, which runs the module (RUN-6)
        guard(place, option)
    try:
        if not place.endswith(".py"):
            _search("")  # a module beside the user, as with `python -m`
            return importlib.import_module(place)
        return _file_module(Path(place), option)
    except UnknownName:
        raise
    except Exception as error:  # a user's module may raise anything
        told = raised_by(error) or f"{type(error).__name__}: {error}"
        raise UnknownName(f"{option}: {place} cannot be imported: {told}.") from error


def _file_module(path: Path, option: str) -> ModuleType:
    """Import the module in a file; modules beside it can be imported too, as from a script."""
    # imported under its own name, since classes that travel are found by module and name
    known = sys.modules.get(path.stem)
    if known is not None and Path(getattr(known, "__file__", None) or "").absolute() == path.absolute():
        return known
    if not os.path.isfile(path):  # Path.is_file raises for a name that is too long
        raise UnknownName(f"{option}: the file {path} does not exist.")
    if known is not None or path.stem in sys.stdlib_module_names:
        raise UnknownName(f"{option}: {path} has the name of another module, {path.stem}; rename it.")
    folder = str(path.parent.absolute())
    # a package of the same name beside the file would be imported in its place
    spec = PathFinder.find_spec(path.stem, [folder]) if path.stem.isidentifier() else None
    if spec is None or spec.origin is None or not os.path.samefile(spec.origin, path):
        raise UnknownName(f"{option}: {path} must have the name of a module that nothing beside it hides; rename it.")
    _search(folder)
    return importlib.import_module(path.stem)


def _search(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


_MOST_NAMES = 30  # that an error lists beside a near one
_ARGUMENTS = re.compile(r":(?=\s*[A-Za-z_]\w*\s*=)")
_ARGUMENT = re.compile(r"\s*([A-Za-z_]\w*)\s*=(.*)", re.DOTALL)
_WORDS = {"true": True, "false": False, "none": None}
_PAIRS = {"[": "]", "(": ")", "{": "}"}
_DEEPEST = 50  # brackets in brackets


Parts = Mapping[str, tuple[Any, Mapping[str, Any]]]
"""Arguments that are objects by their names: base class, and classes by lower-case name."""


def make_object(
    text: str, base: Any, known: Mapping[str, Any], option: str, *, several: bool = False, parts: Parts = MappingProxyType({})
) -> Any:
    """Make the object that `NAME` or `NAME:KEY=VALUE,KEY=VALUE` stands for; NAME is any text that `find_class` takes.

    Values are Python literals, of which nothing is computed; true, false and none in any case; else texts. Lists may hold texts
    without quotation marks: `features=[area,rooms]`.

    Args:
        text: the name with its arguments.
        base: class from which the named one must be derived.
        known: classes by lower-case name.
        option: name of the option in messages.
        several: whether the option takes more than one object.
        parts: arguments that may be objects themselves, written in the same way.

    Raises: UnknownName naming the option, the argument, and the word that is probably meant.
    """
    name, *rest = _ARGUMENTS.split(text.strip(), maxsplit=1)

    def syntax(head: str, kind: Any, behind: str) -> str:
        if several and behind.partition(":")[0].strip().lower() in known:
            return f"cannot be followed by ':{behind}': several have commas between them; write {head},{behind}"
        return f"takes arguments as KEY=VALUE only, got {behind[:80]!r}; {_takes(head, kind)}"

    found = find_class(name.strip(), base, known, option, syntax=syntax)
    what = f"{option} {name.strip()}"
    arguments = arguments_in(rest[0], found, what) if rest else {}
    for key in parts.keys() & arguments.keys():
        if isinstance(arguments[key], str):
            arguments[key] = make_object(arguments[key], *parts[key], f"{what} {key}", parts=parts)
    try:
        # apart from the call, so that a TypeError of the constructor is not told as one of the arguments
        signature_of(found).bind(**arguments)
    except TypeError as error:
        raise UnknownName(f"{what}: {error}; {_takes(name.strip(), found)}") from None
    try:
        return found(**arguments)
    except (TypeError, ValueError, OSError, ImportError) as error:
        raise UnknownName(f"{what}: {error}") from error


def split_objects(text: str) -> list[str]:
    """Split a text into its objects; commas stand between them and between their arguments."""
    objects: list[str] = []
    for part in _split(text):
        # a part like KEY=VALUE belongs to the object before it, if that has arguments already
        if objects and _ARGUMENT.fullmatch(part) and _ARGUMENTS.search(objects[-1]):
            objects[-1] += f",{part}"
        else:
            objects.append(part)
    return objects


def without_defaults(text: str, known: Mapping[str, Any], unsaid: Mapping[str, Any] = MappingProxyType({})) -> str:
    """Return the text of objects without the arguments that have the default of their class, for people: to read it, no object
    is made.

    Args:
        text: objects as `make_object` takes them, with commas between them.
        known: classes by lower-case name; objects of others stay as they are.
        unsaid: by argument, the value that stands for None; an empty one does anyway.
    """
    objects = []
    for one in split_objects(text):
        name, *rest = _ARGUMENTS.split(one.strip(), maxsplit=1)
        found = known.get(name.strip().lower())
        if found is not None and rest:
            parameters = signature_of(found).parameters
            kept = []
            for part in _split(rest[0]):
                match = _ARGUMENT.fullmatch(part)
                default = (
                    parameters[match[1]].default if match is not None and match[1] in parameters else inspect.Parameter.empty
                )
                if match is None or not _same(literal(match[2]), default, unsaid.get(match[1], ())):
                    kept.append(part)
            one = f"{name}:{','.join(kept)}" if kept else name
        objects.append(one)
    return ",".join(objects)


def _same(value: Any, default: Any, unsaid: Any) -> bool:
    """Tell if a value is a default; `unsaid` stands for None."""
    found = unsaid if default is None and value is not None else default
    # where a text has a list a class may have a tuple
    if isinstance(value, (list, tuple)) and isinstance(found, (list, tuple)):
        return list(value) == list(found)
    # an empty one has no keys and is as empty as a tuple
    if isinstance(value, dict) and isinstance(found, (list, tuple, dict)):
        return value == (found or {})
    return type(value) is type(found) and bool(value == found)


def arguments_in(text: str, found: Any, what: str) -> dict[str, Any]:
    """Return the arguments that KEY=VALUE with commas between them stand for.

    Args:
        text: the text.
        found: the class that takes them.
        what: name of the option and the class in messages.

    Raises: UnknownName.
    """
    parameters = signature_of(found).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    arguments: dict[str, Any] = {}
    for part in _split(text):
        match = _ARGUMENT.fullmatch(part)
        if match is None:
            raise UnknownName(f"{what}: arguments must be KEY=VALUE with commas between them, got {part!r}")
        key, value = match[1], literal(match[2])
        if key not in parameters and not takes_any:
            takes = ", ".join(parameters) or "none"
            raise UnknownName(f"{what} has no argument {key!r}{did_you_mean(key, parameters) or '.'} It takes {takes}")
        if key in arguments:
            raise UnknownName(f"{what}: {key!r} must be given once, got it twice")
        # the column named 2020, not the number
        if key in parameters and is_text(parameters[key]) and isinstance(value, (bool, int, float)):
            value = match[2].strip()
        arguments[key] = value
    return arguments


def is_text(parameter: inspect.Parameter) -> bool:
    """Tell if the parameter takes a text, so that 2020 may be the name of a column."""
    return parameter.annotation is str or str(parameter.annotation).startswith("str")


def _takes(name: str, found: Any) -> str:
    """Tell how the object is written: with the arguments that it needs, else with those that may be given, if there are any."""
    parameters = signature_of(found).parameters.values()
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    needed = [p for p in named if p.default is p.empty]
    if not named:
        return f"write {name}: it takes none"
    written = f"{name}:{','.join(f'{p.name}=..' for p in needed or named)}"
    return f"write {written}" if needed else f"write {name} or {written}"


def literal(text: str) -> Any:
    """Return the value that a text stands for: a Python literal, true, false, none, a list of such, else the text."""
    try:
        return _literal(text.strip())
    # a list as a key, or brackets that stand too deep
    except (TypeError, ValueError):
        return text.strip()


def _literal(text: str, depth: int = 0) -> Any:
    if depth > _DEEPEST:
        raise ValueError(f"brackets must stand at most {_DEEPEST} deep")
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # of a text that looks like a number
            # literals alone: nothing of the text is computed
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        pass
    if text.startswith("[") and text.endswith("]"):
        return [_literal(part.strip(), depth + 1) for part in _split(text[1:-1])]
    if text.startswith("{") and text.endswith("}"):
        pairs = [part.partition(":") for part in _split(text[1:-1])]
        return {_literal(key.strip(), depth + 1): _literal(value.strip(), depth + 1) for key, _, value in pairs}
    return text


def literal_text(value: Any) -> str:
    """Return the text that `literal` reads as this value: None, a switch, a number, a text, a list, a tuple, a dict of these.

    Raises: ValueError for a value that has no such text.
    """
    if type(value) is float and not math.isfinite(value):
        if math.isnan(value):
            raise ValueError("a number that is none, nan")
        return "1e999" if value > 0 else "-1e999"  # Python reads it as infinity, to which it overflows
    if type(value) in (bool, int, float, str, type(None)):
        return repr(value)
    if type(value) is list:
        return f"[{', '.join(map(literal_text, value))}]"
    if type(value) is tuple:
        inside = ", ".join(map(literal_text, value))
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if type(value) is dict:
        return "{" + ", ".join(f"{literal_text(key)}: {literal_text(item)}" for key, item in value.items()) + "}"
    raise ValueError(f"an object of a program, {type(value).__name__}")


def _split(text: str) -> list[str]:
    """Split a text at the commas that stand outside of brackets and quotation marks."""
    parts, open_brackets, quote, escaped = [""], "", "", False
    for character in text:
        if quote:
            quote = "" if character == quote and not escaped else quote
            escaped = character == "\\" and not escaped
        elif character in "'\"":
            quote = character
        elif character in _PAIRS:
            open_brackets += _PAIRS[character]
        elif open_brackets.endswith(character):
            open_brackets = open_brackets[:-1]
        elif character == "," and not open_brackets:
            parts.append("")
            continue
        parts[-1] += character
    return parts
