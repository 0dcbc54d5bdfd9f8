"""How hostile inputs are made of honest ones: bytes altered anywhere, or the structure with its lengths made right again."""

from __future__ import annotations

import hashlib
import json
import math
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import msgpack

from network.wire import HEADER

Alter: TypeAlias = Callable[[random.Random, bytes], bytes]

MOST_BYTES = 1 << 16  # of an input; one in a few hundred grows to LARGE
LARGE = 1 << 20
STRANGERS = (
    b"GET / HTTP/1.1\r\nHost: worker\r\n\r\n",
    b"POST /submit HTTP/1.1\r\nContent-Length: 4\r\n\r\ncode",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(64)),  # TLS ClientHello
    b"\x80\x04\x95\x1f\0\0\0\0\0\0\0\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.",  # a pickle that runs a command
    b"\x82\xa2op\xa6submit\xa4code\xc4\x02hi",  # msgpack
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"*1\r\n$4\r\nPING\r\n",
    b"\x03\0\0\x13\x0e\xe0\0\0\0\0\0\x01\0\x08\0\x03\0\0\0",  # remote desktop
    b"\x7fELF" + bytes(60),
    b"PK\x03\x04" + bytes(60),
    b"\x1f\x8b\x08" + bytes(60),
    b"PUT",
    b"PSGD",
    b"PSGD\xff\xff",
    b"\0",
    b"",
)
INTEGERS = (0, 1, -1, 2, 127, 128, 255, 256, 1 << 15, (1 << 16) - 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 53,
            -(1 << 31), -(1 << 63), (1 << 63) - 1, 1 << 63, (1 << 64) - 1)  # fmt: skip
TEXTS = ("", "\0", "é", "\U0001f600", "../../x", "/etc/passwd", "__class__", "__init__", "a" * 300, "x\n\x1b[2J", "0", "-1",
         "nan", "<f8", "|O", "1e999", "os.system", "nn.model", "true")  # fmt: skip
PLAIN: tuple[Any, ...] = (None, True, False, 0.0, -0.0, 0.5, 1e308, -1e-320, math.nan, math.inf, -math.inf, *INTEGERS, *TEXTS)


def bombs() -> Iterator[bytes]:
    """Bodies that promise or unfold to far more than they are, or hold what no message has."""
    for code in (b"\xdd", b"\xdf", b"\xdb", b"\xc6", b"\xc9"):
        for size in (2**16, 2**31 - 1, 2**32 - 1):
            yield code + struct.pack("!I", size) + b"\1" * 200
    for code in (b"\xdc", b"\xde", b"\xda", b"\xc5", b"\xc8"):
        yield code + b"\xff\xff" + b"\1" * 900
    for nest in (b"\x91", b"\x92\x01", b"\x81\xa1v", b"\x81\xa4caps", b"\x81"):
        for depth in (10, 100, 500, 1000):
            yield from ((nest * depth)[:1018], (nest * depth)[:1017] + b"\xc0")
    yield b"\xde\x01\xf4" + b"".join(msgpack.packb(i) + b"\0" for i in range(200))
    for ext in (b"\xd4\xff\0", b"\xd6\xff\0\0\0\1", b"\xd7\xff" + bytes(8), b"\xc7\0\1", b"\xc7\x0c\xff" + bytes(12)):
        yield from (ext, b"\x81\xa1v" + ext, b"\x81" + ext + b"\0")
    yield from (b"\x81\xa1v\xa2\xff\xfe", b"\x81\xcb\x7f\xf8\0\0\0\0\0\0\0")


