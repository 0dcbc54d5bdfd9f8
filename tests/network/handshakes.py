"""Two ends of a handshake, their keys, and what is said between them."""

import struct
from typing import Any, NamedTuple

import msgpack

from network.errors import ProtocolError, Rejected
from network.handshake import ClientHandshake, ServerHandshake
from network.hello import Caps
from network.keys import Key, Keyring, Share
from network.records import AES

CLUSTER, JOB, CONTROL, STRANGER = (Key(bytes([i]) * 32) for i in range(1, 5))
AT_AGENT = {"submitter": Keyring((CLUSTER,)), "agent": Keyring((CLUSTER,))}
AT_JOB = {"peer": Keyring((JOB,)), "code": Keyring((CONTROL,))}
CLIENT_CAPS: Caps = {"busy": True, "node": 3, "version": "1.1.0"}
SERVER_CAPS: Caps = {"busy": False, "slots": 1, "load": 0.5, "none": None, "tag": b"\0\1"}


def client(key: Key = CLUSTER, role: str = "submitter", expect: str = "agent", **more: Any) -> ClientHandshake:
    return ClientHandshake(key, role, expect, **{"caps": CLIENT_CAPS, **more})


def server(**more: Any) -> ServerHandshake:
    return ServerHandshake(**{"admits": AT_AGENT, "role": "agent", "caps": SERVER_CAPS, **more})


def started(**more: Any) -> ClientHandshake:
    one = client(**more)
    one.start()
    return one


class Recording(NamedTuple):
    hello: bytes
    reply: bytes
    proof: bytes


def converse(one: ClientHandshake, other: ServerHandshake) -> Recording:
    """The messages of a handshake in which nobody interferes."""
    hello = one.start()
    reply = other.feed(hello)
    proof = one.feed(reply)
    assert other.feed(proof) == b""
    return Recording(hello, reply, proof)


def honest(**more: Any) -> Recording:
    return converse(client(**more), server())


def attempt(end: ClientHandshake | ServerHandshake, data: bytes) -> bytes | None:
    """The answer, None for one of the two errors that a stranger can cause; any other error fails the test."""
    try:
        return end.feed(data)
    except (ProtocolError, Rejected):
        return None


def reply_of(core: dict[str, Any] | bytes, mac: bytes = b"m" * 32) -> bytes:
    body: bytes = core if isinstance(core, bytes) else msgpack.packb(core)
    return b"\0" + struct.pack("!H", len(body)) + body + mac


def reply_core(**fields: Any) -> bytes:
    """The core of a reply, right but for `fields`."""
    usual = {"v": 2, "role": "agent", "n": b"n" * 32, "caps": {}, "e": Share(b"e" * 32).public, "c": AES}
    body: bytes = msgpack.packb({**usual, **fields})
    return body


def hello_of(body: dict[str, Any] | bytes) -> bytes:
    packed: bytes = body if isinstance(body, bytes) else msgpack.packb(body)
    return b"PSGD" + struct.pack("!H", len(packed)) + packed


def fields_of(hello: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = msgpack.unpackb(hello[6:])
    return fields


def same_nonce(size: int) -> bytes:
    return b"n" * size
