"""The handshake: honest ends agree, and nobody who lacks the key gets anywhere, whatever he sends, alters or repeats."""

import base64
import hashlib
import hmac
import struct
import traceback
from itertools import product
from typing import Any, NamedTuple

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.errors import ProtocolError, Rejected
from network.handshake import (
    Caps,
    ClientHandshake,
    HelloReader,
    Hint,
    Refused,
    ServerHandshake,
)
from network.hello import parse_reply
from network.hello_fields import ROLES
from network.keys import Key, Keyring

CLUSTER, JOB, CONTROL, STRANGER = (Key(bytes([i]) * 32) for i in range(1, 5))
AT_AGENT = {"submitter": Keyring((CLUSTER,)), "agent": Keyring((CLUSTER,))}
AT_JOB = {"peer": Keyring((JOB,)), "code": Keyring((CONTROL,))}
CLIENT_CAPS: Caps = {"seal": True, "node": 3, "version": "1.0.0"}
SERVER_CAPS: Caps = {"seal": False, "slots": 1, "load": 0.5, "none": None, "tag": b"\0\1"}


def client(key: Key = CLUSTER, role: str = "submitter", expect: str = "agent", **more: Any) -> ClientHandshake:
    return ClientHandshake(key, role, expect, **{"caps": CLIENT_CAPS, **more})


def server(**more: Any) -> ServerHandshake:
    return ServerHandshake(**{"admits": AT_AGENT, "role": "agent", "caps": SERVER_CAPS, **more})


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


def reply_of(core: dict[str, Any] | bytes, mac: bytes = b"m" * 32) -> bytes:
    body: bytes = core if isinstance(core, bytes) else msgpack.packb(core)
    return b"\0" + struct.pack("!H", len(body)) + body + mac


def hello_of(body: dict[str, Any]) -> bytes:
    packed: bytes = msgpack.packb(body)
    return b"PSGD" + struct.pack("!H", len(packed)) + packed