BOMBS = tuple(bombs())
_PIECES = (
    b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\x91" * 8, b"\x90" * 64, b"\xc1", b"\x80" * 16, b"[" * 200,
    b'{"a":' * 200, b"]" * 8, b"\xff\xfe", b"\xed\xa0\x80", b"\0" * 32, b"-", b"9" * 30, b",", b'"', b"\\ud800", b"NaN",
)  # fmt: skip


def bytes_altered(rng: random.Random, data: bytes, others: Sequence[bytes] = (b"",)) -> bytes:
    """One to four changes anywhere: bits, lengths, parts that are missing, repeated or foreign, what a parser heeds."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        at = rng.randrange(len(made) + 1)
        count = rng.choice((1, 1, 2, 4, 8, 16, 64))
        match rng.randrange(12):
            case 0 | 1 if at < len(made):
                made[at] ^= 1 << rng.randrange(8)
            case 2 if at < len(made):
                made[at] = rng.randrange(256)
            case 3:
                del made[at : at + count]
            case 4:
                made[at:at] = rng.randbytes(count)
            case 5 | 6:
                order, code = rng.choice("<!"), rng.choice("BHIQ")
                number = struct.pack(order + code, rng.choice(INTEGERS) & ((1 << 8 * struct.calcsize(order + code)) - 1))
                made[at : at + len(number)] = number
            case 7:
                made[at:at] = made[at : at + count] * rng.choice((1, 1, 1, 2, 30))
            case 8:
                other = rng.choice(others)
                begin = rng.randrange(len(other) + 1)
                made[at : at + rng.choice((0, count))] = other[begin : begin + rng.choice((count, 200))]
            case 9:
                del made[at:]
            case _:
                made[at : at + rng.choice((0, count))] = rng.choice(_PIECES)
    most = LARGE if rng.randrange(400) == 0 else MOST_BYTES
    if most == LARGE and made:
        at = rng.randrange(len(made))
        part = made[at : at + rng.choice((1, 1, 2, 4, 9))]
        made[at:at] = part * min(rng.choice((1_000, 30_000, 200_000)), most // len(part))
    return bytes(made[:most])


def foreign(rng: random.Random) -> bytes:
    """What belongs to another protocol, is a bomb, or nothing at all."""
    match rng.randrange(4):
        case 0:
            return rng.choice(STRANGERS) + rng.randbytes(rng.choice((0, 0, 40, 300)))
        case 1 | 2:
            return rng.choice(BOMBS)
    return rng.randbytes(rng.randint(0, 1100))


def tree_altered(rng: random.Random, tree: Any) -> Any:
    """A few of the values in nested lists, dicts and tags altered, exchanged, left out, repeated or nested."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        tree = _one_altered(rng, tree, tree)
    return tree


def _one_altered(rng: random.Random, node: Any, whole: Any) -> Any:
    if isinstance(node, dict) and node and rng.random() < 0.85:
        made = dict(node)
        key = rng.choice(list(made))
        match rng.randrange(10):
            case 0:
                del made[key]
            case 1:
                made[_value(rng, made, whole, keys=True)] = made.pop(key)
            case 2:
                made[_value(rng, made, whole, keys=True)] = _value(rng, made[key], whole)
            case _:
                made[key] = _one_altered(rng, made[key], whole)
        return made
    if isinstance(node, list) and node and rng.random() < 0.85:
        items = list(node)
        at = rng.randrange(len(items))
        match rng.randrange(12):
            case 0:
                del items[at]
            case 1:
                items.insert(at, _value(rng, items[at], whole))
            case 2:
                items[at:at] = items[at : at + 1] * rng.choice((1, 2, 20, 300))
            case 3:
                other = rng.randrange(len(items))
                items[at], items[other] = items[other], items[at]
            case _:
                items[at] = _one_altered(rng, items[at], whole)
        return items
    return _value(rng, node, whole)


def _value(rng: random.Random, old: Any, whole: Any, keys: bool = False) -> Any:
    """Another value in the place of `old`: near it, extreme, of another type, or from elsewhere in the whole."""
    choice = rng.randrange(10)
    if choice < 3 and type(old) is int:
        return max(-(1 << 63), min(old + rng.choice((-1, 1, 2, -(old * 2), old, 1 << 31)), (1 << 64) - 1))
    if choice < 3 and isinstance(old, (str, bytes)) and old:
        at = rng.randrange(len(old))
        return old[:at] + rng.choice((old[:0], old[at:] * 2, old[at + 1 :]))
    if keys:
        return rng.choice((*TEXTS, 0, -1, 1 << 31))
    if choice == 3:
        return _somewhere(rng, whole)
    if choice == 4:
        for _ in range(rng.choice((1, 2, 70, 400))):
            old = rng.choice(([old], {"t": [old]}, {"d": [0, old]}, {"a": old}))
        return old
    if choice == 5:
        return rng.choice(
            ([], {}, [[]] * rng.choice((1, 100, 3000)), b"", b"\xff" * 32, {"a": 0}, {"a": 1}, {"t": []}, {"o": [0, []]})
        )
    return rng.choice(PLAIN)


def _somewhere(rng: random.Random, node: Any) -> Any:
    while isinstance(node, (dict, list)) and node and rng.random() < 0.7:
        node = rng.choice(list(node.values()) if isinstance(node, dict) else node)
    return node


def msgpack_altered(rng: random.Random, data: bytes) -> bytes:
    """What `data` describes in msgpack, altered; bytes altered where it describes nothing, or cannot be described again."""
    try:
        tree = msgpack.unpackb(data, raw=False, strict_map_key=False)
        return bytes(msgpack.packb(tree_altered(rng, tree)))
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException):
        return bytes_altered(rng, data)


