"""Base of data sets of text files: windows of ids, and the ids that follow them."""

import os
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from nn import arguments
from nn.arrays import Array
from nn.dataset.interface import AbsDataset, Arrays, check_fraction

__all__ = ["TextWindows"]


class TextWindows(AbsDataset):
    """Windows of `length` ids, with the ids that follow each of them as labels. A subclass gives the ids.

    Args:
        path: a file or several, read one after the other.
        length: ids of a window.
        test_fraction: share of the ids, the last ones, that is there to evaluate on, in windows side by side.
        stride: ids from one window to train on to the next; None: `length`.
    """

    #: Plural of the things that have ids, for messages.
    _unit: ClassVar[str]

    def __init__(
        self,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        length: int,
        test_fraction: float,
        stride: int | None,
    ) -> None:
        paths = [path] if isinstance(path, (str, os.PathLike)) else path
        if not isinstance(paths, (list, tuple)) or not all(isinstance(each, (str, os.PathLike)) for each in paths):
            raise TypeError(f"{type(self).__name__} 'path' must be a path or a list of paths, got {arguments.short(path)}")
        if not paths:
            raise ValueError(f"{type(self).__name__} 'path' must name at least one file, got none")
        self.paths = [os.fspath(each) for each in paths]
        self.length = arguments.integer(self, "length", length, minimum=1)
        self.test_fraction = check_fraction(self, test_fraction)
        self.stride = self.length if stride is None else arguments.integer(self, "stride", stride, minimum=1)

    def argument(self, name: str) -> Any:
        return self.paths if name == "path" else super().argument(name)

    def source_of(self, part: str) -> str:
        return ", ".join(self.paths)

    def load(self, download: bool = True) -> Arrays:
        ids = self._ids()
        border = len(ids) - round(self.test_fraction * len(ids))
        return *self._windows(ids[:border], self.stride, "train"), *self._windows(ids[border:], self.length, "evaluate")

    @abstractmethod
    def _ids(self) -> Array:
        """Return the ids of all files, int32."""

    def _windows(self, ids: Array, stride: int, purpose: str) -> tuple[Array, Array]:
        if len(ids) <= self.length:
            raise ValueError(
                f"{type(self).__name__} with windows of {self.length} needs more {self._unit} than that to {purpose} on, "
                f"got {len(ids)}; a smaller 'length' needs fewer"
            )
        # One more: y is x one id later.
        windows = sliding_window_view(ids, self.length + 1)[::stride]
        # Copies: windows of the view overlap, and a read-only view would keep the whole text.
        return np.ascontiguousarray(windows[:, :-1]), np.ascontiguousarray(windows[:, 1:])
