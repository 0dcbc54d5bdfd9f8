"""Built-in transforms as plain data: names and constructor keywords, for a message or a file."""

from collections.abc import Sequence
from typing import Any

from nn.dataset.transforms.abstract import AbsTransformer, Chain
from nn.dataset.transforms.images import Augment, ImageCls
from nn.dataset.transforms.labels import OneHot
from nn.dataset.transforms.non_iid import Dirichlet, Make_Non_IID, True_Non_IID
from nn.dataset.transforms.normalize import Normalize, NormalizeLabels
from nn.dataset.transforms.order import Shuffle

__all__ = ["build", "describe"]

_KINDS: dict[str, type[AbsTransformer]] = {
    kind.__name__: kind
    for kind in (
        Shuffle,
        ImageCls,
        Normalize,
        NormalizeLabels,
        OneHot,
        Augment,
        Make_Non_IID,
        True_Non_IID,
        Dirichlet,
    )
}


def describe(transformer: AbsTransformer) -> list[tuple[str, dict[str, Any]]]:
    """Return name and constructor keywords of every step, such that `build` makes an equal transform of them.

    >>> describe(Shuffle().add(ImageCls()))
    [('Shuffle', {}), ('ImageCls', {'flatten': True, 'channels': False})]

    Raises TypeError for a step of a class that is not built in: its code has to travel with it.
    """
    for step in transformer.steps:
        if _KINDS.get(type(step).__name__) is not type(step):
            raise TypeError(f"only {', '.join(_KINDS)} can be described as data, got a {type(step).__qualname__}")
    return [(type(step).__name__, step.get_config()) for step in transformer.steps]


def build(description: Sequence[tuple[str, dict[str, Any]]]) -> AbsTransformer:
    """Return the transform that `describe` described.

    Raises ValueError for an unknown name; what a constructor raises for its keywords passes through.
    """
    steps = []
    for name, config in description:
        if name not in _KINDS:
            raise ValueError(f"a transform must be one of {', '.join(_KINDS)}, got {name!r}")
        steps.append(_KINDS[name](**config))
    return steps[0] if len(steps) == 1 else Chain(steps)
