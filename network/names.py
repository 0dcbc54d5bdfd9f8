"""Names of a package that are imported when they are first asked for, and near misses of a name that does not exist."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

_NOTHING: Final = MappingProxyType[Any, str]({})


def lazily(
    package: str,
    shown: Mapping[str, str],
    hidden: Mapping[str, str] = _NOTHING,
    *,
    meant: Mapping[str, str] = _NOTHING,
    within: str = "",
) -> None:
    """Give a package its `__getattr__` and `__dir__` (PEP 562).

    Its modules are attributes of the package, as if it had imported them. Completion and `help()` go by `__dir__`: they show
    those names, and of loaded modules only those of the package. Type checkers see neither function, since by a
    `__getattr__` they would take every name: the package imports the same names under `TYPE_CHECKING`.

    Args:
        package: its name.
        shown: module: names that come from it, with blanks between them.
        hidden: the same, but not shown: names for packages of this project that build on this one.
        meant: name that people look for here: the way to write it, for the error.
        within: packages of this one, with blanks between, of whose public names the error tells where they are.
    """
    homes = {name: home for homes in (hidden, shown) for home, names in homes.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in homes:
            # the submodule itself, as `import network; network.errors` finds it after a plain import
            if name in shown:
                return import_module(f"{package}.{name}")
            from _psgd_packages import refusal  # noqa: PLC0415 - for errors alone

            raise refusal(unknown(package, name, meant, within), package, name, sys._getframe(1), did_you_mean)
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        # found in the module from now on: `__getattr__` is asked only for names that are absent
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        loaded = vars(sys.modules[package])
        special = {name for name in loaded if name.startswith("__")}
        return sorted(
            special
            | set(" ".join(shown.values()).split())
            | set(loaded.get("__all__", ()))
            | {name for name in loaded if f"{package}.{name}" in sys.modules}
        )

    vars(sys.modules[package]).update(__getattr__=get, __dir__=names)
    if "." not in package:
        sys.meta_path.append(_LastFinder(package))


class _LastFinder:
    """Finder behind all others (`sys.meta_path`): it finds no module, and tells where one is that a package does not have.

    Args:
        package: the package.
    """

    def __init__(self, package: str) -> None:
        self._start = f"{package}."

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        """Raise `ModuleNotFoundError` where an import asks for a module of the package.

        Args:
            name: full name of the module.
        """
        if name.startswith(self._start):
            from _psgd_packages import refusal_of_module  # noqa: PLC0415 - for errors alone

            if (error := refusal_of_module(name, sys._getframe(1), did_you_mean)) is not None:
                raise error


def unknown(package: str, name: str, meant: Mapping[str, str], within: str = "") -> AttributeError:
    """Return the error for a name that a package lacks.

    Args:
        package: the package.
        name: the name.
        meant: names of other libraries with those here.
        within: packages of this one, with blanks between, that may have the name.
    """
    told = _here(name, meant)
    # `from package import part` asks for the name of the module first; tools ask for special names
    # with a dot, `find_spec` would import what is before it
    if not told and within and name.isidentifier() and not name.startswith("_") and find_spec(f"{package}.{name}") is None:
        homes = (f"{package}.{home}" for home in within.split())
        told = next((f"; here it is {home}.{name}" for home in homes if name in import_module(home).__all__), "")
    return AttributeError(f"module {package!r} has no attribute {name!r}{told}", name=name, obj=sys.modules[package])


def missing(item: object, name: str, meant: Mapping[str, str]) -> Any:
    """Raise the error of Python for an attribute that an object lacks, with the name here for one of another library.

    Args:
        item: the object.
        name: the attribute.
        meant: names of other libraries with those here.
    """
    try:
        return object.__getattribute__(item, name)
    except AttributeError as error:
        # A property that fails has an error of its own.
        if name not in meant or error.name != name or error.obj is not item:
            raise
        raise AttributeError(f"{error}{_here(name, meant)}", name=name, obj=item) from None


def _here(name: str, meant: Mapping[str, str]) -> str:
    return f"; here it is {meant[name]}" if name in meant else ""


class LazyModule:
    """Module that is imported at the first access to one of its attributes, which is kept here from then on."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self._name), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import numpy as numpy
    from cryptography import exceptions as exceptions
    from cryptography.hazmat.primitives.asymmetric import x25519 as x25519
    from cryptography.hazmat.primitives.ciphers import aead as aead
else:
    numpy = LazyModule("numpy")  # half of the start of an agent, which takes part in no message with an array
    exceptions = LazyModule("cryptography.exceptions")  # and most of the other half, until the program connects
    x25519 = LazyModule("cryptography.hazmat.primitives.asymmetric.x25519")
    aead = LazyModule("cryptography.hazmat.primitives.ciphers.aead")


def did_you_mean(
    name: object, known: Iterable[object], quoted: bool = True, meant: Mapping[Any, str] = _NOTHING, least: float = 0.6
) -> str:
    """Return `; did you mean 'Plain'?` for `Plian`, to stand at the end of a message; "" where no known word is near to it.

    Upper and lower case count as equal.

    Args:
        name: the word that came.
        known: words that exist.
        quoted: whether texts stand in quotation marks, as other keys do by their `repr`.
        meant: word: the one to name in its place, "" for none.
        least: share of the letters that a near word has alike, and in the same order, 1 for the word itself.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - for messages only

    spelt = {str(each).casefold(): meant.get(each, each) for each in known}
    # the search takes quadratic time, and a name may be of any length
    for near in get_close_matches(str(name).casefold()[:80], spelt, n=1, cutoff=least):
        if spelt[near] == "":
            return ""
        return f"; did you mean {repr(spelt[near]) if quoted else spelt[near]}?"
    return ""
