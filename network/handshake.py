"""Handshake of both ends as machines without I/O: bytes in, bytes out, and two session keys at the end.

    client  HELLO  versions, role, key id, nonce, caps, job, share, ciphers
    server  REPLY  version, role, nonce, caps, share, cipher  ||  HMAC(k_auth_s, T)
    client  PROOF  HMAC(k_auth_c, T)
    server  READY  the session's first frame, sealed with k_s2c; confirms the keys to the client, and describes the server

On a private link there are neither shares nor ciphers, and READY has a MAC by k_s2c: no later frame is sealed, so there is
nothing to keep secret, and a process that talks over such links alone never loads a cipher. Each end knows the kind of its link
from its own socket, never from the other end's words; a message of the other kind ends the handshake, and the name of the link
(`binding`) is in every key, so that two ends of links of different kinds never agree.

T is the hash of HELLO and REPLY; every key follows from T, the shared key and the secret of both X25519 shares (see
`keys.derive`), as in Noise's NNpsk0. The server proves itself first, so a client never sends code or data to an impostor. Both
nonces are in T, so a recording is worthless; versions, roles, caps and ciphers are in T, so no party on the path can change
them; each end proves with a key of its own, so nothing can be reflected. The shares are forgotten with the handshake: an
attacker that learns the key later, and has recorded everything, can read nothing of it.
"""

from __future__ import annotations

import hmac
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from typing import TypeAlias

from .errors import NetworkError, ProtocolError, Rejected
from .hello import (
    HEAD,
    LENGTH,
    NONCE_SIZE,
    VERSIONS,
    Caps,
    Hello,
    Hint,
    Refused,
    Reply,
    choose_version,
    hello_length,
    parse_hello,
    parse_reply,
    reply_length,
)
from .keys import PROOF_SIZE, SHARE_SIZE, Key, Keyring, NoShare, SessionKeys, Share, derive
from .records import choose_cipher, ciphers

Steps: TypeAlias = Generator[tuple[int, bytes], bytes, bytes]
"""Yields (bytes to read next, bytes to send before that), is sent what was read, returns the bytes to send last."""


class _Handshake(ABC):
    """Side of a handshake, a generator of its steps in a subclass; it ends with session keys or with the first fault.

    Attributes: `need`, bytes still missing from the message that is being read, 0 at the end: a caller that reads no more than
    that leaves later bytes where they are; `leftover`, bytes fed beyond the end, which belong to the session.
    """

    def __init__(self) -> None:
        self.need = 0
        self.leftover = b""
        self._keys: SessionKeys | None = None
        self._buffer = bytearray()
        self._running: Steps | None = None
        self._end = ""

    @property
    def done(self) -> bool:
        return self._keys is not None

    @property
    def keys(self) -> SessionKeys:
        """Keys of the session; ProtocolError before the end."""
        if self._keys is None:
            raise ProtocolError("The handshake is not finished, so there are no session keys.")
        return self._keys

    @abstractmethod
    def _steps(self) -> Steps:
        """Read and answer the messages of this end, from the first byte to the last."""

    def _begin(self) -> bytes:
        """Start the handshake and return the bytes to send first."""
        if self._running is not None:
            raise ProtocolError("This handshake has been started before; make a new one for each connection.")
        self._running = self._steps()
        self.need, first = next(self._running)
        return first

    def feed(self, data: bytes | bytearray | memoryview) -> bytes:
        """Take bytes that arrived and return those to send.

        Raises: ProtocolError or Rejected (Refused, where a hint says why). After that, and after the end, every further call
        raises ProtocolError.
        """
        if self._running is None:
            raise ProtocolError("The handshake has not been started, so nothing can have arrived.")
        if self._end:
            raise ProtocolError(f"The handshake is over: {self._end}")
        answer = b""
        rest = memoryview(data)
        while rest and self.need:  # bytes behind the last message are no part of the handshake
            taken = rest[: self.need]
            rest = rest[len(taken) :]
            self._buffer += taken
            self.need -= len(taken)
            if not self.need:
                answer += self._advance(self._running)
        self.leftover = bytes(rest)
        return answer

    def _advance(self, steps: Steps) -> bytes:
        # cleared before the step, so that an error leaves no half of a message behind
        message = bytes(self._buffer)
        self._buffer.clear()
        try:
            self.need, answer = steps.send(message)
        except StopIteration as end:
            self._end = "it has succeeded, what follows belongs to the session."
            answer = end.value
        except NetworkError as error:
            self._end = str(error)
            raise
        return answer


