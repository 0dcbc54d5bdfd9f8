"""Sources of samples: feeders of batches, and a bounded cache of data sets by checksum on a worker's disk."""

from __future__ import annotations

import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from nn.arrays import Array
from nn.dataset.interface import Arrays, checksum_of, leaves, of_leaves
from nn.tensor_files import ModelFileError, dump, parse, read_file, remove_abandoned, write_file

__all__ = ["DEFAULT_LIMIT", "DataFeeder", "FedBatch", "load_arrays", "save_arrays"]

FedBatch: TypeAlias = tuple[Any, Any] | tuple[Any, Any, Array | None]
"""Samples and labels of a batch, and, where samples weigh differently, their weights (batch,)."""


class DataFeeder(ABC):
    """Source that deals the batches of an epoch, for `fit` and `evaluate`: from files, from a generator, from anything.

    Batches may differ in length; every sample weighs the same. Random draws should be keyed by (seed, epoch), see
    `nn.random.keyed`, so that a run can be repeated and continued bit for bit. `len(feeder)`, where a subclass defines it, is
    the number of batches of an epoch.

    >>> class Rows(DataFeeder):
    ...     def deal(self, epoch, seed):
    ...         for rows in np.array_split(keyed(seed, "rows", epoch).permutation(len(x)), 10):
    ...             yield x[rows], y[rows]
    """

    @property
    def samples(self) -> int | None:
        """The number of samples of an epoch, which progress shows; None where it is not known before."""
        return None

    @abstractmethod
    def deal(self, epoch: int, seed: int) -> Iterator[FedBatch]:
        """Yield (x, label) or (x, label, weight) for each batch of an epoch.

        The arrays of a batch are read before the next one is asked for.

        Args:
            epoch: counted from 0 over the model's life.
            seed: keys the order of the samples.
        """


# A bounded cache of data sets on disk, so that a worker which has seen a data set need not be sent it again.
#
# Every data set is one file ``<checksum>.tensors`` (see `nn.tensor_files`). Files appear in one step and are verified when
# they are read, so any number of processes may use one directory without locks: all that write a checksum write the same
# content.

DEFAULT_LIMIT = 4 << 30
"""Bytes."""

_SUFFIX = ".tensors"
_CHECKSUM = re.compile(r"[0-9a-f]{64}")


def save_arrays(directory: str | os.PathLike[str], arrays: Arrays, limit: int = DEFAULT_LIMIT) -> Path:
    """Keep a data set in `directory` and return its file; one that is there already is left alone.

    Afterwards the files least recently used are dropped until all together take at most `limit` bytes.

    Args:
        directory: the folder of the cache, which is made, readable by its owner alone, where there is none.
        arrays: train_x, train_y, test_x and test_y.
        limit: most bytes that the files of the folder may take.

    Raises ValueError for a data set that alone exceeds `limit`, TypeError for a dtype that `nn.tensor_files` cannot
    store, OSError (and nothing has changed) where it cannot be written.
    """
    folder = Path(directory)
    checksum = checksum_of(arrays)
    path = _path(folder, checksum)
    # Read, not only looked for: a damaged file is replaced.
    if load_arrays(folder, checksum) is None:
        content = dump(leaves(arrays), {"format": "psgd.data/1"})
        if len(content) > limit:
            raise ValueError(f"save_arrays 'limit' must allow the {len(content)} bytes of this data set, got {limit}")
        # Data may be confidential, and other users read the same disk.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(path, content)
    # Also where nothing was written: the limit may be another one now.
    _prune(folder, path, limit)
    return path


def load_arrays(directory: str | os.PathLike[str], checksum: str) -> Arrays | None:
    """Return the data set with a checksum as read-only arrays, or None where it is not there.

    A file with a content of another checksum than its name counts as absent; the next `save_arrays` replaces it. Raises
    ValueError for a checksum of anything but 64 hexadecimal digits.

    Args:
        directory: the folder of the data sets.
        checksum: as `save_arrays` gave it.
    """
    path = _path(Path(directory), checksum)
    try:
        tensors, _ = parse(read_file(path, limit=sys.maxsize))
    except (FileNotFoundError, ModelFileError):
        return None
    try:
        arrays = of_leaves(tensors)
    except ValueError:
        return None
    if tuple(leaves(arrays)) != tuple(tensors) or checksum_of(arrays) != checksum:
        return None
    with suppress(FileNotFoundError):  # another process may drop the file at any time; its content is here already
        os.utime(path)
    return arrays


def _path(folder: Path, checksum: str) -> Path:
    if not _CHECKSUM.fullmatch(checksum):
        # Digits only, so that no path leads out of the folder.
        raise ValueError(f"a checksum must be 64 hexadecimal digits, got {checksum!r}")
    return folder / f"{checksum}{_SUFFIX}"


def _prune(folder: Path, keep: Path, limit: int) -> None:
    """Drop the files used longest ago, but never `keep`, and those that writers which died have left."""
    remove_abandoned(folder)
    files: list[tuple[int, int, Path]] = []
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # other processes prune, too
            status = path.stat()
            if path.suffix == _SUFFIX:
                files.append((status.st_mtime_ns, status.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):  # `load_arrays` sets the time of a file, so this is the order of last use
        # The data set of this call stays, even where other files are newer.
        if total > limit and path != keep:
            path.unlink(missing_ok=True)
            total -= size
