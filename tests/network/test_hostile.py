"""Thousands of hostile inputs to everything that reads from the network: none accepted, none crashes, none hangs."""

from __future__ import annotations

import random
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from network.errors import NetworkError
from network.frames import FrameReader
from network.handshake import ClientHandshake, ServerHandshake
from network.keys import Key, Keyring, Opener, Sealer
from network.wire import Kind, Limits, pack

from ..statements import covers

KEY = Key(b"k" * 32)
LIMITS = Limits(meta=1 << 16, data=1 << 16, message=1 << 20)
SLOWEST = 1.0  # seconds that one input may take
STRANGERS = (
    b"GET / HTTP/1.1\r\nHost: worker\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(64)),  # TLS ClientHello
    b"\x80\x04\x95\x1f\0\0\0\0\0\0\0\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.",  # a pickle that runs a command
    b"\x82\xa2op\xa6submit\xa4code\xc4\x02hi",  # msgpack
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"PSGD",
    b"PSGD\xff\xff",
    b"",
)


def hello() -> bytes:
    return ClientHandshake(KEY, "submitter", "agent", caps={"node": 0}).start()


def recorded() -> tuple[list[bytes], list[bytes]]:
    """What an honest client and server say to each other."""
    client, server = ClientHandshake(KEY, "submitter", "agent"), ServerHandshake({"submitter": Keyring((KEY,))}, "agent")
    first = client.start()
    reply = server.feed(first)
    return [first, client.feed(reply)], [reply]


def session(sealed: bool) -> bytes:
    sealer = Sealer(b"s" * 32) if sealed else None
    values = [{"op": "submit", "code": b"x" * 40}, [np.arange(9), (1, None)], 3.5]
    return b"".join(b"".join(pack(Kind.MESSAGE, (1, n), v, sealed).buffers(sealer)) for n, v in enumerate(values))


def mutants(rng: random.Random, original: bytes, count: int) -> Iterator[bytes]:
    """Altered copies, never the original itself."""
    while count:
        mutant = bytearray(original)
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(mutant) + 1)
            kind = rng.randrange(5)
            if kind == 0 and place < len(mutant):
                mutant[place] ^= 1 << rng.randrange(8)
            elif kind == 1:
                del mutant[place : place + rng.randint(1, 8)]
            elif kind == 2:
                mutant[place:place] = rng.randbytes(rng.randint(1, 8))
            elif kind == 3:
                mutant[place : place + 8] = struct.pack("!Q", rng.choice([0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1]))
            else:
                mutant[place : place + 4] = rng.choice([b"\xdd\xff\xff\xff", b"\xdf\xff\xff\xff", b"\x91" * 4, b"\xc1" * 4])
        if bytes(mutant[: len(original)]) != original:  # else an honest message and something behind it
            count -= 1
            yield bytes(mutant)


def noise(rng: random.Random, count: int) -> Iterator[bytes]:
    for number in range(count):
        stranger = STRANGERS[number % len(STRANGERS)] if number % 3 else b""
        yield stranger + rng.randbytes(rng.randint(0, 300))


def server_takes(data: bytes) -> bool:
    server = ServerHandshake({"submitter": Keyring((KEY,)), "agent": Keyring((KEY,))}, "agent")
    server.feed(data)
    return server.done


def client_takes(data: bytes) -> bool:
    client = ClientHandshake(KEY, "submitter", "agent", nonce_source=lambda size: b"n" * size)
    client.start()
    client.feed(data)
    return client.done


def read(reader: FrameReader, data: bytes) -> int:
    rest = memoryview(data)
    while rest:
        buffer = reader.buffer()
        size = min(len(buffer), len(rest))
        buffer[:size] = rest[:size]
        reader.advance(size)
        rest = rest[size:]
    for message in reader.messages:
        _ = message.value
    return len(reader.messages)


def sealed_reader_takes(data: bytes) -> bool:
    """Whether more messages are delivered than precede the first altered byte."""
    original = session(sealed=True)
    same = next((i for i, (a, b) in enumerate(zip(data, original, strict=False)) if a != b), min(len(data), len(original)))
    genuine = FrameReader(Opener(b"s" * 32), True, LIMITS)
    honest = read(genuine, original[:same])
    reader = FrameReader(Opener(b"s" * 32), True, LIMITS)
    try:
        read(reader, data)
    finally:
        assert len(reader.messages) <= honest
    return False


def plain_reader_survives(data: bytes) -> bool:
    """On an unsealed connection whoever writes has proven the key; what he writes must still only be read or refused."""
    read(FrameReader(None, False, LIMITS), data)
    return False


def inputs(rng: random.Random) -> Iterator[tuple[Callable[[bytes], bool], bytes]]:
    (first, proof), (reply,) = recorded()
    for data in noise(rng, 800):
        yield from ((take, data) for take in (server_takes, client_takes, sealed_reader_takes, plain_reader_survives))
    for data in mutants(rng, hello(), 1500):
        yield server_takes, data + proof
    for data in mutants(rng, first + proof, 500):
        yield server_takes, data
    for data in mutants(rng, reply, 1500):
        yield client_takes, data
    for data in mutants(rng, session(sealed=True), 1500):
        yield sealed_reader_takes, data
    for data in mutants(rng, session(sealed=False), 1500):
        yield plain_reader_survives, data
    yield server_takes, first + proof  # a replay: the server's nonce is another one
    yield client_takes, reply


@covers("SEC-1", "SEC-2", "SEC-4", "SUB-36")
@pytest.mark.parametrize("seed", [1])
def test_no_hostile_input_is_accepted_crashes_or_hangs(seed: int) -> None:
    """At least 5,000 inputs to handshakes and frame readers in every run."""
    outcome: Counter[str] = Counter()
    slowest = 0.0
    for take, data in inputs(random.Random(seed)):
        start = time.perf_counter()
        try:
            outcome["accepted" if take(data) else "waiting"] += 1
        except NetworkError:
            outcome["refused"] += 1
        slowest = max(slowest, time.perf_counter() - start)
    assert outcome["accepted"] == 0
    assert outcome["refused"] + outcome["waiting"] == outcome.total() == 9702
    assert outcome["refused"] > 5000
    assert slowest < SLOWEST


def test_the_recordings_that_were_altered_are_honest() -> None:
    """The counterpart: unaltered, the same bytes are accepted."""
    client, server = ClientHandshake(KEY, "submitter", "agent"), ServerHandshake({"submitter": Keyring((KEY,))}, "agent")
    server.feed(client.feed(server.feed(client.start())))
    assert client.done
    assert server.done
    assert read(FrameReader(Opener(b"s" * 32), True, LIMITS), session(sealed=True)) == 3
    assert read(FrameReader(None, False, LIMITS), session(sealed=False)) == 3
