"""Keys: those of a cluster and of its jobs, and those that a session derives from them.

A `Key` is 32 random bytes that admit to a cluster or to one job. It never shows its secret: not in `repr`, not in errors, not
to a pickler. A `Keyring` holds one key, or two while the key is being changed: both are accepted, the first is offered.
`network.key_files` finds keyrings and keeps them in files.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn

from .errors import NetworkError, ProtocolError
from .names import x25519

__all__ = ["Key", "KeyFileError", "Keyring", "format_keyring", "new_key", "parse_keyring"]

KEY_SIZE = 32
"""Bytes of a secret. There are no passwords, so a recorded handshake cannot be searched for a weak one."""

_FORMAT = "psgd-key-1"


class KeyFileError(NetworkError):
    """Error: a key cannot be read, written or used. The message names place and repair, never the secret."""


# eq=False: a comparison must take the same time for any two secrets, as that of tuples does not
@dataclass(frozen=True, slots=True, eq=False)
class Key:
    """Secret of 32 bytes and its public name.

    Args:
        secret: the bytes.
        id: the first 8 bytes of SHA-256("psgd key id" || secret), which may be shown and sent.
    """

    secret: bytes
    id: bytes = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.secret, bytes) or len(self.secret) != KEY_SIZE:
            what = f"{len(self.secret)} bytes" if isinstance(self.secret, bytes) else type(self.secret).__name__
            raise ValueError(f"Key 'secret' must be {KEY_SIZE} bytes, got {what}")
        object.__setattr__(self, "id", hashlib.sha256(b"psgd key id" + self.secret).digest()[:8])

    def __repr__(self) -> str:
        return f"Key({self.id.hex()})"

    def __eq__(self, other: object) -> bool:
        return hmac.compare_digest(self.secret, other.secret) if isinstance(other, Key) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def __reduce__(self) -> NoReturn:
        raise TypeError("A Key is neither pickled nor copied; hand over its .secret on purpose, inside a sealed session")


def new_key() -> Key:
    """Make a fresh key from the operating system's random source."""
    return Key(secrets.token_bytes(KEY_SIZE))


def derive_key(key: Key, purpose: str) -> Key:
    """Derive HMAC-SHA256(secret, "psgd derived key 1 " || purpose) from `key`: a key of its own, which does not reveal its
    origin.
    """
    return Key(hmac.digest(key.secret, b"psgd derived key 1 " + purpose.encode(), "sha256"))


@dataclass(frozen=True, slots=True)
class Keyring:
    """One key, or two while a key is being changed. ValueError for another number or the same key twice.

    To change the key of a running cluster: add the new one as second line everywhere, then make it the first everywhere, then
    remove the old one; agents read the file again when it has changed. `keys` holds them in this order.
    """

    keys: tuple[Key, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.keys) <= 2:
            raise ValueError(f"Keyring 'keys' must be one or two keys, got {len(self.keys)}")
        if len(set(self.keys)) != len(self.keys):
            raise ValueError(f"Keyring 'keys' must differ, got {self.keys[0]!r} twice")

    @property
    def offered(self) -> Key:
        """Key that a client proves."""
        return self.keys[0]

    def find(self, key_id: bytes) -> Key | None:
        """Return the key with the id `key_id`, or None."""
        return next((key for key in self.keys if key.id == key_id), None)

    def __iter__(self) -> Iterator[Key]:
        return iter(self.keys)


def format_keyring(keyring: Keyring) -> str:
    """Write the text of `keyring` for a key file: one line `psgd-key-1 <key id in hex> <secret in base64>` per key."""
    return "".join(f"{_FORMAT} {key.id.hex()} {base64.b64encode(key.secret).decode()}\n" for key in keyring)


def parse_keyring(text: str, origin: str) -> Keyring:
    """Read the text of a key file strictly.

    Args:
        text: the text.
        origin: names the file in an error.

    Raises: KeyFileError that names `origin`, line and fault, never the text of the line.
    """
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise KeyFileError(f"{origin} holds no key; {_HOW_TO_REPLACE}")
    if len(lines) > 2:
        raise KeyFileError(f"{origin} must hold one or two keys, got {len(lines)} lines; remove the old ones.")
    try:
        return Keyring(tuple(_parse_line(line, f"{origin}, line {number}") for number, line in lines))
    except ValueError as error:
        raise KeyFileError(f"{origin}: {error}; remove one of the lines.") from None


_HOW_TO_REPLACE = "copy the file anew from a machine of the cluster, or make a new one with 'psgd worker --new-key'."