HANDSHAKE_SECONDS = 5.0
"""Limit for a whole handshake, from the connection to READY, hand-over to a job process included."""


class ClientHandshake(_Handshake):
    """Client's side of a handshake: it has called, and speaks first.

    Args:
        key: the key that both sides must hold.
        role: role of this side; the server decides whether the key admits it.
        expect_role: role that the server must have.
        job: "" for an agent, else the job process to which the agent shall hand the connection.
        caps: description of this side for the server, at most 16 plain values.
        nonce_source: gives n fresh random bytes, for the nonce and the share.
        binding: names the private link to which the keys are tied, the same on both sides; b"" where the link is not private.
        versions: lowest and highest protocol version to offer.

    Send the bytes that `start()` returns, then `feed` those that arrive until `done`. The server has proven itself by then, and
    `peer_caps` is its description; that it accepted us is known when its first frame (READY, made with `keys.server_key`)
    verifies. ValueError when an argument cannot be sent.
    """

    def __init__(
        self,
        key: Key,
        role: str,
        expect_role: str,
        job: str = "",
        caps: Caps | None = None,
        nonce_source: Callable[[int], bytes] = secrets.token_bytes,
        binding: bytes = b"",
        versions: tuple[int, int] = VERSIONS,
    ) -> None:
        super().__init__()
        self.peer_caps: Caps = {}
        self._key = key
        self._expect_role = expect_role
        self._binding = binding
        # nothing is encrypted on a private link, so there is no secret to be agreed
        self._share = NoShare() if binding else Share(nonce_source(SHARE_SIZE))
        nonce = nonce_source(NONCE_SIZE)
        offered = () if binding else ciphers()
        self._hello = Hello(versions, role, key.id, nonce, caps or {}, job, self._share.public, offered)
        self._hello_bytes = self._hello.to_bytes()

    def start(self) -> bytes:
        """Return the HELLO to send first. A handshake serves one connection: ProtocolError when called again."""
        return self._begin()

    def _steps(self) -> Steps:
        # one byte first: a refusal has no more, and says why without a proof
        status = (yield 1, self._hello_bytes)[0]
        if status:
            raise self._refusal(status)
        length = reply_length((yield LENGTH.size, b""))
        message = yield length, b""
        core, mac = message[:-PROOF_SIZE], message[-PROOF_SIZE:]
        try:
            reply = parse_reply(core, bool(self._binding))
            shared = self._share.secret(reply.share)
        except ProtocolError:  # no peer that holds the key says such things
            raise self._impostor() from None
        schedule = derive(self._key, shared, self._binding, self._hello_bytes, core)
        if not hmac.compare_digest(schedule.server_proof, mac):
            raise self._impostor()
        # the server's choices are read after its proof only: before that, anyone on the path may have written them
        low, high = self._hello.versions
        if not low <= reply.version <= high:
            raise ProtocolError(f"The server chose protocol version {reply.version}, offered were {low} to {high}.")
        if reply.role != self._expect_role:
            raise Rejected(f"The server must have the role '{self._expect_role}', got '{reply.role}'.")
        if not self._binding and reply.cipher not in self._hello.ciphers:
            raise ProtocolError(f"The server chose the cipher {reply.cipher}, offered were {', '.join(self._hello.ciphers)}.")
        self.peer_caps = reply.caps
        self._keys = SessionKeys(schedule.server_key, schedule.client_key, reply.cipher)
        del self._share  # so that these keys cannot be made again
        return schedule.client_proof

    def _impostor(self) -> Rejected:
        return Rejected(
            f"The server did not prove that it holds key {self._key.id.hex()}: it is an impostor, "
            "or someone on the path altered the handshake."
        )

    def _refusal(self, status: int) -> NetworkError:
        if status not in Hint.__members__.values():
            return ProtocolError("The answer does not come from a Parallel-SGD program; check host and port.")
        hint = Hint(status)
        spoken = " to ".join(map(str, sorted(set(self._hello.versions))))
        sentence = {
            Hint.BAD_KEY: f"wrong key; compare key files: it does not accept key {self._key.id.hex()}",
            Hint.VERSION: f"it does not speak protocol version {spoken}; install the same release on both sides",
            Hint.NO_SUCH_JOB: f"it runs no job '{self._hello.job}'; the job has ended there or never started",
            Hint.BUSY: "it is busy with another job; try again later",
            Hint.ROLE: f"it does not admit the role '{self._hello.role}'",
            Hint.FULL: "it has too many connections; try again later",
        }[hint]
        return Refused(hint, f"The peer says, unauthenticated: {sentence}.")


