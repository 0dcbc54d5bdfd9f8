"""The parsers of the first messages: what strangers send is refused, in bounded memory, with one of two errors."""

import pickle
import random
import struct
import tracemalloc
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.errors import ProtocolError, Rejected
from network.handshake import ClientHandshake, ServerHandshake
from network.hello import ROLES, Caps, Hello, HelloReader, parse_hello, parse_reply
from network.keys import Key, Keyring

from ..statements import covers

CLUSTER = Key(b"c" * 32)
ADMITS = {"submitter": Keyring((CLUSTER,))}
CLIENT_CAPS: Caps = {"seal": True, "node": 3, "version": "1.0.0"}


def hello_of(body: dict[str, Any] | bytes) -> bytes:
    packed = body if isinstance(body, bytes) else msgpack.packb(body)
    return b"PSGD" + struct.pack("!H", len(packed)) + packed


def client() -> ClientHandshake:
    return ClientHandshake(CLUSTER, "submitter", "agent", caps=CLIENT_CAPS)


PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8"), max_size=8), st.binary(max_size=8),
)  # fmt: skip


@given(
    versions=st.lists(st.integers(1, 65535), min_size=2, max_size=2).map(sorted),
    role=st.sampled_from(sorted(ROLES)),
    nonce=st.binary(min_size=32, max_size=32),
    caps=st.dictionaries(st.from_regex("[a-z][a-z0-9_]{0,7}", fullmatch=True), PLAIN, max_size=16),
    job=st.from_regex("[A-Za-z0-9._-]{0,64}", fullmatch=True),
)
def test_what_is_said_is_heard(versions: list[int], role: str, nonce: bytes, caps: Caps, job: str) -> None:
    hello = Hello((versions[0], versions[1]), role, CLUSTER.id, nonce, caps, job)
    assert parse_hello(hello.to_bytes(), (1, 65535)) == hello


GOOD: dict[str, Any] = msgpack.unpackb(client().start()[6:])
WRONG: dict[str, list[Any]] = {
    "v": [None, 1, [], [1], [2, 1], [0, 1], [-1, 1], [1, 65536], [True, True], [1.0, 1.0], ["1", "1"], {1: 1}, b"\1\1"],
    "role": [None, 1, "", "root", "Agent", "agent ", "agent\0", b"agent", ["agent"], {"agent": 1}],
    "key_id": [None, 1, b"", b"x" * 7, b"x" * 9, "x" * 8, ["x"] * 2],
    "n": [None, 1, b"", b"x" * 31, b"x" * 33, "x" * 32, [b"x"]],
    "caps": [
        None, 1, [], "caps", {"A": 1}, {"": 1}, {"a b": 1}, {"a" * 33: 1}, {"a\n": 1}, {b"a": 1}, {"a": [1]}, {"a": {}},
        {"a": float("nan")}, {"a": float("inf")}, {"a": msgpack.Timestamp(1)}, {"a": msgpack.ExtType(5, b"")},
        {f"c{i}": i for i in range(17)},
    ],
    "job": [None, 1, "a/b", "..\\x", "x" * 65, "x\n", "é", "a b", b"job", ["job"], "\x1b[31m"],
}  # fmt: skip


@covers("SEC-1")
@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_every_field_is_held_to_type_and_range(name: str, value: object) -> None:
    """One wrong field is enough, in a hello and in a reply."""
    with pytest.raises(ProtocolError, match=f"'{name}' must be|msgpack within its limits"):
        parse_hello(hello_of({**GOOD, name: value}))
    core = {"v": 1, **{field: GOOD[field] for field in ("role", "n", "caps")}}
    if name in core and name != "v":
        with pytest.raises(ProtocolError, match=f"'{name}' must be|msgpack within its limits"):
            parse_reply(msgpack.packb({**core, name: value}))


