"""Samples that a run keeps: arrays of a program, which no text stands for, as `data.npz` in its folder."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from nn.dataset import ArrayDataset
from nn.dataset.interface import PARTS, Arrays, leaves, of_leaves
from nn.dataset.npz import names_in, read_arrays
from rpc.support.files import open_to_write

from ..options.forms import Unnamed
from .hashes import sha256_of

__all__ = ["DATA_FILE", "KeptData", "keep", "load_kept"]

DATA_FILE: Final = "data.npz"
_MIB: Final = 1 << 20
_KINDS: Final = "biuf"


@dataclass(frozen=True)
class KeptData:
    """File of samples in the folder of a run.

    Args:
        file: its name.
        sha256: of the file, 64 hexadecimal digits.
    """

    file: str
    sha256: str


def keep(folder: Path, arrays: Arrays, most: float) -> KeptData:
    """Write the samples into the folder of a run: uncompressed, and whole or not at all.

    The file is not forced to the disk, so that no job waits for that: its hash tells when a loss of power has taken it.

    Args:
        folder: that of the run.
        arrays: the four arrays as the data set has loaded them, which the job trains on, before any transform.
        most: MiB that the arrays may have; 0 keeps none.

    Raises:
        Unnamed: They are too large, of another type than numbers, or the disk is full.
    """
    size = sum(array.nbytes for array in arrays) / _MIB
    if most == 0:
        raise Unnamed("samples in the memory of a program, which keep_data=0 keeps nowhere")
    if size > most:
        needed = int(size) + 1
        raise Unnamed(
            f"samples in the memory of a program: {size:.1f} MiB, and keep_data={most:g} keeps up to {most:g} MiB in a run; "
            f"keep_data={needed} (--keep-data {needed}) would have kept them"
        )
    parts = leaves(arrays)
    # no text, no object, no long double: others may read these bytes otherwise
    if any(array.dtype.kind not in _KINDS or array.dtype.itemsize > 8 for array in parts.values()):
        raise Unnamed("samples in the memory of a program, of types that no file of a run takes")
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **parts)
    # a draft first, since the folder may be read while a large file is written
    draft = folder / f".{DATA_FILE}.{secrets.token_hex(8)}"
    try:
        with open(open_to_write(draft, os.O_EXCL, 0o644), "wb") as file:
            file.write(content.getbuffer())
        os.replace(draft, folder / DATA_FILE)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise Unnamed(f"samples in the memory of a program, which could not be kept: {error.strerror}") from error
    return KeptData(DATA_FILE, hashlib.sha256(content.getbuffer()).hexdigest())


def load_kept(path: Path, sha256: str | None) -> ArrayDataset:
    """Return the samples that a run has kept.

    Args:
        path: the file.
        sha256: the hash that it must have; None for any.

    Raises:
        ValueError: It is another file, or a damaged one.
        OSError: It cannot be read.
    """
    if sha256 is not None:
        found = sha256_of(path)
        if found != sha256:
            raise ValueError(f"the SHA-256 of {path} is {found}, not {sha256}")
    names = names_in(path)
    wanted = [name for name in names if name.partition("/")[0] in PARTS] if len(names) > len(PARTS) else list(PARTS)
    train_x, train_y, test_x, test_y = of_leaves(dict(zip(wanted, read_arrays(path, wanted), strict=True)))
    return ArrayDataset(train_x, train_y, test_x, test_y)
