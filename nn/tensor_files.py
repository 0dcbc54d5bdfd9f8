"""Files of named arrays in the safetensors format: writer, reader, and the atomic replacement of a file on disk.

Layout: ``u64 little-endian header length | JSON header, padded with spaces | array bytes``. Every header entry is
``name: {"dtype", "shape", "data_offsets": [begin, end]}`` with offsets relative to the end of the header; the entry
``__metadata__`` maps strings to strings. Source: https://github.com/huggingface/safetensors (section "Format").

A file of this module also carries ``sha256``, the hash of the whole file taken with that field as 64 zeros. The field
stands at a fixed place, the very first of the header, so it is found without trusting the JSON around it. Nothing in a
file can run: it is parsed as numbers and text only.
"""

import contextlib
import errno
import hashlib
import json
import math
import os
import secrets
import stat
import struct
import time
from collections.abc import Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .extension import nearest

__all__ = [
    "MAX_FILE",
    "MAX_HEADER",
    "MODEL",
    "TEMPORARY_SUFFIX",
    "WEIGHTS",
    "ModelFileError",
    "dump",
    "parse",
    "read_file",
    "read_opened",
    "remove_abandoned",
    "seal",
    "write_file",
]

MODEL = "psgd.model/2"
"""The format of a model file."""
WEIGHTS = "psgd.weights/1"
"""That of a file of weights alone."""
MAX_HEADER = 1 << 20  # bytes; the configuration of a very deep model takes some tens of KiB
MAX_FILE = 2 << 30  # bytes; the default limit of read_file
TEMPORARY_SUFFIX = ".psgd-tmp"  # of a file that write_file has not finished
_ABANDONED = 3600.0  # seconds after which a temporary file has no writer any more
_looked: set[str] = set()  # folders in which this process has looked for such files
_LARGE = 64 << 20  # bytes beyond which the header is looked at before all is read
_MAX_RANK = 32  # what NumPy 1.26 can hold
_MAX_BYTES = 1 << 62  # an array with an empty axis may not claim other axes that NumPy cannot count

