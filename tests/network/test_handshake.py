"""The handshake: honest ends agree on keys and a version, and a machine that has failed or is done stays so."""

import base64
import hashlib
import hmac
import struct
import traceback
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.errors import ProtocolError, Rejected
from network.handshake import ClientHandshake, ServerHandshake
from network.hello import HelloReader, Hint, Refused, parse_reply
from network.keys import Key, Keyring

from ..statements import covers
from .handshakes import (
    AT_JOB,
    CLIENT_CAPS,
    CLUSTER,
    CONTROL,
    JOB,
    SERVER_CAPS,
    STRANGER,
    client,
    converse,
    fields_of,
    hello_of,
    honest,
    reply_of,
    server,
)

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


# --- versions


def test_the_highest_common_version_is_chosen() -> None:
    one, other = client(versions=(1, 4)), server(versions=(2, 3))
    reply = converse(one, other).reply
    assert parse_reply(reply[3:-32]).version == 3
    assert one.keys == other.keys


@covers("SEC-5")
def test_a_downgrade_breaks_the_proof() -> None:
    """An attacker who narrows the offered versions is found out, although the server believes him."""
    one, other = client(versions=(1, 2)), server(versions=(1, 2))
    fields = fields_of(one.start())
    assert fields["v"] == [1, 2]
    reply = other.feed(hello_of({**fields, "v": [1, 1]}))
    assert parse_reply(reply[3:-32]).version == 1
    with pytest.raises(Rejected, match="someone on the path altered the handshake"):
        one.feed(reply)
    assert not one.done


@covers("SEC-5")
def test_narrowed_caps_break_the_proof() -> None:
    """Caps are negotiation too: neither side's can be changed on the path."""
    one, other = client(), server()
    fields = fields_of(one.start())
    with pytest.raises(Rejected, match="altered"):
        one.feed(other.feed(hello_of({**fields, "caps": {**fields["caps"], "seal": False}})))
    one, other = client(), server()
    reply = other.feed(one.start())
    core = msgpack.unpackb(reply[3:-32])
    with pytest.raises(Rejected, match="altered"):
        one.feed(reply_of({**core, "caps": {}}, reply[-32:]))


@covers("SEC-5")
@pytest.mark.parametrize(("mine", "theirs"), [((1, 1), (2, 3)), ((2, 3), (1, 1))])
def test_no_common_version_is_told_both_ways(mine: tuple[int, int], theirs: tuple[int, int]) -> None:
    """a clear message on both sides, also when a later version's hello has fields that we do not know."""
    one, other = client(versions=mine), server(versions=theirs)
    hello = one.start()
    with pytest.raises(Refused, match=rf"speaks protocol versions \[{mine[0]}, {mine[1]}\], this side") as error:
        other.feed(hello)
    later = hello_of({**fields_of(hello), "pq": b"key"})
    with pytest.raises(Refused):
        server(versions=theirs).feed(later)
    with pytest.raises(Refused, match=f"does not speak protocol version {mine[0]} to {mine[1]}; install the same"):
        one.feed(bytes([error.value.hint]))


@covers("SEC-5")
def test_a_server_that_holds_the_key_must_still_keep_to_the_offer() -> None:
    """a version that was not offered, or another role than expected, ends it even with a valid proof."""
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


@covers("SEC-16")
def test_nothing_that_is_shown_holds_a_secret() -> None:
    """Errors with their tracebacks, and repr of machines and session keys, hold no part of any key."""
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
