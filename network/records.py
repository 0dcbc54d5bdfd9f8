"""Records: the frames of a connection that strangers may read or alter, encrypted and numbered.

    record i = header (16 bytes, in the clear) || AEAD(key, nonce_i, meta || data, header)      nonce_i = u32(0) || u64(i)

The header is authenticated with what it describes, the number is counted on both sides and never sent: a record that is
altered, replayed, dropped, reordered or taken from another session does not open. One key serves one direction of one session,
for 2^40 bytes; the next one is HMAC-SHA256(key, "psgd/2 rekey" || 0x01), and the numbers go on. The cipher is AES-256-GCM where
both processors have instructions for AES, else ChaCha20-Poly1305; both add a tag of 16 bytes.

References: NIST SP 800-38D (GCM), RFC 8439 (ChaCha20-Poly1305).
"""

from __future__ import annotations

import functools
import hmac
import itertools
import os
import platform
import re
import struct
from collections.abc import Sequence
from pathlib import Path

from .errors import NetworkError, ProtocolError
from .names import aead, exceptions

HEADER_SIZE = 16
TAG_SIZE = 16
"""Bytes that a record is longer than its frame."""

AES = "aes-256-gcm"
CHACHA = "chacha20-poly1305"
REKEY_BYTES = 1 << 40  # of plaintext under one key; GCM with numbered nonces stays far below its bounds there

OLDEST = 47  # of cryptography: older ones write into no buffer of ours
_NONCE = struct.Struct("!4xQ")
_forks = itertools.count()
_process = [next(_forks)]  # another number in each process that was forked, which must not seal with the numbers of its parent
os.register_at_fork(after_in_child=lambda: _process.__setitem__(0, next(_forks)))
_END = 1 << 64


@functools.cache
def ciphers() -> tuple[str, str]:
    """What this processor seals with, the faster one first."""
    return (AES, CHACHA) if _has_aes() else (CHACHA, AES)


def choose_cipher(offered: Sequence[str], own: Sequence[str]) -> str:
    """One that is in both, where each has its faster one first: ChaCha20 where an end prefers it, as it loses least by it.

    Raises: ProtocolError when there is none.
    """
    common = [name for name in own if name in offered]
    if not common:
        raise ProtocolError("The other side has no cipher that this side has.")
    return min(common, key=lambda name: (max(offered.index(name), own.index(name)), name == AES))


def _has_aes() -> bool:
    """Whether the processor has instructions for AES; all that run macOS have."""
    try:
        text = Path("/proc/cpuinfo").read_text("ascii", "replace")
    except OSError:
        return platform.system() == "Darwin"
    return re.search(r"^(flags|Features)\s*:.*\baes\b", text, re.MULTILINE) is not None


@functools.cache
def check_library() -> None:
    """Raise NetworkError where the package that encrypts is missing or too old."""
    try:
        from cryptography import __version__ as found  # noqa: PLC0415 - its ciphers take longer to load than all of this package
    except ImportError:
        found = "none"
    if found == "none" or int(found.partition(".")[0]) < OLDEST:
        raise NetworkError(
            f"Connections need the package cryptography, {OLDEST} or newer, found {found}: pip install -U cryptography"
        )


class _Records:
    """The series of nonces and keys that both ends count alike."""

    __slots__ = ("_aead", "_cipher", "_key", "_number", "_process", "_room")

    def __init__(self, cipher: str, key: bytes, first: int = 0) -> None:
        self._cipher = cipher
        self._number = first
        self._process = _process[0]
        self._use(key)

    def _use(self, key: bytes) -> None:
        self._key, self._room = key, REKEY_BYTES
        try:
            self._aead = aead.AESGCM(key) if self._cipher == AES else aead.ChaCha20Poly1305(key)
        except exceptions.UnsupportedAlgorithm:
            raise NetworkError(f"The OpenSSL of this system does not permit the cipher {self._cipher}.") from None

    def _next(self, size: int) -> bytes:
        """The nonce of the next record, of `size` bytes."""
        if self._process != _process[0]:
            raise ProtocolError("This session belongs to the process from which this one was forked.")
        if self._number >= _END:
            raise ProtocolError("This session has used up its 2**64 record numbers; open a new one.")
        if size > self._room:
            self._use(hmac.digest(self._key, b"psgd/2 rekey\1", "sha256"))
        self._room -= size
        nonce = _NONCE.pack(self._number)
        self._number += 1
        return nonce


class Sealer(_Records):
    """Seals what this side sends."""

    __slots__ = ()

    def seal(self, frame: Sequence[bytes | memoryview], into: memoryview) -> None:
        """Write the record of a frame to `into`, which is TAG_SIZE bytes longer than the parts of the frame.

        Raises: ProtocolError when all record numbers are used.
        """
        first, *data = frame
        header, meta = first[:HEADER_SIZE], first[HEADER_SIZE:]
        body = data[0] if len(data) == 1 and not meta else b"".join([meta, *data])
        into[:HEADER_SIZE] = header
        nonce = self._next(len(body))  # before the key is looked at: it may be the next one
        self._aead.encrypt_into(nonce, body, header, into[HEADER_SIZE:])


class Opener(_Records):
    """Opens the records that arrive; after the first that does not open every later one is refused too."""

    __slots__ = ("_broken",)

    def __init__(self, cipher: str, key: bytes, first: int = 0) -> None:
        super().__init__(cipher, key, first)
        self._broken = False

    def open(self, record: memoryview, into: memoryview) -> None:
        """Write meta and data of the next record to `into`.

        Raises: ProtocolError unless it is the next record of this session; what is in `into` means nothing then.
        """
        try:
            if not self._broken:
                nonce = self._next(len(into))
                self._aead.decrypt_into(nonce, record[HEADER_SIZE:], record[:HEADER_SIZE], into)
                return
        except exceptions.InvalidTag:
            self._broken = True
        raise ProtocolError("A record does not open: it was altered, replayed, reordered or comes from another session.")
