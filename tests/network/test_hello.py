"""The parsers of the first messages: every field is held to type and range, every length to its bound."""

import struct
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.errors import ProtocolError, Rejected
from network.handshake import ServerHandshake
from network.hello import ROLES, Caps, Hello, HelloReader, parse_hello, parse_reply
from network.records import AES, CHACHA

from ..statements import covers
from .handshakes import CLUSTER, client, fields_of, hello_of, started

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
    ciphers=st.sampled_from([(AES,), (CHACHA,), (AES, CHACHA), (CHACHA, AES), ("newer-1", AES), tuple("abcdefgh")]),
)
def test_what_is_said_is_heard(
    versions: list[int], role: str, nonce: bytes, caps: Caps, job: str, ciphers: tuple[str, ...]
) -> None:
    hello = Hello((versions[0], versions[1]), role, CLUSTER.id, nonce, caps, job, nonce, ciphers)
    assert parse_hello(hello.to_bytes(), (1, 65535)) == hello


GOOD = fields_of(client().start())
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
    "e": [None, 1, b"", b"x" * 31, b"x" * 33, "x" * 32],
    "c": [None, 1, [], "", "rot13", b"aes-256-gcm", ["Rot13"], ["x" * 33], [AES, AES], [AES, CHACHA, AES], [AES, None],
        [f"c{i}" for i in range(9)], {AES: 1}],
    "job": [None, 1, "a/b", "..\\x", "x" * 65, "x\n", "é", "a b", b"job", ["job"], "\x1b[31m"],
}  # fmt: skip


@covers("SEC-1")
@pytest.mark.parametrize("name", WRONG)
def test_every_field_is_held_to_type_and_range(name: str) -> None:
    """One wrong field is enough, in a hello and in a reply."""
    core = {"v": 2, **{field: GOOD[field] for field in ("role", "n", "caps", "e")}, "c": AES}
    for value in WRONG[name]:
        with pytest.raises(ProtocolError, match=f"'{name}' must be|msgpack within its limits"):
            parse_hello(hello_of({**GOOD, name: value}))
        if name in core and name != "v":
            with pytest.raises(ProtocolError, match=f"'{name}' must be|msgpack within its limits"):
                parse_reply(msgpack.packb({**core, name: value}))


PACKED = msgpack.packb(GOOD)
TWICE_IN_CAPS = PACKED.replace(b"\x83\xa4busy\xc3", b"\x84\xa4busy\xc3\xa4busy\xc2")
REPEATED = bytes([PACKED[0] + 1]) + PACKED[1:] + msgpack.packb("role") + msgpack.packb("agent")
MISSHAPEN: list[tuple[str, list[Any]]] = [
    (
        "must have the fields v, role, key_id, n, caps, job, e, c and no others",
        [*({key: GOOD[key] for key in GOOD if key != name} for name in GOOD if name != "v"), {**GOOD, "admin": True}],
    ),
    (
        "msgpack within its limits",
        [REPEATED, TWICE_IN_CAPS, PACKED + b"\0", PACKED + PACKED, b"\0" + PACKED, PACKED[:-1], b"\xc1"],
    ),
    ("must be a map", [b"\x00", b"\xc0", b"\x91\x01", b"\xa1x", msgpack.packb([1, 2])]),
]


@covers("SEC-1")
@pytest.mark.parametrize(("fault", "bodies"), MISSHAPEN, ids=[fault for fault, _ in MISSHAPEN])
def test_fields_are_all_there_and_no_others_and_none_twice(fault: str, bodies: list[Any]) -> None:
    """Missing, unknown and repeated fields, at both levels, and bytes before or after the map."""
    for body in bodies:
        with pytest.raises(ProtocolError, match=fault):
            parse_hello(hello_of(body))


@covers("SEC-8")
@pytest.mark.parametrize(
    ("start", "most", "lengths"), [(b"PSGD", 1018, (0, 1019, 4096, 65535)), (b"\0", 989, (0, 990, 4096, 65535))]
)
def test_the_stated_length_is_bounded_before_anything_is_kept(start: bytes, most: int, lengths: tuple[int, ...]) -> None:
    """Of a hello, and of a reply: a hostile server holds no more memory at a client than a hostile client at a server."""
    for length in lengths:
        ends = (HelloReader(), ServerHandshake({}, "agent")) if start == b"PSGD" else (started(),)
        for end in ends:
            with pytest.raises(ProtocolError, match=f"must have 1 to {most} bytes, got {length}"):
                end.feed(start + struct.pack("!H", length))


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


@covers("SEC-1")
@given(st.binary(max_size=1100))
def test_any_bytes_are_refused_or_incomplete_and_never_read_beyond(data: bytes) -> None:
    """The reader asks for no byte beyond the hello."""
    reader, rest = HelloReader(), data
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
