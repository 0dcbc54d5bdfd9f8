"""A data set made of arrays that are already in memory."""

from numpy.typing import ArrayLike

from nn.arrays import Array, as_array
from nn.dataset.checksum import Arrays
from nn.dataset.interface import AbsDataset

__all__ = ["ArrayDataset"]


class ArrayDataset(AbsDataset):
    """One's own samples: ``x`` and ``y`` to train on, ``test_x`` and ``test_y`` to evaluate on.

    Each is an array (or nested lists) of booleans, integers or floats with samples along the first axis. They are not
    copied, so leave them as they are from here on; `load` returns read-only views.

    Raises TypeError for another dtype; ValueError for a scalar, an empty part, a label count that differs from the
    sample count, and test samples or labels of another shape than those for training.

    >>> x = np.random.default_rng(0).normal(size=(100, 4))
    >>> data = ArrayDataset(x[:80], x[:80, 0] > 0, x[80:], x[80:, 0] > 0)
    """

    def __init__(self, x: ArrayLike, y: ArrayLike, test_x: ArrayLike, test_y: ArrayLike) -> None:
        self._arrays: Arrays = (_samples("x", x), _samples("y", y), _samples("test_x", test_x), _samples("test_y", test_y))
        train_x, train_y, held_x, held_y = self._arrays
        _same("y", len(train_y), "x", len(train_x), "length")
        _same("test_y", len(held_y), "test_x", len(held_x), "length")
        _same("test_x", held_x.shape[1:], "x", train_x.shape[1:], "sample shape")
        _same("test_y", held_y.shape[1:], "y", train_y.shape[1:], "label shape")

    def load(self, download: bool = True) -> Arrays:
        """Return the four arrays, read-only."""
        return self._arrays


def _samples(name: str, value: ArrayLike) -> Array:
    """Return `value` as a read-only array of numbers with at least one sample."""
    try:
        array = as_array(f"ArrayDataset '{name}'", value)
    except ValueError as error:
        raise ValueError(f"ArrayDataset '{name}' must be a rectangular array: {error}") from error
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise TypeError(
            f"ArrayDataset '{name}' must hold booleans, integers or floats of at most 64 bits, got dtype {array.dtype}"
        )
    if array.ndim == 0 or len(array) == 0:
        raise ValueError(f"ArrayDataset '{name}' must hold at least one sample, got shape {array.shape}")
    view = array.view()
    view.flags.writeable = False
    return view


def _same(name: str, value: object, other: str, expected: object, what: str) -> None:
    """Refuse two arguments that do not belong together."""
    if value != expected:
        raise ValueError(f"ArrayDataset '{name}' must have the {what} of '{other}', {expected}, got {value}")
