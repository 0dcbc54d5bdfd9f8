"""Codec classes that are composed when they are first asked for, so that a job loads the parts of its own codecs alone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeAlias

from . import compose
from .interfaces import Codec
from .settings import GlobalSettings

#: Composes the codec of the name that it gets.
Recipe: TypeAlias = Callable[[str], type[Codec]]


class Recipes:
    """Recipes for the codecs of one module. The module's `__getattr__` (PEP 562) asks for a class by its name."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._recipes: dict[str, Recipe] = {}

    def composes(self, name: str) -> Callable[[Recipe], Recipe]:
        """Enter a function as the recipe of the codec `name`; its docstring becomes that of the class."""

        def enter(recipe: Recipe) -> Recipe:
            self._recipes[name] = recipe
            return recipe

        return enter

    def get(self, name: str) -> type[Codec]:
        """Return the codec of this name, which the module has from then on.

        Raises: AttributeError where there is none.
        """
        recipe = self._recipes.get(name)
        if recipe is None:
            raise AttributeError(f"module {self._module!r} has no attribute {name!r}")
        kind = recipe(name)
        kind.__module__ = self._module  # there the nodes find it by its name
        kind.__doc__ = f"{recipe.__doc__}\n\n    {kind.__doc__}"
        setattr(sys.modules[self._module], name, kind)
        return kind


def exchanges_every(batches: int) -> Callable[[], compose.Every]:
    """Return a trigger's maker: in every so many batches, or as the parameter `local_batches` says."""
    return lambda: compose.Every(GlobalSettings.get_params("local_batches", batches))