class ServerHandshake(_Handshake):
    """Server's side of a handshake, fed with the client's HELLO (read by itself or handed over whole) and the bytes behind it.

    Args:
        admits: for every role that may connect, the keys that open it, and nothing else: at an agent {'submitter': cluster}, at
            a job process {'peer': job_ring, 'code': control_ring}.
        role: role of this side.
        job: the name that a HELLO must ask for; "" at an agent.
        caps, nonce_source, binding, versions: as for `ClientHandshake`.

    When `done`, the client has proven its key and its `hello` is authentic. A `Refused` error carries the hint to send before
    closing; after any other error close without a word. ValueError when an argument cannot be sent.
    """

    def __init__(
        self,
        admits: Mapping[str, Keyring],
        role: str,
        job: str = "",
        caps: Caps | None = None,
        nonce_source: Callable[[int], bytes] = secrets.token_bytes,
        binding: bytes = b"",
        versions: tuple[int, int] = VERSIONS,
    ) -> None:
        super().__init__()
        self.hello: Hello | None = None
        # a copy: the keys that admit this client are those of the time of its call
        self._admits = dict(admits)
        self._role = role
        self._job = job
        self._caps = caps or {}
        self._nonce_source = nonce_source
        self._binding = binding
        self._versions = versions
        # so that caps that cannot be sent show here, not when a client calls
        share, cipher = (b"", "") if binding else (bytes(SHARE_SIZE), ciphers()[0])
        Reply(versions[1], role, bytes(NONCE_SIZE), self._caps, share, cipher).to_bytes()
        # up to the first read: a server sends nothing before it has heard a HELLO
        self._begin()

    @property
    def peer_caps(self) -> Caps:
        """Description of the client by itself; to be believed when `done`."""
        return self.hello.caps if self.hello is not None else {}

    def _steps(self) -> Steps:
        head = yield HEAD.size, b""
        hello_bytes = head + (yield hello_length(head), b"")
        hello = self.hello = parse_hello(hello_bytes, self._versions, bool(self._binding))
        # before anything costly is computed for a stranger
        key = self._admit(hello)
        cipher = "" if self._binding else choose_cipher(hello.ciphers, ciphers())
        # not before: it takes longer than all of a refusal
        share = NoShare() if self._binding else Share(self._nonce_source(SHARE_SIZE))
        nonce = self._nonce_source(NONCE_SIZE)
        version = choose_version(hello.versions, self._versions)
        core = Reply(version, self._role, nonce, self._caps, share.public, cipher).to_bytes()
        schedule = derive(key, share.secret(hello.share), self._binding, hello_bytes, core)
        # the byte 0 stands where a refusal has its hint
        proof = yield PROOF_SIZE, b"\0" + LENGTH.pack(len(core)) + core + schedule.server_proof
        # without a hint: one that lacks the key learns nothing more
        if not hmac.compare_digest(schedule.client_proof, proof):
            raise Rejected(f"The client did not prove that it holds key {key.id.hex()}.")
        self._keys = SessionKeys(schedule.server_key, schedule.client_key, cipher)
        return b""

    def _admit(self, hello: Hello) -> Key:
        """Find the key that this client has to prove."""
        # job, role, key: the first that does not fit is the most telling hint
        if hello.job != self._job:
            raise Refused(Hint.NO_SUCH_JOB, f"The client asks for job '{hello.job}', this is '{self._job}'.")
        ring = self._admits.get(hello.role)
        if ring is None:
            raise Refused(Hint.ROLE, f"The role '{hello.role}' is not admitted here.")
        key = ring.find(hello.key_id)
        if key is None:
            raise Refused(Hint.BAD_KEY, f"Key {hello.key_id.hex()} does not open the role '{hello.role}' here.")
        return key
