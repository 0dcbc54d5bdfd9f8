"""Where the files of a data set may lie on this machine."""

import os
from pathlib import Path

__all__ = ["cache_directory", "chosen_directories", "find_file", "find_given"]


def chosen_directories(name: str, directory: str | os.PathLike[str] | None) -> list[Path]:
    """Return the places that the user named, best first: `directory`, else ``$PSGD_DATA/<name>`` and ``$PSGD_DATA``."""
    if directory is not None:
        return [Path(directory)]
    root = os.environ.get("PSGD_DATA")
    return [Path(root, name), Path(root)] if root else []


def cache_directory(name: str) -> Path:
    """Return where downloads of data set `name` are kept: ``psgd/<name>`` in ``$XDG_CACHE_HOME`` or ``~/.cache``.

    A relative ``$XDG_CACHE_HOME`` does not count, as the XDG base directory specification demands.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "psgd" / name


def find_file(directory: Path, name: str) -> Path | None:
    """Return the file `name` of an IDX data set in `directory`, if it is there under any of its usual names.

    These are ``train-images-idx3-ubyte`` and ``train-images.idx3-ubyte``, each plain or with ``.gz``.
    """
    for spelling in (name, name.replace("-idx", ".idx")):
        for path in (directory / spelling, directory / f"{spelling}.gz"):
            if path.is_file():
                return path
    return None


def find_given(path: str | os.PathLike[str], owner: object) -> Path:
    """Return the file at `path`; a relative path counts from the working directory, else from ``$PSGD_DATA``.

    Raises FileNotFoundError naming the class of `owner` and the places where the file was looked for.
    """
    root = os.environ.get("PSGD_DATA")
    places = [Path(path)] + ([Path(root, path)] if root and not Path(path).is_absolute() else [])
    for place in places:
        if place.is_file():
            return place
    searched = ", ".join(f"'{place.absolute()}'" for place in places)
    raise FileNotFoundError(
        f"{type(owner).__name__} finds no file {os.fspath(path)!r}. Put it there, or into a directory that PSGD_DATA names. "
        f"Searched: {searched}"
    )
