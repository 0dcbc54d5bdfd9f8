"""Targets that read from connections: handshakes, records, frames, values, operations, tasks."""

from __future__ import annotations

import collections
import datetime as dt
import enum
import itertools
import random
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from decimal import Decimal
from fractions import Fraction
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgpack
import numpy as np
import pandas as pd

from executor.errors import ConversionError
from executor.messages import parse_from_node
from executor.payload import pack_failure, pack_payload, unpack_failure, unpack_payload
from network.errors import ProtocolError
from network.frames import FrameReader
from network.handshake import ClientHandshake, ServerHandshake
from network.hello import HelloReader, parse_hello, parse_reply
from network.records import AES, CHACHA, Confirmation, Opener, Sealer
from network.values import Array, decode, encode
from network.wire import HEADER, TAG_SIZE, Kind, Limits, allocate, pack, unpack
from parallel_sgd.elastic import messages as elastic
from rpc import messages as m
from rpc import shipping
from rpc.agent.metrics_server import answer_to
from rpc.executable import ReplyPackage
from rpc.protocol import OPERATION_BYTES, Length, Matching, Operation, parse
from tests.network.handshakes import client, converse, reply_core, same_nonce, server
from tests.network.wires import travelling

from .mutate import bytes_altered, frames_altered, frames_of, msgpack_altered
from .target import MIB, Outcome, Target

LIMITS = Limits(meta=1 << 20, data=1 << 20, message=1 << 20)
SECRET = b"s" * 32


# ---- handshakes


@dataclass(frozen=True)
class _Recorded:
    """An honest handshake, in which every random number is the same, so that it could be played again."""

    link: dict[str, Any]
    hello: bytes
    reply: bytes
    proof: bytes
    ready: bytes  # b"" where it is a record as any other


def _recorded(binding: bytes) -> _Recorded:
    link: dict[str, Any] = {"nonce_source": same_nonce, "binding": binding}
    one, other = client(**link), server(**link)
    said = converse(one, other)
    ready = travelling(pack(Kind.READY, (), None, True), Confirmation(one.keys.server_key)) if binding else b""
    return _Recorded(link, *said, ready)


RECORDED = (_recorded(b""), _recorded(b"unix uid 1000"))  # on TCP, and on a private link


def _hellos() -> Sequence[bytes]:
    return [
        *(recorded.hello for recorded in RECORDED),
        client(job="job-7", caps={"a": 1}, nonce_source=same_nonce).start(),
    ]


def _cores() -> Sequence[bytes]:
    return [reply_core(), RECORDED[1].reply[3:-32]]


def _for_servers() -> Sequence[bytes]:
    return [recorded.hello + recorded.proof for recorded in RECORDED]


def _for_clients() -> Sequence[bytes]:
    return [recorded.reply + recorded.ready for recorded in RECORDED]


def _framed(rng: random.Random, hello: bytes) -> bytes:
    body = msgpack_altered(rng, hello[6:])[:65535]
    return b"PSGD" + len(body).to_bytes(2, "big") + body


def _read_hello(data: bytes) -> Outcome:
    reader, rest = HelloReader(), data
    while reader.need and rest:
        piece, rest = rest[: reader.need], rest[reader.need :]
        reader.feed(piece)
    if reader.need:
        return "incomplete"
    return _on_each_link(lambda recorded: _parsed(parse_hello(reader.data, (1, 65535), bool(recorded.ready))))


def _read_reply(data: bytes) -> Outcome:
    return _on_each_link(lambda recorded: _parsed(parse_reply(data, bool(recorded.ready))))


def _parsed(_message: object) -> Outcome:
    return "read"


def _on_each_link(take: Callable[[_Recorded], Outcome]) -> Outcome:
    """What an input comes to on TCP and on a private link: the worse of the two, refused only if it is on both."""
    outcomes: list[Outcome] = []
    for recorded in RECORDED:
        try:
            outcomes.append(take(recorded))
        except Target.refusals:
            if recorded is RECORDED[-1] and not outcomes:
                raise
    return next(outcome for outcome in ("accepted", "read", "incomplete") if outcome in outcomes)


def _at_server(data: bytes) -> Outcome:
    def take(recorded: _Recorded) -> Outcome:
        return _shaken(server(**recorded.link), data, recorded.hello + recorded.proof)

    return _on_each_link(take)