def fields_of(hello: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = msgpack.unpackb(hello[6:])
    return fields


def same_nonce(size: int) -> bytes:
    return b"n" * size


# --- honest ends


def test_honest_ends_agree_on_two_keys_and_know_each_other() -> None:
    one, other = client(job="job-7"), server(job="job-7")
    messages = converse(one, other)
    assert one.done and other.done
    assert one.keys == other.keys
    assert len({one.keys.server_key, one.keys.client_key}) == 2
    assert one.peer_caps == SERVER_CAPS
    assert other.peer_caps == CLIENT_CAPS
    assert other.hello is not None
    assert (other.hello.role, other.hello.job, other.hello.key_id) == ("submitter", "job-7", CLUSTER.id)
    assert (one.need, other.need, one.leftover, other.leftover) == (0, 0, b"", b"")
    assert all(len(message) <= 1024 for message in messages)


def test_the_keys_follow_the_published_schedule() -> None:
    """The schedule of docs, written out a second time: RFC 5869 with the transcript as salt."""
    one, other = client(binding=b"channel"), server(binding=b"channel")
    hello, reply, proof = converse(one, other)
    core, mac = reply[3:-32], reply[-32:]
    transcript = hashlib.sha256(struct.pack("!I", len(hello)) + hello + core).digest()
    root = hmac.new(transcript, CLUSTER.secret + b"channel", "sha256").digest()

    def expand(label: bytes) -> bytes:
        return hmac.new(root, b"psgd/1 " + label + b"\x01", "sha256").digest()

    assert mac == hmac.new(expand(b"auth_s"), transcript, "sha256").digest()
    assert proof == hmac.new(expand(b"auth_c"), transcript, "sha256").digest()
    assert one.keys.server_key == expand(b"s2c")
    assert one.keys.client_key == expand(b"c2s")


def test_two_handshakes_have_nothing_in_common() -> None:
    pairs = [(client(), server()) for _ in range(2)]
    first, second = (converse(*pair) for pair in pairs)
    assert first.hello != second.hello and first.reply != second.reply and first.proof != second.proof
    keys = [key for one, _ in pairs for key in (one.keys.server_key, one.keys.client_key)]
    assert len(set(keys)) == 4


@given(st.data())
def test_the_cut_of_the_stream_does_not_matter(data: st.DataObject) -> None:
    one, other = client(), server()

    def deliver(end: ClientHandshake | ServerHandshake, stream: bytes) -> bytes:
        answer = b""
        while stream:
            size = data.draw(st.integers(1, len(stream)))
            answer += end.feed(stream[:size])
            stream = stream[size:]
        return answer

    deliver(other, deliver(one, deliver(other, one.start())))
    assert one.keys == other.keys


def test_whoever_reads_what_is_needed_leaves_the_session_untouched() -> None:
    one, other = client(), server()

    def read(end: ClientHandshake | ServerHandshake, message: bytes) -> bytes:
        stream, answer = bytearray(message + b"what follows"), b""
        while end.need and not answer:
            taken = bytes(stream[: end.need])
            del stream[: len(taken)]
            answer = end.feed(taken)
        assert stream == b"what follows"
        return answer

    assert read(other, read(one, read(other, one.start()))) == b""
    assert one.done and other.done


def test_what_is_read_beyond_the_end_is_left_over() -> None:
    one, other = client(), server()
    reply = other.feed(one.start())
    proof = one.feed(reply + b"first frame")
    other.feed(proof + b"another frame")
    assert (one.leftover, other.leftover) == (b"first frame", b"another frame")


def test_a_hello_that_was_read_elsewhere_is_handed_over_whole() -> None:
    one, reader = client(JOB, "peer", "peer", job="job.3"), HelloReader()
    stream = one.start() + b"later"
    position = 0
    while reader.need:
        assert reader.feed(stream[position : position + 1]) == reader.need
        position += 1
    assert stream[position:] == b"later"
    assert (reader.hello.job, reader.hello.role) == ("job.3", "peer")
    other = server(admits=AT_JOB, role="peer", job="job.3")
    other.feed(one.feed(other.feed(reader.data)))
    assert one.keys == other.keys
    again = HelloReader()
    assert again.feed(reader.data) == 0
    assert again.hello == reader.hello


@pytest.mark.parametrize("key", [CLUSTER, JOB])
def test_while_a_key_is_changed_both_are_accepted(key: Key) -> None:
    one, other = client(key), server(admits={"submitter": Keyring((JOB, CLUSTER))})
    converse(one, other)
    assert one.keys == other.keys


# --- what this side may not send


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"role": "root"}, "'role' must be one of agent, code, peer, submitter"),
        ({"job": "a/b"}, "'job' must be at most 64 letters"),
        ({"job": "x" * 65}, "'job' must be"),
        ({"job": "line\n"}, "'job' must be"),
        ({"versions": (2, 1)}, "'v' must be two versions"),
        ({"versions": (0, 1)}, "'v' must be two versions"),
        ({"nonce_source": lambda size: b"short"}, "'n' must be 32 bytes"),
        ({"caps": {"Upper": 1}}, "'caps' must be a dict of at most 16 names"),
        ({"caps": {"list": [1]}}, "'caps' must be"),
        ({"caps": {"nan": float("nan")}}, "'caps' must be"),
        ({"caps": {f"c{i}": i for i in range(17)}}, "'caps' must be"),
        ({"caps": {"long": "x" * 1000}}, r"at most 1018 bytes, got \d+; shorten 'caps'"),
    ],
)
def test_a_client_that_could_not_be_understood_is_refused_at_home(arguments: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        client(**arguments)


def test_a_server_that_could_not_be_understood_is_refused_at_home() -> None:
    with pytest.raises(ValueError, match="shorten 'caps'"):
        server(caps={"long": b"x" * 960})
    with pytest.raises(ValueError, match="'role' must be"):
        server(role="master")


def test_the_largest_messages_that_may_be_sent_are_understood() -> None:
    one, other = client(caps={"long": "x" * 925}), server(caps={"long": b"x" * 924})
    messages = converse(one, other)
    assert (len(messages.hello), len(messages.reply)) == (1024, 1024)


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


def test_no_altered_bit_of_the_hello_is_accepted() -> None:
    """SEC-4: the server refuses it at once, waits for bytes that do not come, or gives an answer that the client refuses."""
    hello = client(nonce_source=same_nonce).start()
    for bit in range(8 * len(hello)):
        one, other = client(nonce_source=same_nonce), server()
        assert one.start() == hello
        reply = attempt(other, flip(hello, bit))
        if reply:
            assert attempt(one, reply) is None
        assert not one.done and not other.done


def test_no_altered_bit_of_the_reply_is_accepted() -> None:
    """SEC-4: the client sends no proof for it."""
    for bit in range(8 * len(honest().reply)):
        one, other = client(), server()
        assert not attempt(one, flip(other.feed(one.start()), bit))
        assert not one.done


def test_no_altered_bit_of_the_proof_is_accepted() -> None:
    """SEC-4: the server never finishes, so its first frame, which the client waits for, never comes."""
    for bit in range(8 * 32):
        one, other = client(), server()
        assert attempt(other, flip(one.feed(other.feed(one.start())), bit)) is None
        assert not other.done


def test_truncated_at_any_byte_nobody_is_done_and_nothing_breaks() -> None:
    """SEC-4: what is cut short waits for the rest, and the caller's deadline ends it."""
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


def test_a_recorded_handshake_is_worthless() -> None:
    """SEC-4: replay of every message, to either side."""
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


def test_a_client_is_not_answered_with_its_own_words() -> None:
    """SEC-4: reflection of the hello, of its parts in a reply, and of the client's proof in the server's place."""
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


def test_both_proofs_differ_so_that_neither_stands_for_the_other() -> None:
    """SEC-4: the proof that a client would give is not accepted from a server, even over the same transcript."""
    recording = converse(client(nonce_source=same_nonce), server(nonce_source=same_nonce))
    one, other = client(nonce_source=same_nonce), server(nonce_source=same_nonce)
    assert one.start() == recording.hello
    with pytest.raises(Rejected, match="impostor"):
        one.feed(recording.reply[:-32] + recording.proof)
    other.feed(recording.hello)
    with pytest.raises(Rejected, match="did not prove"):
        other.feed(recording.reply[-32:])


def test_sessions_cannot_be_spliced() -> None:
    """SEC-4: hello, reply or proof of one session in another that runs at the same time."""
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


def test_a_connection_to_another_process_of_the_job_is_refused() -> None:
    """SEC-4: a hello names the process it wants, so it opens no other one, although that holds the same key."""
    one = client(JOB, "peer", "peer", job="job.1")
    with pytest.raises(Refused, match=r"asks for job 'job.1', this is 'job.2'") as error:
        server(admits=AT_JOB, role="peer", job="job.2").feed(one.start())
    assert error.value.hint is Hint.NO_SUCH_JOB


@pytest.mark.parametrize(("here", "there"), [(b"", b"x"), (b"one", b"two"), (b"one", b"one ")])
def test_the_keys_are_bound_to_the_channel(here: bytes, there: bytes) -> None:
    """SEC-6: whoever relays over a channel of his own changes the binding, and the proof fails."""
    one, other = client(binding=here), server(binding=there)
    with pytest.raises(Rejected, match="impostor"):
        one.feed(other.feed(one.start()))


# --- keys and roles


def test_a_wrong_key_is_told_as_a_hint() -> None:
    """SEC-3: the user reads 'wrong key' and not 'connection reset'; the hint is not believed further than that."""
    one, other = client(STRANGER), server()
    with pytest.raises(Refused, match=f"Key {STRANGER.id.hex()} does not open the role 'submitter'") as error:
        other.feed(one.start())
    assert error.value.hint is Hint.BAD_KEY
    told = f"The peer says, unauthenticated: wrong key; compare key files: it does not accept key {STRANGER.id.hex()}"
    with pytest.raises(Refused, match=told) as hinted:
        one.feed(bytes([error.value.hint]))
    assert hinted.value.hint is Hint.BAD_KEY


def test_knowing_the_name_of_a_key_is_not_having_it() -> None:
    """SEC-2, SEC-3: both ends with the right key id and the wrong secret."""
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


def test_key_x_role_x_server_x_expectation_is_refused_outside_the_allow_list() -> None:
    """SEC-3: the full cross product; a stolen job key cannot submit, nor open a session that carries code."""
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


def test_a_role_that_is_not_admitted_is_told() -> None:
    """SEC-3: a key that is right for another role gets the hint for the role or for the key."""
    with pytest.raises(Refused, match="role 'peer' is not admitted here") as error:
        server().feed(client(role="peer").start())
    assert error.value.hint is Hint.ROLE
    with pytest.raises(Refused) as error:
        server(admits=AT_JOB).feed(client(JOB, "code").start())
    assert error.value.hint is Hint.BAD_KEY


# --- versions


def test_the_highest_common_version_is_chosen() -> None:
    one, other = client(versions=(1, 4)), server(versions=(2, 3))
    reply = converse(one, other).reply
    assert parse_reply(reply[3:-32]).version == 3
    assert one.keys == other.keys


def test_a_downgrade_breaks_the_proof() -> None:
    """SEC-5: an attacker who narrows the offered versions is found out, although the server believes him."""
    one, other = client(versions=(1, 2)), server(versions=(1, 2))
    fields = fields_of(one.start())
    assert fields["v"] == [1, 2]
    reply = other.feed(hello_of({**fields, "v": [1, 1]}))
    assert parse_reply(reply[3:-32]).version == 1
    with pytest.raises(Rejected, match="someone on the path altered the handshake"):
        one.feed(reply)
    assert not one.done


def test_narrowed_caps_break_the_proof() -> None:
    """SEC-5: caps are negotiation too: neither side's can be changed on the path."""
    one, other = client(), server()
    fields = fields_of(one.start())
    with pytest.raises(Rejected, match="altered"):
        one.feed(other.feed(hello_of({**fields, "caps": {**fields["caps"], "seal": False}})))
    one, other = client(), server()
    reply = other.feed(one.start())
    core = msgpack.unpackb(reply[3:-32])
    with pytest.raises(Rejected, match="altered"):
        one.feed(reply_of({**core, "caps": {}}, reply[-32:]))


@pytest.mark.parametrize(("mine", "theirs"), [((1, 1), (2, 3)), ((2, 3), (1, 1))])
def test_no_common_version_is_told_both_ways(mine: tuple[int, int], theirs: tuple[int, int]) -> None:
    """SEC-5: a clear message on both sides, also when a later version's hello has fields that we do not know."""
    one, other = client(versions=mine), server(versions=theirs)
    hello = one.start()
    with pytest.raises(Refused, match=rf"speaks protocol versions \[{mine[0]}, {mine[1]}\], this side") as error:
        other.feed(hello)
    later = hello_of({**fields_of(hello), "pq": b"key"})
    with pytest.raises(Refused):
        server(versions=theirs).feed(later)
    with pytest.raises(Refused, match=f"does not speak protocol version {mine[0]} to {mine[1]}; install the same"):
        one.feed(bytes([error.value.hint]))


def test_a_server_that_holds_the_key_must_still_keep_to_the_offer() -> None:
    """SEC-5: a version that was not offered, or another role than expected, ends it even with a valid proof."""
    one = client(expect="peer")
    with pytest.raises(Rejected, match="must have the role 'peer', got 'agent'"):
        one.feed(server().feed(one.start()))
    one = client()
    hello = one.start()
    core = msgpack.packb({"v": 2, "role": "agent", "n": b"n" * 32, "caps": {}})
    transcript = hashlib.sha256(struct.pack("!I", len(hello)) + hello + core).digest()
    root = hmac.digest(transcript, CLUSTER.secret, "sha256")
    proof = hmac.digest(hmac.digest(root, b"psgd/1 auth_s\x01", "sha256"), transcript, "sha256")
    with pytest.raises(ProtocolError, match="chose protocol version 2, offered were 1 to 1"):
        one.feed(reply_of(core, proof))


# --- hints


@pytest.mark.parametrize(
    ("hint", "sentence"),
    [
        (Hint.BAD_KEY, "wrong key; compare key files"),
        (Hint.VERSION, "does not speak protocol version 1 to 1"),
        (Hint.NO_SUCH_JOB, "runs no job 'job-7'"),
        (Hint.BUSY, "busy with another job"),
        (Hint.ROLE, "does not admit the role 'submitter'"),
        (Hint.FULL, "too many connections"),
    ],
)
def test_every_hint_becomes_a_sentence_that_says_what_it_is_worth(hint: Hint, sentence: str) -> None:
    one = client(job="job-7")
    one.start()
    with pytest.raises(Refused, match=f"The peer says, unauthenticated: .*{sentence}") as error:
        one.feed(bytes([hint]) + b"whatever follows")
    assert error.value.hint is hint
    assert isinstance(error.value, Rejected)


@pytest.mark.parametrize("status", sorted(set(range(1, 256)) - set(Hint)))
def test_another_first_byte_is_no_answer_of_ours(status: int) -> None:
    one = client()
    one.start()
    with pytest.raises(ProtocolError, match="does not come from a Parallel-SGD program; check host and port"):
        one.feed(bytes([status]))


# --- the end of a machine


def test_a_machine_that_has_failed_stays_dead() -> None:
    messages = honest()
    other = server()
    with pytest.raises(ProtocolError):
        other.feed(b"GET / HTTP/1.1\r\n\r\n")
    one = client()
    one.start()
    with pytest.raises(Rejected):
        one.feed(messages.reply)
    for end, message in ((other, messages.hello), (one, messages.reply)):
        with pytest.raises(ProtocolError, match="The handshake is over: "):
            end.feed(message)
        with pytest.raises(ProtocolError, match="not finished"):
            _ = end.keys


def test_a_machine_that_is_done_takes_no_more() -> None:
    one, other = client(), server()
    converse(one, other)
    for end in (one, other):
        with pytest.raises(ProtocolError, match="it has succeeded, what follows belongs to the session"):
            end.feed(b"x")
        assert end.done


def test_a_client_starts_once_and_first() -> None:
    one = client()
    with pytest.raises(ProtocolError, match="not been started"):
        one.feed(b"\0")
    one.start()
    with pytest.raises(ProtocolError, match="make a new one for each connection"):
        one.start()


def test_nothing_that_is_shown_holds_a_secret() -> None:
    """SEC-16: errors with their tracebacks, and repr of machines and session keys, hold no part of any key."""
    one, other = client(), server()
    converse(one, other)
    texts = [repr(one), repr(other), repr(one.keys), str(one.keys)]
    for end, data in (
        (server(), client(STRANGER).start()),
        (server(), honest().hello + bytes(32)),
        (server(admits=AT_JOB), client(JOB, "code").start()),
        (one, b"x"),
    ):
        with pytest.raises((ProtocolError, Rejected)) as error:
            end.feed(data)
        texts.append("".join(traceback.format_exception(error.value)))
    secrets = [CLUSTER.secret, JOB.secret, CONTROL.secret, STRANGER.secret, one.keys.server_key, one.keys.client_key]
    forms = [form for key in secrets for form in (repr(key)[2:26], key.hex()[:16], base64.b64encode(key).decode()[:12])]
    assert not [form for form in forms for text in texts if form in text]
