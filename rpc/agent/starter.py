"""What programs that start agents use: the key through a pipe, a work directory that goes, and word of the address."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from network.keys import Keyring, parse_keyring

from ..files import publish
from .settings import SettingsError

STDOUT = "-"
_MOST_KEY_BYTES = 4096


def read_keys(descriptor: int) -> Keyring:
    """The keys that whoever started this agent sends: the text of a key file and an empty line.

    Raises: KeyFileError.
    """
    text = b""
    while not text.endswith(b"\n\n") and len(text) < _MOST_KEY_BYTES and (part := os.read(descriptor, _MOST_KEY_BYTES)):
        text += part
    return parse_keyring(text.decode("ascii", "replace"), "Standard input")


@contextlib.contextmanager
def temporary_directory(parent: str | None = None) -> Iterator[str]:
    """A directory of our own in `parent`, by default where temporary files go, which goes with the block."""
    path = tempfile.mkdtemp(prefix="psgd-agent-", dir=parent)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def announced(path: str | None, address: str, say: Callable[[str], object]) -> Iterator[None]:
    """Keep `address` in the file `path`, which appears with its whole content, for as long as the block lasts.

    With the path `-` it is said once instead. Raises: SettingsError when it cannot be written.
    """
    if path is None or path == STDOUT:
        if path == STDOUT:
            say(f"{address}\n")
        yield
        return
    try:
        publish(Path(path), f"{address}\n")
    except OSError as error:
        raise SettingsError(f"--announce must name a file that can be written, got {path!r}: {error.strerror}.") from error
    try:
        yield
    finally:
        Path(path).unlink(missing_ok=True)