@covers("SEC-1")
def test_fields_are_all_there_and_no_others_and_none_twice() -> None:
    """Missing, unknown and repeated fields, at both levels, and bytes before or after the map."""
    for name in GOOD:
        if name != "v":
            with pytest.raises(ProtocolError, match="must have the fields v, role, key_id, n, caps, job and no others"):
                parse_hello(hello_of({key: value for key, value in GOOD.items() if key != name}))
    with pytest.raises(ProtocolError, match="no others"):
        parse_hello(hello_of({**GOOD, "admin": True}))
    packed = msgpack.packb(GOOD)
    repeated = bytes([packed[0] + 1]) + packed[1:] + msgpack.packb("role") + msgpack.packb("agent")
    twice_in_caps = packed.replace(b"\x83\xa4seal\xc3", b"\x84\xa4seal\xc3\xa4seal\xc2")
    assert twice_in_caps != packed
    for body in (repeated, twice_in_caps, packed + b"\0", packed + packed, b"\0" + packed, packed[:-1], b"\xc1"):
        with pytest.raises(ProtocolError, match="msgpack within its limits"):
            parse_hello(hello_of(body))
    for body in (b"\x00", b"\xc0", b"\x91\x01", b"\xa1x", msgpack.packb([1, 2])):
        with pytest.raises(ProtocolError, match="must be a map"):
            parse_hello(hello_of(body))


@covers("SEC-8")
@pytest.mark.parametrize("length", [0, 1019, 4096, 65535])
def test_the_stated_length_is_bounded_before_anything_is_kept(length: int) -> None:
    """Six bytes are all that is held of it."""
    head = b"PSGD" + struct.pack("!H", length)
    for feed in (HelloReader().feed, ServerHandshake({}, "agent").feed):
        with pytest.raises(ProtocolError, match=f"must have 1 to 1018 bytes, got {length}"):
            feed(head)


def test_a_length_that_is_not_the_hello_s_own_is_refused() -> None:
    hello = hello_of(GOOD)
    for data in (b"", b"PSGD", hello[:6], hello[:-1], hello + b"x"):
        with pytest.raises(ProtocolError, match="does not have the length that it states"):
            parse_hello(data)
    with pytest.raises(ProtocolError, match="followed by 4 bytes"):
        HelloReader().feed(hello + b"more")


@pytest.mark.parametrize("start", [b"G", b"P\0", b"PSG\0", b"psgd", b"\x16\x03\x01", b"\x80\x04"])
def test_a_stranger_is_refused_at_the_first_wrong_byte(start: bytes) -> None:
    with pytest.raises(ProtocolError, match="not the first bytes of a Parallel-SGD connection"):
        HelloReader().feed(start)


@covers("SEC-8")
@pytest.mark.parametrize("length", [0, 990, 4096, 65535])
def test_the_stated_length_of_a_reply_is_bounded_too(length: int) -> None:
    """a hostile server holds no more memory at a client than a hostile client at a server."""
    one = client()
    one.start()
    with pytest.raises(ProtocolError, match=f"must have 1 to 989 bytes, got {length}"):
        one.feed(b"\0" + struct.pack("!H", length))


# --- hostile inputs by the thousand


TLS_CLIENT_HELLO = bytes.fromhex("16030100c4010000c00303") + bytes(range(185))
STRANGERS = [
    b"",
    b"\0",
    b"GET / HTTP/1.1\r\nHost: worker\r\n\r\n",
    b"POST /submit HTTP/1.1\r\nContent-Length: 4\r\n\r\ncode",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"PUT", b"PATCH / HTTP/1.1\r\n\r\n",
    TLS_CLIENT_HELLO,
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"EHLO mail\r\n",
    b"*1\r\n$4\r\nPING\r\n",
    b"\x03\0\0\x13\x0e\xe0\0\0\0\0\0\x01\0\x08\0\x03\0\0\0",
    b"\x7fELF" + bytes(60),
    b"PK\x03\x04" + bytes(60),
    b"\x1f\x8b\x08" + bytes(60),
]  # fmt: skip


