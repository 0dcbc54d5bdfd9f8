"""Words of docstrings: clauses without a noun, first words, and public arguments that no docstring describes.

The rule: the first line of a module or a class begins with a noun, that of a function with a verb in the imperative; every
sentence names its actor; every argument of a public class or function is described. What is public stands in an `__all__`.
"""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.house.files import Function
from tests.sources import ROOT, library_files, parse

_CLAUSE = re.compile(r"\b(?:who|whose|whom|whoever|nobody|somebody|what|whatever|likewise)\b", re.IGNORECASE)
_CODE = re.compile(r"`[^`]*`|^ +what:", re.MULTILINE)  # names in code, and the head of an argument of that name
#: First words that are no noun, and no verb in the imperative.
_FRAGMENTS = (
    "who whose whom whoever what whatever which that those these this where wherever when whenever how why if unless of for by "
    "in on at to with without as from upon nobody somebody everybody anybody likewise there it they"
)
_NO_VERBS = "a an the whether one each every all both some any no not more most only"


class Docstring(NamedTuple):
    """A docstring, with the place and the kind of its owner."""

    place: str
    owner: ast.Module | ast.ClassDef | Function
    is_public: bool
    text: str

    @property
    def clauses(self) -> int:
        """Count the clauses without a noun."""
        return len(_CLAUSE.findall(_CODE.sub("", self.text)))

    @property
    def begins_badly(self) -> bool:
        """Tell if the first word cannot be a noun, or of a public function a verb in the imperative."""
        found = re.match(r"[A-Za-z]+", self.text)
        word = found[0].lower() if found else ""
        if word in _FRAGMENTS.split():
            return True
        if isinstance(self.owner, (ast.Module, ast.ClassDef)) or not self.is_public or _is_property(self.owner):
            return False  # a property is read like an attribute, so a noun is right
        return word in _NO_VERBS.split() or (word.endswith("s") and not word.endswith(("ss", "us")))


def _is_property(function: Function) -> bool:
    return any(
        ast.unparse(each).rpartition(".")[2] in ("property", "setter", "cached_property") for each in function.decorator_list
    )


@functools.cache
def docstrings(package: str) -> tuple[Docstring, ...]:
    """List the docstrings of a package."""
    paths = [path for path in library_files() if path.relative_to(ROOT).parts[0] == package]
    return tuple(each for path in paths for each in of_tree(parse(path), path.relative_to(ROOT).as_posix()))


def of_tree(node: ast.AST, place: str, is_public: bool = True) -> Iterator[Docstring]:
    """Yield the docstrings of a module and of all that is defined in it; a function within a function is not public."""
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        name = "" if isinstance(node, ast.Module) else node.name
        place, is_public = f"{place} {name}".rstrip(), is_public and not name.startswith("_")
        if text := ast.get_docstring(node):
            yield Docstring(place, node, is_public, text)
        is_public = is_public and isinstance(node, (ast.Module, ast.ClassDef))
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield from of_tree(child, place, is_public)


def clauses(package: str) -> tuple[float, tuple[str, ...]]:
    """Count the clauses without a noun for each 1,000 words, and list the docstrings that have some."""
    texts = docstrings(package)
    words = sum(len(each.text.split()) for each in texts)
    return 1000 * sum(each.clauses for each in texts) / max(1, words), tuple(each.place for each in texts if each.clauses)


def first_words(package: str) -> list[str]:
    """List the docstrings that begin with neither a noun nor, of a function, a verb."""
    return [f"{each.place}: {each.text.splitlines()[0]}" for each in docstrings(package) if each.begins_badly]


def undescribed(package: str) -> list[str]:
    """List the arguments of a package's public classes and functions that no docstring describes.

    Where there are two or more, each stands in a section: `Args:`, or for the fields of a class `Attributes:`. It may be that
    of a base: the class tells the arguments of its constructor, the method of the base those of an override. Python has fixed
    the arguments of operators and other names that begin with an underscore, so nothing is demanded of these.
    """
    names, classes = _definitions()
    found = []
    for path in library_files():
        place = path.relative_to(ROOT)
        for node in parse(path).body if place.parts[0] == package else ():
            if isinstance(node, ast.ClassDef) and node.name in names:
                missing = [f"{node.name}.{each}" for each in _undescribed_of_class(node, classes)]
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name in names:
                told = [ast.get_docstring(node) or ""]
                missing = [f"{node.name}({each})" for each in _missing(_arguments(node), told)]
            else:
                continue
            found += [f"{place.as_posix()} {each}" for each in missing]
    return found


