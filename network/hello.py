"""First messages on a connection, their strict parsers, and the one-byte hint that a refusal leaves behind.

    HELLO  = "PSGD" || u16 length || msgpack {v: [min, max], role, key_id, n, caps, job, e, c}   client to server
    REPLY  = 0 || u16 length || msgpack {v, role, n, caps, e, c} || 32-byte MAC                  server to client
    hint   = one byte that is not 0, then the connection closes                                  server to client

Share (e) and ciphers (c) are there unless the link is private, which the end that reads them knows from its own socket: a
message of the other kind is refused. Neither message is longer than 1 KiB. Both come from strangers until a MAC has verified: a
parser raises ProtocolError for any message that is not exactly right (types, ranges, unknown, missing or repeated fields, bytes
left over) and nothing else.
"""

from __future__ import annotations

import enum
import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeGuard

import msgpack

from .errors import ProtocolError, Rejected
from .keys import PROOF_SIZE, SHARE_SIZE
from .records import AES, CHACHA

VERSIONS = (2, 2)
"""Lowest and highest version of the protocol that this side speaks."""

MESSAGE_LIMIT = 1024
"""Bytes of one handshake message."""

HEAD = struct.Struct("!4sH")
LENGTH = struct.Struct("!H")

_MAGIC = b"PSGD"
# with the head, so that each message as a whole has at most 1 KiB
_BODY_LIMIT = MESSAGE_LIMIT - HEAD.size
_CORE_LIMIT = MESSAGE_LIMIT - 1 - LENGTH.size - PROOF_SIZE


class Hint(enum.IntEnum):
    """Reason of a server's refusal. Anyone could have sent that byte, so it serves to tell a person and for nothing else."""

    BAD_KEY = 1
    VERSION = 2
    NO_SUCH_JOB = 3
    BUSY = 4
    ROLE = 5
    FULL = 6

    @property
    def told(self) -> str:
        """Words for the log of the server, with the name of the hint."""
        return f"{_WORDS[self]} ({self.name})"


_WORDS: Final = {
    Hint.BAD_KEY: "it has another key",
    Hint.VERSION: "it speaks another version of the protocol, or none",
    Hint.NO_SUCH_JOB: "it asks for a job that does not run here",
    Hint.BUSY: "another job runs here",
    Hint.ROLE: "its role is not admitted here",
    Hint.FULL: "there are too many connections",
}