def _parse_line(line: str, where: str) -> Key:
    words = line.split()
    if len(words) != 3 or words[0] != _FORMAT:
        raise KeyFileError(f"{where} must read '{_FORMAT} <key id> <base64 of {KEY_SIZE} bytes>'; {_HOW_TO_REPLACE}")
    try:
        secret = base64.b64decode(words[2].encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise KeyFileError(f"{where}: the key is not base64; {_HOW_TO_REPLACE}") from None
    if len(secret) != KEY_SIZE:
        raise KeyFileError(f"{where}: a key must have {KEY_SIZE} bytes, got {len(secret)}; {_HOW_TO_REPLACE}")
    key = Key(secret)
    # the last character of base64 has bits that say nothing, so other texts give the same key
    if words[1] != key.id.hex() or words[2] != base64.b64encode(secret).decode():
        raise KeyFileError(f"{where}: the key id does not belong to the key, a part was altered; {_HOW_TO_REPLACE}")
    return key


# Derivation of both proofs and the session's keys from a key, a shared secret, and the first two messages of a handshake.
#
# T   = SHA256(u32(len(HELLO)) || HELLO || REPLY core)
# PRK = HMAC(T, key || secret || binding)         secret = X25519(own share, the other's), 32 zeros on a private link
# k_x = HMAC(PRK, "psgd/2 " || x || 0x01)        x = auth_s, auth_c, c2s, s2c
#
# All HMACs are HMAC-SHA256; PRK and k_x are HKDF's extract and one-block expand (RFC 5869) with T as salt. The shares are made
# for one handshake and forgotten with it, so an attacker that learns the key later cannot open an older recording (RFC 7748).

SHARE_SIZE = 32
"""Bytes of a share, private or public, and of the secret that two of them make."""

PROOF_SIZE = 32

_TRANSCRIPT_HEAD = struct.Struct("!I")


class Share:
    """Part of one end in a secret of two: `public` is for the other end. `private` are 32 random bytes."""

    def __init__(self, private: bytes) -> None:
        self._private = x25519.X25519PrivateKey.from_private_bytes(private)
        self.public = self._private.public_key().public_bytes_raw()

    def secret(self, other: bytes) -> bytes:
        """Return the secret that only the two ends know, made with the share `other`.

        Raises: ProtocolError for a share that makes the same secret with every other one.
        """
        try:
            return self._private.exchange(x25519.X25519PublicKey.from_public_bytes(other))
        except ValueError:
            raise ProtocolError("The share of the other side is a point of low order.") from None


class NoShare:
    """Placeholder of a share on a private link, on which no party can listen: its secret is 32 zeros, which two shares never
    make.
    """

    public = b""

    def secret(self, _other: bytes) -> bytes:
        """Return 32 zeros, a constant of the protocol."""
        return bytes(SHARE_SIZE)


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """Keys that seal one session with `cipher`: `server_key` the server's frames, `client_key` the client's.

    On a private link `cipher` is "" and nothing is sealed; `server_key` makes the MAC of READY, `client_key` has no use.
    """

    server_key: bytes = field(repr=False)
    client_key: bytes = field(repr=False)
    cipher: str


@dataclass(frozen=True, slots=True)
class KeySchedule:
    """Schedule of a handshake: `server_proof` = HMAC(k_auth_s, T), `client_proof` = HMAC(k_auth_c, T), and k_s2c and k_c2s."""

    server_proof: bytes = field(repr=False)
    client_proof: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    client_key: bytes = field(repr=False)


def derive(key: Key, shared: bytes, binding: bytes, hello: bytes, core: bytes) -> KeySchedule:
    """Derive the schedule of a handshake.

    Args:
        key: the key that both ends hold.
        shared: secret of both shares.
        binding: name of the private link below, b"" if it is none.
        hello: bytes of the HELLO.
        core: bytes of the REPLY's core.
    """
    # the length before HELLO: no other split of the same bytes gives the same hash
    transcript = hashlib.sha256(_TRANSCRIPT_HEAD.pack(len(hello)) + hello + core).digest()
    root = _hmac(transcript, key.secret + shared + binding)
    # four keys for four uses: a proof of one end is of no use as one of the other, so nothing is reflected
    auth_s, auth_c, c2s, s2c = (_hmac(root, b"psgd/2 %b\1" % label) for label in (b"auth_s", b"auth_c", b"c2s", b"s2c"))
    return KeySchedule(_hmac(auth_s, transcript), _hmac(auth_c, transcript), server_key=s2c, client_key=c2s)


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")
