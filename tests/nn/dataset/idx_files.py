"""Writing the files that the data set tests read."""

import gzip
import hashlib
import struct

import numpy as np

CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


def idx(array):
    """Return the IDX file content of an array."""
    code = CODES[array.dtype.str[1:]]
    head = bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()


def small_mnist():
    """Return the IDX contents of a data set like MNIST with 12 and 5 images of 3x2 pixels, by file name."""
    random = np.random.default_rng(5)
    files = {}
    for part, count in (("train", 12), ("t10k", 5)):
        files[f"{part}-images-idx3-ubyte"] = idx(random.integers(0, 256, (count, 3, 2), dtype=np.uint8))
        files[f"{part}-labels-idx1-ubyte"] = idx(random.integers(0, 10, count, dtype=np.uint8))
    return files


def compressed(files):
    """Return the files as their mirrors publish them: with gzip and ``.gz``."""
    return {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in files.items()}


def checksums(published):
    """Return the MD5 of every published file by the name of the plain one."""
    return {name.removesuffix(".gz"): hashlib.md5(content).hexdigest() for name, content in published.items()}


def put(directory, files):
    """Write the files into a directory and return it."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name).write_bytes(content)
    return directory