def _shaken(end: ClientHandshake | ServerHandshake, data: bytes, whole: bytes) -> Outcome:
    end.feed(data)
    if not end.done:
        return "incomplete"
    return "read" if data.startswith(whole) else "accepted"  # the honest messages, and something behind them


def _at_client(data: bytes) -> Outcome:
    """On a private link READY belongs to it, which is all that has a MAC there."""

    def take(recorded: _Recorded) -> Outcome:
        one = client(**recorded.link)
        one.start()
        outcome = _shaken(one, data, recorded.reply)
        if recorded.ready and one.done and outcome == "read":
            reader = FrameReader(Confirmation(one.keys.server_key), limits=LIMITS, expect_ready=True)
            reader.feed(one.leftover)
            if not reader.ready:
                return "incomplete"
            return "read" if one.leftover.startswith(recorded.ready) else "accepted"
        return outcome

    return _on_each_link(take)


def _hello_and_proof(rng: random.Random, data: bytes) -> bytes:
    size = 6 + int.from_bytes(data[4:6], "big")
    return _framed(rng, data[:size]) + data[size:]


def _length_of_reply(rng: random.Random, data: bytes) -> bytes:
    size = 3 + int.from_bytes(data[1:3], "big")
    core = msgpack_altered(rng, data[3:size])[:65535]
    return b"\0" + len(core).to_bytes(2, "big") + core + data[size:]


# ---- records and frames


class Colour(enum.Enum):
    RED = 1
    BLUE = "b"


class Pair(NamedTuple):
    left: Any
    right: Any = None


@dataclass
class Plain:
    text: str
    number: int = 0


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a: Any) -> None:
        self.a = a


class Watched:
    """Nothing of it may run: not its constructor, its setter, its hash."""

    def __init__(self) -> None:
        self.__dict__["loud"] = 1

    @property
    def loud(self) -> int:
        return 0

    @loud.setter
    def loud(self, value: object) -> None:
        raise AssertionError("a setter ran for what a peer has sent")

    def __setstate__(self, state: object) -> None:
        raise AssertionError("__setstate__ ran for what a peer has sent")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("__eq__ ran for what a peer has sent")

    def __hash__(self) -> int:
        raise AssertionError("__hash__ ran for what a peer has sent")


CLASSES = (Colour, Pair, Plain, Slotted, Watched)


def values() -> list[Any]:
    return [
        {"op": "submit", "code": b"x" * 40},
        [np.arange(9), (1, None)],
        3.5,
        np.zeros((3, 4), np.float32),
        (7, -3, np.ones(5, np.float32)),
        (7, -3, np.ones(5, np.float32)),  # whose tail is known now
        {0: [True, None, "é"], "b": (1 << 200, -(1 << 70)), "long": b"y" * 5000},
        [Colour.RED, Pair(1, [2]), Plain("a", 3), Slotted(np.float32(1)), np.int8(3), np.zeros((), "c16")],
        [Watched(), {1: Watched()}, [Watched()]],
        [[[]] * 5, ((), ((),)), {}, np.zeros((0, 3), bool), np.zeros(3000)],
    ]


def _streams() -> list[bytes]:
    """Sessions as frames: READY where it belongs, some messages, BYE; and one whose arrays need many frames."""
    messages = [travelling(pack(Kind.MESSAGE, (1, n), value, False, CLASSES)) for n, value in enumerate(values())]
    small = travelling(pack(Kind.MESSAGE, (2,), np.arange(3000.0), False, CLASSES, Limits(data=4096)))
    bye = HEADER.pack(Kind.BYE, 0, 0, 4, 0) + msgpack.packb([[], [], None])
    return [b"".join(messages), small, small + messages[0] + bye, *(one * 2 for one in messages)]


def _sealed_streams(cipher: str) -> list[bytes]:
    streams = []
    for chosen in (values(), [np.zeros(20_000)], [{"op": "x"}] * 3):
        sealer = Sealer(cipher, SECRET)
        packed = [pack(Kind.MESSAGE, (1,), value, True, CLASSES) for value in chosen]
        streams.append(b"".join(travelling(one, sealer) for one in packed))
    return streams


SEALED = {cipher: _sealed_streams(cipher) for cipher in (AES, CHACHA)}


def _reader(opener: Opener | None, sealed: bool) -> FrameReader:
    reader = FrameReader(opener, sealed, LIMITS)
    reader.classes = CLASSES
    return reader


