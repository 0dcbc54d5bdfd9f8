"""Keys and the text of their files: what is formatted can be parsed, all else is refused, and the secret never shows."""

import base64
import copy
import hashlib
import pickle
import traceback
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.keys import Key, KeyFileError, Keyring, format_keyring, new_key, parse_keyring

from ..statements import covers
from .keys import KEY, OTHER, line, secret_forms

# --- Key and Keyring


def test_a_key_id_is_the_start_of_a_labelled_hash() -> None:
    digest = hashlib.sha256(b"psgd key id" + KEY.secret).digest()
    assert digest[:8] == KEY.id
    assert KEY == Key(bytes(range(32))) != OTHER
    assert len({KEY, Key(KEY.secret), OTHER}) == 2
    assert KEY.secret != KEY and new_key() != new_key()
    with pytest.raises(AttributeError):
        KEY.secret = b"y" * 32  # type: ignore[misc]


@pytest.mark.parametrize(
    ("secret", "came"), [(b"", "0 bytes"), (b"x" * 31, "31 bytes"), (b"x" * 33, "33 bytes"), ("x" * 32, "str")]
)
def test_a_key_has_32_bytes(secret: bytes, came: str) -> None:
    with pytest.raises(ValueError, match=f"Key 'secret' must be 32 bytes, got {came}"):
        Key(secret)


def test_a_keyring_offers_its_first_key_and_finds_both() -> None:
    ring = Keyring((KEY, OTHER))
    assert ring.offered is KEY
    assert (ring.find(KEY.id), ring.find(OTHER.id), ring.find(b"12345678")) == (KEY, OTHER, None)
    assert list(ring) == [KEY, OTHER]


@pytest.mark.parametrize("keys", [(), (KEY, OTHER, Key(b"z" * 32)), (KEY, KEY)])
def test_a_keyring_holds_one_or_two_different_keys(keys: tuple[Key, ...]) -> None:
    with pytest.raises(ValueError, match="Keyring 'keys' must"):
        Keyring(keys)


@covers("SEC-16")
def test_the_secret_is_in_no_text_of_a_key() -> None:
    """Repr, str, format, repr of containers and the message of a refused pickle show no part of the secret."""
    with pytest.raises(TypeError) as refused:
        pickle.dumps(KEY)
    texts = [repr(KEY), str(KEY), f"{KEY}", repr(Keyring((KEY, OTHER))), repr({"key": KEY}), str(refused.value)]
    for text in texts:
        assert not any(form in text for form in secret_forms(KEY))
    assert KEY.id.hex() in repr(KEY)


@covers("SEC-16")
@pytest.mark.parametrize("spill", [pickle.dumps, copy.copy, copy.deepcopy], ids=["pickle", "copy", "deepcopy"])
@pytest.mark.parametrize("holder", [KEY, [KEY], {1: (KEY,)}], ids=["key", "list", "dict"])
def test_a_key_is_not_pickled_or_copied(spill: Callable[[object], object], holder: object) -> None:
    """a key inside something that is packed for another process stops that, instead of travelling along."""
    if spill is copy.copy and holder is not KEY:
        spill(holder)  # shares the key, packs nothing
        return
    with pytest.raises(TypeError, match="neither pickled nor copied"):
        spill(holder)


# --- the text of a key file


@given(st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=2, unique=True))
def test_what_is_formatted_is_parsed(secrets: list[bytes]) -> None:
    ring = Keyring(tuple(Key(secret) for secret in secrets))
    text = format_keyring(ring)
    assert [words.split()[0] for words in text.splitlines()] == ["psgd-key-1"] * len(secrets)
    assert parse_keyring(text, "here") == ring
    assert parse_keyring("\n" + text.replace("\n", "\r\n\n"), "here") == ring


MALFORMED = {
    "empty": ("", "holds no key"),
    "blank": ("\n \n", "holds no key"),
    "three keys": (line(KEY) + line(OTHER) + line(Key(b"z" * 32)), "one or two keys, got 3 lines"),
    "same key twice": (line(KEY) * 2, "twice"),
    "a password": ("correct horse battery staple\n", "must read 'psgd-key-1"),
    "another format": (line(KEY).replace("key-1", "key-2"), "must read 'psgd-key-1"),
    "a word more": (line(KEY).rstrip() + " x\n", "must read 'psgd-key-1"),
    "no id": ("psgd-key-1 " + line(KEY).split()[2], "must read 'psgd-key-1"),
    "31 bytes": (f"psgd-key-1 {KEY.id.hex()} {base64.b64encode(KEY.secret[:31]).decode()}", "32 bytes, got 31"),
    "33 bytes": (f"psgd-key-1 {KEY.id.hex()} {base64.b64encode(KEY.secret + b'x').decode()}", "32 bytes, got 33"),
    "not base64": (f"psgd-key-1 {KEY.id.hex()} {'!' * 44}", "not base64"),
    "not ascii": (f"psgd-key-1 {KEY.id.hex()} {'ä' * 44}", "not base64"),
    "wrong id": (line(KEY).replace(KEY.id.hex(), OTHER.id.hex()), "key id does not belong"),
    "id in capitals": (line(KEY).replace(KEY.id.hex(), KEY.id.hex().upper()), "key id does not belong"),
    "faulty second line": (line(KEY) + "garbage", "line 2"),
}


@covers("SEC-16")
@pytest.mark.parametrize(("text", "fault"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_text_is_refused_by_its_fault(text: str, fault: str) -> None:
    """The message names origin and fault; neither it nor its traceback holds any part of the key."""
    with pytest.raises(KeyFileError, match=fault) as refused:
        parse_keyring(text, "Key file k")
    shown = "".join(traceback.format_exception(refused.value))
    assert "Key file k" in str(refused.value)
    assert not any(form in shown for form in secret_forms(KEY))


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_no_altered_character_gives_another_key(place: int, code: int) -> None:
    text = line(KEY).rstrip()
    place %= len(text)
    altered = text[:place] + chr(code % 128) + text[place + 1 :]
    try:
        ring = parse_keyring(altered, "here")
    except KeyFileError:
        return
    assert ring.keys == (KEY,)


@given(st.text())
def test_no_other_text_is_a_keyring(text: str) -> None:
    with pytest.raises(KeyFileError):
        parse_keyring(text, "here")
