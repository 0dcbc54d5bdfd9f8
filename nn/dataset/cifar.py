"""CIFAR: 60,000 small colour photographs, from the official binary archives, and the reader of these."""

from __future__ import annotations

import gzip
import os
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, ClassVar, Literal, TypeAlias, get_args

import numpy as np

from nn import arguments
from nn.arrays import Array
from nn.dataset.files import PublishedDataset, unpacked
from nn.dataset.interface import Arrays

__all__ = ["CIFAR", "CIFAR10", "CIFAR100", "read_members"]

MIRRORS = ("https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/")

_Labels: TypeAlias = Literal["coarse", "fine"]
_SIDE = 32
_PIXELS = 3 * _SIDE * _SIDE
_MAX_BYTES = 512 << 20  # of one unpacked file; the largest published one has 147 MiB


class CIFAR10(PublishedDataset):
    """50,000 images of 32x32 pixels to train on and 10,000 to evaluate on, 10 classes.

    Images are uint8 ``(n, 32, 32, 3)`` (red, green, blue), labels uint8 ``(n,)``. The archive ``cifar-10-binary.tar.gz``, or
    its files (also in its folder ``cifar-10-batches-bin``), is taken from `directory`; without one from
    ``$PSGD_DATA/cifar10``, else from ``$PSGD_DATA`` itself, else from the cache (``~/.cache/psgd/cifar10``), which a download
    of 162 MiB from `mirrors` fills. This is the binary version, which is data only; the Python version would have to be
    unpickled. Files of your own may hold any number of samples.

    Source: A. Krizhevsky, *Learning multiple layers of features from tiny images*, 2009,
    https://www.cs.toronto.edu/~kriz/cifar.html, which publishes the MD5 sum and the layout of a record: the label, then
    1,024 bytes each of red, green and blue, row by row.

    Args:
        directory: folder with the files; default: the places above, in their order.
        mirrors: base addresses of a download, asked in order.

    >>> data = nn.dataset.CIFAR10()  # `data.load()` reads or downloads the files
    >>> data.name
    'cifar10'
    """

    checksums: ClassVar[Mapping[str, str]] = {"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"}
    needs = "the binary version, packed or unpacked"
    folder: ClassVar[str] = "cifar-10-batches-bin"
    """The folder that the archive unpacks to."""
    train_files: ClassVar[Sequence[str]] = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
    test_file: ClassVar[str] = "test_batch.bin"
    label_bytes: ClassVar[Mapping[str, int]] = {"labels": 10}
    """Names of the bytes before the pixels of a record, in their order, and the number of classes of each."""

    def __init__(self, directory: str | os.PathLike[str] | None = None, mirrors: Sequence[str] = MIRRORS) -> None:
        super().__init__(directory, mirrors)
        self.labels = "labels"

    def find(self, directory: Path, name: str) -> Path | None:
        archive = super().find(directory, name)
        if archive is not None:
            return archive
        for folder in (directory / self.folder, directory):
            if all((folder / file).is_file() for file in self._files()):
                return folder
        return None

    def source_of(self, part: str) -> str:
        return str(self.files()[0])

    def read(self, paths: Sequence[Path]) -> Arrays:
        [path] = paths
        if path.is_dir():
            contents = {name: _read_file(path / name) for name in self._files()}
        else:
            contents = read_members(path, self._files())
        records = {name: self._records(path, name, content) for name, content in contents.items()}
        train = np.concatenate([records[name] for name in self.train_files])
        return *self._part(train), *self._part(records[self.test_file])

    def _files(self) -> tuple[str, ...]:
        return (*self.train_files, self.test_file)

    def _records(self, path: Path, name: str, content: bytes) -> Array:
        """Return one file as rows of bytes, one row per image; its labels are checked."""
        size = len(self.label_bytes) + _PIXELS
        if not content or len(content) % size:
            raise ValueError(f"'{name}' in '{path}' must hold images of {size} bytes each, it has {len(content)} bytes")
        rows = np.frombuffer(content, np.uint8).reshape(-1, size)
        for column, (kind, classes) in enumerate(self.label_bytes.items()):
            highest = int(rows[:, column].max())
            if highest >= classes:
                raise ValueError(f"'{name}' in '{path}' must have {kind} below {classes}, one is {highest}")
        return rows

    def _part(self, rows: Array) -> tuple[Array, Array]:
        first = len(self.label_bytes)
        planes = rows[:, first:].reshape(len(rows), 3, _SIDE, _SIDE)
        column = list(self.label_bytes).index(self.labels)
        # Published as planes; models take the channels last.
        # The labels copied as well: a view would keep the bytes of all pixels.
        return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), rows[:, column].copy()


CIFAR = CIFAR10  # its name in version 0.9


