"""Arrays in a NumPy ``.npz`` file as a data set, read within limits."""

from __future__ import annotations

import math
import os
import re
import zipfile
import zlib
from collections.abc import Iterable
from typing import IO

import numpy as np

from nn import arguments
from nn.arrays import Array
from nn.dataset.files import find_given, read_values
from nn.dataset.interface import Arrays, DrawingDataset, SplitKind, check_fraction, check_split, draw

__all__ = ["NpzDataset", "names_in", "read_array", "read_arrays"]


class NpzDataset(DrawingDataset, configured=True):
    """Samples and labels in an ``.npz`` file, as ``np.savez`` and ``np.savez_compressed`` write it.

    `x` and `y` name the arrays to train on, samples along the first axis. The samples to evaluate on are

    * the arrays `test_x` and `test_y`, of the same file or of `test_path`; or
    * with `test_path` alone, the arrays `x` and `y` of that file; or else
    * the share `test_fraction` of the samples as `split` says: drawn by `seed` ("random", "stratified" by class), or "last".

    A relative path counts from the working directory, else from ``$PSGD_DATA``. Arrays may hold booleans, integers and floats
    of at most 64 bits; pickled objects are refused. All arrays together may have 2 GiB.

    Args:
        path: of the file.
        x: name of the array of samples to train on.
        y: name of their labels.
        test_x: name of the array of samples to evaluate on.
        test_y: name of their labels.
        test_path: of a file of its own for these.
        test_fraction: share of the samples to evaluate on, where no arrays are named, above 0 and below 1.
        seed: of the draw of that share.
        split: 'random', 'stratified' or 'last'.

    >>> data = NpzDataset("mnist.npz", x="x_train", y="y_train", test_x="x_test", test_y="y_test")

    Raises ValueError where only one of `test_x` and `test_y` is given. `load` raises FileNotFoundError for a missing file,
    ValueError for one that is damaged, lacks an array, or holds arrays that do not belong together.
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
        split: SplitKind = "random",
    ) -> None:
        self.path = arguments.path(self, "path", path, "a file")
        self.test_path = None if test_path is None else arguments.path(self, "test_path", test_path, "a file")
        for name, value in (("x", x), ("y", y), ("test_x", test_x), ("test_y", test_y)):
            if not isinstance(value, str) and (value is not None or not name.startswith("test_")):
                raise TypeError(f"NpzDataset '{name}' must be the name of an array, got {value!r}")
        if (test_x is None) != (test_y is None):
            raise ValueError(f"NpzDataset 'test_x' and 'test_y' must be given together, got {test_x!r} and {test_y!r}")
        self.x, self.y, self.test_x, self.test_y = x, y, test_x, test_y
        self._draws = test_path is None and test_x is None
        self.split = check_split(self, split)
        self.test_fraction = check_fraction(self, test_fraction)
        self.seed = arguments.integer(self, "seed", seed, minimum=0)

    def load(self, download: bool = True) -> Arrays:
        path, names = find_given(self.path, self), (self.x, self.y)
        test_names = names if self.test_x is None or self.test_y is None else (self.test_x, self.test_y)
        if self._draws:
            x, y = read_arrays(path, names)
            self._check_pair(x, y, names)
            train, test = self._drawn = draw(y, self.test_fraction, self.seed, self.split)
            return x[train], y[train], x[test], y[test]
        if self.test_path is not None:
            test_path = find_given(self.test_path, self)
            (x, y), (test_x, test_y) = read_arrays(path, names), read_arrays(test_path, test_names)
        else:
            x, y, test_x, test_y = read_arrays(path, (*names, *test_names))
        self._check_pair(x, y, names)
        self._check_pair(test_x, test_y, test_names)
        if x.shape[1:] != test_x.shape[1:] or y.shape[1:] != test_y.shape[1:] or x.dtype != test_x.dtype:
            raise ValueError(
                f"'{self.path}': the samples to train and to evaluate on must be alike, got {x.dtype} {x.shape} with labels "
                f"{y.shape}, and {test_x.dtype} {test_x.shape} with labels {test_y.shape}"
            )
        return x, y, test_x, test_y

    def source_of(self, part: str) -> str:
        name = getattr(self, part.removeprefix("train_")) or getattr(self, part[-1])
        return f"array {name!r} of {self.test_path if part.startswith('test') and self.test_path else self.path}"

    def _check_pair(self, x: Array, y: Array, names: tuple[str, str]) -> None:
        if x.ndim == 0 or y.ndim == 0 or not 0 < len(x) == len(y):
            raise ValueError(
                f"'{self.path}': array {names[0]!r} must hold samples and {names[1]!r} as many labels, got shapes "
                f"{x.shape} and {y.shape}"
            )


# Reading chosen arrays of numbers out of an ``.npz`` file, within limits.
#
# ``numpy.load`` allocates what the header of an array claims before it looks at the content; here memory grows with what the
# file really holds. Only arrays of booleans, integers and floats are read: Python objects and records are refused by their
# header, before anything is made of them.
#
# Layout: a zip archive of files ``<name>.npy``; each is the magic string, a version, the length of the header, the header (a
# Python dictionary as text) and the values. Source: ``numpy.lib.format``, section "Format Version 1.0".

_MAX_BYTES = 2 << 30  # of all arrays that are read from one file
_MAX_AXES = 32  # what NumPy 1.26 can hold
_MAX_HEADER = 10_000  # bytes, as in NumPy
_MAGIC = b"\x93NUMPY"
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what np.savez and np.savez_compressed write
_ENCRYPTED = 1
_HEADER = re.compile(
    r"\{'descr': '(?P<dtype>[<>|=]?[?a-zA-Z]\d*)', 'fortran_order': (?P<fortran>True|False), "
    r"'shape': \((?P<shape>(?:\d{1,18}(?:, ?|(?=\))))*)\),? ?\}[ \n]*"
)
# what reading raises: zipfile answers a damaged header that asks for a version or method unknown to it by NotImplementedError
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OverflowError)


def read_arrays(path: str | os.PathLike[str], names: Iterable[str]) -> list[Array]:
    """Return arrays of a ``.npz`` file.

    Args:
        path: path of the file.
        names: names of the arrays.

    Raises OSError where the file cannot be opened, ValueError naming file and array for a name that is not there, an array of
    anything but booleans, integers and floats of at most 64 bits, a damaged file, and more than 2 GiB altogether.
    """
    shown, left, arrays = repr(os.fspath(path)), _MAX_BYTES, []
    with _opened(path) as archive:
        for name in names:
            where = f"array {name!r} of {shown}"
            try:
                info = archive.getinfo(f"{name}.npy")
            except KeyError:
                held = ", ".join(entry.removesuffix(".npy")[:80] for entry in archive.namelist()[:20])
                which = "; say which by x=, y=, test_x= and test_y=" if held else ""
                raise ValueError(f"{shown} has no array {name!r}, it has: {held or 'none'}{which}") from None
            if info.compress_type not in _COMPRESSIONS or info.flag_bits & _ENCRYPTED:
                raise ValueError(f"{where} must be stored plainly or by deflate, without encryption")
            try:
                with archive.open(info) as file:
                    array = _read(file, where, left)
            except (*_DAMAGED, OSError) as error:  # an offset before the file's begin is no position for the system
                raise ValueError(f"{where} is damaged: {error}") from error
            # The limit is one for all arrays of a file.
            left -= array.nbytes
            arrays.append(array)
    return arrays


def read_array(path: str | os.PathLike[str]) -> Array:
    """Return the array of the ``.npy`` file at `path`; raises OSError and ValueError as `read_arrays` does."""
    with open(path, "rb") as file:
        return _read(file, repr(os.fspath(path)), _MAX_BYTES)


def names_in(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of the arrays of a file.

    Args:
        path: the .npz file.

    Raises:
        ValueError: where it is none.
    """
    with _opened(path) as archive:
        return [entry.removesuffix(".npy") for entry in archive.namelist()]


