"""Records: what travels encrypted, under which keys and numbers, and what that takes."""

from __future__ import annotations

import contextlib
import hmac
import os
import struct
import sys
import tracemalloc
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from network.dial import Target, dial
from network.errors import NetworkError, PeerLost, ProtocolError
from network.keys import Key
from network.nodes import Address
from network.records import AES, CHACHA, Opener, Sealer, check_library, choose_cipher
from network.transport import listen_tcp
from network.wire import HEADER, TAG_SIZE, Packed

from ..statements import covers
from .test_frames import KEY, feed, frames_of, reader
from .wires import talk, travelling

NAMED = {AES: AESGCM, CHACHA: ChaCha20Poly1305}


@covers("SEC-4")
@pytest.mark.parametrize("cipher", NAMED)
def test_a_record_is_its_header_and_the_rest_encrypted_under_its_number(cipher: str) -> None:
    """Numbers are never used twice: a session that has used all of them is over, and so is one that met a bad record."""
    sealer, opener, peer = Sealer(cipher, KEY), Opener(cipher, KEY), NAMED[cipher](KEY)

    def sealed(by: Sealer, *parts: bytes) -> bytes:
        return travelling(Packed([list(parts)], 0, 0), by)

    for number, parts in enumerate([(b"header 16 bytes.meta", b"data"), (b"h" * 16, b"d" * 1000), (b"header 16 bytes.meta",)]):
        record = sealed(sealer, *parts)
        header, body = b"".join(parts)[: HEADER.size], b"".join(parts)[HEADER.size :]
        assert record == header + peer.encrypt(struct.pack("!4xQ", number), body, header)
        found = bytearray(len(body))
        opener.open(memoryview(record), memoryview(found))
        assert found == body
    records = [sealed(sealer, b"header 16 bytes.", b"frame") for _ in range(3)]
    for record in (bytes(37), *records):
        with pytest.raises(ProtocolError, match="record does not open"):
            opener.open(memoryview(record), memoryview(bytearray(5)))
    last = Sealer(cipher, KEY, first=2**64 - 1)
    assert sealed(last, b"h" * 16, b"x") == b"h" * 16 + peer.encrypt(b"\0" * 4 + b"\xff" * 8, b"x", b"h" * 16)
    late = Opener(cipher, KEY, first=2**64)
    for use in (lambda: sealed(last, b"h" * 16), lambda: late.open(memoryview(records[0]), memoryview(bytearray(5)))):
        with pytest.raises(ProtocolError, match=r"used up its 2\*\*64 record numbers"):
            use()


@covers("SEC-4")
def test_a_key_serves_for_so_many_bytes_and_numbers_go_on_under_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("network.records.REKEY_BYTES", 1000)
    values = [np.full(200, number, np.uint8) for number in range(30)]
    data = frames_of(values)
    target = reader()
    feed(target, b"".join(data))
    assert [bytes(m.value) for m in target.messages] == [bytes(v) for v in values]
    size = len(data[0]) - HEADER.size - TAG_SIZE
    fits = 1000 // size
    second = hmac.digest(KEY, b"psgd/2 rekey\1", "sha256")
    for number, key in ((fits - 1, KEY), (fits, second)):
        header, body = data[number][: HEADER.size], data[number][HEADER.size :]
        assert len(AESGCM(key).decrypt(struct.pack("!4xQ", number), body, header)) == size


@covers("SEC-20")
def test_nothing_of_a_message_can_be_read_as_it_travels() -> None:
    secret = b"a word that nobody else shall read"
    for value in (secret.decode(), np.frombuffer(secret * 2000, np.uint8), {"op": secret.decode()}):
        assert secret in frames_of([value], sealed=False)[0]
        assert not any(secret[at : at + 4] in frames_of([value])[0] for at in range(len(secret) - 4))


@pytest.mark.parametrize(
    ("ours", "theirs", "chosen"),
    [
        ((AES, CHACHA), (AES, CHACHA), AES),
        ((AES, CHACHA), (CHACHA, AES), CHACHA),
        ((CHACHA, AES), (AES, CHACHA), CHACHA),
        ((CHACHA, AES), (CHACHA, AES), CHACHA),
        ((AES, CHACHA), (AES,), AES),
        ((CHACHA,), (AES, CHACHA), CHACHA),
        ((AES, CHACHA), ("newer", AES, CHACHA), AES),
        ((CHACHA, AES), ("newer", AES, "newest", CHACHA), CHACHA),
        ((AES, CHACHA), (CHACHA, "newer", AES), CHACHA),
    ],
)
def test_aes_serves_where_both_processors_have_instructions_for_it(ours: Any, theirs: Any, chosen: str) -> None:
    assert choose_cipher(theirs, ours) == chosen
    with pytest.raises(ProtocolError, match="no cipher that this side has"):
        choose_cipher(("newer",), ours)


@covers("SEC-4")
def test_a_process_that_was_forked_seals_nothing_under_the_numbers_of_its_parent() -> None:
    """Two records under one number would tell what both hold; the parent goes on as if nothing had been."""
    with talk("tcp") as ends:
        child = os.fork()
        if not child:
            ends.client.queue("of the child")
            ends.client.send()
            os._exit(0 if isinstance(ends.client.lost, PeerLost) and "forked" in str(ends.client.lost) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        ends.client.queue("of the parent")
        ends.client.send()
        ends.wait([ends.server.link], [], 5.0)
        ends.server.receive()
        assert [message.value for message in ends.server.inbox] == ["of the parent"]


@pytest.mark.parametrize("found", [None, "46.0.7"])
def test_without_a_library_that_encrypts_nobody_listens_or_calls(found: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    module = None if found is None else ModuleType("cryptography")
    if module is not None:
        module.__version__ = found  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cryptography", module)
    check_library.cache_clear()
    try:
        target = Target(Address("127.0.0.1", 1), Key(b"k" * 32), "submitter", "agent")
        for use in (lambda: listen_tcp(Address("127.0.0.1", 0)), lambda: dial(target)):
            with pytest.raises(NetworkError, match=f"need the package cryptography, 47 or newer, found {found or 'none'}"):
                use()
    finally:
        check_library.cache_clear()


def test_who_waits_holds_no_memory_for_large_records() -> None:
    """Sessions share it: each takes it while something large is on its way."""
    array = np.zeros(3 << 20, np.uint8)
    with contextlib.ExitStack() as stack:
        talks = [stack.enter_context(talk("tcp")) for _ in range(8)]
        tracemalloc.start()
        for ends in talks:
            ends.client.queue(array)
            while not ends.server.inbox:
                ends.client.send()
                ends.server.receive()
            ends.server.inbox.clear()
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    assert held < 8 * (4 << 20)  # the pools of arrays keep 3 MiB each; two buffers each would be 2 MiB more
