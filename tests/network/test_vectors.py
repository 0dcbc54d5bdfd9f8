"""Recorded bytes of the protocol, with all secrets, against which another implementation can be checked, and this one is.

`python -m tests.network.test_vectors` writes them anew: when the protocol gets another version, and never else.
"""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from network import records
from network.handshake import ClientHandshake, ServerHandshake
from network.keys import Key, Keyring, SessionKeys
from network.records import AES, CHACHA, Confirmation, Sealer
from network.wire import Kind, pack
from rpc.support.identity import code_key, peer_key, process_name

from .handshakes import converse
from .wires import travelling

FILE = Path(__file__).with_name("vectors.json")
VALUES: list[Any] = ["text", {"op": 1, "list": [1.5, None, True]}, np.arange(5, dtype=np.float32), (3, np.zeros((2, 3)))]


def counted(first: int) -> Callable[[int], bytes]:
    """A source of bytes that anybody can repeat: each call gives one number in all of them."""
    numbers = itertools.count(first)
    return lambda size: bytes([next(numbers)]) * size


KEY = Key(bytes(range(32)))


def shaken(binding: bytes) -> tuple[SessionKeys, dict[str, Any]]:
    """What comes of it, and what is to be written down."""
    one = ClientHandshake(KEY, "submitter", "agent", caps={"node": 2}, nonce_source=counted(0x10), binding=binding)
    admits = {"submitter": Keyring((KEY,))}
    other = ServerHandshake(admits, "agent", caps={"slots": 1}, nonce_source=counted(0x20), binding=binding)
    said = converse(one, other)
    shares = {f"{end} share, private": (bytes([first]) * 32).hex() for end, first in (("client", 0x10), ("server", 0x20))}
    return one.keys, {
        "key": KEY.secret.hex(),
        **({} if binding else shares),
        "binding": binding.decode(),
        **{name: message.hex() for name, message in said._asdict().items()},
        "cipher": one.keys.cipher,
        "k_s2c": one.keys.server_key.hex(),
        "k_c2s": one.keys.client_key.hex(),
    }


def vectors(cipher: str) -> dict[str, Any]:
    """A handshake and the first messages of the client after it, as `cipher` was chosen."""
    keys, written = shaken(b"")

    def messages() -> list[str]:
        sealer = Sealer(cipher, keys.client_key)
        return [travelling(pack(Kind.MESSAGE, (7, n), value, True), sealer).hex() for n, value in enumerate(VALUES)]

    return {
        **written,
        "READY, by the server": travelling(pack(Kind.READY, (), None, True), Sealer(cipher, keys.server_key)).hex(),
        "messages, by the client": messages(),
        "messages, by the client, with a key for 50 bytes each": rekeyed(messages),
    }


def private() -> dict[str, Any]:
    """The same on a Unix socket, whose frames travel as they are."""
    keys, written = shaken(b"unix uid 1000")
    return {
        **written,
        "READY, by the server": travelling(pack(Kind.READY, (), None, True), Confirmation(keys.server_key)).hex(),
        "messages, by the client": [travelling(pack(Kind.MESSAGE, (7, n), value)).hex() for n, value in enumerate(VALUES)],
    }


def derived() -> dict[str, Any]:
    """The keys of a job: for code one for each process, a worker and a parameter server, for data one for each two nodes."""
    job = "20261124-120000-9f86d081"
    return {
        "key": KEY.secret.hex(),
        "job": job,
        "code": {process_name(job, node): code_key(KEY, job, node).secret.hex() for node in (0, 12, -2)},
        "peers": {f"{one} {other}": peer_key(KEY, job, one, other).secret.hex() for one, other in ((3, 12), (12, 3), (0, -2))},
    }


def rekeyed(messages: Callable[[], list[str]]) -> list[str]:
    usual, records.REKEY_BYTES = records.REKEY_BYTES, 50
    try:
        return messages()
    finally:
        records.REKEY_BYTES = usual


def all_of_them(use: Callable[[str, tuple[str, str]], Any]) -> dict[str, Any]:
    return {
        AES: use(AES, (AES, CHACHA)),
        CHACHA: use(CHACHA, (CHACHA, AES)),
        "private link": private(),
        "derived keys": derived(),
    }


def test_the_bytes_of_the_protocol_are_those_that_were_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(cipher: str, order: tuple[str, str]) -> dict[str, Any]:
        monkeypatch.setattr("network.handshake.ciphers", lambda: order)
        return vectors(cipher)

    assert all_of_them(made) == json.loads(FILE.read_text("ascii"))


if __name__ == "__main__":
    from network import handshake

    def write(cipher: str, order: tuple[str, str]) -> dict[str, Any]:
        handshake.ciphers = lambda: order
        return vectors(cipher)

    FILE.write_text(json.dumps(all_of_them(write), indent=1) + "\n", "ascii")
