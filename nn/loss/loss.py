"""Base class of losses, and checks of labels, with errors that name the loss, its expectation and the labels that came."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal, NoReturn, TypeAlias, cast

import numpy as np

from nn import arguments
from nn.arguments import Configurable
from nn.arrays import Array, OwnMemory, Scratch, Shape, as_array, described_labels
from nn.extension import described, is_ours, renamed, written
from nn.operation.operation import Operation

Taken: TypeAlias = Literal["any", "scores", "probabilities", "decisions", "class scores", "class probabilities", "rates"]


class Loss(Configurable, fixed=("_share",), passes={"value": (3,), "gradient": (4,)}):
    """The number that training makes small: sum_i w_i l_i / batch, with l_i the loss of sample i and w_i its weight, else 1.

    An instance in a model holds its configuration only. Each plan works with a copy, tells it the shape once (`allocate`)
    and then calls `value` and, in training, `gradient` with the same arguments.

    To add one: check the labels in `prepare`, compute l_i in `each` and its derivative in `derive`; work arrays are made in
    `allocate`, after `super().allocate(...)`. Its name and its word go into `nn/loss/__init__.py`, its name into the table of
    nn/README.md, and a row into `tests/contract/nn_rows/losses.py`, which a test demands.

    >>> class Mean(nn.loss.Loss):
    ...     def prepare(self, label, shape, dtype):
    ...         return label
    ...     def each(self, label, output):
    ...         return output.mean(axis=1)
    ...     def derive(self, label, output, share, out):
    ...         out[:] = share / output.shape[1]
    >>> nn.testing.check_loss_gradient(Mean(), np.zeros(5), np.ones((5, 2)))
    """

    #: Whether `each` and `derive` are known to do their part: those of a user's class are looked at in its first batch.
    _proven: bool = False

    #: Where `allocate` gets memory that lasts from `value` to the next run. A runner sets it for a copy.
    _memory: Scratch = OwnMemory()

    absorbs: ClassVar[type[Operation] | None] = None
    """An operation that the loss contains. A model that ends in it hands the loss the values before it, and takes its value
    for the metrics from `prediction`, which such a loss has to define."""

    #: Kind of the values that it takes: a model that ends in others is refused.
    _takes: ClassVar[Taken] = "any"

    #: Whether the loss of a sample does not depend on the others of the batch, and `sum_losses` is the sum of `each` for labels
    #: that are class numbers: then threads may share out the samples. Of a user's class that is not known.
    _by_sample: ClassVar[bool] = False

    @property
    def _ignores(self) -> bool:
        """Whether there are labels that leave out what they stand for."""
        return False

    def _counted(self, label: Array) -> Array | None:
        """Return which labels, as `prepare` gave them, count; None where all do."""
        return None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Without it metrics would see scores in place of the operation's value.
        if isinstance(cls.absorbs, type) and cls.prediction is Loss.prediction:
            raise TypeError(f"{cls.__name__} absorbs {cls.absorbs.__name__}, so it must define prediction(), its value")

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Raise TypeError with the remedy: a model computes its loss."""
        raise TypeError(
            f"{type(self).__name__} is not called: compile(optimizer, loss) takes it, and fit(), evaluate() and "
            "compute_gradients() of the model give its value"
        )

    @abstractmethod
    def prepare(self, label: Array, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """Return labels in the form that `value` takes.

        Args:
            label: the labels of a batch.
            shape: shape of the outputs.
            dtype: their type.

        Raises ValueError naming the fault.
        """

    def check_weights(self, weight: Array, samples: int, dtype: np.dtype[Any]) -> Array:
        """Return weights of samples, shape (samples,), as `value` takes them.

        Args:
            weight: the weights, as they were given.
            samples: number of the samples.
            dtype: type of the outputs.

        Raises ValueError unless there is one finite number of at least 0 for each sample.
        """
        name = f"{type(self).__name__} 'weight'"
        weight = as_array(name, weight)
        if weight.shape != (samples,) or weight.dtype.kind not in "iufb":
            raise ValueError(
                f"{name} must hold one number for each of the {samples} samples, got {weight.dtype} of shape {weight.shape}"
            )
        # A number beyond the type becomes infinite and is refused below.
        with np.errstate(over="ignore"):
            weight = np.asarray(weight, dtype)
        # written so that NaN counts as wrong
        wrong = np.flatnonzero(~((weight >= 0) & (weight < np.inf)))
        if wrong.size:
            raise ValueError(f"{name} must hold finite numbers of at least 0, got {weight[wrong[0]]:g} for sample {wrong[0]}")
        return weight

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        """Prepare work space. Called once for each copy.

        Args:
            shape: shape of the outputs.
            dtype: their type.
        """
        self._share = np.empty((shape[0], *(1 for _ in shape[1:])), dtype)
        self._proven = is_ours(type(self))

    def value(self, label: Array, output: Array, weight: Array | None = None) -> float:
        """Return the mean loss of the batch.

        Args:
            label: labels, as of `prepare`.
            output: outputs (batch, ...).
            weight: how many times the loss of each sample counts (batch,); None: once.
        """
        if weight is None:
            return self.sum_losses(label, output) / len(output)
        losses = self.each(label, output)
        if not self._proven:
            self._check_losses(losses, output)
        return float(np.dot(losses, weight)) / len(output)

    def gradient(self, label: Array, output: Array, out: Array, weight: Array | None = None) -> None:
        """Write d value / d output, after `value` with the same arguments.

        Args:
            label, output, weight: as of `value`.
            out: takes it, of the shape of the output.
        """
        share: float | Array = 1 / len(output)
        if weight is not None:
            # `derive` may change it, so it is computed anew for each batch.
            share = np.multiply(weight.reshape(self._share.shape), share, out=self._share)
        if self._proven:
            self.derive(label, output, share, out)
        else:
            written(self, "derive", (label, output, share, out), out)
            self._proven = True

    @abstractmethod
    def each(self, label: Array, output: Array) -> Array:
        """Return the loss of each sample, (batch,). Valid until the next call.

        Args:
            label, output: as of `value`.
        """

    def sum_losses(self, label: Array, output: Array) -> float:
        """Return the sum of `each`, and leave behind the arrays that `derive` needs. For a loss that has a faster way.

        Args:
            label, output: as of `value`.
        """
        losses = self.each(label, output)
        if not self._proven:
            self._check_losses(losses, output)
        return float(np.add.reduce(losses))

    def _check_losses(self, found: object, output: Array) -> None:
        """Raise TypeError unless `each` has returned the loss of each sample."""
        if not (isinstance(found, np.ndarray) and found.shape == (len(output),)):
            raise TypeError(
                f"{type(self).__name__}.each() must return the loss of each sample, an array of shape {(len(output),)}, got "
                f"{described(found)}"
            )

    total = renamed("sum_losses", offered=True)

    @abstractmethod
    def derive(self, label: Array, output: Array, share: float | Array, out: Array) -> None:
        """Write share * d l_i / d output_i, after `each` or `sum_losses` with the same arguments.

        Args:
            label, output: as of `value`.
            share: a number, or work space (batch, 1, ...) with one for each sample, which may be changed in place.
            out: takes it, of the shape of the output.
        """

    def prediction(self, output: Array) -> Array:
        """Return the output of the absorbed operation, after `value` with the same output. Valid until the next run."""
        return output


def check_length(owner: object, label: Array, samples: int) -> None:
    """Raise ValueError unless there is one label for each sample."""
    name = type(owner).__name__
    if not samples:
        raise ValueError(f"{name} takes at least one sample, got none")
    if label.ndim == 0 or len(label) != samples:
        count = len(label) if label.ndim else "a single number"
        raise ValueError(f"{name} 'label' must hold one label for each of the {samples} samples, got {count}")


def targets(owner: object, label: Array, shape: Shape, dtype: np.dtype[Any]) -> Array:
    """Return finite numbers of the shape of the output; the last axis may be missing where it has length 1."""
    name = type(owner).__name__
    check_length(owner, label, shape[0])
    if label.shape != shape and shape != (*label.shape, 1):
        raise ValueError(f"{name} labels must have the shape {shape} of the output, got {label.shape}")
    return _finite(name, label, dtype).reshape(shape)


class ClassLoss(Loss):
    """Loss of classes that may ignore those places that have one certain number as their label.

    Args:
        ignore_index: label of samples, or positions, that count neither in the loss nor in metrics, such as that of padding; it
            may be a class or none, such as -100. The loss is the mean over the others. None: all count.
    """

    ignore_index: int | None = None

    @property
    def _ignores(self) -> bool:
        return self.ignore_index is not None

    def _counted(self, label: Array) -> Array | None:
        # Rows of probabilities name no class to ignore.
        return None if self.ignore_index is None or label.dtype.kind not in "iu" else label != self.ignore_index

    def prepare(self, label: Array, shape: Shape, dtype: np.dtype[Any]) -> Array:
        return classes(self, label, shape, dtype, self.ignore_index)


def ignored(owner: object, value: int | None) -> int | None:
    """Return 'ignore_index'; raise TypeError where it is no integer and not None."""
    return None if value is None else arguments.integer(owner, "ignore_index", value, minimum=-(2**31))


def position_weights(owner: object, weight: Array, shape: Shape, dtype: np.dtype[Any]) -> Array:
    """Return weights of the positions of samples, (batch, ...), for outputs of this shape.

    Raises ValueError unless there is one finite number of at least 0 for each position.
    """
    name = f"{type(owner).__name__} 'weight'"
    weight = as_array(name, weight)
    if weight.ndim >= max(len(shape), 2) + (len(shape) == 2) or weight.shape != shape[: weight.ndim]:
        raise ValueError(
            f"{name} must hold one number for each of the {shape[0]} samples, or for each position of outputs of shape "
            f"{shape}, got {weight.dtype} of shape {weight.shape}"
        )
    # Of all positions as of so many samples.
    return Loss.check_weights(cast(Loss, owner), weight.reshape(-1), weight.size, dtype).reshape(weight.shape)


def classes(owner: object, label: Array, shape: Shape, dtype: np.dtype[Any], ignore: int | None = None) -> Array:
    """Return class numbers (batch, ...) or rows of probabilities (batch, ..., classes) for outputs (batch, ..., classes).

    Class numbers are integers, booleans or whole floats; the number `ignore` need be no class.
    """
    name = type(owner).__name__
    if len(shape) < 2:
        raise ValueError(f"{name} takes outputs of shape (batch, ..., classes), got {shape}")
    check_length(owner, label, shape[0])
    if label.shape == shape:
        return probability_rows(name, label, dtype)
    places, count = shape[:-1], shape[-1]
    if label.shape not in (places, (*places, 1)) or label.dtype.kind not in "iufb":
        found, _, remedy = described_labels(label).partition("; ")
        if not remedy and len(shape) > 2 and label.shape in ((shape[0],), (shape[0], 1), (shape[0], count)):
            remedy = "a Flatten() before the last Dense gives each sample one row of outputs"
        raise ValueError(
            f"{name} labels must be integers of shape {places} or rows of shape {shape}, "
            f"got {found} of shape {label.shape}{f'; {remedy}' * bool(remedy)}"
        )
    if label.dtype.kind in "fb":
        label = _whole(name, label)
    named = label if ignore is None else label[label != ignore]
    low, high = (int(named.min()), int(named.max())) if named.size else (0, 0)
    if low < 0 or high >= count:
        raise ValueError(f"{name} labels must lie in 0..{count - 1} for {count} outputs, got {low}..{high}")
    # (batch, ..., 1) is as good as (batch, ...).
    numbers = label.reshape(places)
    # the one integer type that does not add up to a place in memory
    return numbers.astype(np.intp) if numbers.dtype == np.uint64 else numbers


def _whole(name: str, label: Array) -> Array:
    numbers = label.astype(np.float64)
    # Infinity is whole, but no integer; from 2**53 on float64 does not tell all integers apart.
    wrong = ~((np.rint(numbers) == numbers) & (np.abs(numbers) < 2**53))
    if wrong.any():
        raise ValueError(f"{name} labels that number classes must be whole, got {numbers[wrong][0]:g}")
    return numbers.astype(np.int64)


def probability_rows(name: str, label: Array, dtype: np.dtype[Any]) -> Array:
    """Return labels that are rows of probabilities, each of which must sum to 1.

    Args:
        name: of the loss, for errors.
        label: the rows, (batch, ..., classes).
        dtype: type of the result.
    """
    rows = _finite(name, label, dtype)
    sums = rows.sum(axis=-1).reshape(-1)
    # Rows in float32 are not exact, and those of a file may have three digits.
    wrong = np.flatnonzero(np.abs(sums - 1) > 1e-3)
    if wrong.size or rows.min() < 0:
        found = f"row {wrong[0]} sums to {sums[wrong[0]]:g}" if wrong.size else "a negative one"
        raise ValueError(f"{name} label rows must hold probabilities that sum to 1, got {found}")
    return rows


def _finite(name: str, label: Array, dtype: np.dtype[Any]) -> Array:
    if label.dtype.kind not in "iufb":
        raise ValueError(f"{name} labels must be numbers, got {described_labels(label)}")
    with np.errstate(over="ignore"):
        numbers = np.asarray(label, dtype)
    # both are NaN where one label is
    for bound in (numbers.min(), numbers.max()):
        if not np.isfinite(bound):
            raise ValueError(f"{name} labels must be finite, got {bound:g} in {dtype}")
    return numbers