def _without_the_key(cipher: str) -> Callable[[bytes], Outcome]:
    def take(data: bytes) -> Outcome:
        reader = _reader(Opener(cipher, SECRET), True)
        try:
            reader.feed(data)
        finally:
            forged = len(reader.messages) > max(_honest_messages(data, stream) for stream in SEALED[cipher])
            if forged:
                reader.forget()
        return "accepted" if forged else "incomplete"

    return take


def _honest_messages(data: bytes, stream: bytes) -> int:
    """How many whole records at the front of `data` are those of `stream`, which is at least as many as messages."""
    count = at = 0
    while at < len(stream):
        _, _, _, meta, size = HEADER.unpack_from(stream, at)
        at += HEADER.size + meta + size + TAG_SIZE
        if data[:at] != stream[:at]:
            break
        count += 1
    return count


def _values_of(reader: FrameReader) -> Outcome:
    if not reader.messages:
        return "incomplete"
    while reader.messages:
        _ = reader.messages.popleft().value  # one at a time, as everywhere
    return "read"


def _from_a_peer_with_the_key(data: bytes) -> Outcome:
    """Each frame as a record that opens: whoever holds the key may be hostile."""
    sealer, reader, records = Sealer(AES, SECRET), _reader(Opener(AES, SECRET), True), bytearray()
    for start, meta, body in frames_of(data):
        header = HEADER.pack(*start, len(meta), len(body))
        record = bytearray(len(header) + len(meta) + len(body) + 16)
        sealer.seal([header + meta, body], memoryview(record))
        records += record
    reader.feed(bytes(records))
    return _values_of(reader)


def _frames(data: bytes) -> Outcome:
    reader = _reader(None, False)
    reader.feed(data, 7 + len(data) % 5000)
    return _values_of(reader)


def _place(head: tuple[int, ...]) -> Array | None:
    return np.zeros((3, 4), np.float32) if head[:1] == (1,) else None


def _frames_into_place(data: bytes) -> Outcome:
    reader = _reader(None, False)
    reader.place = _place
    reader.feed(data)
    return _values_of(reader)


# ---- values: a tree, and arrays beside it


def _with_arrays(tree: bytes, arrays: Iterable[Any]) -> bytes:
    """One input for readers that get both: a list of the tree, and of type, shape and bytes of each array."""
    described = [[array.dtype.str, list(array.shape), array.tobytes()] for array in arrays]
    return bytes(msgpack.packb([tree, described]))


def _parts(data: bytes) -> tuple[bytes, list[Array]]:
    """Raises: ProtocolError where the session would not have made arrays of it."""
    try:
        tree, described = msgpack.unpackb(data, raw=False, strict_map_key=False)
        layout = [[code, *shape] for code, shape, _ in described]
        arrays = allocate(layout, MIB)
        for array, (_, _, content) in zip(arrays, described, strict=True):
            array.reshape(-1).view("u1")[:] = np.frombuffer(content, "u1")
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise ProtocolError(f"{error}") from error
    if type(tree) is not bytes:
        raise ProtocolError("no tree")
    return tree, arrays


def _inner(rng: random.Random, data: bytes) -> bytes:
    """The tree altered, or an array, and the rest as it was; bytes altered where what comes of that describes nothing."""
    tree, described = msgpack.unpackb(data, raw=False)
    if described and rng.randrange(3) == 0:
        altered = msgpack_altered(rng, msgpack.packb(described))
        try:
            described = msgpack.unpackb(altered, raw=False, strict_map_key=False)
        except (ValueError, TypeError, msgpack.UnpackException):
            return bytes_altered(rng, data)
    else:
        tree = msgpack_altered(rng, tree) if rng.randrange(3) else bytes_altered(rng, tree)
    return bytes(msgpack.packb([tree, described]))


def _plain_values() -> list[bytes]:
    encoded = [encode(value, CLASSES) for value in values()]
    return [_with_arrays(msgpack.packb(tree), map(np.asarray, arrays)) for tree, arrays in encoded]


def _decode(data: bytes) -> Outcome:
    tree, arrays = _parts(data)
    decode(unpack(tree), arrays, CLASSES)
    return "read"


