"""Records: the frames of a connection that strangers may read or alter, encrypted and numbered.

    record i = header (16 bytes, in the clear) || AEAD(key, nonce_i, meta || data, header)      nonce_i = u32(0) || u64(i)

The header is authenticated with the bytes it describes, the number is counted on both sides and never sent: a record that is
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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from .errors import NetworkError, ProtocolError
from .memory import SpareBuffers
from .names import aead, exceptions
from .wire import CONTINUES, HEADER, KINDS, RECORD_BYTES, TAG_SIZE, Kind, Limits

AES = "aes-256-gcm"
CHACHA = "chacha20-poly1305"
REKEY_BYTES = 1 << 40  # of plaintext under one key; GCM with numbered nonces stays far below its bounds there

OLDEST = 47  # of cryptography: older ones write into no buffer of ours
DIRECT_BYTES = 1 << 13  # a gap of at least this size is read straight into its destination
_FRAMES_BYTES = 1 << 14  # for small frames that are read together
LARGE_BUFFERS = SpareBuffers(RECORD_BYTES + (1 << 16), most=4)  # each for a large record and the small one before it
_MORE = int(Kind.MORE)
_NONCE = struct.Struct("!4xQ")
_forks = itertools.count()
_process = [next(_forks)]  # another number in each process that was forked, which must not seal with the numbers of its parent
os.register_at_fork(after_in_child=lambda: _process.__setitem__(0, next(_forks)))
_END = 1 << 64


@functools.cache
def ciphers() -> tuple[str, str]:
    """List the ciphers of this processor, the faster one first."""
    return (AES, CHACHA) if _has_aes() else (CHACHA, AES)


def choose_cipher(offered: Sequence[str], own: Sequence[str]) -> str:
    """Choose a cipher that both ends have, where each lists its faster ones first: ChaCha20 where an end prefers it, as it
    loses least by it. A cipher that only one end has counts for nothing.

    Args:
        offered: ciphers of the client.
        own: ciphers of this side.

    Raises: ProtocolError when there is none.
    """
    theirs, ours = [name for name in offered if name in own], [name for name in own if name in offered]
    # no fallback to plain text: two ends without a common cipher get no session
    if not ours:
        raise ProtocolError("The other side has no cipher that this side has.")
    return min(ours, key=lambda name: (max(theirs.index(name), ours.index(name)), name == AES))


def _has_aes() -> bool:
    """Tell if the processor has instructions for AES; all that run macOS have."""
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
    """Series of nonces and keys that both ends count alike.

    Args:
        cipher: `AES` or `CHACHA`.
        key: 32 bytes, for the first 2^40 bytes.
        first: number of the first record.
    """

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
        """Make the nonce of the next record, of `size` bytes."""
        if self._process != _process[0]:
            raise ProtocolError("This session belongs to the process from which this one was forked.")
        if self._number >= _END:
            raise ProtocolError("This session has used up its 2**64 record numbers; open a new one.")
        # both ends count the same bytes, so no message has to announce the new key, and none can be held back
        if size > self._room:
            self._use(hmac.digest(self._key, b"psgd/2 rekey\1", "sha256"))
        self._room -= size
        nonce = _NONCE.pack(self._number)
        self._number += 1
        return nonce


class Sealer(_Records):
    """Sealer of the frames that this side sends."""

    __slots__ = ()

    def seal(self, frame: Sequence[bytes | memoryview], into: memoryview) -> None:
        """Write the record of a frame.

        Args:
            frame: header and meta in one part, then data.
            into: memory for the record, TAG_SIZE bytes longer than the parts of the frame.

        Raises: ProtocolError when all record numbers are used.
        """
        first, *data = frame
        header, meta = first[: HEADER.size], first[HEADER.size :]
        body = data[0] if len(data) == 1 and not meta else b"".join([meta, *data])
        into[: HEADER.size] = header
        nonce = self._next(len(body))  # before the key is looked at: it may be the next one
        self._aead.encrypt_into(nonce, body, header, into[HEADER.size :])


class TagSpace:
    """Placeholder of a sealer where frames are sealed after they have left the session: they have room for the tag."""

    def seal(self, frame: Sequence[bytes | memoryview], into: memoryview) -> None:
        """Write `frame` to `into`, which is TAG_SIZE bytes longer."""
        into[:] = b"".join([*frame, bytes(TAG_SIZE)])


class Opener(_Records):
    """Opener of the records that arrive; after the first that does not open every later one is refused too.

    Args:
        cipher: `AES` or `CHACHA`.
        key: key of this direction, 32 bytes, for its first 2^40 bytes.
        first: number of the next record.
    """

    __slots__ = ("_broken",)

    def __init__(self, cipher: str, key: bytes, first: int = 0) -> None:
        super().__init__(cipher, key, first)
        self._broken = False

    def open(self, record: memoryview, into: memoryview) -> None:
        """Write meta and data of the next `record` to `into`.

        Raises: ProtocolError unless it is the next record of this session; the content of `into` means nothing then.
        """
        try:
            if not self._broken:
                nonce = self._next(len(into))
                self._aead.decrypt_into(nonce, record[HEADER.size :], record[: HEADER.size], into)
                return
        except exceptions.InvalidTag:
            # the numbers of the two ends may differ from here on; above all an attacker gets one try, not many
            self._broken = True
        raise ProtocolError("A record does not open: it was altered, replayed, reordered or comes from another session.")


class Confirmation:
    """Maker and checker of READY on a private link, where no other frame is sealed: the first half of HMAC-SHA256(k_s2c,
    frame).
    """

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, frame: Sequence[bytes | memoryview], into: memoryview) -> None:
        """Write `frame` and its MAC to `into`, which is TAG_SIZE bytes longer."""
        data = b"".join(frame)
        into[:] = data + self._mac(data)

    def open(self, record: memoryview, into: memoryview) -> None:
        """Write meta and data of `record` to `into`.

        Raises: ProtocolError unless the server of this session has made it.
        """
        frame = record[:-TAG_SIZE]
        # in constant time: how long a comparison takes must not tell how much of a MAC was right
        if not hmac.compare_digest(self._mac(frame), record[-TAG_SIZE:]):
            raise ProtocolError("A record does not open: it was altered, or comes from another session.")
        into[:] = frame[HEADER.size :]

    def _mac(self, frame: bytes | memoryview) -> bytes:
        return hmac.digest(self._key, frame, "sha256")[:TAG_SIZE]


class RecordReader:
    """Reader of records. Ask `buffer()` where to read to, read there, then take the `frames` that have come.

    `direct` says whether the last buffer ends with a large record, of which more is on its way.

    Args:
        opener: opens each record.
        limits: bytes that are accepted.
        scratch: memory for many small records, for as long as none is larger.
        first_only: whether to open one record only.
    """

    __slots__ = ("_filled", "_first_only", "_frames", "_lacking", "_limits", "_opener", "_records", "_scratch", "direct")

    def __init__(self, opener: Opener | Confirmation, limits: Limits, scratch: memoryview, first_only: bool) -> None:
        self._opener = opener
        self._limits = limits
        self._scratch = self._records = scratch  # bytes that have come
        self._filled = 0  # bytes of it
        self._lacking = 0  # bytes of the first record that have not come, as soon as its header is there
        self._frames = memoryview(b"")  # content of the records, but for arrays that have records of their own
        self._first_only = first_only
        self.direct = False

    @property
    def begun(self) -> bool:
        """Whether a part of a record is there."""
        return self._filled > 0

    def buffer(self) -> memoryview:
        """Return room for the rest of the first record and the header of the next one, or for many small ones."""
        # into its own buffer a large record comes without a byte more than the next header, so it is moved only once
        self.direct = self._lacking >= DIRECT_BYTES
        room = self._lacking + HEADER.size
        if not self.direct:
            room = max(room, len(self._scratch) - self._filled)
        if len(self._records) < self._filled + room:
            larger = LARGE_BUFFERS.take(self._filled + room)
            larger[: self._filled] = self._records[: self._filled]
            self._let_go()
            self._records = larger
        return self._records[self._filled : self._filled + room]

    def frames(
        self, count: int, more: Callable[[tuple[int, ...]], list[memoryview]], done: Callable[[], None]
    ) -> Iterator[memoryview]:
        """Yield whole frames, one after the other, of the records that the new bytes complete.

        A frame of kind MORE goes to its destination at once.

        Args:
            count: bytes that came in the last buffer.
            more: returns the destinations for the header of such a frame.
            done: called after each such frame.

        Raises: ProtocolError for a record that does not open, or is too large.
        """
        records, filled, at, end = self._records, self._filled + count, 0, 0
        self._filled = self._lacking = 0
        try:
            while filled - at >= HEADER.size:
                kind, _, _, meta_bytes, data_bytes = fields = HEADER.unpack_from(records, at)
                # before the lengths size a buffer: they are the word of a peer, and no tag has been checked
                check_header(fields, self._limits.meta, min(self._limits.data, RECORD_BYTES))
                size = HEADER.size + meta_bytes + data_bytes
                stop = at + size + TAG_SIZE
                if stop > filled:
                    self._lacking = stop - filled
                    break
                record, at = records[at:stop], stop
                if kind == _MORE:
                    # the destinations of MORE are those of the message before, which its reader must have taken first
                    yield self._frames[:end]
                    end = 0
                    self._open_into(more(fields), record)
                    done()
                    continue
                if len(self._frames) < end + size:
                    yield self._frames[:end]
                    end = 0
                    if len(self._frames) < size:
                        self._frames = memoryview(bytearray(max(_FRAMES_BYTES, size)))
                frame = self._frames[end : end + size]
                frame[: HEADER.size] = record[: HEADER.size]
                self._opener.open(record, frame[HEADER.size :])
                end += size
                if self._first_only:
                    break
        except ProtocolError:
            yield self._frames[:end]  # the frames before the fault are right
            raise
        yield self._frames[:end]
        # one large frame must not cost each of hundreds of connections its memory for good
        if len(self._frames) > _FRAMES_BYTES:
            self._frames = memoryview(b"")
        self._filled = filled - at
        if self._records is not self._scratch and self._filled <= len(self._scratch) and not self._lacking:
            self._scratch[: self._filled] = records[at:filled]
            self._let_go()
        elif at:
            records[: self._filled] = records[at:filled]

    def _let_go(self) -> None:
        """Give memory for a large record back, for the connections on which one comes now."""
        if self._records is not self._scratch:
            LARGE_BUFFERS.give(self._records)
            self._records = self._scratch

    def _open_into(self, targets: list[memoryview], record: memoryview) -> None:
        if len(targets) == 1:
            self._opener.open(record, targets[0])
            return
        # the cipher writes one piece only, and the record crosses from one array into the next
        held = memoryview(bytearray(sum(map(len, targets))))
        self._opener.open(record, held)
        for target in targets:
            target[:] = held[: len(target)]
            held = held[len(target) :]

    def rest(self) -> bytes:
        """Return the bytes behind the last record that was opened."""
        return bytes(self._records[: self._filled])


def check_header(header: tuple[int, ...], meta: int, data: int) -> None:
    """Raise ProtocolError for the header of a frame that does not exist, or announces more than `meta` and `data` bytes."""
    kind, flags, reserved, meta_bytes, data_bytes = header
    if kind not in KINDS or flags & ~CONTINUES or reserved:
        raise ProtocolError(f"A frame of unknown kind {kind} (flags {flags}, reserved {reserved}) came in.")
    if meta_bytes > meta or data_bytes > data:
        raise ProtocolError(f"A frame announces {meta_bytes} + {data_bytes} bytes; allowed are {meta} + {data}.")
