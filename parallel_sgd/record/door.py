"""Door through which all files of a run folder are read: a run may come from a stranger, or lie where others write.

A file is a regular one below the folder. The folder itself may be named by a link, such as `runs/latest`; a link below it, a
pipe, a socket or a device is refused without waiting, a file that is larger than its kind may be before it is read. The memory
that JSON and TOML would take is counted beforehand. Each refusal is one sentence with the name of the file.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, Final

from network.budget import is_within
from rpc.support.files import closed_on_error, open_below, open_folder, parsed, parsed_toml

from .hashes import digest_of
from .paths import as_seen

__all__ = ["MOST_HASHED", "MOST_JSON", "MOST_TABLE", "MOST_TOML", "CutOff", "Door", "RecordError", "is_plain"]

MOST_JSON: Final = 16 << 20
"""Bytes of `outcome.json`, `job.json` and the manifest."""
MOST_TOML: Final = 4 << 20
MOST_TABLE: Final = 256 << 20
"""Bytes of a table: some three million batches."""
MOST_HASHED: Final = 2 << 30
"""Bytes of a file to be hashed: as many as a model file may have."""
MOST_NAMES: Final = 20_000
"""Entries of a folder that are looked at."""
_TOML_GROWTH: Final = 512  # bytes of objects for each table or value of TOML


class RecordError(ValueError):
    """Error for a file of a run that does not have the form of its kind; the message is one sentence with the file and the
    key.
    """


class CutOff(RecordError):
    """Error for a file of JSON that ends before its content does, or holds none: its writer was killed, perhaps."""


class Door:
    """Reader of files below the folder of a run.

    Args:
        folder: that of the run, or one that holds files of a run; its name may be a link.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, name: str | Path, most: int) -> BufferedReader:
        """Open a file of the run.

        Args:
            name: its path, below the folder, or with the folder before it.
            most: bytes that it may have.

        Raises:
            FileNotFoundError: There is none.
            RecordError: It is no regular file below the folder, too large, or cannot be opened.
        """
        told = self._told(name)
        try:
            file = open_below(self.folder, told.split("/"))
        # apart from the rest: many files of a run may be absent, which is no fault
        except FileNotFoundError:
            raise
        except (OSError, ValueError) as error:
            raise self.error(told, f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
        with closed_on_error(file):
            # of the opened file, since the name may lead to another one by now
            size = os.fstat(file.fileno()).st_size
            if size > most:
                raise self.error(told, f"must have at most {most} bytes, and has {size}")
        return file

    def read(self, name: str | Path, most: int) -> bytes:
        """Return the content of a file.

        Args:
            name, most: as of `open`.

        Raises: as `open`; RecordError also where reading fails.
        """
        with self.open(name, most) as file:
            try:
                # of the size that was checked: a file that grows meanwhile is cut, not followed
                return file.read(os.fstat(file.fileno()).st_size)  # which reserves no more, however much it may have
            except OSError as error:
                raise self.error(name, f"cannot be read: {error.strerror}") from error

    def text(self, name: str | Path, most: int) -> str:
        """Return the content of a file as text.

        Args:
            name, most: as of `open`.

        Raises: as `read`; RecordError where it is not UTF-8.
        """
        try:
            return self.read(name, most).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.error(name, "must be UTF-8") from error

    def json(self, name: str | Path, most: int = MOST_JSON) -> dict[str, Any]:
        """Return the object in a JSON file.

        Args:
            name, most: as of `open`.

        Raises: as `text`; CutOff for a text that is no JSON; RecordError for no object, or too large a one.
        """
        text = self.text(name, most)
        # counted in the text: JSON may need many times its length in memory
        if not is_within(text):
            raise self.error(name, "would take more memory than a file of a run may")
        try:
            content = parsed(json.loads, text)
        except ValueError as error:
            raise CutOff(str(self.error(name, f"is cut off, or no JSON: {error}"))) from error
        if not isinstance(content, dict):
            raise self.error(name, f"must hold an object, and holds {_kind(content)}")
        return content

    def toml(self, name: str | Path) -> dict[str, Any]:
        """Return the content of a TOML file. Raises: as `text`; RecordError for a text that is none, or takes too much
        memory.
        """
        text = self.text(name, MOST_TOML)
        # each header, value and dotted key makes objects
        if not is_within(text) or _TOML_GROWTH * (text.count("\n[") + text.count("=") + text.count(".")) > 64 << 20:
            raise self.error(name, "would take more memory than a file of a run may")
        try:
            return parsed_toml(text)
        except ValueError as error:
            raise self.error(name, f"is no valid TOML: {error}") from error

    def sha256(self, name: str | Path) -> str:
        """Return the SHA-256 of a file, 64 hexadecimal digits. Raises: as `read`."""
        with self.open(name, MOST_HASHED) as file:
            try:
                return digest_of(file)
            except OSError as error:
                raise self.error(name, f"cannot be read: {error.strerror}") from error

    def tail(self, name: str | Path, most: int) -> bytes:
        """Return the last bytes of a file of any size.

        Args:
            name: as of `open`.
            most: number of the bytes, at most.

        Raises: as `read`.
        """
        # of any size, since only its end is read
        with self.open(name, sys.maxsize) as file:
            try:
                file.seek(max(0, os.fstat(file.fileno()).st_size - most))
                return file.read(most)
            except OSError as error:
                raise self.error(name, f"cannot be read: {error.strerror}") from error

    def has(self, name: str | Path) -> bool:
        """Tell if there is anything of this name, be it a link to nothing."""
        # `lexists`: a broken link is something, and is refused where it is opened
        return os.path.lexists(self.folder / self._told(name))

    def names(self, *way: str, folders: bool = False) -> list[str]:
        """Return the names in a folder of the run, sorted.

        Args:
            way: names of the folders that lead from the run to it.
            folders: the names of its folders, in place of those of its files; an entry that is neither is among the files.

        A folder that is not there, or no folder, has none. Raises: RecordError for a folder of too many names.
        """
        found: list[str] = []
        for name, mode in self._entries(way):
            if stat.S_ISDIR(mode) == folders:
                found.append(name)
        return sorted(found)

    def _entries(self, way: tuple[str, ...]) -> Iterator[tuple[str, int]]:
        try:
            folder = open_folder(self.folder, way)
        # no folder has no names; a link in its place is none
        except OSError:
            return
        try:
            with os.scandir(folder) as entries:
                for number, entry in enumerate(entries):
                    # a folder of millions of entries would hold up every command
                    if number >= MOST_NAMES:
                        raise self.error("/".join(way) or ".", f"must hold at most {MOST_NAMES} files")
                    with contextlib.suppress(OSError):  # it may have gone
                        # not followed: a link counts as what it is
                        yield entry.name, entry.stat(follow_symlinks=False).st_mode
        finally:
            os.close(folder)

    def error(self, name: str | Path, what: str) -> RecordError:
        """Return the refusal of a file.

        Args:
            name: its path.
            what: the fault, which follows the name.
        """
        return RecordError(f"{as_seen(self.folder / self._told(name))} {what}")

    def _told(self, name: str | Path) -> str:
        """Return the path below the folder; one that is not below it stays as it is, and no file is at it."""
        if isinstance(name, Path):
            with contextlib.suppress(ValueError):
                return name.relative_to(self.folder).as_posix()
        return str(name)


def is_plain(name: str) -> bool:
    """Tell if a name is a path that leads down from a folder, without a step up or to elsewhere."""
    return all(part not in ("", ".", "..") for part in name.split("/")) and "\0" not in name


def _kind(content: object) -> str:
    words = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return words.get(type(content), "a number")