def json_altered(rng: random.Random, data: bytes) -> bytes:
    """Likewise in JSON."""
    try:
        return json.dumps(tree_altered(rng, json.loads(data)), separators=(",", ":")).encode()
    except (ValueError, TypeError, RecursionError):
        return bytes_altered(rng, data)


def frames_altered(rng: random.Random, data: bytes) -> bytes:
    """Frames whose contents, kinds, order and lengths are others, the lengths of most of them right."""
    frames = list(frames_of(data))
    if not frames:
        return bytes_altered(rng, data)
    at = rng.randrange(len(frames))
    (kind, flags, reserved), meta, body = frames[at]
    match rng.randrange(9):
        case 0:
            kind = rng.choice((0, 1, 2, 3, 4, 5, 255))
        case 1:
            flags, reserved = rng.choice(((0, 0), (1, 0), (2, 0), (0, 1), (255, 65535)))
        case 2:
            body = rng.choice((b"", body[:-1], body + b"\0", body * 2, bytes_altered(rng, body)))
        case 3:
            frames.insert(rng.randrange(len(frames) + 1), rng.choice(frames))
        case 4:
            frames[at] = frames[-1]
        case 5:
            meta = bytes_altered(rng, meta)
        case _:
            meta = msgpack_altered(rng, meta)
    frames[at] = (kind, flags, reserved), meta, body
    made = b"".join(HEADER.pack(*start, len(meta), len(body)) + meta + body for start, meta, body in frames)
    return made if rng.randrange(6) else bytes_altered(rng, made)


def frames_of(data: bytes) -> Iterator[tuple[tuple[int, int, int], bytes, bytes]]:
    """(kind, flags, reserved), meta and data of each frame; the last one may be cut."""
    at = 0
    while len(data) - at >= HEADER.size:
        *start, meta, size = HEADER.unpack_from(data, at)
        begin = at + HEADER.size
        at = begin + meta + size
        yield (start[0], start[1], start[2]), data[begin : begin + meta], data[begin + meta : at]


_LENGTH = struct.Struct("<Q")
_HASH = b'{"__metadata__":{"sha256":"'


def tensors_altered(rng: random.Random, data: bytes, inner: str = "") -> bytes:
    """A tensor file with another header and, if it had one, the hash for it. `inner`: metadata that is JSON, too."""
    (length,) = _LENGTH.unpack_from(data)
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    if inner and rng.randrange(4):
        metadata = header["__metadata__"]
        metadata[inner] = json_altered(rng, metadata[inner].encode()).decode("utf-8", "replace")
    elif rng.randrange(8):
        hashed = header.get("__metadata__", {}).pop("sha256", None)
        altered = tree_altered(rng, header)
        if isinstance(altered, dict) and isinstance(altered.get("__metadata__"), dict) and hashed:
            altered = {"__metadata__": {"sha256": "0" * 64, **altered["__metadata__"]}, **altered}
            altered["__metadata__"]["sha256"] = "0" * 64
        header = altered
    else:
        body = bytes_altered(rng, body)
    try:
        text = json.dumps(header, separators=(",", ":")).encode()
    except (ValueError, TypeError, RecursionError):
        return bytes_altered(rng, data)
    return rehashed(_LENGTH.pack(len(text)) + text + body)


def rehashed(data: bytes) -> bytes:
    """The same tensor file with the hash that belongs to its content, where it begins with one."""
    begin = 8 + len(_HASH)
    if data[8:begin] != _HASH:
        return data
    zeroed = data[:begin] + b"0" * 64 + data[begin + 64 :]
    return data[:begin] + hashlib.sha256(zeroed).hexdigest().encode() + data[begin + 64 :]