class Bomb:
    """Runs when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("a stranger's pickle was loaded",)


def bombs() -> Iterator[bytes]:
    """Bodies that promise or unfold to far more than they are."""
    for code in (b"\xdd", b"\xdf", b"\xdb", b"\xc6", b"\xc9"):
        for size in (2**16, 2**31 - 1, 2**32 - 1):
            yield code + struct.pack("!I", size) + b"\1" * 200
    for code in (b"\xdc", b"\xde", b"\xda", b"\xc5", b"\xc8"):
        yield code + b"\xff\xff" + b"\1" * 900
    for nest in (b"\x91", b"\x92\x01", b"\x81\xa1v", b"\x81\xa4caps", b"\x81"):
        for depth in (10, 100, 500, 1000):
            yield (nest * depth)[:1018]
            yield (nest * depth)[:1017] + b"\xc0"
    yield b"\xde\x01\xf4" + b"".join(msgpack.packb(i) + b"\0" for i in range(200))
    for ext in (b"\xd4\xff\0", b"\xd6\xff\0\0\0\1", b"\xd7\xff" + bytes(8), b"\xc7\0\1", b"\xc7\x0c\xff" + bytes(12)):
        yield ext
        yield b"\x81\xa1v" + ext
        yield b"\x81" + ext + b"\0"
    yield b"\x81\xa1v\xa2\xff\xfe"
    yield b"\x81\xcb\x7f\xf8\0\0\0\0\0\0\0"


def pickles() -> Iterator[bytes]:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        yield pickle.dumps(Bomb(), protocol)


def mutants(rounds: int, chance: random.Random) -> Iterator[bytes]:
    """Good hellos with bytes overwritten, removed, inserted or repeated, most of them with the length put right again."""
    for _ in range(rounds):
        body = bytearray(client().start()[6:])
        for _ in range(chance.randint(1, 4)):
            at, size = chance.randrange(len(body)), chance.randint(1, 8)
            match chance.randrange(4):
                case 0:
                    body[at : at + size] = chance.randbytes(size)
                case 1:
                    del body[at : at + size]
                case 2:
                    body[at:at] = chance.randbytes(size)
                case _:
                    body[at:at] = body[at : at + size]
            body = body or bytearray(b"\0")
        message = hello_of(bytes(body[:1018]))
        yield message if chance.random() < 0.9 else message[: chance.randrange(len(message))]


def hostile_inputs() -> Iterator[bytes]:
    chance = random.Random(20)
    strangers = [*STRANGERS, *pickles(), *bombs()]
    yield from strangers
    for body in strangers:
        yield hello_of(body[:1018])
    for _ in range(1500):
        yield chance.randbytes(chance.randint(1, 1100))
        yield b"PSGD" + chance.randbytes(chance.randint(1, 1100))
        yield hello_of(chance.randbytes(chance.randint(1, 1018)))
    yield from mutants(3000, chance)


def outcome(end: ClientHandshake | ServerHandshake, data: bytes) -> str:
    """What becomes of bytes from a stranger; any error but the two that are foreseen fails the test."""
    try:
        answer = end.feed(data)
    except (ProtocolError, Rejected):
        return "refused"
    assert not end.done
    return "answered" if answer else "waiting"


@covers("SEC-1", "SEC-2", "SEC-8")
def test_thousands_of_hostile_inputs_open_nothing() -> None:
    """At the server and the client, none accepted, no other error, little memory.

    A mutant that is still a hello (another nonce, say) gets an answer like any hello; the proof that it lacks stops it there.
    """
    inputs = list(hostile_inputs())
    assert len(inputs) >= 5000
    counts = {"refused": 0, "waiting": 0, "answered": 0}
    tracemalloc.start()
    try:
        for data in inputs:
            other = ServerHandshake(ADMITS, "agent")
            result = outcome(other, data[: other.need] if len(data) < 6 else data)
            if result == "answered":
                with pytest.raises(Rejected, match="client did not prove"):
                    other.feed(b"\0" * other.need)
                assert not other.done
            counts[result] += 1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(counts.values()) == len(inputs)
    assert counts["refused"] > 0.75 * len(inputs)
    assert peak < 1 << 20
    for data in inputs:
        one = client()
        one.start()
        assert outcome(one, data) in ("refused", "waiting")
        one = client()
        one.start()
        core = data[6:995] or b"\0"
        assert outcome(one, b"\0" + struct.pack("!H", len(core)) + core + bytes(32)) == "refused"


@covers("SEC-1")
def test_the_reply_s_parser_is_as_strict_behind_the_mac() -> None:
    """It never sees what a stranger wrote, and yet stands the same inputs."""
    for data in hostile_inputs():
        with pytest.raises(ProtocolError):
            parse_reply(data[6:])


@covers("SEC-1")
@given(st.binary(max_size=1100))
def test_any_bytes_are_refused_or_incomplete_and_never_read_beyond(data: bytes) -> None:
    """The reader asks for no byte beyond the hello."""
    reader = HelloReader()
    rest = data
    try:
        while reader.need and rest:
            piece, rest = rest[: reader.need], rest[reader.need :]
            reader.feed(piece)
            assert len(reader.data) + reader.need <= 1024
        assert reader.data == data[: len(reader.data)]
        if not reader.need:
            parse_hello(reader.data)
    except (ProtocolError, Rejected):
        return
    assert reader.need > 0