REAL: list[Any] = [
    [1j, {1, "a"}, frozenset({2}), bytearray(b"x"), range(3), slice(2), collections.deque([1], 4), Decimal("1.5")],
    [collections.Counter("ab"), collections.OrderedDict(a=1), collections.defaultdict(list, {"a": [1]}), {(1, 2): None}],
    [dt.date(2026, 1, 2), dt.time(1, 2), dt.timedelta(1), dt.datetime(2026, 1, 2), dt.timezone.utc, Path("/a"), Fraction(1, 3)],
    [np.array(["a", "b"]), np.array(["2026"], "M8[s]"), np.zeros(2, [("a", "i4"), ("b", "U2")]), np.array([1, "a"], object)],
    [np.ma.masked_array([1, 2], [0, 1]), np.datetime64(1, "s"), np.str_("a"), {Pair(1): Plain("x")}],
    pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": pd.Categorical(["u", "v"]), "d": pd.array([1, None], dtype="Int64")}),
    pd.DataFrame({"z": [1.0, 2.0]}, index=pd.MultiIndex.from_product([["a"], [1, 2]])),
    pd.Series(pd.date_range("2026", periods=2, tz="UTC"), index=pd.period_range("2026", periods=2, freq="M")),
    [pd.Timestamp("2026"), pd.Interval(1, 2), pd.Period("2026"), pd.NaT, pd.arrays.SparseArray([0, 1.0])],
]  # fmt: skip


def _real_values() -> Iterator[bytes]:
    for value in (*REAL, *_sparse()):
        payload = pack_payload(value, CLASSES)
        yield _with_arrays(payload.tree, payload.arrays)


def _sparse() -> list[Any]:
    try:
        from scipy import sparse
    except ImportError:  # an optional extra
        return []
    matrix = sparse.random(4, 3, 0.5, "csr", random_state=1)
    return [[matrix.asformat(form)] for form in ("csr", "csc", "coo", "lil", "dok", "dia", "bsr")]


def _unpack_payload(data: bytes) -> Outcome:
    unpack_payload(*_parts(data), CLASSES)
    return "read"


