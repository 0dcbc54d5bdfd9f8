"""What follows from a key and the first two messages of a handshake: both proofs and the keys of the session.

    T   = SHA256(u32(len(HELLO)) || HELLO || REPLY core)
    PRK = HMAC(T, key || binding)
    k_x = HMAC(PRK, "psgd/1 " || x || 0x01)        x = auth_s, auth_c, c2s, s2c

All HMACs are HMAC-SHA256; PRK and k_x are HKDF's extract and one-block expand (RFC 5869) with T as salt.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass, field

from .keyring import Key

_TRANSCRIPT_HEAD = struct.Struct("!I")


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """The keys that seal one session: `server_key` what the server sends, `client_key` what the client sends."""

    server_key: bytes = field(repr=False)
    client_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeySchedule:
    """`server_proof` = HMAC(k_auth_s, T), `client_proof` = HMAC(k_auth_c, T), and the session's `keys` k_s2c and k_c2s."""

    server_proof: bytes = field(repr=False)
    client_proof: bytes = field(repr=False)
    keys: SessionKeys


def derive(key: Key, binding: bytes, hello: bytes, core: bytes) -> KeySchedule:
    """The schedule of a handshake; `hello` and `core` are the messages' bytes, `binding` names the channel below."""
    transcript = hashlib.sha256(_TRANSCRIPT_HEAD.pack(len(hello)) + hello + core).digest()
    root = _hmac(transcript, key.secret + binding)
    auth_s, auth_c, c2s, s2c = (_hmac(root, b"psgd/1 %b\1" % label) for label in (b"auth_s", b"auth_c", b"c2s", b"s2c"))
    return KeySchedule(_hmac(auth_s, transcript), _hmac(auth_c, transcript), SessionKeys(server_key=s2c, client_key=c2s))


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")