class Refused(Rejected):
    """Error: a handshake ends with a `hint`: a server sends `bytes([error.hint])` and closes, a client has received it."""

    def __init__(self, hint: Hint, message: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Hello:
    """First message of a client.

    Attributes: `versions` (lowest, highest), `role` it claims, `key_id` of the key it will prove, `nonce` (32 fresh bytes),
    `caps` (its description of itself; plain values), `job` ("" for the agent itself, else the job process it wants), `share`
    (X25519, 32 bytes), `ciphers` that it has, the faster one first; these two are empty on a private link.
    """

    versions: tuple[int, int]
    role: str
    key_id: bytes
    nonce: bytes
    caps: Caps
    job: str
    share: bytes
    ciphers: tuple[str, ...]

    def to_bytes(self) -> bytes:
        """Encode the message; ValueError when a parser would not accept a field."""
        fields: dict[str, Any] = {
            "v": list(self.versions),
            "role": self.role,
            "key_id": self.key_id,
            "n": self.nonce,
            "caps": dict(self.caps),
            "job": self.job,
        }
        # absent, not empty, on a private link: a message of the other kind must not parse
        if self.share:
            fields |= {"e": self.share, "c": list(self.ciphers)}
        body = pack_fields(fields, hello_checks(not self.share), _BODY_LIMIT)
        return HEAD.pack(_MAGIC, len(body)) + body


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer of a server: `version` and `cipher` that it chose, its `role`, `nonce` (32 fresh bytes), `caps` and `share`.

    Cipher and share are empty on a private link.
    """

    version: int
    role: str
    nonce: bytes
    caps: Caps
    share: bytes
    cipher: str

    def to_bytes(self) -> bytes:
        """Encode the core of the message, without length and MAC; ValueError when a parser would not accept a field."""
        fields: dict[str, Any] = {
            "v": self.version,
            "role": self.role,
            "n": self.nonce,
            "caps": dict(self.caps),
        }
        if self.share:
            fields |= {"e": self.share, "c": self.cipher}
        return pack_fields(fields, reply_checks(not self.share), _CORE_LIMIT)


class HelloReader:
    """Reader that takes exactly the bytes of a HELLO, so that a connection can be handed on with nothing read beyond it.

    `need` is the number of bytes still missing; read at most that many and `feed` them. When it is 0, `hello` is the parsed
    message and `data` its bytes. ProtocolError as soon as the bytes cannot become a HELLO any more. `private` is the kind of
    the link over which they come.
    """

    __slots__ = ("_data", "_private", "need")

    def __init__(self, private: bool = False) -> None:
        self._data = bytearray()
        self._private = private
        self.need = HEAD.size

    def feed(self, data: bytes | bytearray | memoryview) -> int:
        """Add bytes and return the new `need`. Bytes beyond the HELLO are refused."""
        rest = memoryview(data)
        while rest:
            if not self.need:
                raise ProtocolError(f"A hello is followed by {len(rest)} bytes that it does not state.")
            taken = rest[: self.need]
            rest = rest[len(taken) :]
            self._data += taken
            self.need -= len(taken)
            # at the first wrong byte: a stranger's connection need not be kept until six have come
            if not _MAGIC.startswith(self._data[: len(_MAGIC)]):
                raise ProtocolError(_NO_HELLO)
            if len(self._data) == HEAD.size:
                # a wrong length ends it here, before its bytes are awaited
                self.need = hello_length(self._data)
        return self.need

    @property
    def data(self) -> bytes:
        """Bytes read so far: the whole HELLO when `need` is 0."""
        return bytes(self._data)

    @property
    def hello(self) -> Hello:
        return parse_hello(self.data, private=self._private)


_NO_HELLO = "These are not the first bytes of a Parallel-SGD connection."


def hello_length(head: bytes | bytearray) -> int:
    """Return the length of the body that follows the 6 bytes `head` of a HELLO, 1 to 1018."""
    magic, length = HEAD.unpack(head)
    if magic != _MAGIC:
        raise ProtocolError(_NO_HELLO)
    if not 1 <= length <= _BODY_LIMIT:
        raise ProtocolError(f"A hello's body must have 1 to {_BODY_LIMIT} bytes, got {length}.")
    return int(length)


def reply_length(head: bytes) -> int:
    """Return the length of core and MAC that follow the 2 bytes `head` of a REPLY."""
    (length,) = LENGTH.unpack(head)
    if not 1 <= length <= _CORE_LIMIT:
        raise ProtocolError(f"A reply's core must have 1 to {_CORE_LIMIT} bytes, got {length}.")
    return int(length) + PROOF_SIZE


def parse_hello(data: bytes, versions: tuple[int, int] = VERSIONS, private: bool = False) -> Hello:
    """Read a whole HELLO.

    Args:
        data: its bytes.
        versions: lowest and highest version that this side speaks.
        private: whether its link is private.

    Raises: Refused (VERSION) when it speaks none of `versions`, whatever fields a later version may have put into it;
    ProtocolError for every other fault.
    """
    if len(data) < HEAD.size or hello_length(data[: HEAD.size]) != len(data) - HEAD.size:
        raise ProtocolError(f"A hello of {len(data)} bytes does not have the length that it states.")
    fields = unpack_fields(data[HEAD.size :])
    offered = fields.get("v")  # before the other fields, of which another version may have others
    # only a well-formed range is answered; whatever else calls itself HELLO is a fault
    if is_version_range(offered) and not choose_version(offered, versions):
        raise Refused(Hint.VERSION, f"The client speaks protocol versions {offered}, this side {list(versions)}.")
    fault = field_fault(fields, hello_checks(private))
    if fault is not None:
        raise ProtocolError(f"A hello {fault}.")
    low, high = fields["v"]
    return Hello(
        (low, high),
        fields["role"],
        fields["key_id"],
        fields["n"],
        fields["caps"],
        fields["job"],
        fields.get("e", b""),
        tuple(fields.get("c", ())),
    )


def parse_reply(core: bytes, private: bool = False) -> Reply:
    """Read the `core` of a REPLY that came over a `private` link, or another; ProtocolError for every fault.

    Nothing in it may be believed before its MAC verifies.
    """
    fields = unpack_fields(core)
    fault = field_fault(fields, reply_checks(private))
    if fault is not None:
        raise ProtocolError(f"A reply {fault}.")
    return Reply(fields["v"], fields["role"], fields["n"], fields["caps"], fields.get("e", b""), fields.get("c", ""))


def parse_ready(value: object) -> Caps:
    """Read the server's description of itself in READY; ProtocolError for any other content."""
    told = {} if value is None else value
    if not _is_caps(told):
        raise ProtocolError(f"A READY must hold nothing or {_CAPS[1]}.")
    return told


def choose_version(offered: Sequence[int], own: Sequence[int]) -> int:
    """Return the highest version in both ranges, 0 if there is none."""
    high = min(offered[1], own[1])
    return high if high >= max(offered[0], own[0]) else 0


ROLES = frozenset({"submitter", "agent", "peer", "code"})
"""Roles of the ends. `code` is the submitter's session with a job process, `peer` that of two job processes."""

NONCE_SIZE = 32
KEY_ID_SIZE = 8

Caps: TypeAlias = Mapping[str, "bool | int | float | str | bytes | None"]
"""Description of one end for the other: at most 16 plain values under names in lower case."""

Checks: TypeAlias = Mapping[str, tuple[Callable[[Any], bool], str]]
"""Field name to (whether a value may stand there, in words)."""

_TEXT_LIMIT = 1024
_CAPS_LIMIT = 16
_CAP_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_MOST_CIPHERS = 8
_CIPHER_NAME = re.compile(r"[a-z0-9-]{1,32}")
_JOB_NAME = re.compile(r"[A-Za-z0-9._-]{0,64}")


def is_version_range(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and len(value) == 2 and all(_is_version(number) for number in value) and value[0] <= value[1]


def _is_version(value: Any) -> bool:
    # by exact type: a bool is an int, and no version
    return type(value) is int and 1 <= value <= 0xFFFF


def _is_bytes(value: Any, size: int) -> bool:
    return isinstance(value, bytes) and len(value) == size


def _is_caps(value: Any) -> TypeGuard[Caps]:
    return (
        isinstance(value, dict)
        and len(value) <= _CAPS_LIMIT
        and all(isinstance(name, str) and _CAP_NAME.fullmatch(name) is not None for name in value)
        and all(_is_plain(item) for item in value.values())
    )


def _is_plain(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, (bool, int, str, bytes))


def _are_ciphers(value: Any) -> bool:
    """Tell if `value` lists ciphers. Unknown ones may be among them: a later release has more, and `choose_cipher` ignores
    these.
    """
    return (
        isinstance(value, list)
        and 1 <= len(value) <= _MOST_CIPHERS
        # as texts: an item of another type need not hash, and is refused by the next line
        and len(set(map(str, value))) == len(value)
        and all(isinstance(name, str) and _CIPHER_NAME.fullmatch(name) is not None for name in value)
    )


_ROLE = (lambda value: isinstance(value, str) and value in ROLES, f"one of {', '.join(sorted(ROLES))}")
_NONCE = (lambda value: _is_bytes(value, NONCE_SIZE), f"{NONCE_SIZE} bytes")
_SHARE = (lambda value: _is_bytes(value, SHARE_SIZE), f"{SHARE_SIZE} bytes")
_CIPHERS = (AES, CHACHA)
_CAPS = (
    _is_caps,
    f"a dict of at most {_CAPS_LIMIT} names in lower case to None, bool, int, finite float, str or bytes",
)

_PRIVATE_HELLO: Checks = {
    "v": (is_version_range, "two versions from 1 to 65535, the lower first"),
    "role": _ROLE,
    "key_id": (lambda value: _is_bytes(value, KEY_ID_SIZE), f"{KEY_ID_SIZE} bytes"),
    "n": _NONCE,
    "caps": _CAPS,
    "job": (
        lambda value: isinstance(value, str) and _JOB_NAME.fullmatch(value) is not None,
        "at most 64 letters, digits, dots, underscores and hyphens",
    ),
}
_HELLO: Checks = {**_PRIVATE_HELLO, "e": _SHARE, "c": (_are_ciphers, f"1 to {_MOST_CIPHERS} names of ciphers, each once")}
_PRIVATE_REPLY: Checks = {"v": (_is_version, "a version from 1 to 65535"), "role": _ROLE, "n": _NONCE, "caps": _CAPS}
_REPLY: Checks = {
    **_PRIVATE_REPLY,
    "e": _SHARE,
    # unlike in a HELLO: a cipher that this side does not have cannot be used
    "c": (lambda value: isinstance(value, str) and value in _CIPHERS, f"one of {', '.join(_CIPHERS)}"),
}


def hello_checks(private: bool) -> Checks:
    """Return the rules for the fields of a HELLO, over a link that is `private`, or not."""
    return _PRIVATE_HELLO if private else _HELLO


def reply_checks(private: bool) -> Checks:
    """Return the rules for the fields of a REPLY, over a link that is `private`, or not."""
    return _PRIVATE_REPLY if private else _REPLY


def field_fault(fields: Mapping[str, Any], checks: Checks) -> str | None:
    """Describe the first fault in the `fields` of a message by `checks`, None without one. Values are named by type: they
    may be hostile.
    """
    # before any value: what is missing or unknown ends it, so each check finds its field
    if fields.keys() != checks.keys():
        return f"must have the fields {', '.join(checks)} and no others"
    for name, (holds, expectation) in checks.items():
        if not holds(fields[name]):
            return f"'{name}' must be {expectation}, got another {type(fields[name]).__name__}"
    return None


def pack_fields(fields: Mapping[str, Any], checks: Checks, limit: int) -> bytes:
    """Encode fields as msgpack; ValueError when one breaks its rule or all together exceed `limit` bytes."""
    fault = field_fault(fields, checks)
    if fault is not None:
        # ours, before it leaves: the peer would hang up without naming the field
        raise ValueError(f"Handshake message {fault}")
    body: bytes = msgpack.packb(fields)
    if len(body) > limit:
        raise ValueError(f"Handshake message must have at most {limit} bytes, got {len(body)}; shorten 'caps'")
    return body


def unpack_fields(body: bytes) -> dict[str, Any]:
    """Read the map in `body`, its fields still unchecked; ProtocolError for anything but one map within limits."""
    try:
        fields = msgpack.unpackb(
            body,
            raw=False,
            strict_map_key=True,
            object_pairs_hook=_unique,
            # each limit is the largest that a field may need, so that a stranger's 1,018 bytes become little more in memory
            max_array_len=_MOST_CIPHERS,
            max_map_len=_CAPS_LIMIT,
            max_str_len=_TEXT_LIMIT,
            max_bin_len=_TEXT_LIMIT,
            max_ext_len=0,
        )
    # no `from error`, and no text of it: both may show what a stranger has sent
    except (ValueError, msgpack.UnpackException) as error:
        raise ProtocolError(f"A handshake message must be msgpack within its limits: {type(error).__name__}.") from None
    if not isinstance(fields, dict):
        raise ProtocolError(f"A handshake message must be a map, got {type(fields).__name__}.")
    return fields


def _unique(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        # two readers could take different ones, and prove different things by one MAC
        raise ValueError("a field occurs twice")
    return fields
