"""Arrays in a NumPy ``.npz`` file as a data set."""

import os
from typing import Any

from nn import arguments
from nn.arrays import Array
from nn.dataset.checksum import Arrays
from nn.dataset.directories import find_given
from nn.dataset.interface import AbsDataset
from nn.dataset.npz import read_arrays
from nn.dataset.split import check_fraction, split

__all__ = ["NpzDataset"]


class NpzDataset(AbsDataset):
    """Samples and labels in an ``.npz`` file, as ``np.savez`` and ``np.savez_compressed`` write it.

    `x` and `y` name the arrays to train on, samples along the first axis. What to evaluate on is

    * the arrays `test_x` and `test_y`, of the same file or of `test_path`; or
    * with `test_path` alone, the arrays `x` and `y` of that file; or else
    * the share `test_fraction` of the samples, drawn by `seed` (see `nn.dataset.split`).

    A relative path counts from the working directory, else from ``$PSGD_DATA``. Arrays may hold booleans, integers and floats
    of at most 64 bits; pickled objects are refused. All arrays together may have 2 GiB.

    >>> data = NpzDataset("mnist.npz", x="x_train", y="y_train", test_x="x_test", test_y="y_test")

    Raises ValueError where only one of `test_x` and `test_y` is given. `load` raises FileNotFoundError for a missing file,
    ValueError for one that is damaged, lacks an array, or whose arrays do not belong together.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        x: str = "x",
        y: str = "y",
        test_x: str | None = None,
        test_y: str | None = None,
        test_path: str | os.PathLike[str] | None = None,
        test_fraction: float = 0.2,
        seed: int = 0,
    ) -> None:
        self.path = os.fspath(path)
        self.test_path = None if test_path is None else os.fspath(test_path)
        for name, value in (("x", x), ("y", y), ("test_x", test_x), ("test_y", test_y)):
            if not isinstance(value, str) and (value is not None or not name.startswith("test_")):
                raise TypeError(f"NpzDataset '{name}' must be the name of an array, got {value!r}")
        if (test_x is None) != (test_y is None):
            raise ValueError(f"NpzDataset 'test_x' and 'test_y' must be given together, got {test_x!r} and {test_y!r}")
        self._names = (x, y)
        self._test_names = None if test_x is None or test_y is None else (test_x, test_y)
        self.draws_rows = test_path is None and test_x is None
        self.test_fraction = check_fraction(self, test_fraction)
        self.seed = arguments.integer(self, "seed", seed, minimum=0)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's keywords."""
        test_x, test_y = self._test_names or (None, None)
        return {
            "path": self.path,
            "x": self._names[0],
            "y": self._names[1],
            "test_x": test_x,
            "test_y": test_y,
            "test_path": self.test_path,
            "test_fraction": self.test_fraction,
            "seed": self.seed,
        }

    def load(self, download: bool = True) -> Arrays:
        """Return the four arrays; nothing is ever downloaded."""
        path = find_given(self.path, self)
        if self.test_path is not None:
            test_path = find_given(self.test_path, self)
            x, y = read_arrays(path, self._names)
            test_x, test_y = read_arrays(test_path, self._test_names or self._names)
        elif self._test_names is not None:
            x, y, test_x, test_y = read_arrays(path, (*self._names, *self._test_names))
        else:
            x, y = read_arrays(path, self._names)
            self._check_pair(x, y, self._names)
            return split(x, y, self.test_fraction, self.seed)
        self._check_pair(x, y, self._names)
        self._check_pair(test_x, test_y, self._test_names or self._names)
        if x.shape[1:] != test_x.shape[1:] or y.shape[1:] != test_y.shape[1:] or x.dtype != test_x.dtype:
            raise ValueError(
                f"'{self.path}': the samples to train and to evaluate on must be alike, got {x.dtype} {x.shape} with labels "
                f"{y.shape}, and {test_x.dtype} {test_x.shape} with labels {test_y.shape}"
            )
        return x, y, test_x, test_y

    def _check_pair(self, x: Array, y: Array, names: tuple[str, str]) -> None:
        if x.ndim == 0 or y.ndim == 0 or not 0 < len(x) == len(y):
            raise ValueError(
                f"'{self.path}': array {names[0]!r} must hold samples and {names[1]!r} as many labels, got shapes "
                f"{x.shape} and {y.shape}"
            )