def _opened(path: str | os.PathLike[str]) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (*_DAMAGED, ValueError) as error:
        raise ValueError(f"{os.fspath(path)!r} is no .npz file: {error}") from error


def _read(file: IO[bytes], where: str, limit: int) -> Array:
    dtype, fortran, shape = _read_header(file, where)
    claimed = math.prod(axis or 1 for axis in shape) * dtype.itemsize  # NumPy counts empty arrays so, too
    if claimed > limit:
        raise ValueError(f"{where} must fit into {limit} bytes, its shape {shape} and dtype {dtype} claim {claimed}")
    flat = read_values(file, where, shape, dtype)
    return np.ascontiguousarray(flat.reshape(shape, order="F")) if fortran else flat.reshape(shape)


def _read_header(file: IO[bytes], where: str) -> tuple[np.dtype[np.generic], bool, tuple[int, ...]]:
    """Return dtype, whether the first axis runs fastest, and shape."""
    start = file.read(len(_MAGIC) + 2)
    version = tuple(start[len(_MAGIC) :])
    if not start.startswith(_MAGIC) or version not in ((1, 0), (2, 0)):
        raise ValueError(f"{where} is no .npy file of version 1 or 2: it begins with the bytes {start.hex(' ')}")
    length = int.from_bytes(file.read(2 if version == (1, 0) else 4), "little")
    if length > _MAX_HEADER:
        raise ValueError(f"{where} must have a header of at most {_MAX_HEADER} bytes, got {length}")
    # A character for each byte, so that it cannot fail; the pattern takes ASCII only.
    header = file.read(length).decode("latin-1")
    # A pattern, not `literal_eval`: nothing that another program wrote is evaluated.
    match = _HEADER.fullmatch(header)
    kind = match["dtype"].lstrip("<>|=")[0] if match else ""
    if match is None or kind not in "?biuf":
        raise ValueError(f"{where} must hold booleans, integers or floats, its header is {header.strip()[:120]!r}")
    try:
        dtype = np.dtype(match["dtype"])
    except TypeError as error:
        raise ValueError(f"{where} has an unknown dtype, {match['dtype']!r}") from error
    if dtype.itemsize > 8 or dtype.itemsize == 0:
        raise ValueError(f"{where} must hold numbers of at most 64 bits, got dtype {dtype}")
    shape = tuple(int(axis) for axis in match["shape"].replace(",", " ").split())
    if len(shape) > _MAX_AXES:
        raise ValueError(f"{where} must have at most {_MAX_AXES} axes, its shape is {shape}")
    return dtype, match["fortran"] == "True", shape
