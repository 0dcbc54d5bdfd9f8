"""What a transform is, how several of them become one, and built-in ones as plain data, for a message or a file."""

from abc import abstractmethod
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from nn.arguments import Configurable
from nn.arrays import Array
from nn.dataset.interface import Arrays

__all__ = ["AbsTransformer", "Chain", "build", "describe"]

_KINDS = (
    "Shuffle", "ImageCls", "Normalize", "NormalizeLabels", "OneHot", "Augment", "Make_Non_IID", "True_Non_IID", "Dirichlet",
)  # fmt: skip
"""The built-in transforms."""


class AbsTransformer(Configurable, passes={"__call__": (4, "seed")}):
    """Something done to a whole data set after loading and before training, on every worker alike.

    A subclass implements `__call__`, and `get_config` when its constructor takes arguments. It must give equal results
    for equal arguments: draw randomness from `seed` only (see `nn.random.keyed`), and leave the arrays it gets unchanged.

    >>> transform = Shuffle().add(ImageCls())
    >>> train_x, train_y, test_x, test_y = transform(*Digits().load(), seed=1)
    """

    @abstractmethod
    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        """Return the four arrays transformed; `seed` is the job's seed, the same on every node."""

    @property
    def steps(self) -> tuple["AbsTransformer", ...]:
        """The simple transforms this one consists of, in the order of their application."""
        return (self,)

    @property
    def deals_blocks(self) -> bool:
        """Whether the order it gives the samples says which block of a job gets which; a job then leaves them there."""
        return False

    def add(self, other: "AbsTransformer") -> "AbsTransformer":
        """Return the transform that applies this one, then `other`; neither of the two changes."""
        return Chain((self, other))


class Chain(AbsTransformer, configured=True):
    """Transforms applied one after the other; a chain inside a chain dissolves into its steps.

    Raises TypeError when a step is no transform.

    >>> steps = nn.dataset.transforms.Chain([nn.dataset.transforms.Shuffle(), nn.dataset.transforms.ImageCls()]).steps
    >>> [type(step).__name__ for step in steps]
    ['Shuffle', 'ImageCls']
    """

    def __init__(self, steps: Sequence[AbsTransformer]) -> None:
        for step in steps:
            if not isinstance(step, AbsTransformer):
                raise TypeError(f"Chain 'steps' must be transforms (AbsTransformer objects), got {step!r}")
        self._steps = tuple(simple for step in steps for simple in step.steps)

    @property
    def steps(self) -> tuple[AbsTransformer, ...]:
        return self._steps

    @property
    def deals_blocks(self) -> bool:
        return any(step.deals_blocks for step in self._steps)

    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        arrays = (train_x, train_y, test_x, test_y)
        for step in self._steps:
            arrays = step(*arrays, seed=seed)
        return arrays


def describe(transformer: AbsTransformer) -> list[tuple[str, dict[str, Any]]]:
    """Return name and constructor keywords of every step, such that `build` makes an equal transform of them.

    >>> describe(Shuffle().add(ImageCls()))
    [('Shuffle', {}), ('ImageCls', {'flatten': True, 'channels': False})]

    Raises TypeError for a step of a class that is not built in: its code has to travel with it.
    """
    for step in transformer.steps:
        name = type(step).__name__
        if name not in _KINDS or _kind(name) is not type(step):
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
        steps.append(_kind(name)(**config))
    return steps[0] if len(steps) == 1 else Chain(steps)


def _kind(name: str) -> type[AbsTransformer]:
    """Return a built-in transform, which is imported when somebody asks for it."""
    kind: type[AbsTransformer] = getattr(import_module("nn.dataset.transforms"), name)
    return kind
