"""Codec classes that are composed when they are first asked for, so that a job loads the parts of its own codecs alone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from . import compose
from .interfaces import BlockWeight, Codec, Packets
from .settings import GlobalSettings

if TYPE_CHECKING:

    class NamedCodec(Codec):
        """Base of the codecs, which readers of a module that do not run it find in place of the recipes."""

        def update_blocks(self, block_weight: BlockWeight) -> Packets: ...
        def receive_blocks(self, content: Any) -> Packets: ...

else:

    class NamedCodec:
        """Base of recipes; editors and type checkers, which do not run a module, see codecs in their place."""


Recipe = TypeVar("Recipe", bound=type[NamedCodec])


class Recipes:
    """Recipes for the codecs of one module: classes with the names and docstrings of the codecs, and `_made(name)`.

    `on_demand` takes them out of the module again, so that a codec is composed when it is first asked for.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._recipes: dict[str, Any] = {}

    def composes(self, recipe: Recipe) -> Recipe:
        """Enter a recipe for the codec of its name."""
        self._recipes[recipe.__name__] = recipe
        return recipe

    def on_demand(self, names: dict[str, Any]) -> Callable[[str], type[Codec]]:
        """Remove the recipes from a module, and return its `__getattr__` (PEP 562), which composes codecs in their place.

        Args:
            names: the names of the module.
        """
        for name in self._recipes:
            del names[name]
        return self._get

    def _get(self, name: str) -> type[Codec]:
        """Return the codec of this name, which the module has from then on.

        Raises: AttributeError where there is none.
        """
        recipe = self._recipes.get(name)
        if recipe is None:
            raise AttributeError(f"module {self._module!r} has no attribute {name!r}")
        kind: type[Codec] = recipe._made(name)
        kind.__module__ = self._module  # there the nodes find it by its name
        kind.__doc__ = f"{recipe.__doc__}\n\n    {kind.__doc__}"
        setattr(sys.modules[self._module], name, kind)
        return kind


def exchanges_every(batches: int) -> Callable[[], compose.Every]:
    """Return a trigger's maker: in every so many batches, or as the parameter `local_batches` says."""
    return lambda: compose.Every(GlobalSettings.get_params("local_batches", batches))
