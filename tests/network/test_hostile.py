"""Thousands of hostile inputs to everything that reads from the network: none accepted, none crashes, hangs or takes memory."""

from __future__ import annotations

import pickle
import random
import struct
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgpack
import numpy as np
import pytest

from network.budget import LARGEST_GROWTH
from network.errors import NetworkError
from network.frames import FrameReader
from network.hello import parse_reply
from network.records import AES, Opener, Sealer
from network.wire import Kind, Limits, pack

from ..statements import covers
from .handshakes import hello_of, honest, reply_of, same_nonce, server, started
from .wires import travelling

LIMITS = Limits(meta=1 << 16, data=1 << 16, message=1 << 20)
SLOWEST = 1.0  # seconds that one input may take
MIB = 1 << 20
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


class Bomb:
    """Runs when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("a stranger's pickle was loaded",)


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


def mutants(rng: random.Random, original: bytes, count: int) -> Iterator[bytes]:
    """Altered copies, never the original itself."""
    while count:
        mutant = bytearray(original)
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(mutant) + 1)
            kind = rng.randrange(6)
            if kind == 0 and place < len(mutant):
                mutant[place] ^= 1 << rng.randrange(8)
            elif kind == 1:
                del mutant[place : place + rng.randint(1, 8)]
            elif kind == 2:
                mutant[place:place] = rng.randbytes(rng.randint(1, 8))
            elif kind == 3:
                mutant[place : place + 8] = struct.pack("!Q", rng.choice([0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1]))
            elif kind == 4:
                mutant[place:place] = mutant[place : place + rng.randint(1, 8)]
            else:
                mutant[place : place + 4] = rng.choice([b"\xdd\xff\xff\xff", b"\xdf\xff\xff\xff", b"\x91" * 4, b"\xc1" * 4])
        if bytes(mutant[: len(original)]) != original:  # else an honest message and something behind it
            count -= 1
            yield bytes(mutant)


def bodies(rng: random.Random) -> Iterator[bytes]:
    """What may stand where a message of the handshake belongs."""
    yield from (*STRANGERS, *bombs(), *(pickle.dumps(Bomb(), n) for n in range(pickle.HIGHEST_PROTOCOL + 1)))
    yield from (rng.randbytes(rng.randint(1, 1100)) for _ in range(500))
    for number in range(800):
        yield STRANGERS[number % len(STRANGERS)] * (number % 3 > 0) + rng.randbytes(rng.randint(0, 300))
    yield from (msgpack.packb({"caps": bytes(rng.randint(0, 900))}) for _ in range(20))


HELLO, REPLY, PROOF = honest(nonce_source=same_nonce)


def recorded(sealed: bool) -> list[bytes]:
    """The messages of a session."""
    sealer = Sealer(AES, b"s" * 32) if sealed else None
    values = [{"op": "submit", "code": b"x" * 40}, [np.arange(9), (1, None)], 3.5]
    return [travelling(pack(Kind.MESSAGE, (1, n), v, sealed), sealer) for n, v in enumerate(values)]


SEALED, OPEN = recorded(True), recorded(False)


def read(data: bytes, sealed: bool) -> int:
    """How many messages a reader makes of it; of a sealed stream none from the first altered byte on."""
    reader, rest = FrameReader(Opener(AES, b"s" * 32) if sealed else None, sealed, LIMITS), memoryview(data)
    honest = sum(data.startswith(b"".join(SEALED[:count])) for count in range(1, 4))
    while rest:
        buffer = reader.buffer()
        size = min(len(buffer), len(rest))
        buffer[:size] = rest[:size]
        try:
            reader.advance(size)
        finally:
            assert not sealed or len(reader.messages) <= honest
        rest = rest[size:]
    return len([message.value for message in reader.messages])


def at_server(rng: random.Random) -> Iterator[bytes]:
    for body in bodies(rng):
        yield from (body, b"PSGD" + body, hello_of(body[:1018]))
    yield from (data + PROOF for data in mutants(rng, HELLO, 1500))
    yield from mutants(rng, HELLO + PROOF, 500)
    yield from (hello_of(data[6:1024]) for data in mutants(rng, HELLO, 1500))
    yield HELLO + PROOF  # a replay: the server's nonce is another one


def at_client(rng: random.Random) -> Iterator[bytes]:
    for body in bodies(rng):
        yield from (body, reply_of(body[:989] or b"\0"))
    yield from mutants(rng, REPLY, 1500)


def among_frames(rng: random.Random, messages: list[bytes]) -> Iterator[bytes]:
    yield from bodies(rng)
    yield from mutants(rng, b"".join(messages), 1500)


def server_takes(data: bytes) -> bool:
    other = server()
    if other.feed(data):  # still a hello, with another nonce say: the proof that is missing stops it
        other.feed(bytes(other.need))
    return other.done


def client_takes(data: bytes) -> bool:
    one = started()
    one.feed(data)
    return one.done


def sealed_reader_takes(data: bytes) -> bool:
    read(data, True)
    return False


def plain_reader_takes(data: bytes) -> bool:
    """Whoever writes without seals has proven the key; what he writes must still only be read or refused."""
    read(data, False)
    return False


# who reads, what comes, the part of it that is refused at least, and the memory that one input may take
ENDS: dict[str, tuple[Callable[[bytes], bool], Callable[[random.Random], Iterator[bytes]], float, int]] = {
    "server": (server_takes, at_server, 0.75, MIB),
    "client": (client_takes, at_client, 0.75, MIB),
    "sealed frames": (sealed_reader_takes, lambda rng: among_frames(rng, SEALED), 0.5, LARGEST_GROWTH * LIMITS.meta + MIB),
    "plain frames": (plain_reader_takes, lambda rng: among_frames(rng, OPEN), 0.4, LARGEST_GROWTH * LIMITS.meta + MIB),
}


@covers("SEC-1", "SEC-2", "SEC-4", "SEC-8", "SUB-36")
@pytest.mark.parametrize("end", ENDS)
def test_no_hostile_input_is_accepted_crashes_hangs_or_takes_memory(end: str) -> None:
    """Any error but the network's fails the test; what is neither accepted nor refused waits for bytes that do not come."""
    take, inputs, refused, memory = ENDS[end]
    outcome: Counter[str] = Counter()
    slowest, peak = 0.0, 0
    hostile = list(inputs(random.Random(1)))
    tracemalloc.start()
    try:
        for data in hostile:
            start, held = time.perf_counter(), tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            try:
                outcome["accepted" if take(data) else "waiting"] += 1
            except NetworkError:
                outcome["refused"] += 1
            slowest = max(slowest, time.perf_counter() - start)
            peak = max(peak, tracemalloc.get_traced_memory()[1] - held)
    finally:
        tracemalloc.stop()
    assert outcome["accepted"] == 0
    assert outcome["refused"] > refused * outcome.total() and outcome.total() > 2000
    assert slowest < SLOWEST and peak < memory


@covers("SEC-1")
def test_the_reply_s_parser_is_as_strict_behind_the_mac() -> None:
    """It never sees what a stranger wrote, and yet stands the same inputs."""
    for data in bodies(random.Random(2)):
        with pytest.raises(NetworkError):
            parse_reply(data)


def test_the_recordings_that_were_altered_are_honest() -> None:
    """The counterpart: unaltered, the same bytes are accepted."""
    assert read(b"".join(SEALED), True) == read(b"".join(OPEN), False) == 3
