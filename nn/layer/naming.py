"""Names for layers that were given none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nn.layer.layer import Layer


class Naming:
    """Follows the calls of layers while a model is built, and names them by class and number: dense_1, dense_2.

    As long as the context lasts, a layer without a name bears the one that it is about to get, so that errors can tell
    which of several it is.
    """

    def __init__(self) -> None:
        self._places: dict[Layer, int] = {}
        self._nameless: list[Layer] = []
        self._taken: set[str] = set()
        self._numbers: Counter[str] = Counter()
        self._token: Token[Naming | None] | None = None

    def __enter__(self) -> Naming:
        self._token = _CURRENT.set(self)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._token is not None:
            _CURRENT.reset(self._token)
        for layer in self._nameless:
            layer.name = ""

    def meet(self, layer: Layer) -> None:
        """Take note of a call."""
        if layer in self._places:
            return
        self._places[layer] = len(self._places)
        if not layer.given_name:
            layer.name = _free_name(layer, self._numbers, self._taken)
            self._nameless.append(layer)
        self._taken.add(layer.given_name)

    def place(self, layer: Layer) -> int:
        """Return how many layers were called before the first call of this one; those never called come last."""
        return self._places.get(layer, len(self._places))


_CURRENT: ContextVar[Naming | None] = ContextVar("the model that is being built", default=None)


def note_call(layer: Layer) -> None:
    """Tell the model that is being built, if there is one, that it calls a layer."""
    naming = _CURRENT.get()
    if naming is not None:
        naming.meet(layer)


def name_layers(layers: Iterable[Layer]) -> None:
    """Name every layer that has no name, in this order.

    Raises ValueError where two layers bear the same name.
    """
    layers = list(layers)
    given = Counter(layer.given_name for layer in layers if layer.given_name)
    for name, count in given.items():
        if count > 1:
            raise ValueError(f"{count} layers are named '{name}'; names must differ within a model")
    numbers: Counter[str] = Counter()
    for layer in layers:
        if not layer.given_name:
            layer.name = _free_name(layer, numbers, given)


def _free_name(layer: Layer, numbers: Counter[str], taken: Container[str]) -> str:
    kind = type(layer).__name__.lower()
    while True:
        numbers[kind] += 1
        name = f"{kind}_{numbers[kind]}"
        if name not in taken:
            return name
