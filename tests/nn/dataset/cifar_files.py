"""Small files and archives in the format of CIFAR."""

import gzip
import io
import tarfile

import numpy as np


def records(random, count, *classes):
    """Return `count` records of random labels below `classes` and random pixels."""
    labels = [random.integers(0, number, (count, 1), dtype=np.uint8) for number in classes]
    return np.concatenate([*labels, random.integers(0, 256, (count, 3072), dtype=np.uint8)], axis=1)


def members(kind):
    """Return the contents of the files of a small CIFAR data set, by file name."""
    random = np.random.default_rng(8)
    names = (*kind.train_files, kind.test_file)
    return {name: records(random, 2 + place, *kind.label_bytes.values()).tobytes() for place, name in enumerate(names)}


def header(name, size, kind=b"0"):
    """Return the header block of a tar file."""
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.USTAR_FORMAT)


def packed(files, folder, extra=b""):
    """Return a ``.tar.gz`` of the files in a folder, with other small files around them as the official ones have."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        directory = tarfile.TarInfo(folder)
        directory.type = tarfile.DIRTYPE
        archive.addfile(directory)
        for name, content in {"readme.html": b"<html>", **files, "batches.meta.txt": b"airplane\n"}.items():
            info = tarfile.TarInfo(f"{folder}/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return gzip.compress(extra + buffer.getvalue(), mtime=0, compresslevel=1)
