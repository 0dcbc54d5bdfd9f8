"""The handshake under attack: whoever lacks the key gets nowhere, whatever he alters, repeats or claims to be."""

from itertools import product

import pytest

from network.errors import ProtocolError, Rejected
from network.handshake import ClientHandshake, ServerHandshake
from network.hello import ROLES, Hint, Refused
from network.keys import Key, Keyring

from ..statements import covers
from .handshakes import (
    AT_AGENT,
    AT_JOB,
    CLUSTER,
    CONTROL,
    JOB,
    STRANGER,
    client,
    converse,
    fields_of,
    honest,
    reply_of,
    same_nonce,
    server,
)

# --- attackers on the path


def flip(message: bytes, bit: int) -> bytes:
    altered = bytearray(message)
    altered[bit // 8] ^= 1 << bit % 8
    return bytes(altered)


def attempt(end: ClientHandshake | ServerHandshake, data: bytes) -> bytes | None:
    """The answer, None for one of the two errors that a stranger can cause; any other error fails the test."""
    try:
        return end.feed(data)
    except (ProtocolError, Rejected):
        return None


@covers("SEC-4")
def test_no_altered_bit_of_the_hello_is_accepted() -> None:
    """The server refuses it at once, waits for bytes that do not come, or gives an answer that the client refuses."""
    hello = client(nonce_source=same_nonce).start()
    for bit in range(8 * len(hello)):
        one, other = client(nonce_source=same_nonce), server()
        assert one.start() == hello
        reply = attempt(other, flip(hello, bit))
        if reply:
            assert attempt(one, reply) is None
        assert not one.done and not other.done


@covers("SEC-4")
def test_no_altered_bit_of_the_reply_is_accepted() -> None:
    """The client sends no proof for it."""
    for bit in range(8 * len(honest().reply)):
        one, other = client(), server()
        assert not attempt(one, flip(other.feed(one.start()), bit))
        assert not one.done


@covers("SEC-4")
def test_no_altered_bit_of_the_proof_is_accepted() -> None:
    """The server never finishes, so its first frame, which the client waits for, never comes."""
    for bit in range(8 * 32):
        one, other = client(), server()
        assert attempt(other, flip(one.feed(other.feed(one.start())), bit)) is None
        assert not other.done


@covers("SEC-4")
def test_truncated_at_any_byte_nobody_is_done_and_nothing_breaks() -> None:
    """What is cut short waits for the rest, and the caller's deadline ends it."""
    messages = honest()
    for length in range(len(messages.hello)):
        other = server()
        assert other.feed(messages.hello[:length]) == b""
        assert not other.done and other.need > 0
    for length in range(len(messages.reply)):
        one, other = client(), server()
        assert one.feed(other.feed(one.start())[:length]) == b""
        assert not one.done and one.need > 0
        with pytest.raises(ProtocolError, match="not finished"):
            _ = one.keys
    for length in range(32):
        one, other = client(), server()
        other.feed(one.feed(other.feed(one.start()))[:length])
        assert not other.done and other.need == 32 - length


@covers("SEC-4")
def test_a_recorded_handshake_is_worthless() -> None:
    """Replay of every message, to either side."""
    recording = honest()
    other = server()
    other.feed(recording.hello)
    with pytest.raises(Rejected, match="did not prove that it holds key"):
        other.feed(recording.proof)
    assert not other.done
    one = client()
    one.start()
    with pytest.raises(Rejected, match="did not prove that it holds key"):
        one.feed(recording.reply)
    assert not one.done
    for message in (recording.reply, recording.proof):
        assert attempt(server(), message) is None


@covers("SEC-4")
def test_a_client_is_not_answered_with_its_own_words() -> None:
    """Reflection of the hello, of its parts in a reply, and of the client's proof in the server's place."""
    one = client()
    hello = one.start()
    with pytest.raises(ProtocolError, match="not come from a Parallel-SGD program"):
        one.feed(hello)
    mirror = fields_of(hello)
    core = {"v": 1, "role": "agent", "n": mirror["n"], "caps": mirror["caps"]}
    one = client()
    one.start()
    with pytest.raises(Rejected, match="impostor"):
        one.feed(reply_of(core))


@covers("SEC-4")
def test_both_proofs_differ_so_that_neither_stands_for_the_other() -> None:
    """The proof that a client would give is not accepted from a server, even over the same transcript."""
    recording = converse(client(nonce_source=same_nonce), server(nonce_source=same_nonce))
    one, other = client(nonce_source=same_nonce), server(nonce_source=same_nonce)
    assert one.start() == recording.hello
    with pytest.raises(Rejected, match="impostor"):
        one.feed(recording.reply[:-32] + recording.proof)
    other.feed(recording.hello)
    with pytest.raises(Rejected, match="did not prove"):
        other.feed(recording.reply[-32:])


@covers("SEC-4")
def test_sessions_cannot_be_spliced() -> None:
    """Hello, reply or proof of one session in another that runs at the same time."""
    for swapped in ("hello", "reply", "proof"):
        ones, others = (client(), client()), (server(), server())
        hellos = [one.start() for one in ones]
        if swapped == "hello":
            hellos.reverse()
        replies = [other.feed(hello) for other, hello in zip(others, hellos, strict=True)]
        if swapped == "reply":
            replies.reverse()
        proofs = [attempt(one, reply) for one, reply in zip(ones, replies, strict=True)]
        assert [proof is None for proof in proofs] == [swapped != "proof"] * 2
        for other, proof in zip(others, reversed(proofs), strict=True):
            assert proof is None or attempt(other, proof) is None
        assert not any(other.done for other in others)


@covers("SEC-4")
def test_a_connection_to_another_process_of_the_job_is_refused() -> None:
    """a hello names the process it wants, so it opens no other one, although that holds the same key."""
    one = client(JOB, "peer", "peer", job="job.1")
    with pytest.raises(Refused, match=r"asks for job 'job.1', this is 'job.2'") as error:
        server(admits=AT_JOB, role="peer", job="job.2").feed(one.start())
    assert error.value.hint is Hint.NO_SUCH_JOB


@covers("SEC-6")
@pytest.mark.parametrize(("here", "there"), [(b"", b"x"), (b"one", b"two"), (b"one", b"one ")])
def test_the_keys_are_bound_to_the_channel(here: bytes, there: bytes) -> None:
    """Whoever relays over a channel of his own changes the binding, and the proof fails."""
    one, other = client(binding=here), server(binding=there)
    with pytest.raises(Rejected, match="impostor"):
        one.feed(other.feed(one.start()))


# --- keys and roles


@covers("SEC-3")
def test_a_wrong_key_is_told_as_a_hint() -> None:
    """The user reads 'wrong key' and not 'connection reset'; the hint is not believed further than that."""
    one, other = client(STRANGER), server()
    with pytest.raises(Refused, match=f"Key {STRANGER.id.hex()} does not open the role 'submitter'") as error:
        other.feed(one.start())
    assert error.value.hint is Hint.BAD_KEY
    told = f"The peer says, unauthenticated: wrong key; compare key files: it does not accept key {STRANGER.id.hex()}"
    with pytest.raises(Refused, match=told) as hinted:
        one.feed(bytes([error.value.hint]))
    assert hinted.value.hint is Hint.BAD_KEY


@covers("SEC-2", "SEC-3")
def test_knowing_the_name_of_a_key_is_not_having_it() -> None:
    """Both ends with the right key id and the wrong secret."""
    pretender = Key(b"p" * 32)
    object.__setattr__(pretender, "id", CLUSTER.id)
    one, other = client(pretender), server()
    with pytest.raises(Rejected, match="impostor"):
        one.feed(other.feed(one.start()))
    for guess in (b"\0" * 32, b"p" * 32, CLUSTER.id * 4):
        other = server()
        other.feed(client(pretender).start())
        with pytest.raises(Rejected, match=f"client did not prove that it holds key {CLUSTER.id.hex()}"):
            other.feed(guess)
    one, other = client(), server(admits={"submitter": Keyring((pretender,))})
    with pytest.raises(Rejected, match=f"server did not prove that it holds key {CLUSTER.id.hex()}"):
        one.feed(other.feed(one.start()))


KEYS = {"cluster": CLUSTER, "job": JOB, "control": CONTROL, "stranger": STRANGER}
SERVERS = {"agent": ("agent", AT_AGENT), "job": ("peer", AT_JOB)}
ALLOWED = {
    ("agent", "cluster", "submitter", "agent"),
    ("agent", "cluster", "agent", "agent"),
    ("job", "job", "peer", "peer"),
    ("job", "control", "code", "peer"),
}


@covers("SEC-3")
def test_key_x_role_x_server_x_expectation_is_refused_outside_the_allow_list() -> None:
    """The full cross product; a stolen job key cannot submit, nor open a session that carries code."""
    cells = list(product(SERVERS, KEYS, sorted(ROLES), sorted(ROLES)))
    passed = set()
    for cell in cells:
        place, key, role, expect = cell
        own_role, admits = SERVERS[place]
        one, other = client(KEYS[key], role, expect), server(role=own_role, admits=admits)
        reply = attempt(other, one.start())
        proof = attempt(one, reply) if reply else None
        if proof:
            assert attempt(other, proof) == b""
        assert one.done is other.done is bool(proof)
        if other.done:
            passed.add(cell)
    assert len(cells) == 128
    assert passed == ALLOWED


@covers("SEC-3")
def test_a_role_that_is_not_admitted_is_told() -> None:
    """a key that is right for another role gets the hint for the role or for the key."""
    with pytest.raises(Refused, match="role 'peer' is not admitted here") as error:
        server().feed(client(role="peer").start())
    assert error.value.hint is Hint.ROLE
    with pytest.raises(Refused) as error:
        server(admits=AT_JOB).feed(client(JOB, "code").start())
    assert error.value.hint is Hint.BAD_KEY