def _failures() -> Iterator[bytes]:
    raised: list[BaseException] = [ValueError("no"), OSError(2, "No such file", "x"), KeyError(("a", 1)), SystemExit(3)]
    raised += [UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")]
    for error in raised:
        payload = pack_failure(error, ())
        yield _with_arrays(payload.tree, payload.arrays)


def _unpack_failure(data: bytes) -> Outcome:
    str(unpack_failure(*_parts(data), (), 3))
    return "read"


def _from_node() -> list[bytes]:
    said = [
        ["done", [[1, 0, 0.5, b"tree", [np.zeros(2)]], [2, 1, 0.0, b"", []]]],
        ["back", [1, 2, 3]],
        ["said", [[1, 0, "", b"text\n"], [2, 30, "logger", "é".encode()]]],
    ]
    encoded = [encode(value) for value in said]
    return [_with_arrays(msgpack.packb(tree), map(np.asarray, arrays)) for tree, arrays in encoded]


def _parse_from_node(data: bytes) -> Outcome:
    tree, arrays = _parts(data)
    parse_from_node(decode(unpack(tree), arrays))
    return "read"


# ---- operations, by who sends them


def example(operation: type[Operation]) -> Operation:
    """One with a value of the right type in each field."""
    hints = typing.get_type_hints(operation, include_extras=True)
    return operation(**{field.name: _sample(hints[field.name], field.default) for field in fields(operation)})


def _sample(expected: Any, default: Any = MISSING) -> Any:
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if origin is Annotated:
        return _fitting(arguments[0], arguments[1])
    if origin is list:
        return [_sample(arguments[0]), _sample(arguments[0])]
    if origin is dict:
        return {_sample(arguments[0]): _sample(arguments[1])}
    if origin is types.UnionType:
        return _sample(arguments[0])
    samples: dict[Any, Any] = {int: 3, float: 0.25, str: "text", bytes: b"bytes", bool: True, Any: [1, {"a": None}]}
    return samples[expected]


TEXTS = ("0f" * 16, "0f" * 32, "Node(0)/0123456789abcdef", "parallel_sgd.driver.standby")


def _fitting(kind: Any, allowed: Any) -> Any:
    if isinstance(allowed, Matching):
        return next(text for text in TEXTS if text in allowed)
    if isinstance(allowed, Length):
        size = max(1, allowed.low)
        return kind("x" * size) if kind is str else b"x" * size if kind is bytes else [_sample(typing.get_args(kind)[0])] * size
    return next(iter(itertools.islice(allowed, 2, 3)), next(iter(allowed)))


OPERATIONS: dict[str, tuple[tuple[type[Operation], ...], int]] = {
    "of a submitter or driver": (m.FROM_SUBMITTER, OPERATION_BYTES),
    "of an agent": (m.FROM_AGENT, OPERATION_BYTES),
    "to a job process": (m.TO_JOB_PROCESS, OPERATION_BYTES),
    "of a job process": (m.FROM_JOB_PROCESS, OPERATION_BYTES),
    "of a code session, to the job": (m.CODE_TO_JOB, 64 * MIB),
    "of a code session, from the job": (m.CODE_FROM_JOB, 64 * MIB),
    "of an elastic driver": (elastic.TO_WORKER, 64 * MIB),
    "of an elastic worker": (elastic.FROM_WORKER, 64 * MIB),
}


def _operation_target(name: str, allowed: tuple[type[Operation], ...], budget: int) -> Target:
    def packed() -> list[bytes]:
        return [msgpack.packb(encode(example(operation).to_value())[0]) for operation in allowed]

    def take(data: bytes) -> Outcome:
        made = parse(decode(unpack(data, budget), []), allowed)
        assert type(made) in allowed
        return "read"

    return Target(f"operations {name}", packed, take, alter=(msgpack_altered,), budget=budget + MIB, weight=0.7)


# ---- objects of a job


def _bundles() -> list[bytes]:
    objects = {"cls": ReplyPackage, "instance": ReplyPackage([1, 2]), "array": np.arange(4.0), "t": (1, "two")}
    return [shipping.pack(objects).objects, shipping.pack({"x": 1}).objects]


def _bundle_altered(rng: random.Random, data: bytes) -> bytes:
    size = int.from_bytes(data[:8], "big")
    tree = msgpack_altered(rng, data[8 : 8 + size])
    return len(tree).to_bytes(8, "big") + tree + data[8 + size :]


def _load(data: bytes) -> Outcome:
    shipping.load(data, b"", m.NO_CODE)
    return "read"


def _for_metrics() -> Sequence[bytes]:
    headers = b"Host: localhost:9464\r\nAccept: text/plain;version=0.0.4\r\n\r\n"
    return [method + b" /metrics?x=1 HTTP/1.1\r\n" + headers for method in (b"GET", b"HEAD", b"POST")]


def _answer_metrics(data: bytes) -> Outcome:
    head, end, body = answer_to(data, lambda: "a 1\n").partition(b"\r\n\r\n")
    status, length = int(head[9:12]), len(body)
    if not end or b"\0" in head or (status == HTTPStatus.OK and length not in (0, 4)):
        raise AssertionError(head)
    return "read"


OF_TASKS = (ProtocolError, ConversionError)
WIRE = (
    Target("HELLO, parsed", _hellos, _read_hello, alter=(_framed,), budget=MIB),
    Target("REPLY, parsed behind its MAC", _cores, _read_reply, alter=(msgpack_altered,), budget=MIB),
    Target("server's handshake", _for_servers, _at_server, alter=(_hello_and_proof,), budget=MIB),
    Target("client's handshake", _for_clients, _at_client, alter=(_length_of_reply,), budget=MIB),
    *(
        Target(f"records without the key, {name}", partial(SEALED.get, cipher, ()), _without_the_key(cipher), budget=4 * MIB)
        for name, cipher in (("AES", AES), ("ChaCha20", CHACHA))
    ),
    Target("records of a peer with the key", _streams, _from_a_peer_with_the_key, alter=(frames_altered,), weight=2.0),
    Target("frames", _streams, _frames, alter=(frames_altered,), weight=2.0),
    Target("frames into place", _streams, _frames_into_place, alter=(frames_altered,)),
    Target("values and class table", _plain_values, _decode, alter=(_inner,), weight=2.0),
    *(_operation_target(name, *row) for name, row in OPERATIONS.items()),
    Target("values of tasks", lambda: list(_real_values()), _unpack_payload, OF_TASKS, (_inner,), weight=1.5),
    Target("failures of tasks", lambda: list(_failures()), _unpack_failure, OF_TASKS, (_inner,)),
    Target("messages of a node about tasks", _from_node, _parse_from_node, alter=(_inner,), weight=0.5),
    Target("requests for metrics", _for_metrics, _answer_metrics, (), budget=MIB, weight=0.1),
    Target("objects of a job", _bundles, _load, (*Target.refusals, ImportError), (_bundle_altered,)),
)  # fmt: skip
