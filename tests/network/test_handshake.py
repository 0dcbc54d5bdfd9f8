"""The handshake: honest ends agree on keys and a version; whoever lacks the key gets nowhere, whatever he alters or repeats."""

import base64
import hashlib
import hmac
import struct
import traceback
from collections.abc import Callable
from itertools import product
from typing import Any

import msgpack
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from network.errors import ProtocolError, Rejected
from network.handshake import ClientHandshake, ServerHandshake
from network.hello import ROLES, HelloReader, Hint, Refused, parse_reply
from network.keys import Key, Keyring, Share, derive
from network.records import AES, CHACHA, ciphers

from ..statements import covers
from .handshakes import (
    AT_AGENT,
    AT_JOB,
    CLIENT_CAPS,
    CLUSTER,
    CONTROL,
    JOB,
    SERVER_CAPS,
    STRANGER,
    attempt,
    client,
    converse,
    fields_of,
    hello_of,
    honest,
    reply_core,
    reply_of,
    same_nonce,
    server,
    started,
)

# --- honest ends


def test_honest_ends_agree_on_two_keys_and_know_each_other() -> None:
    one, other = client(job="job-7"), server(job="job-7")
    messages = converse(one, other)
    assert one.done and other.done
    assert one.keys == other.keys and one.keys.server_key != one.keys.client_key
    assert (one.peer_caps, other.peer_caps) == (SERVER_CAPS, CLIENT_CAPS)
    assert other.hello is not None
    assert (other.hello.role, other.hello.job, other.hello.key_id) == ("submitter", "job-7", CLUSTER.id)
    assert (one.need, other.need, one.leftover, other.leftover) == (0, 0, b"", b"")
    again_one, again = client(job="job-7"), server(job="job-7")
    assert not set(messages) & set(converse(again_one, again)) and again.keys != other.keys


PRIVATE = same_nonce(32)
UNIX = b"unix uid 1000"  # what names a private link


def schedule(hello: bytes, core: bytes, private: bytes = PRIVATE) -> dict[bytes, bytes]:
    """The schedule of docs, written out again: RFC 5869 with the transcript as salt; `private` is the client's share."""
    theirs = X25519PublicKey.from_public_bytes(msgpack.unpackb(core)["e"])
    shared = X25519PrivateKey.from_private_bytes(private).exchange(theirs)
    return expanded(hello, core, shared, b"")


def expanded(hello: bytes, core: bytes, shared: bytes, binding: bytes) -> dict[bytes, bytes]:
    transcript = hashlib.sha256(struct.pack("!I", len(hello)) + hello + core).digest()
    root = hmac.new(transcript, CLUSTER.secret + shared + binding, "sha256").digest()
    keys = {x: hmac.new(root, b"psgd/2 " + x + b"\x01", "sha256").digest() for x in (b"auth_s", b"auth_c", b"s2c", b"c2s")}
    return {x: hmac.digest(key, transcript, "sha256") if x.startswith(b"auth") else key for x, key in keys.items()}


def test_the_keys_follow_the_published_schedule() -> None:
    for channel in (b"", UNIX):
        one, other = client(binding=channel, nonce_source=same_nonce), server(binding=channel)
        hello, reply, proof = converse(one, other)
        core = reply[3:-32]
        told = expanded(hello, core, bytes(32), channel) if channel else schedule(hello, core)
        assert (reply[-32:], proof, one.keys.server_key, one.keys.client_key) == tuple(told.values())
        assert one.keys == other.keys and bool(one.keys.cipher) is not bool(channel)
        assert {"e", "c"} & (fields_of(hello).keys() | msgpack.unpackb(core).keys()) == (set() if channel else {"e", "c"})


@covers("SEC-6")
def test_who_has_recorded_everything_and_learns_the_key_later_has_no_session_key() -> None:
    """All that went over the line and the cluster's key do not make the keys; a private share does, and nobody keeps it."""
    one, other = client(nonce_source=same_nonce), server()
    hello, reply, _ = converse(one, other)
    core = reply[3:-32]
    said, answered_ = fields_of(hello), msgpack.unpackb(core)
    known = [bytes(32), CLUSTER.secret, said["n"], said["e"], answered_["n"], answered_["e"], reply[-32:]]
    made = [derive(CLUSTER, secret, b"", hello, core) for secret in [*known, Share(PRIVATE).secret(answered_["e"])]]
    assert [(each.server_key, each.client_key) == (one.keys.server_key, one.keys.client_key) for each in made] == [
        *[False] * len(known),
        True,
    ]
    held = [value for end in (one, other) for value in vars(end).values()]
    assert not any(isinstance(value, Share) for value in held)


