"""Places of keys: a private file per user, or a variable of the environment for Kubernetes secrets."""

from __future__ import annotations

import codecs
import ctypes
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from pathlib import Path

from .keys import KeyFileError, Keyring, format_keyring, new_key, parse_keyring
from .nodes import Address, is_loopback

KEY_FILE_VARIABLE = "PSGD_KEY_FILE"
"""Environment variable that names a key file."""

KEY_VARIABLE = "PSGD_KEY"
"""Environment variable that holds the text of a key file."""

_FILE_LIMIT = 1024


def by_flag(text: str) -> str:
    """Return an error of this package in the words of a command, which has the flag `--key-file` in place of the argument
    `key_file` of programs.

    >>> by_flag("Key file key is a link; name another with 'key_file'.")
    'Key file key is a link; name another with --key-file.'

    Args:
        text: the error.
    """
    return text.replace("'key_file'", "--key-file")


def default_key_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return `$XDG_CONFIG_HOME/psgd/key`, else `~/.config/psgd/key`; KeyFileError when this user has no home directory."""
    base = environ.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(base):  # the XDG specification has relative paths ignored
        return Path(base, "psgd", "key")
    home = environ.get("HOME", "")
    try:
        return Path(home if os.path.isabs(home) else Path.home(), ".config", "psgd", "key")
    except RuntimeError:
        raise KeyFileError(
            f"This user has no home directory to keep a key in; give 'key_file' or set {KEY_FILE_VARIABLE}."
        ) from None


def create_key_file(path: str | os.PathLike[str]) -> Keyring:
    """Write a new key to `path` (mode 0600; a missing parent becomes 0700) and return it.

    The file appears complete or not at all, and an existing one is never touched: KeyFileError. Its directory must
    be on a file system with hard links.
    """
    keyring = Keyring((new_key(),))
    if not _publish(Path(path), format_keyring(keyring)):
        raise KeyFileError(f"{path} exists already and is kept as it is; remove it first or name another file.")
    return keyring


def load_key_file(path: str | os.PathLike[str]) -> Keyring:
    """Read the one or two keys of the file at `path`, which belongs to this user alone.

    Raises KeyFileError, which names the repair, for a missing or unreadable file, a symbolic link or anything else that is no
    regular file, another owner, a mode that lets group or others in, and for every fault in the text.
    """
    keyring = _load(Path(path))
    if keyring is None:
        raise KeyFileError(
            f"Key file {path} does not exist; copy it from a machine of the cluster and 'chmod 600' it, "
            f"name another one with 'key_file', or make a new one with 'psgd worker --new-key --key-file {path}'."
        )
    return keyring


def take_key_from_environment(environ: MutableMapping[str, str]) -> Keyring | None:
    """Remove `PSGD_KEY` from `environ` and return its keys, None where it is not set.

    Call it with `os.environ` before the first child process starts: a variable left there would be inherited. Where the system
    keeps the environment with which this process was started, and shows it to others of the same user, the text is overwritten.
    KeyFileError for a malformed text, which is removed too.
    """
    if environ is os.environ:
        # before it is popped: `getenv` finds only what is still there
        _overwrite(KEY_VARIABLE)
    text = environ.pop(KEY_VARIABLE, None)
    return None if text is None else parse_keyring(text, f"Environment variable {KEY_VARIABLE}")


def find_keys(explicit: str | os.PathLike[str] | None, environ: Mapping[str, str], create: bool) -> Keyring:
    """Find the keys to use: in the file `explicit`, the file `$PSGD_KEY_FILE`, the text `$PSGD_KEY`, or the default file.

    The first source that is named counts; if it is faulty, no other is tried. With `create` a missing default file is made, and
    two processes that do so at once return the same key. `environ` is not changed; where it is `os.environ`, call
    `take_key_from_environment` before starting children.
    """
    named = _named_file(explicit, environ)
    if named is not None:
        return load_key_file(named)
    if KEY_VARIABLE in environ:
        return parse_keyring(environ[KEY_VARIABLE], f"Environment variable {KEY_VARIABLE}")
    path = default_key_path(environ)
    if create and _load(path) is None:
        # its result does not matter: the file of a process that was faster is as good
        _publish(path, format_keyring(Keyring((new_key(),))))
    return load_key_file(path)


def find_keys_for(agents: Iterable[Address], explicit: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> Keyring:
    """Find the keys with which to call `agents`, as `find_keys` does.

    A missing default file is made only where all of them are on this machine, and so may read it: no agent elsewhere would have
    a new key.
    """
    return find_keys(explicit, environ, create=all(is_loopback(address.host) for address in agents))


class KeySource:
    """Keys of an agent, read again from their file whenever that has changed, so that a key is changed without a restart.

    A file that cannot be used, as while it is being written, changes nothing; `on_change` tells it once. Not for two threads
    at once.
    """

    def __init__(self, keyring: Keyring, path: Path | None, on_change: Callable[[str], None]) -> None:
        """Keep the keys.

        Args:
            keyring: keys that were read at the start.
            path: file from which they come; None for keys from elsewhere, which never change.
            on_change: gets a sentence after each change of the file, without a secret.
        """
        self._keyring, self._path, self._tell = keyring, path, on_change
        # the first caller reads the file again, since it may have changed after `keyring` was read
        self._seen: tuple[int, ...] | None = None

    def current(self) -> Keyring:
        """Return the keys of the file as it is now, or the last ones that could be read."""
        state = self._state()
        if self._path is None or state == self._seen:
            return self._keyring
        try:
            keyring = load_key_file(self._path)
        except KeyFileError as error:
            self._tell(f"The keys stay those that were read before: {error}")
        else:
            if keyring.keys != self._keyring.keys:
                ids = [key.id.hex() for key in keyring]
                self._tell(f"The key file has changed: {' and '.join(ids)} admit{'s' * (len(ids) == 1)} from now on.")
                self._keyring = keyring
        # also after a fault, so that it is told once and not at each caller
        self._seen = state
        return self._keyring

    def _state(self) -> tuple[int, ...] | None:
        if self._path is None:
            return None
        try:
            found = os.lstat(self._path)
        except OSError:
            return ()
        # not the time alone: a rename within one tick of the clock changes the inode, a chmod the ctime
        return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_mode, found.st_uid


def key_file_of(explicit: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> Path | None:
    """Return the file from which `find_keys` takes the keys with these arguments; None where they come from no file."""
    named = _named_file(explicit, environ)
    if named is not None:
        return Path(named)
    return None if KEY_VARIABLE in environ else default_key_path(environ)


def key_origin(explicit: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> str:
    """Return the place from which `find_keys` takes the keys with these arguments, for messages."""
    path = key_file_of(explicit, environ)
    return f"the environment variable {KEY_VARIABLE}" if path is None else str(path)


def _named_file(explicit: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> str | os.PathLike[str] | None:
    # `or None`: an empty variable counts as none, as shells leave it
    return explicit if explicit is not None else environ.get(KEY_FILE_VARIABLE) or None


def _overwrite(variable: str) -> None:
    """Put zeros in place of the value in the memory from which /proc/<pid>/environ is read; `os.environ` has a copy."""
    # Python's copy is no use: /proc shows the memory with which the process was started
    getenv = ctypes.CDLL(None).getenv
    getenv.argtypes, getenv.restype = [ctypes.c_char_p], ctypes.c_void_p
    address = getenv(variable.encode())
    if address:
        ctypes.memset(address, 0, len(ctypes.string_at(address)))


def _publish(path: Path, text: str) -> bool:
    """Make `path` appear with its whole content; False if it exists. A link, unlike a rename, never replaces."""
    # beside the file: a hard link cannot cross file systems
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # closed to others from its first moment, and never through a link that another user has put there
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                os.fchmod(descriptor, 0o600)  # whatever the umask took away
                file.write(text)
                file.flush()
                # a key that other machines have copied must outlive a power cut
                os.fsync(descriptor)
            return _link(draft, path)
        finally:
            os.unlink(draft)
    except OSError as error:
        # `mkdir` tells of a file in its place that it exists
        why = f"{path.parent} is no directory" if isinstance(error, FileExistsError) else error.strerror
        raise KeyFileError(f"Key file {path} cannot be written: {why}; name another with 'key_file'.") from None


def _link(draft: Path, path: Path) -> bool:
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    return True


def _load(path: Path) -> Keyring | None:
    """Read the keys in `path`, None if there is no such file."""
    text = _read_private(path)
    return None if text is None else parse_keyring(text, f"Key file {path}")


def _read_private(path: Path) -> str | None:
    try:
        # O_NONBLOCK: a pipe of that name must not stop us before we see that it is one
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        why = "it is a symbolic link; name the file itself" if error.errno == errno.ELOOP else error.strerror
        raise KeyFileError(f"Key file {path} cannot be read: {why}.") from None
    try:
        # of the open file: its name may mean another by now
        _check_private(path, os.fstat(descriptor))
        # one byte beyond the limit shows that there is more, without reading all of it
        content = os.read(descriptor, _FILE_LIMIT + 1)
    finally:
        os.close(descriptor)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise KeyFileError(f"Key file {path} is UTF-16 text; save it as UTF-8, or copy it anew.")
    content = content.removeprefix(codecs.BOM_UTF8)  # which some editors write
    if len(content) > _FILE_LIMIT or not content.isascii():
        raise KeyFileError(f"{path} is not a key file: it must be at most {_FILE_LIMIT} bytes of ASCII text.")
    return content.decode("ascii")


def _check_private(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise KeyFileError(f"Key file {path} must be a regular file.")
    if status.st_uid != os.geteuid():
        raise KeyFileError(
            f"Key file {path} must belong to user {os.geteuid()}, who runs this program, but belongs to user "
            f"{status.st_uid}; copy it to a file of your own."
        )
    if status.st_mode & 0o077:
        raise KeyFileError(
            f"Key file {path} has mode {stat.S_IMODE(status.st_mode):04o}, so others on this machine can use it; "
            f"run 'chmod 600 {path}', and make a new key if someone may have read it."
        )