_LENGTH = struct.Struct("<Q")
_PREFIX = b'{"__metadata__":{"sha256":"'
_UNHASHED = "0" * 64
_OTHERS: Mapping[bytes, str] = {
    b"PK": "zip archives (NumPy's .npz, models of PyTorch and Keras)",
    b"\x89HDF": "HDF5 files (models of older Keras)",
    b"\x93NUMPY": "NumPy's .npy files",
    # The opcode PROTO, with which pickles of protocol 2 and later begin.
    b"\x80": "pickles",
    # Key of field 1 of the message ModelProto, `ir_version`, a varint.
    b"\x08": "ONNX files (nn.onnx.load reads them)",
}
_OWN_FORMAT = "psgd."
_DTYPES = {
    name: np.dtype(code)
    for name, code in (
        ("BOOL", "?"),
        ("U8", "u1"),
        ("I8", "i1"),
        ("U16", "<u2"),
        ("I16", "<i2"),
        ("U32", "<u4"),
        ("I32", "<i4"),
        ("U64", "<u8"),
        ("I64", "<i8"),
        ("F16", "<f2"),
        ("F32", "<f4"),
        ("F64", "<f8"),
        ("C64", "<c8"),
    )
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
#: The first half of a float32, which NumPy has no type for: read, and never written.
_BFLOAT = "BF16"


class ModelFileError(ValueError):
    """A file of arrays is damaged, forged, or not of this format; the message names the fault."""


class _Entry(NamedTuple):
    """Place of one array: offsets count from the end of the header."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int
    bfloat: bool


def dump(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """Return the file content for some arrays, sealed by its hash.

    Byte order and memory layout of the arrays do not matter; the order of the names is kept.

    Args:
        tensors: the arrays, by name.
        metadata: any strings but the key ``sha256``; ``format`` becomes ``psgd.tensors/1`` where it is missing.

    Raises TypeError for a dtype that safetensors does not have, ValueError for a name or text that cannot be stored and for a
    header above `MAX_HEADER` bytes.
    """
    return b"".join(seal(tensors, metadata))


def seal(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> list[bytes | memoryview]:
    """Return the content that `dump` gives, in parts one after the other; those of the arrays are views wherever possible.

    Args:
        tensors: the arrays by name.
        metadata: texts by name, for the header.
    """
    if "sha256" in metadata:
        raise ValueError("metadata key 'sha256' is written by dump itself, leave it out")
    if "__metadata__" in tensors:
        raise ValueError("a tensor cannot have the name '__metadata__', it is reserved")
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"metadata must map str to str, got {key!r}: {type(value).__name__}")
    parts = {name: _little_endian(name, array) for name, array in tensors.items()}
    # The metadata first and the hash first in it, so that it stands at a place that needs no parser.
    entries: dict[str, object] = {
        "__metadata__": {"sha256": _UNHASHED, "format": _OWN_FORMAT + "tensors/1", **metadata},
        **dict.fromkeys(parts),
    }
    # widest first, so that every array starts at a multiple of its item size
    layout = sorted(parts, key=lambda name: -parts[name].dtype.itemsize)
    offset = 0
    for name in layout:
        array = parts[name]
        entries[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    header = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    # The length before it takes 8 bytes, so the arrays begin at a multiple of 8.
    header += b" " * (-len(header) % 8)
    if len(header) > MAX_HEADER:
        raise ValueError(f"the header must fit in {MAX_HEADER} bytes, got {len(header)}: metadata or names too long")

    body = [parts[name].reshape(-1).view(np.uint8).data for name in layout]
    # The hash is taken with zeros in its own place, which it takes afterwards: the length stays.
    digest = hashlib.sha256(_LENGTH.pack(len(header)) + header)
    for part in body:
        digest.update(part)
    sealed = _PREFIX + digest.hexdigest().encode() + header[len(_PREFIX) + len(_UNHASHED) :]
    return [_LENGTH.pack(len(header)), sealed, *body]


def parse(data: bytes | bytearray | memoryview, *, sealed: bool = True) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return the arrays and the metadata of a file's content.

    The arrays are read-only views of the content (nothing is copied), those of type BF16 new ones in float32. A ``sha256`` in
    the metadata must match; only files of other programs, with a ``format`` that does not start with ``psgd.``, may lack it.

    Args:
        data: the content.
        sealed: whether the hash is compared; without that one can tell which array of a damaged file is damaged.

    Raises ModelFileError for anything that is not exactly such a file: sizes that disagree with the file, holes, overlaps or
    bytes behind the last array, duplicate or unknown keys, unknown dtypes, a wrong hash.
    """
    view = memoryview(data).cast("B").toreadonly()
    start, entries, metadata = _read_head(view, len(view))
    if sealed:
        _check_hash(view, metadata)

    tensors: dict[str, NDArray[Any]] = {}
    for name, entry in entries.items():
        array: NDArray[Any] = np.ndarray(entry.shape, entry.dtype, buffer=view, offset=start + entry.begin)
        # NumPy's results for a bool of another byte depend on the operation.
        if array.dtype == np.bool_ and array.view(np.uint8).max(initial=0) > 1:
            raise ModelFileError(f"tensor {_shown(name)} is BOOL but holds bytes other than 0 and 1")
        tensors[name] = (array.astype("<u4") << 16).view("<f4") if entry.bfloat else array
    return tensors, metadata


def _read_head(view: memoryview, size: int) -> tuple[int, dict[str, _Entry], dict[str, str]]:
    """Return where the arrays begin, where each lies, and the metadata of a file of `size` bytes, by its first ones."""
    if len(view) < _LENGTH.size:
        raise ModelFileError(
            f"it is no file of a model or of weights, which has at least {_LENGTH.size} bytes: it has {len(view)}"
        )
    (length,) = _LENGTH.unpack_from(view)
    start = _LENGTH.size + length
    if length > MAX_HEADER or start > size:
        begin = bytes(view[: _LENGTH.size + 1])
        # A file of another kind claims an absurd length; it is told as that, not as a damaged one.
        if begin[_LENGTH.size : _LENGTH.size + 1] != b"{":
            kind = next((f", as {kind} do" for mark, kind in _OTHERS.items() if begin.startswith(mark)), "")
            raise ModelFileError(
                "it is no file of a model or of weights: what Model.save() writes begins with the length of its header and a "
                "brace, this with "
                f"{begin[: _LENGTH.size]!r}{kind}"
            )
        raise ModelFileError(
            f"the header must fit in the file ({size} bytes) and in {MAX_HEADER} bytes, it claims {length}"
            f"{'' if length > MAX_HEADER else '; the file is cut off'}"
        )
    header = _read_header(bytes(view[_LENGTH.size : start]))
    metadata = _read_metadata(header.pop("__metadata__", {}))
    entries = {name: _read_entry(name, value) for name, value in header.items()}
    _check_layout(entries, size - start)
    return start, entries, metadata


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace a file such that a crash at any moment leaves the old content or the new one.

    A temporary file in the same directory is written and synchronised, takes the name in one step, and the directory is
    synchronised too. When writing fails (a full disk, for one) the temporary file is removed, the old file stays as it was, and
    the OSError names the path. The first file that a process writes into a folder removes the temporary files that killed
    processes have left there, an hour later.

    Args:
        path: path of the file.
        data: the new content.
    """
    target = Path(path)
    if not target.name:
        # such as ".", which has no folder to write beside it
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    # In the same folder: only within a file system a file takes a name in one step.
    temporary = target.with_name(f".{secrets.token_hex(8)}{TEMPORARY_SUFFIX}")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            # Before the name changes: else a crash could leave the new name with an empty file.
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        reason = f"{error.strerror} (nothing was replaced)"
        if isinstance(error, FileNotFoundError):
            reason = f"There is no folder {str(target.parent)!r}"
        raise OSError(error.errno, reason, str(target)) from None
    finally:
        # where none could be made there may be none to remove, and the first error says why
        with contextlib.suppress(OSError):
            temporary.unlink()
    if (folder := os.path.abspath(target.parent)) not in _looked:
        _looked.add(folder)
        remove_abandoned(target.parent)
    # The name itself is content of the folder.
    directory = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def remove_abandoned(folder: str | os.PathLike[str]) -> None:
    """Remove what writers which were killed have left in a folder: hidden files that may be as large as a model.

    Args:
        folder: the folder.
    """
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(TEMPORARY_SUFFIX):
                with contextlib.suppress(OSError):  # other processes remove them, too
                    if time.time() - entry.stat(follow_symlinks=False).st_mtime > _ABANDONED:
                        os.unlink(entry.path)


def read_file(path: str | os.PathLike[str], limit: int = MAX_FILE) -> bytes:
    """Return the content of a regular file.

    Args:
        path: path of the file.
        limit: bytes that it may have.

    Raises ModelFileError for a pipe, a device and the like, and for a longer file, before it reads any of it; OSError where
    there is no file that can be opened, with the one of nearly this name if there is one.
    """
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            return read_opened(file, os.fspath(path), limit)
    except OSError as error:
        near = ""
        if isinstance(error, FileNotFoundError):
            folder, name = os.path.split(os.fspath(path))
            with contextlib.suppress(OSError):
                near = nearest(name, os.listdir(folder or "."), 0.7)
        reason = f"{error.strerror} (there is {near!r})" if near else error.strerror
        # a statement of ours: frames behind the call that is answered say no more
        raise OSError(error.errno, reason, os.fspath(path)) from None


def read_opened(file: BufferedReader, name: str, limit: int = MAX_FILE) -> bytes:
    """Return the content of a file as `read_file` does.

    Args:
        file: the opened file, at its begin.
        name: its name, for messages.
        limit: most bytes that it may have.
    """
    # Of the file that was opened: its name may lead to another one by now.
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise ModelFileError(f"{name!r} is not a regular file")
    if status.st_size > limit:
        raise ModelFileError(f"{name!r} must have at most {limit} bytes, it has {status.st_size}")
    if status.st_size > _LARGE:  # what its header denies is not worth the memory
        head = file.read(_LENGTH.size + MAX_HEADER)
        _read_head(memoryview(head), status.st_size)
        file.seek(0)
    return file.read(status.st_size)


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting: a named pipe would hold the caller until another process writes to it."""
    return os.open(path, flags | os.O_NONBLOCK)


def _little_endian(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return `array` in C order and little-endian; a 0-d array stays 0-d (np.ascontiguousarray would make it 1-d)."""
    wanted = array.dtype.newbyteorder("<")
    if wanted not in _NAMES:
        raise TypeError(f"tensor {_shown(name)} must be one of {', '.join(_DTYPES)}, got dtype {array.dtype}")
    return np.asarray(array, dtype=wanted, order="C")


def _shown(value: object) -> str:
    """Return text of a stranger's file in a form that can stand in a message: escaped, and cut where it is long."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _read_header(raw: bytes) -> dict[str, object]:
    """Return the JSON object; padding may only be spaces at its end, so no other format can hide around it."""
    text = raw.rstrip(b" ")
    if not (text.startswith(b"{") and text.endswith(b"}")):
        raise ModelFileError("the header must be a JSON object, padded with spaces at its end only")
    try:
        header: dict[str, object] = json.loads(text.decode(), object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    except ModelFileError:
        raise
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"the header is not valid JSON: {_shown(str(error))}") from error
    return header


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Build one JSON object; refuse a key that stands twice and text with half a surrogate pair."""
    fields = dict(pairs)
    # A dict keeps the last of equal keys, where another reader may take the first.
    if len(fields) != len(pairs):
        raise ModelFileError("the header has a duplicate key")
    for pair in pairs:
        for text in pair:
            if isinstance(text, str):
                # Raises UnicodeEncodeError, a ValueError, for half a surrogate pair.
                text.encode()
    return fields


def _refuse_constant(name: str) -> object:
    raise ModelFileError(f"the header has {name}, which is not JSON")


def _read_metadata(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ModelFileError(f"__metadata__ must be an object of strings, got {_shown(value)}")
    for key, text in value.items():
        if not isinstance(text, str):
            raise ModelFileError(f"__metadata__ {_shown(key)} must be a string, got {_shown(text)}")
    return value


def _read_entry(name: str, value: object) -> _Entry:
    """Check one entry by itself: keys, types, and that shape and dtype give the claimed number of bytes."""
    shown = _shown(name)
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise ModelFileError(f"tensor {shown} must have dtype, shape and data_offsets and nothing else")
    code, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    dtype = _DTYPES.get("U16" if code == _BFLOAT else code) if isinstance(code, str) else None
    if dtype is None:
        raise ModelFileError(f"tensor {shown} must have one of the dtypes {', '.join(_DTYPES)}, got {_shown(code)}")
    if not _counts(shape) or len(shape) > _MAX_RANK:
        raise ModelFileError(f"tensor {shown} must have a shape of at most {_MAX_RANK} sizes, got {_shown(shape)}")
    if not _counts(offsets) or len(offsets) != 2:
        raise ModelFileError(f"tensor {shown} must have data_offsets [begin, end], got {_shown(offsets)}")
    begin, end = offsets
    size = math.prod(shape) * dtype.itemsize
    if size != end - begin or math.prod(max(axis, 1) for axis in shape) * dtype.itemsize > _MAX_BYTES:
        raise ModelFileError(f"tensor {shown} has offsets {_shown(offsets)} that do not fit shape {_shown(shape)}")
    return _Entry(dtype, tuple(shape), begin, end, code == _BFLOAT)


def _counts(value: object) -> bool:
    # Not `isinstance`: `true` would be 1.
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _check_layout(entries: Mapping[str, _Entry], size: int) -> None:
    """Check that the arrays cover the data part exactly: no hole, no overlap, nothing behind the last one."""
    position = 0
    # By both ends, so that an empty array comes before one that begins where it lies.
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != position:
            what = "overlaps the one before it" if entry.begin < position else "leaves a hole before it"
            raise ModelFileError(f"tensor {_shown(name)} {what}")
        position = entry.end
    if position != size:
        raise ModelFileError(f"the arrays must fill the file: they take {_shown(position)} bytes, the file has {size}")


def _check_hash(view: memoryview, metadata: Mapping[str, str]) -> None:
    if "sha256" not in metadata:
        if metadata.get("format", "").startswith(_OWN_FORMAT):
            raise ModelFileError(f"a file of format {_shown(metadata['format'])} must carry its sha256")
        return
    begin = _LENGTH.size + len(_PREFIX)
    end = begin + len(_UNHASHED)
    # At the one place where it is left out of the hash; another field of this name would be hashed with itself.
    if view[_LENGTH.size : begin] != _PREFIX:
        raise ModelFileError("the sha256 of the file must be the first field of its header")
    digest = hashlib.sha256(view[:begin])
    digest.update(_UNHASHED.encode())
    digest.update(view[end:])
    if digest.hexdigest() != metadata["sha256"]:
        raise ModelFileError("the content does not match its sha256: the file is damaged or was changed")
