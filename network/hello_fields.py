"""What the fields of a handshake message must be, and msgpack held to that: on both sides the same rules."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeGuard

import msgpack

from .errors import ProtocolError

ROLES = frozenset({"submitter", "agent", "peer", "code"})
"""Who may be at either end. `code` is the submitter's session with a job process, `peer` that of two job processes."""

NONCE_SIZE = 32
KEY_ID_SIZE = 8

Caps: TypeAlias = Mapping[str, "bool | int | float | str | bytes | None"]
"""What one end tells the other about itself: at most 16 plain values under names in lower case."""

Checks: TypeAlias = Mapping[str, tuple[Callable[[Any], bool], str]]
"""Field name to (whether a value may stand there, in words)."""

_TEXT_LIMIT = 1024
_CAPS_LIMIT = 16
_CAP_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_JOB_NAME = re.compile(r"[A-Za-z0-9._-]{0,64}")


def is_version_range(value: Any) -> TypeGuard[list[int]]:
    """Whether `value` is [lowest, highest] version."""
    return isinstance(value, list) and len(value) == 2 and all(_is_version(number) for number in value) and value[0] <= value[1]


def _is_version(value: Any) -> bool:
    return type(value) is int and 1 <= value <= 0xFFFF


def _is_role(value: Any) -> bool:
    return isinstance(value, str) and value in ROLES


def _is_nonce(value: Any) -> bool:
    return isinstance(value, bytes) and len(value) == NONCE_SIZE


def _is_key_id(value: Any) -> bool:
    return isinstance(value, bytes) and len(value) == KEY_ID_SIZE


def _is_job(value: Any) -> bool:
    return isinstance(value, str) and _JOB_NAME.fullmatch(value) is not None


def _is_caps(value: Any) -> bool:
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


_ROLE = (_is_role, f"one of {', '.join(sorted(ROLES))}")
_NONCE = (_is_nonce, f"{NONCE_SIZE} bytes")
_CAPS = (
    _is_caps,
    f"a dict of at most {_CAPS_LIMIT} names in lower case to None, bool, int, finite float, str or bytes",
)

HELLO_CHECKS: Checks = {
    "v": (is_version_range, "two versions from 1 to 65535, the lower first"),
    "role": _ROLE,
    "key_id": (_is_key_id, f"{KEY_ID_SIZE} bytes"),
    "n": _NONCE,
    "caps": _CAPS,
    "job": (_is_job, "at most 64 letters, digits, dots, underscores and hyphens"),
}
REPLY_CHECKS: Checks = {"v": (_is_version, "a version from 1 to 65535"), "role": _ROLE, "n": _NONCE, "caps": _CAPS}


def field_fault(fields: Mapping[str, Any], checks: Checks) -> str | None:
    """What is wrong with the fields of a message, None if nothing is. Values are named by type: they may be hostile."""
    if fields.keys() != checks.keys():
        return f"must have the fields {', '.join(checks)} and no others"
    for name, (holds, expectation) in checks.items():
        if not holds(fields[name]):
            return f"'{name}' must be {expectation}, got another {type(fields[name]).__name__}"
    return None


def pack_fields(fields: Mapping[str, Any], checks: Checks, limit: int) -> bytes:
    """The fields as msgpack; ValueError when one breaks its rule or all together exceed `limit` bytes."""
    fault = field_fault(fields, checks)
    if fault is not None:
        raise ValueError(f"Handshake message {fault}")
    body: bytes = msgpack.packb(fields)
    if len(body) > limit:
        raise ValueError(f"Handshake message must have at most {limit} bytes, got {len(body)}; shorten 'caps'")
    return body


def unpack_fields(body: bytes) -> dict[str, Any]:
    """The map that `body` holds, its fields still unchecked; ProtocolError for anything but one map within limits."""
    try:
        fields = msgpack.unpackb(
            body,
            raw=False,
            strict_map_key=True,
            object_pairs_hook=_unique,
            max_array_len=2,
            max_map_len=_CAPS_LIMIT,
            max_str_len=_TEXT_LIMIT,
            max_bin_len=_TEXT_LIMIT,
            max_ext_len=0,
        )
    except (ValueError, msgpack.UnpackException) as error:
        raise ProtocolError(f"A handshake message must be msgpack within its limits: {type(error).__name__}.") from None
    if not isinstance(fields, dict):
        raise ProtocolError(f"A handshake message must be a map, got {type(fields).__name__}.")
    return fields


def _unique(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a field occurs twice")
    return fields