Classes = dict[str, list[ast.ClassDef]]


@functools.cache
def _definitions() -> tuple[set[str], Classes]:
    """Collect the names in all `__all__`, and all classes by name."""
    names: set[str] = set()
    classes: Classes = {}
    for path in library_files():
        for node in parse(path).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                names |= {each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and type(each.value) is str}
            elif isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, []).append(node)
    return {name for name in names if not name.startswith("_")}, classes


def _undescribed_of_class(node: ast.ClassDef, classes: Classes) -> Iterator[str]:
    bases = list(_with_bases(node, classes))
    about = [ast.get_docstring(each) or "" for each in bases]
    about += [ast.get_docstring(each) or "" for base in bases for each in _methods(base) if each.name == "__init__"]
    # the constructor may be that of a base, which need not be public itself
    constructors = (each for base in bases for each in _methods(base) if each.name == "__init__")
    public = (each for each in _methods(node) if not (each.name.startswith("_") or _is_property(each) or _is_overload(each)))
    for method in (*itertools.islice(constructors, 1), *public):
        told = [ast.get_docstring(each) or "" for base in bases for each in _methods(base) if each.name == method.name]
        sections = about if method.name == "__init__" else told
        yield from (f"{method.name}({name})" for name in _missing(_arguments(method, 1), sections, about))
    if _has_fields(node):
        fields = [each for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)]
        shown = [each for each in fields if not ast.unparse(each.target).startswith("_")]
        given = [ast.unparse(each.target) for each in shown if not _is_made(each)]
        yield from _missing(given, about, (), "Args|Attributes")
        for made in shown:
            yield from _missing([ast.unparse(made.target)] if _is_made(made) else [], about)


def _with_bases(node: ast.ClassDef, classes: Classes, seen: frozenset[str] = frozenset()) -> Iterator[ast.ClassDef]:
    yield node
    for base in node.bases:
        name = ast.unparse(base).split("[")[0].rpartition(".")[2]
        for found in classes.get(name, ()) if name not in seen | {node.name} else ():
            yield from _with_bases(found, classes, seen | {node.name, name})


def _methods(node: ast.ClassDef) -> list[Function]:
    return [each for each in node.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]


def _is_overload(function: Function) -> bool:
    return any(ast.unparse(each).endswith("overload") for each in function.decorator_list)


def _has_fields(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(each) for each in node.decorator_list) or "NamedTuple" in map(ast.unparse, node.bases)


def _is_made(field: ast.AnnAssign) -> bool:
    """Tell if a field is no argument: one of the class, or one that the object makes for itself."""
    made = field.value is not None and "init=False" in ast.unparse(field.value)
    return made or ast.unparse(field.annotation).startswith("ClassVar")


def _arguments(function: Function, bound: int = 0) -> list[str]:
    """List the arguments but `bound` first ones, such as `self`."""
    given = function.args
    static = any(ast.unparse(each) == "staticmethod" for each in function.decorator_list)
    names = [each.arg for each in (*given.posonlyargs, *given.args)][0 if static else bound :]
    return [name for name in (*names, *(each.arg for each in given.kwonlyargs)) if not name.startswith("_")]


def _missing(names: list[str], texts: Sequence[str], beside: Sequence[str] = (), heads: str = "Args") -> list[str]:
    """List the names that stand in none of `texts` and `beside`; of two names and more, those in no section of `texts`."""
    if len(names) > 1:
        told = {name for text in texts for name in _told(text, heads)}
        return [name for name in names if name not in told]
    everything = "\n".join([*texts, *beside])
    return [name for name in names if re.search(rf"\b{re.escape(name)}\b", everything) is None]


def _told(text: str, heads: str) -> Iterator[str]:
    """Yield the names that the sections of a docstring describe: `a, *b: words.`, indented once."""
    for section in re.findall(rf"^(?:{heads}):\n((?: +.*\n?|\n)+)", text, re.MULTILINE):
        for entry in re.findall(r"^ {4}([\w*][\w*, ]*):", section, re.MULTILINE):
            yield from re.findall(r"\w+", entry)
