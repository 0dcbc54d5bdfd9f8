"""Base class of transforms, chains of several, and built-in ones as plain data, for a message or a file."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from nn import arguments
from nn.arguments import Configurable
from nn.arrays import Array, as_array
from nn.dataset.interface import PARTS, AbsDataset, Arrays
from nn.extension import checked_call

__all__ = ["AbsTransformer", "Chain", "build", "check_fields", "check_order", "describe"]

#: The built-in transforms.
_KINDS = (
    "Shuffle", "ImageCls", "Normalize", "NormalizeLabels", "OneHot", "Augment", "Make_Non_IID", "True_Non_IID", "Dirichlet",
    "Windows", "StringLookup", "TextVectorization", "Buckets",
)  # fmt: skip


class AbsTransformer(Configurable, passes={"__call__": (4, "seed")}):
    """Change of a whole data set after loading and before training, on every worker alike.

    A subclass implements `__call__`, and `get_config` when its constructor takes arguments. It must give equal results
    for equal arguments: draw randomness from `seed` only (see `nn.random.keyed`), and leave the arrays it gets unchanged.

    >>> transform = Shuffle().add(ImageCls())
    >>> train_x, train_y, test_x, test_y = transform(*Digits().load(), seed=1)
    """

    @abstractmethod
    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        """Return the four arrays transformed; `seed` is the job's seed, the same on every node."""

    for_training_only: ClassVar[bool] = False
    """Whether it changes nothing of a sample that is to be predicted, as order and copies of training samples do not."""

    takes_parts: ClassVar[bool] = True
    """Whether it takes samples and labels of several parts, with a field for each; most of this package take numbers."""

    #: Whether it takes texts, so that samples that are numbers have been through it.
    _of_texts: ClassVar[bool] = False

    in_order: ClassVar[bool] = False
    """Whether it needs all rows in the order of time."""

    @property
    def needs_labels(self) -> bool:
        """Whether `at_prediction` takes labels of the rows, too."""
        return False

    @property
    def steps(self) -> tuple["AbsTransformer", ...]:
        """The simple transforms this one consists of, in the order of their application."""
        return (self,)

    def fitted(self, train_x: Array, train_y: Array) -> "AbsTransformer | None":
        """Return the transform with the statistics of these training samples, for samples that are to be predicted.

        Args:
            train_x: the training samples, as this transform gets them.
            train_y: their labels.

        Returns:
            None where it is for training only.

        Raises:
            TypeError: where the class has no form for prediction.
        """
        if self.for_training_only:
            return None
        raise TypeError(f"{type(self).__name__} does not say what it does at prediction: it has no fitted()")

    def at_prediction(self, x: Array, y: Array | None) -> tuple[Array, Array | None]:
        """Return samples, and labels where there are some, as the model takes them at prediction.

        Args:
            x: samples ``(n, ...)``.
            y: labels ``(n, ...)`` of the same rows, for a transform that `needs_labels`; else None.
        """
        return x, y

    def at_evaluation(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Return samples and their labels as a trained model is evaluated on them.

        Args:
            x, y: as of `at_prediction`.
        """
        # A transform without labels leaves them as they are.
        samples, labels = self.at_prediction(x, y)
        return samples, y if labels is None else labels

    @property
    def deals_blocks(self) -> bool:
        """Whether the order it gives the samples says which block of a job gets which; a job then leaves them there."""
        return False

    def _left_out(self, x: Array) -> str:
        """Return the name of this transform for samples that look as if they had not been through it, else ""."""
        return ""

    @property
    def _limits(self) -> tuple[int, ...]:
        """Lengths to which a job cuts blocks of sequences, see `Buckets`; none: it cuts nothing."""
        return ()

    @checked_call
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
        given = arguments.sequence(self, "steps", steps, "transforms")
        for step in given:
            if not isinstance(step, AbsTransformer):
                raise TypeError(f"Chain 'steps' must be transforms (AbsTransformer objects), got {step!r}")
        # Flat, so that a step can be looked at without asking whether it is a chain.
        self._steps = tuple(simple for step in given for simple in step.steps)

    @property
    def steps(self) -> tuple[AbsTransformer, ...]:
        return self._steps

    @property
    def deals_blocks(self) -> bool:
        return any(step.deals_blocks for step in self._steps)

    @property
    def _limits(self) -> tuple[int, ...]:
        return next((step._limits for step in reversed(self._steps) if step._limits), ())

    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        arrays = (train_x, train_y, test_x, test_y)
        for step in self._steps:
            arrays = step(*arrays, seed=seed)
        return arrays


def as_parts(owner: AbsTransformer, *given: Any) -> Arrays:
    """Return training and test parts of a data set, samples and labels each, as arrays.

    Args:
        owner: the transform, named in errors.
        given: train_x, train_y, test_x and test_y.

    Raises:
        TypeError: for an object without samples, naming the part.
    """
    found = []
    for name, part in zip(PARTS, given, strict=True):
        array = part if isinstance(part, np.ndarray) else as_array(f"{type(owner).__name__} '{name}'", part)
        if not array.ndim:
            raise TypeError(f"{type(owner).__name__} '{name}' must be an array with samples, got {arguments.short(part)}")
        found.append(array)
    return found[0], found[1], found[2], found[3]


def check_fields(arrays: Iterable[Array], transformer: AbsTransformer) -> None:
    """Check that the transforms take samples and labels of several parts, where these have some.

    Args:
        arrays: train_x, train_y, test_x and test_y.
        transformer: the transforms.

    Raises:
        ValueError: naming the transform and the parts.
    """
    names = next((array.dtype.names for array in arrays if array.dtype.names), None)
    for step in transformer.steps:
        if names and not step.takes_parts:
            raise ValueError(
                f"'transform' {type(step).__name__} takes samples and labels of one array each, got parts {', '.join(names)}; "
                "change them before they go into the data set, or by a transform of your own, which gets train_x[name]"
            )


def check_order(data: AbsDataset, transformer: AbsTransformer) -> None:
    """Check that the samples stand in the order that the transforms need.

    Args:
        data: the data set; its `split` says which samples are set aside.
        transformer: the transforms of its samples.

    Raises:
        ValueError: for samples that are drawn or shuffled before a transform that needs the order of time.
    """
    mixed = ""
    for step in transformer.steps:
        name = type(step).__name__
        if step.in_order and mixed:
            raise ValueError(f"'transform' {name} needs rows in the order of time, so it must come before {mixed}")
        how = getattr(data, "split", "last")
        if step.in_order and getattr(data, "drawn", None) is not None and how != "last":
            raise ValueError(
                f"'transform' {name} needs rows in the order of time, so 'split' of {type(data).__name__} must be 'last', "
                f"got {how!r}"
            )
        # One-hot rows keep the order of the samples, all other transforms for training may not.
        mixed = mixed or (name if step.for_training_only and name != "OneHot" else "")


def describe(transformer: AbsTransformer) -> list[tuple[str, dict[str, Any]]]:
    """Return name and constructor keywords of every step of `transformer`, such that `build` makes an equal transform of them.

    >>> describe(Shuffle().add(ImageCls()))
    [('Shuffle', {}), ('ImageCls', {'flatten': True, 'channels': False})]

    Raises TypeError for a step of a class that is not built in: its code has to travel with it.
    """
    for step in transformer.steps:
        name = type(step).__name__
        # A class of a user may have the name of a built-in one.
        if name not in _KINDS or _kind(name) is not type(step):
            raise TypeError(f"only {', '.join(_KINDS)} can be described as data, got a {type(step).__qualname__}")
    return [(type(step).__name__, step.get_config()) for step in transformer.steps]


def build(description: Sequence[tuple[str, dict[str, Any]]]) -> AbsTransformer:
    """Return the transform for a `description` that `describe` gave.

    Raises ValueError for an unknown name; errors that a constructor raises for its keywords pass through.
    """
    steps = []
    for name, config in description:
        if name not in _KINDS:
            raise ValueError(f"a transform must be one of {', '.join(_KINDS)}, got {name!r}")
        steps.append(_kind(name)(**config))
    return steps[0] if len(steps) == 1 else Chain(steps)


def _kind(name: str) -> type[AbsTransformer]:
    """Return a built-in transform, which is imported at its first use."""
    kind: type[AbsTransformer] = getattr(import_module("nn.dataset.transforms"), name)
    return kind