@given(st.data())
def test_the_cut_of_the_stream_does_not_matter_and_what_follows_is_left_over(data: st.DataObject) -> None:
    one, other = client(), server()

    def deliver(end: ClientHandshake | ServerHandshake, stream: bytes, follows: bytes = b"") -> bytes:
        """In any pieces, or exactly those that it needs."""
        answer = b""
        exact = data.draw(st.booleans())
        while stream and end.need:
            size = end.need if exact else data.draw(st.integers(1, len(stream)))
            piece, stream = stream[:size], stream[size:]
            answer += end.feed(piece if stream else piece + follows)
        assert not stream and end.leftover == follows
        return answer

    proof = deliver(one, deliver(other, one.start()), b"first frame")
    deliver(other, proof, b"another frame")
    assert one.keys == other.keys


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


def test_while_a_key_is_changed_both_are_accepted() -> None:
    for key in (CLUSTER, JOB):
        converse(client(key), server(admits={"submitter": Keyring((JOB, CLUSTER))}))


@pytest.mark.parametrize(
    ("make", "arguments", "fault"),
    [
        (client, {"role": "root"}, "'role' must be one of agent, code, peer, submitter"),
        (client, {"job": "a/b"}, "'job' must be at most 64 letters"),
        (client, {"versions": (2, 1)}, "'v' must be two versions"),
        (client, {"nonce_source": lambda size: b"short"}, "private key is 32 bytes"),
        (client, {"caps": {"Upper": 1}}, "'caps' must be a dict of at most 16 names"),
        (client, {"caps": {"long": "x" * 1000}}, r"at most 1018 bytes, got \d+; shorten 'caps'"),
        (server, {"caps": {"long": b"x" * 960}}, "shorten 'caps'"),
        (server, {"role": "master"}, "'role' must be"),
    ],
)
def test_what_could_not_be_understood_is_refused_at_home(make: Any, arguments: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        make(**arguments)


@pytest.mark.parametrize(("binding", "sizes"), [(b"", (856, 874)), (UNIX, (925, 924))])
def test_the_largest_messages_that_may_be_sent_are_understood(binding: bytes, sizes: tuple[int, int]) -> None:
    one, other = ({"binding": binding, "caps": {"long": b"x" * size}} for size in sizes)
    messages = converse(client(**one), server(**other))
    assert (len(messages.hello), len(messages.reply)) == (1024, 1024)


# --- versions


def test_the_highest_common_version_is_chosen() -> None:
    reply = converse(client(versions=(1, 4)), server(versions=(2, 3))).reply
    assert parse_reply(reply[3:-32]).version == 3


@covers("SEC-5")
@pytest.mark.parametrize(("mine", "theirs"), [((1, 1), (2, 3)), ((2, 3), (1, 1)), ((3, 3), (2, 2))])
def test_no_common_version_is_told_both_ways(mine: tuple[int, int], theirs: tuple[int, int]) -> None:
    """a clear message on both sides, also when a later version's hello has fields that we do not know."""
    one, spoken = client(versions=mine), "2 to 3" if mine == (2, 3) else mine[0]
    hello = one.start()
    for said in (hello, hello_of({**fields_of(hello), "pq": b"key"})):
        with pytest.raises(Refused, match=rf"speaks protocol versions \[{mine[0]}, {mine[1]}\], this side") as error:
            server(versions=theirs).feed(said)
    with pytest.raises(Refused, match=f"does not speak protocol version {spoken}; install the same release"):
        one.feed(bytes([error.value.hint]))


@covers("SEC-5", "SEC-20")
def test_ciphers_of_a_later_release_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """And stand in the transcript like the others: who takes one away has altered the handshake."""
    own = ciphers()
    monkeypatch.setattr("network.handshake.ciphers", lambda: ("newer-1", *own))
    one, stripped = client(), client()
    hello, offer = one.start(), stripped.start()
    monkeypatch.undo()
    assert fields_of(hello)["c"] == ["newer-1", *own]
    other = server()
    assert other.feed(one.feed(other.feed(hello))) == b"" and one.keys == other.keys and one.keys.cipher == own[0]
    with pytest.raises(Rejected, match=IMPOSTOR):
        stripped.feed(answered(with_field(offer, c=list(own))))
    with pytest.raises(ProtocolError, match="no cipher that this side has"):
        answered(with_field(offer, c=["newer-1"]))


@covers("SEC-5")
def test_a_server_that_holds_the_key_must_still_keep_to_the_offer(monkeypatch: pytest.MonkeyPatch) -> None:
    """a version or cipher that was not offered, or another role than expected, ends it even with a valid proof."""
    one = client(expect="peer")
    with pytest.raises(Rejected, match="must have the role 'peer', got 'agent'"):
        one.feed(server().feed(one.start()))
    for version, cipher, offered, fault in (
        (3, AES, (AES, CHACHA), "chose protocol version 3, offered were 2 to 2"),
        (2, CHACHA, (AES,), f"chose the cipher {CHACHA}, offered were {AES}"),
    ):
        monkeypatch.setattr("network.handshake.ciphers", lambda offered=offered: offered)
        one = client(nonce_source=same_nonce)
        core = reply_core(v=version, c=cipher)
        proof = schedule(one.start(), core)[b"auth_s"]
        with pytest.raises(ProtocolError, match=fault):
            one.feed(reply_of(core, proof))


# --- attackers on the path


def flip(message: bytes, bit: int) -> bytes:
    altered = bytearray(message)
    altered[bit // 8] ^= 1 << bit % 8
    return bytes(altered)


@pytest.mark.share(3)
@covers("SEC-4")
@pytest.mark.parametrize("binding", [b"", UNIX], ids=["shares", "private"])
@pytest.mark.parametrize("place", range(3), ids=["hello", "reply", "proof"])
def test_no_altered_bit_is_accepted(place: int, binding: bytes) -> None:
    """An altered hello is refused at once, waits for bytes that do not come, or gets an answer that the client refuses; for an
    altered reply there is no proof; without the right proof the server's first frame never comes."""
    for bit in range(8 * len(converse(client(binding=binding), server(binding=binding))[place])):
        one, other = client(nonce_source=same_nonce, binding=binding), server(binding=binding)
        said: bytes | None = one.start()
        for number, end in enumerate((other, one, other)):
            said = attempt(end, flip(said, bit) if number == place else said) if said else None
        assert not said and not other.done and (place == 2 or not one.done)


@covers("SEC-4")
def test_truncated_at_any_byte_nobody_is_done_and_nothing_breaks() -> None:
    """What is cut short waits for the rest, and the caller's deadline ends it."""
    messages = honest()
    for length in range(len(messages.hello)):
        other = server()
        assert other.feed(messages.hello[:length]) == b"" and not other.done and other.need > 0
    for length in range(len(messages.reply)):
        one, other = client(), server()
        assert one.feed(other.feed(one.start())[:length]) == b"" and not one.done and one.need > 0
        with pytest.raises(ProtocolError, match="not finished"):
            _ = one.keys
    for length in range(32):
        one, other = client(), server()
        other.feed(one.feed(other.feed(one.start()))[:length])
        assert not other.done and other.need == 32 - length


def pretender() -> Key:
    """The right key id, the wrong secret."""
    key = Key(b"p" * 32)
    object.__setattr__(key, "id", CLUSTER.id)
    return key


def answered(hello: bytes, **more: Any) -> bytes:
    return server(**more).feed(hello)


def with_field(message: bytes, **fields: Any) -> bytes:
    """A hello, or a reply with its proof, with other fields."""
    if message[:4] == b"PSGD":
        return hello_of({**fields_of(message), **fields})
    return reply_of({**msgpack.unpackb(message[3:-32]), **fields}, message[-32:])


def mirrored(hello: bytes) -> bytes:
    said = fields_of(hello)
    return reply_of(reply_core(n=said["n"], caps=said["caps"], e=said["e"], c=said["c"][0]))


OTHER_SHARE = Share(b"o" * 32).public
IMPOSTOR = f"server did not prove that it holds key {CLUSTER.id.hex()}: it is an impostor, or someone on the path altered"
#: what comes back for a hello, and why the client goes no further
AT_CLIENT: dict[str, tuple[dict[str, Any], Callable[[bytes], bytes], str]] = {
    "a recorded reply": ({}, lambda _: honest().reply, IMPOSTOR),
    "its own words": ({}, lambda hello: hello, "not come from a Parallel-SGD program"),
    "its own words in a reply": ({}, mirrored, IMPOSTOR),
    "the reply to another": ({}, lambda _: answered(client().start()), IMPOSTOR),
    "the client's proof for the server's": (
        {"nonce_source": same_nonce},
        lambda hello: (
            answered(hello, nonce_source=same_nonce)[:-32]
            + converse(client(nonce_source=same_nonce), server(nonce_source=same_nonce)).proof
        ),
        IMPOSTOR,
    ),
    "fewer versions": (
        {"versions": (2, 3)},
        lambda hello: answered(with_field(hello, v=[2, 2]), versions=(2, 3)),
        IMPOSTOR,
    ),
    "fewer ciphers": ({}, lambda hello: answered(with_field(hello, c=[CHACHA])), IMPOSTOR),
    "a cipher more": ({}, lambda hello: answered(with_field(hello, c=["newer", *fields_of(hello)["c"]])), IMPOSTOR),
    "another cipher back": ({}, lambda hello: with_field(answered(hello), c=CHACHA), IMPOSTOR),
    "another share there": ({}, lambda hello: answered(with_field(hello, e=OTHER_SHARE)), IMPOSTOR),
    "another share back": ({}, lambda hello: with_field(answered(hello), e=OTHER_SHARE), IMPOSTOR),
    "a share that makes the same secret with all": ({}, lambda hello: with_field(answered(hello), e=bytes(32)), IMPOSTOR),
    "other caps there": ({}, lambda hello: answered(with_field(hello, caps={**CLIENT_CAPS, "busy": False})), IMPOSTOR),
    "other caps back": ({}, lambda hello: with_field(answered(hello), caps={}), IMPOSTOR),
    "a server that knows the name of a key": (
        {},
        lambda hello: answered(hello, admits={"submitter": Keyring((pretender(),))}),
        IMPOSTOR,
    ),
    **{
        f"another channel {here!r} {there!r}": ({"binding": here}, lambda hello, b=there: answered(hello, binding=b), IMPOSTOR)
        for here, there in ((b"one", b"two"), (b"one", b"one "))
    },
}


@covers("SEC-2", "SEC-3", "SEC-4", "SEC-5", "SEC-6")
@pytest.mark.parametrize("name", AT_CLIENT)
def test_a_client_sends_no_proof_to_whoever_lacks_the_key(name: str) -> None:
    """Replay, reflection, splicing, a downgrade, narrowed caps, a relay over a channel of its own."""
    options, attack, refusal = AT_CLIENT[name]
    one = client(**options)
    reply = attack(one.start())
    with pytest.raises((ProtocolError, Rejected), match=refusal):
        one.feed(reply)
    assert not one.done


@covers("SEC-4", "SEC-5", "SEC-19", "SEC-20")
@pytest.mark.parametrize(("here", "there"), [(b"", UNIX), (UNIX, b"")], ids=["claims to be private", "claims to be public"])
def test_ends_on_links_of_two_kinds_never_agree(here: bytes, there: bytes) -> None:
    """Each goes by its own socket: it takes no message of the other kind, and one that was altered proves nothing."""
    one, other = client(binding=here), server(binding=there)
    hello = one.start()
    with pytest.raises(ProtocolError, match=r"hello must have the fields v, role, key_id, n, caps, job(, e, c)? and no others"):
        server(binding=there).feed(hello)
    reply = other.feed(as_of_kind(there, hello))
    for said in (reply, as_of_kind(here, reply)):
        with pytest.raises(Rejected, match=IMPOSTOR):
            started(binding=here).feed(said)
    with pytest.raises(Rejected, match="did not prove"):
        other.feed(reply[-32:])
    assert not one.done and not other.done


def as_of_kind(binding: bytes, message: bytes) -> bytes:
    """A hello or a reply with what makes it one of that link, or without."""
    fields = fields_of(message) if message[:4] == b"PSGD" else msgpack.unpackb(message[3:-32])
    if binding:
        del fields["e"], fields["c"]
    else:
        fields |= {"e": OTHER_SHARE, "c": [AES, CHACHA] if message[:4] == b"PSGD" else AES}
    return hello_of(fields) if message[:4] == b"PSGD" else reply_of(fields, message[-32:])


AT_SERVER: dict[str, Callable[[bytes], bytes]] = {
    "a recorded proof": lambda _: honest().proof,
    "its own proof": lambda reply: reply[-32:],
    "a guess": lambda _: b"p" * 32,
    "nothing": lambda _: bytes(32),
    "the name of the key": lambda _: CLUSTER.id * 4,
}


@covers("SEC-2", "SEC-3", "SEC-4")
@pytest.mark.parametrize("name", AT_SERVER)
def test_a_server_admits_nobody_without_the_proof(name: str) -> None:
    """To know a key's id, and a hello that was honest, is not to have the key."""
    for hello in (client(pretender()).start(), honest().hello):
        other = server()
        reply = other.feed(hello)
        with pytest.raises(Rejected, match=f"client did not prove that it holds key {CLUSTER.id.hex()}"):
            other.feed(AT_SERVER[name](reply))
        assert not other.done


@covers("SEC-4")
@pytest.mark.parametrize("swapped", ["hello", "reply", "proof"])
def test_sessions_cannot_be_spliced(swapped: str) -> None:
    """Hello, reply or proof of one session in another that runs at the same time."""
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


# --- keys, roles and hints

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


@covers("SEC-3", "SEC-4")
@pytest.mark.parametrize(
    ("one", "other", "hint", "refusal"),
    [
        ((STRANGER,), {}, Hint.BAD_KEY, f"Key {STRANGER.id.hex()} does not open the role 'submitter' here"),
        ((JOB, "code"), {"admits": AT_JOB}, Hint.BAD_KEY, "does not open the role 'code'"),
        ((CLUSTER, "peer"), {}, Hint.ROLE, "The role 'peer' is not admitted here"),
        (
            (JOB, "peer", "peer", "job.1"),
            {"admits": AT_JOB, "role": "peer", "job": "job.2"},
            Hint.NO_SUCH_JOB,
            "asks for job 'job.1', this is 'job.2'",  # although that one holds the same key
        ),
    ],
)
def test_who_is_not_admitted_is_told_why(one: tuple[Any, ...], other: dict[str, Any], hint: Hint, refusal: str) -> None:
    names = ("key", "role", "expect", "job")
    with pytest.raises(Refused, match=refusal) as error:
        server(**other).feed(client(**dict(zip(names, one, strict=False))).start())
    assert error.value.hint is hint


@covers("SEC-3")
@pytest.mark.parametrize(
    ("hint", "sentence"),
    [
        (Hint.BAD_KEY, f"wrong key; compare key files: it does not accept key {CLUSTER.id.hex()}"),
        (Hint.VERSION, "does not speak protocol version 2; install"),
        (Hint.NO_SUCH_JOB, "runs no job 'job-7'"),
        (Hint.BUSY, "busy with another job"),
        (Hint.ROLE, "does not admit the role 'submitter'"),
        (Hint.FULL, "too many connections"),
    ],
)
def test_every_hint_becomes_a_sentence_that_says_what_it_is_worth(hint: Hint, sentence: str) -> None:
    """The user reads 'wrong key' and not 'connection reset'; the hint is not believed further than that."""
    with pytest.raises(Refused, match=f"The peer says, unauthenticated: .*{sentence}") as error:
        started(job="job-7").feed(bytes([hint]) + b"whatever follows")
    assert error.value.hint is hint


def test_another_first_byte_is_no_answer_of_ours() -> None:
    for status in sorted(set(range(1, 256)) - set(Hint)):
        with pytest.raises(ProtocolError, match="does not come from a Parallel-SGD program; check host and port"):
            started().feed(bytes([status]))


# --- the end of a machine


def test_a_machine_that_has_failed_or_is_done_stays_so() -> None:
    messages, other, one = honest(), server(), started()
    assert attempt(other, b"GET / HTTP/1.1\r\n\r\n") is attempt(one, messages.reply) is None
    for end, message in ((other, messages.hello), (one, messages.reply)):
        with pytest.raises(ProtocolError, match="The handshake is over: "):
            end.feed(message)
        with pytest.raises(ProtocolError, match="not finished"):
            _ = end.keys
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