class CIFAR100(CIFAR10, configured=True):
    """50,000 images of 32x32 pixels to train on and 10,000 to evaluate on, 100 classes in 20 groups.

    Images as in `CIFAR10`; the labels are the 100 classes, or with ``labels='coarse'`` the 20 groups. The archive is
    ``cifar-100-binary.tar.gz``, its folder ``cifar-100-binary``, the directory's name ``cifar100``.

    Source: as for `CIFAR10`; a record begins with the group, then the class.

    Args:
        directory: folder with the files; default: the places of `CIFAR10`, by its own name.
        mirrors: base addresses of a download, asked in order.
        labels: 'fine' for the classes, 'coarse' for the groups.

    Raises ValueError when `labels` is neither 'fine' nor 'coarse'.

    >>> data = nn.dataset.CIFAR100()  # `data.load()` reads or downloads the files
    >>> data.name
    'cifar100'
    """

    checksums: ClassVar[Mapping[str, str]] = {"cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8"}
    folder: ClassVar[str] = "cifar-100-binary"
    train_files: ClassVar[Sequence[str]] = ("train.bin",)
    test_file: ClassVar[str] = "test.bin"
    label_bytes: ClassVar[Mapping[str, int]] = {"coarse": 20, "fine": 100}

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        mirrors: Sequence[str] = MIRRORS,
        labels: _Labels = "fine",
    ) -> None:
        super().__init__(directory, mirrors)
        arguments.one_of(self, "labels", labels, get_args(_Labels))
        self.labels = labels


def _read_file(path: Path) -> bytes:
    with open(path, "rb") as file:
        # One byte more tells whether there are too many.
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ValueError(f"'{path}' must have at most {_MAX_BYTES} bytes")
    return content


# Reading chosen files out of a ``.tar.gz`` archive, into memory and within limits.
#
# The archive is read from front to back, once. Nothing is written to disk and no name in it is ever used as a path. The
# standard library's ``tarfile`` is not used: it reads extended headers into memory at any length that they claim.
#
# Layout: blocks of 512 bytes; a file is one header block and its content, filled up with zeros; a zero block ends it all.
# Source: POSIX.1-2017, ``pax``, section "ustar Interchange Format".

_BLOCK = 512
_CHUNK = 1 << 20
_MAX_UNPACKED = 512 << 20  # of the whole archive, unpacked; a small compressed file may claim anything
_MAX_MEMBERS = 1000
# the second in archives from before POSIX, see there, field typeflag
_REGULAR = (b"0", b"\0")


def read_members(path: str | os.PathLike[str], names: Collection[str]) -> dict[str, bytes]:
    """Return the content of some files of an archive.

    Args:
        path: path of the archive, a tar file packed by gzip.
        names: names of the files; directories before a name do not count.

    Raises OSError where the file cannot be opened, ValueError naming it where it is no gzip or tar file, is damaged, lacks one
    of the names or has it twice, or has more than 1,000 members or 512 MiB unpacked.
    """
    shown = repr(os.fspath(path))
    with open(path, "rb") as file, unpacked(file, shown) as content:
        found = _Reader(content, shown).members(names)
    missing = [name for name in names if name not in found]
    if missing:
        raise ValueError(f"{shown} must contain {', '.join(names)}, it lacks {', '.join(missing)}")
    return found


class _Reader:
    def __init__(self, file: BinaryIO | gzip.GzipFile, shown: str) -> None:
        self._file = file
        self._shown = shown
        self._left = _MAX_UNPACKED

    def members(self, names: Collection[str]) -> dict[str, bytes]:
        """Return the files among `names`, then read on to the end, where gzip keeps its checksum."""
        found: dict[str, bytes] = {}
        count = 0
        # A block of zeros ends the archive.
        while any(header := b"".join(self._exactly(_BLOCK))):
            count += 1
            if count > _MAX_MEMBERS:
                raise ValueError(f"{self._shown} must have at most {_MAX_MEMBERS} members")
            name, size, regular = self._parse(header)
            if regular and name in names:
                if name in found:
                    raise ValueError(f"{self._shown} contains {name!r} twice")
                found[name] = b"".join(self._exactly(size))
            else:
                # Read and forgotten, without memory.
                deque(self._exactly(size), 0)
            deque(self._exactly(-size % _BLOCK), 0)
        # To the end: only there gzip compares its checksum.
        while self._read(_CHUNK):
            pass
        return found

    def _parse(self, header: bytes) -> tuple[str, int, bool]:
        """Return the last part of a file's name, its size, and whether it is a regular file."""
        # The header's sum, with its own field as eight blanks.
        unsigned = sum(header[:148]) + 8 * ord(" ") + sum(header[156:])
        # Size and checksum at the offsets of that section, as octal digits with blanks or zero bytes around them.
        try:
            checksum, size = (
                int(header[start:end].strip(b"\0 ").decode("ascii"), 8) for start, end in ((148, 156), (124, 136))
            )
        except ValueError:
            raise ValueError(f"{self._shown} is not a tar archive, or a damaged one") from None
        if checksum != unsigned or size < 0:
            raise ValueError(f"{self._shown} is not a tar archive, or a damaged one")
        # A name that cannot be read is none that is looked for.
        name = header[:100].partition(b"\0")[0].decode("utf-8", "replace")
        return name.rpartition("/")[2], size, header[156:157] in _REGULAR

    def _exactly(self, size: int) -> Iterator[bytes]:
        """Yield the next `size` bytes in parts, so that memory grows with the bytes that are really there."""
        while size:
            chunk = self._read(min(_CHUNK, size))
            if not chunk:
                raise ValueError(f"{self._shown} ends within a file of its archive")
            size -= len(chunk)
            yield chunk

    def _read(self, size: int) -> bytes:
        chunk = self._file.read(size)
        self._left -= len(chunk)
        if self._left < 0:
            raise ValueError(f"{self._shown} must have at most {_MAX_UNPACKED} bytes unpacked")
        return chunk
