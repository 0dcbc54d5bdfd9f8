"""A bounded cache of data sets on disk, so that a worker which has seen a data set need not be sent it again.

Every data set is one file ``<checksum>.tensors`` (see `nn.model.tensors`). Files appear in one step and are verified when
they are read, so any number of processes may use one directory without locks: whoever writes a checksum writes the same
content.
"""

import os
import re
import time
from pathlib import Path

from nn.dataset.checksum import Arrays, checksum_of
from nn.model.tensors import ModelFileError, dump, parse, read_file, write_file

__all__ = ["DEFAULT_LIMIT", "load_arrays", "save_arrays"]

DEFAULT_LIMIT = 4 << 30  # bytes

_NAMES = ("train_x", "train_y", "test_x", "test_y")
_CHECKSUM = re.compile(r"[0-9a-f]{64}")
_ABANDONED = 3600.0  # seconds after which a temporary file has no writer any more


def save_arrays(directory: str | os.PathLike[str], arrays: Arrays, limit: int = DEFAULT_LIMIT) -> Path:
    """Keep a data set in `directory` and return its file; one that is there already is left alone.

    Afterwards the files least recently used are dropped until all together take at most `limit` bytes.

    Raises ValueError for a data set that alone exceeds `limit`, TypeError for a dtype that `nn.model.tensors` cannot
    store, OSError (and nothing has changed) where it cannot be written.
    """
    size = sum(array.nbytes for array in arrays)
    if size > limit:
        raise ValueError(f"save_arrays 'limit' must allow the data set's {size} bytes, got {limit}")
    folder = Path(directory)
    checksum = checksum_of(arrays)
    path = _path(folder, checksum)
    if load_arrays(folder, checksum) is None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(path, dump(dict(zip(_NAMES, arrays, strict=True)), {"format": "psgd.data/1"}))
    _prune(folder, path, limit)
    return path


def load_arrays(directory: str | os.PathLike[str], checksum: str) -> Arrays | None:
    """Return the data set with this checksum as read-only arrays, or None where `directory` does not hold it.

    A file whose content is not what its name says is removed and counts as absent. Raises ValueError when `checksum` is
    not 64 hexadecimal digits.
    """
    path = _path(Path(directory), checksum)
    try:
        tensors, _ = parse(read_file(path, limit=os.stat(path).st_size))
    except FileNotFoundError:
        return None
    except ModelFileError:
        tensors = {}
    if tuple(tensors) != _NAMES or checksum_of(tensors.values()) != checksum:
        path.unlink(missing_ok=True)
        return None
    _touch(path)
    return tensors["train_x"], tensors["train_y"], tensors["test_x"], tensors["test_y"]
