"""Data sets in files: where these may lie on this machine, and those that others publish, downloaded once into a cache."""

from __future__ import annotations

import gzip
import math
import os
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.dataset.interface import AbsDataset, Arrays
from nn.tensor_files import write_file

__all__ = [
    "PublishedDataset",
    "cache_directory",
    "chosen_directories",
    "find_file",
    "find_folder",
    "find_given",
    "read_values",
    "unpacked",
]

_CHUNK = 1 << 20


class PublishedDataset(AbsDataset, configured=True):
    """The files in `checksums`, all in one directory.

    They are taken from a directory that was given; without one from ``$PSGD_DATA/<name>``, else from ``$PSGD_DATA`` itself,
    else from the cache (``~/.cache/psgd/<name>``), which a download fills. Files of your own may hold any number of samples;
    only a download must have the published checksums.

    A subclass gives `checksums` and `read`, and, where a file goes by several names, `find` and `published_name`.

    Args:
        directory: the directory that has them.
        mirrors: base URLs for a download, asked in order.

    >>> class Waves(nn.dataset.PublishedDataset):
    ...     checksums = {"waves.npz": "0cc175b9c0f1b6a831c399e269772661"}
    ...     needs = "one file"
    ...     def read(self, paths):
    ...         with np.load(paths[0], allow_pickle=False) as content:
    ...             return content["x"], content["y"], content["test_x"], content["test_y"]
    >>> Waves(mirrors=["https://example.org/waves"]).name
    'waves'
    """

    checksums: ClassVar[Mapping[str, str]]
    """MD5 of each file as it is published, by the name under which it is looked for."""

    needs: ClassVar[str]
    """The files that a directory must hold, for error messages."""

    way_out: ClassVar[str] = ""
    """The remedy for a directory that holds only some of the files, for error messages."""

    def __init__(self, directory: str | os.PathLike[str] | None = None, mirrors: Sequence[str] = ()) -> None:
        self.directory = None if directory is None else arguments.path(self, "directory", directory, "a folder")
        self.mirrors = tuple(arguments.sequence(self, "mirrors", mirrors, "addresses"))

    @abstractmethod
    def read(self, paths: Sequence[Path]) -> Arrays:
        """Return the four arrays of the files at `paths`, which are in the order of `checksums`.

        Raises ValueError naming the file that is damaged.
        """

    def find(self, directory: Path, name: str) -> Path | None:
        """Return where a directory holds a file, or None.

        Args:
            directory: the directory.
            name: name of the file, as in `checksums`.
        """
        path = directory / name
        return path if path.is_file() else None

    def published_name(self, name: str) -> str:
        """Return the name that the file `name` has on the mirrors, and therefore in the cache."""
        return name

    def load(self, download: bool = True) -> Arrays:
        """Return the four arrays.

        Raises FileNotFoundError where files are missing and cannot be downloaded (or ``download=False``), naming them
        and where to put them; ValueError for files that are damaged or do not belong together.
        """
        return self.read(self.files(download))

    def files(self, download: bool = True) -> list[Path]:
        """Return where the files are, in the order of `checksums`. Raises FileNotFoundError as `load`."""
        arguments.flag(self, "download", download)
        return self._chosen_files() or self._cached_files(download)

    def _chosen_files(self) -> list[Path] | None:
        """Return the files in the first directory the user named that holds them; holding only some is an error."""
        for directory in chosen_directories(self.name, self.directory):
            found, missing = self._look(directory)
            if not missing:
                return list(found.values())
            # A directory that was named, or holds a part, is meant: to go on elsewhere would hide the mistake.
            if found or self.directory is not None:
                raise FileNotFoundError(
                    f"{type(self).__name__} needs {self.needs}: '{directory}' has {_listed(found)}, it lacks "
                    f"{_listed(missing)}. Add what is missing{self.way_out}"
                )
        return None

    def _cached_files(self, download: bool) -> list[Path]:
        from nn.dataset.download import DownloadError, fetch  # noqa: PLC0415 - a fifth of the time of `import nn`

        cache = cache_directory(self.name)
        _, missing = self._look(cache)
        if missing and not download:
            raise FileNotFoundError(self._advice(cache, "a download was not allowed"))
        for name in missing:
            published = self.published_name(name)
            try:
                content = fetch(published, self.mirrors, self.checksums[name])
            except DownloadError as error:
                raise FileNotFoundError(self._advice(cache, f"the download failed ({error})")) from error
            cache.mkdir(parents=True, exist_ok=True)
            # In one step: another process sees no file or a whole one.
            write_file(cache / published, content)
        found, _ = self._look(cache)
        return list(found.values())

    def _look(self, directory: Path) -> tuple[dict[str, Path], list[str]]:
        paths = {name: self.find(directory, name) for name in self.checksums}
        found = {name: path for name, path in paths.items() if path is not None}
        return found, [name for name in paths if name not in found]

    def _advice(self, cache: Path, reason: str) -> str:
        searched = [f"'{path}'" for path in (*chosen_directories(self.name, self.directory), cache)]
        return (
            f"{type(self).__name__} is not on this machine and {reason}. It needs {self.needs}. Put {_listed(self.checksums)} "
            f"into one directory and set PSGD_DATA to it, or pass {type(self).__name__}(directory=...). "
            f"Searched: {_listed(searched)}"
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none of them"


def chosen_directories(name: str, directory: str | os.PathLike[str] | None) -> list[Path]:
    """Return the places that the user named, best first: the argument, else ``$PSGD_DATA/<name>`` and ``$PSGD_DATA``.

    Args:
        name: name of the data set.
        directory: the argument, None where it was not given.
    """
    if directory is not None:
        return [Path(directory)]
    root = os.environ.get("PSGD_DATA")
    return [Path(root, name), Path(root)] if root else []


def cache_directory(name: str) -> Path:
    """Return where downloads of data set `name` are kept: ``psgd/<name>`` in ``$XDG_CACHE_HOME`` or ``~/.cache``.

    A relative ``$XDG_CACHE_HOME`` does not count, as the XDG base directory specification demands.
    """
    # Without the variable it is an empty path, which is not absolute.
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "psgd" / name


def find_file(directory: Path, name: str) -> Path | None:
    """Return a file of an IDX data set, if it is there under any of its usual names.

    These are ``train-images-idx3-ubyte`` and ``train-images.idx3-ubyte``, each plain or with ``.gz``.

    Args:
        directory: where to look.
        name: the first of its names.
    """
    for spelling in (name, name.replace("-idx", ".idx")):
        for path in (directory / spelling, directory / f"{spelling}.gz"):
            if path.is_file():
                return path
    return None


@contextmanager
def unpacked(file: IO[bytes], shown: str) -> Iterator[gzip.GzipFile]:
    """Open the content that gzip packed into a file.

    Args:
        file: the packed file.
        shown: its name in an error.

    Raises ValueError naming the file where it is damaged.
    """
    try:
        with gzip.GzipFile(fileobj=file) as content:
            yield content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{shown} is a damaged gzip file: {error}") from error


def read_values(file: IO[bytes] | gzip.GzipFile, where: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the rest of a file as an array (values,) in the byte order of this machine.

    The file is read in chunks: memory grows with the bytes that it really holds, not with the shape that its header claims.

    Args:
        file: opened file, at its first value.
        where: name of the file, for errors.
        shape: shape by which the values are counted.
        dtype: type of the values, with the byte order of the file.

    Raises ValueError where it holds fewer values than its shape has, or more.
    """
    size = math.prod(shape) * dtype.itemsize
    values = bytearray()
    while len(values) < size and (chunk := file.read(min(_CHUNK, size - len(values)))):
        values += chunk
    if len(values) != size or file.read(1):  # one byte more shows that the file is longer than its shape
        relation = "more" if len(values) == size else f"only {len(values)}"
        raise ValueError(f"{where} must hold {size} bytes of values for its shape {shape}, it has {relation}")
    # No copy where the file has the byte order of this machine.
    return np.frombuffer(values, dtype).astype(dtype.newbyteorder("="), copy=False)


def find_given(path: str | os.PathLike[str], owner: object) -> Path:
    """Return a file that was given by its path.

    Args:
        path: the path; a relative one counts from the working directory, else from ``$PSGD_DATA``.
        owner: the data set, for the error.

    Raises FileNotFoundError naming the class of `owner` and the places where the file was looked for.
    """
    return _found(path, owner, Path.is_file, "file")


def find_folder(path: str | os.PathLike[str], owner: object) -> Path:
    """Return a folder that was given by its path, as `find_given` returns a file.

    Args:
        path, owner: as there.
    """
    return _found(path, owner, Path.is_dir, "folder")


def _found(path: str | os.PathLike[str], owner: object, is_one: Callable[[Path], bool], kind: str) -> Path:
    root = os.environ.get("PSGD_DATA")
    places = [Path(path)] + ([Path(root, path)] if root and not Path(path).is_absolute() else [])
    for place in places:
        if is_one(place):
            return place
    searched = ", ".join(f"'{place.absolute()}'" for place in places)
    # As Windows writes paths.
    turned = Path(os.fspath(path).replace("\\", os.sep))
    advice = arguments.as_on_windows(os.fspath(path))
    meant = (
        f"; did you mean {os.fspath(turned)!r}?"
        if advice and is_one(turned)
        else f". It is one name here, {advice}"
        if advice
        else ""
    )
    raise FileNotFoundError(
        f"{type(owner).__name__} finds no {kind} {os.fspath(path)!r}. Put it there, or into a directory that PSGD_DATA names. "
        f"Searched: {searched}{meant}"
    )
