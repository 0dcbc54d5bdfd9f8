"""From names on a command line to classes."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any


class UnknownName(ValueError):
    """A name stands for nothing; the message lists what is known or says what is wrong with the module."""


def known_classes(module: ModuleType, base: Any) -> Mapping[str, Any]:
    """The concrete classes derived from `base` that `module` exports, by lower-case name."""
    exported = (getattr(module, name) for name in module.__all__)
    return {c.__name__.lower(): c for c in exported if inspect.isclass(c) and issubclass(c, base) and not inspect.isabstract(c)}


def find_class(text: str, base: Any, known: Mapping[str, Any], option: str) -> Any:
    """The class that `text` names: a known one, `module.Class`, `module:Class` or `file.py:Class`.

    Raises: UnknownName.
    """
    if text.lower() in known:
        return known[text.lower()]
    place, separator, name = text.rpartition(":" if ":" in text else ".")
    if not separator or not place:
        names = ", ".join(sorted(c.__name__ for c in known.values()))
        raise UnknownName(f"{option} {text!r} is unknown. Known: {names}; or write module.Class or file.py:Class.")
    found = getattr(_module(place, option), name, None)
    if found is None:
        raise UnknownName(f"{option}: {place} has no {name!r}.")
    if not (inspect.isclass(found) and issubclass(found, base)):
        raise UnknownName(f"{option}: {text} must be a class derived from {base.__name__}.")
    return found


def _module(place: str, option: str) -> ModuleType:
    try:
        if not place.endswith(".py"):
            if "" not in sys.path:
                sys.path.insert(0, "")  # a module beside the user, as with `python -m`
            return importlib.import_module(place)
        path = Path(place)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise UnknownName(f"{option}: the file {place} does not exist.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module  # shipping looks a class's module up there
        spec.loader.exec_module(module)
    except ImportError as error:
        raise UnknownName(f"{option}: {place} cannot be imported: {error}.") from error
    return module
