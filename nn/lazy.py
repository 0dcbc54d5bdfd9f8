"""Packages with public names that are imported at their first use: a job loads the layers that it uses, and no others.

`network.names` does it for the other packages; `nn` imports none of them.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, Final

_PROJECT: Final = "parallel_sgd"
_OTHERS: Final = ("executor", "network", "psgd", "rpc")
_OWN: Final = os.path.join("nn", "__init__.py")


def lazily(package: str, modules: Mapping[str, str]) -> None:
    """Give `package` its `__getattr__` and `__dir__` (PEP 562) for {module: names that come from it, with blanks between}.

    Those modules are attributes of the package, as if it had imported them; one that is shown stands among its own names.
    Completion and `help()` go by `__dir__`: they show those names, and of loaded objects only modules of the package. Type
    checkers see neither function, since by a `__getattr__` they would take every name: the package imports the same names under
    `TYPE_CHECKING`.
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        # A module comes before a name of another module: `nn.layer` is the package.
        if name in modules:
            return _imported(f"{package}.{name}")
        if name not in homes:
            from _psgd_packages import refusal  # noqa: PLC0415 - for errors alone

            raise refusal(unknown(package, name), package, name, sys._getframe(1), _near)
        value = getattr(_imported(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)  # Python calls this function for names that the module lacks only
        return value

    def names() -> list[str]:
        loaded = vars(sys.modules[package])
        special = {name for name in loaded if name.startswith("__")}
        return sorted(special | homes.keys() | {name for name in loaded if f"{package}.{name}" in sys.modules})

    vars(sys.modules[package]).update(__getattr__=get, __dir__=names)
    if package == "nn":
        sys.meta_path.append(_LastFinder())


class _LastFinder:
    """Finder behind all others (`sys.meta_path`): it finds no module, and tells where one is that `nn` does not have."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        """Raise `ModuleNotFoundError` where an import asks for a module of `nn`.

        Args:
            name: full name of the module.
        """
        if name.startswith("nn."):
            from _psgd_packages import refusal_of_module  # noqa: PLC0415 - for errors alone

            if (error := refusal_of_module(name, sys._getframe(1), _near)) is not None:
                raise error


def unknown(package: str, name: str) -> AttributeError:
    """Return the error for a name that a package lacks, with its name here if it is one of Keras."""
    from importlib.util import find_spec  # noqa: PLC0415 - for this error alone

    module = sys.modules[package]
    # `from nn import arguments` asks the package first, and takes the module where the package lacks the name. Tools ask
    # for special names.
    imported = name.isidentifier() and "__path__" in vars(module) and find_spec(f"{package}.{name}") is not None
    told = ""
    if not imported and not name.startswith("_") and not getattr(module.__spec__, "_initializing", False):
        from nn.keras_names import name_here  # noqa: PLC0415 - for this error alone

        here = name_here(package, name)
        told = f"; here it is {here}" if here else ""
    # Python adds a suggestion of its own by the names of the object
    return AttributeError(f"module {package!r} has no attribute {name!r}{told}", name=name, obj=None if told else module)


def _near(name: str, known: Iterable[str]) -> str:
    from nn.extension import did_you_mean  # noqa: PLC0415 - for this error alone

    return did_you_mean(name, known)


def look_beside(package: str) -> None:
    """Look whether Python finds something else under the names of the packages that are installed with `nn`.

    A program that is called `parallel_sgd.py`, or has such a file beside it, gets its own file by that name, and then an error
    about a circular import or a missing attribute, which no line of ours raises: a warning tells it first. The other names are
    common ones, and a program of `nn` alone may have such files: only an error about a name of ours is followed by the remedy.

    Args:
        package: the `__init__.py` of `nn`.
    """
    home = package.removesuffix(_OWN)
    # Where Python looks first: it finds the packages there, and a search of the whole path takes longer than the rest of `nn`.
    first = bool(sys.path) and os.path.join(sys.path[0], "") == home
    hidden = [name for name in (_PROJECT, *_OTHERS) if not (first and name not in sys.modules) and _is_elsewhere(name, home)]
    if not hidden:
        return
    import _psgd_packages  # noqa: PLC0415 - as below

    if _PROJECT in hidden:
        _psgd_packages.warn_of(_PROJECT)
    if others := {*hidden} - {_PROJECT}:
        _psgd_packages.tell_behind(others)


def _is_elsewhere(name: str, home: str) -> bool:
    """Return whether Python finds a file under the name of a package that is not the one in the folder `home`."""
    if name in sys.modules:
        # None stands there for a package that must not be imported
        spec = getattr(sys.modules[name], "__spec__", None)
    else:
        # As `importlib.util.find_spec` does, which is not loaded by then. A finder in the style of before may lack it.
        looks = (getattr(finder, "find_spec", None) for finder in sys.meta_path)
        spec = next(filter(None, (look(name, None) for look in looks if look is not None)), None)
    found = spec.origin if spec is not None else None
    # By the texts of both, which is fast: links and other spellings are left to what is then called.
    return found is not None and found != home + _OWN.replace("nn", name)


def _imported(module: str) -> ModuleType:
    """Import a module of `nn`; raise `NotInstalled` or `HiddenPackage`, with the remedy, where a library that it needs is not
    there, or is a file of the user's.
    """
    try:
        return import_module(module)
    except (ImportError, AttributeError):
        # Not before: `import nn` by itself loads next to nothing.
        import _psgd_packages  # noqa: PLC0415

        _psgd_packages.check("nn")
        raise
