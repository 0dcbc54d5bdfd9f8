"""Keys and key files: what is written can be read, everything else is refused, and the secret never shows."""

import base64
import copy
import hashlib
import os
import pickle
import stat
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.errors import NetworkError
from network.keyring import format_keyring, parse_keyring
from network.keys import (
    Key,
    KeyFileError,
    Keyring,
    create_key_file,
    default_key_path,
    find_keys,
    load_key_file,
    new_key,
    take_key_from_environment,
)

KEY = Key(bytes(range(32)))
OTHER = Key(bytes(range(32, 64)))


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def line(key: Key) -> str:
    return format_keyring(Keyring((key,)))


# --- Key and Keyring


def test_a_key_id_is_the_start_of_a_labelled_hash() -> None:
    digest = hashlib.sha256(b"psgd key id" + KEY.secret).digest()
    assert digest[:8] == KEY.id
    assert KEY == Key(bytes(range(32))) != OTHER
    assert len({KEY, Key(KEY.secret), OTHER}) == 2
    assert KEY.secret != KEY


@pytest.mark.parametrize(
    ("secret", "came"), [(b"", "0 bytes"), (b"x" * 31, "31 bytes"), (b"x" * 33, "33 bytes"), ("x" * 32, "str")]
)
def test_a_key_has_32_bytes(secret: bytes, came: str) -> None:
    with pytest.raises(ValueError, match=f"Key 'secret' must be 32 bytes, got {came}"):
        Key(secret)


def test_new_keys_differ() -> None:
    assert len({new_key() for _ in range(50)}) == 50


def test_a_keyring_offers_its_first_key_and_finds_both() -> None:
    ring = Keyring((KEY, OTHER))
    assert ring.offered is KEY
    assert (ring.find(KEY.id), ring.find(OTHER.id), ring.find(b"12345678")) == (KEY, OTHER, None)
    assert list(ring) == [KEY, OTHER]


@pytest.mark.parametrize("keys", [(), (KEY, OTHER, Key(b"z" * 32)), (KEY, KEY)])
def test_a_keyring_holds_one_or_two_different_keys(keys: tuple[Key, ...]) -> None:
    with pytest.raises(ValueError, match="Keyring 'keys' must"):
        Keyring(keys)


def secret_forms(key: Key) -> list[str]:
    """The secret as it might slip into a text: as repr, hex or base64, whole or in part."""
    code = base64.b64encode(key.secret).decode()
    return [repr(key.secret)[2:30], key.secret.hex()[:16], code[:10], code[10:20], code[-12:-2]]


def test_the_secret_is_in_no_text_of_a_key() -> None:
    """SEC-16: repr, str, format, repr of containers and the message of a refused pickle show no part of the secret."""
    with pytest.raises(TypeError) as refused:
        pickle.dumps(KEY)
    texts = [repr(KEY), str(KEY), f"{KEY}", repr(Keyring((KEY, OTHER))), repr({"key": KEY}), str(refused.value)]
    for text in texts:
        assert not any(form in text for form in secret_forms(KEY))
    assert KEY.id.hex() in repr(KEY)


@pytest.mark.parametrize("spill", [pickle.dumps, copy.copy, copy.deepcopy], ids=["pickle", "copy", "deepcopy"])
@pytest.mark.parametrize("holder", [KEY, [KEY], {1: (KEY,)}], ids=["key", "list", "dict"])
def test_a_key_is_not_pickled_or_copied(spill: Callable[[object], object], holder: object) -> None:
    """SEC-16: a key inside something that is packed for another process stops that, instead of travelling along."""
    if spill is copy.copy and holder is not KEY:
        spill(holder)  # shares the key, packs nothing
        return
    with pytest.raises(TypeError, match="neither pickled nor copied"):
        spill(holder)


def test_a_key_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        KEY.secret = b"y" * 32  # type: ignore[misc]


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


@pytest.mark.parametrize(("text", "fault"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_text_is_refused_by_its_fault(text: str, fault: str) -> None:
    """SEC-16: the message names origin and fault; neither it nor its traceback holds any part of the key."""
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


# --- files


def test_a_created_file_can_be_loaded_and_belongs_to_its_owner_alone(tmp_path: Path) -> None:
    """SEC-14: file mode 0600 and the directory's 0700, whatever the umask."""
    path = tmp_path / "psgd" / "key"
    old = os.umask(0o277)
    try:
        (tmp_path / "psgd").mkdir(mode=0o700)
        (tmp_path / "psgd").chmod(0o700)
        ring = create_key_file(path)
    finally:
        os.umask(old)
    assert load_key_file(path) == ring
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["key"]


def test_a_missing_directory_is_made_private(tmp_path: Path) -> None:
    """SEC-14: the directory that is made for a key lets nobody else in."""
    old = os.umask(0)
    try:
        create_key_file(tmp_path / "psgd" / "key")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "psgd").stat().st_mode) == 0o700


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "key"
    ring = create_key_file(path)
    with pytest.raises(KeyFileError, match="exists already and is kept"):
        create_key_file(path)
    assert load_key_file(path) == ring
    assert [entry.name for entry in tmp_path.iterdir()] == ["key"]


def test_a_place_that_cannot_hold_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KeyFileError, match=r"file/key cannot be written: .*; name another with --key-file"):
        create_key_file(tmp_path / "file" / "key")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o660, 0o777])
def test_a_file_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    """SEC-15: a key of mode 0644, or any other that lets group or others in, is refused with the command that helps."""
    path = write(tmp_path / "key", line(KEY), mode)
    with pytest.raises(KeyFileError, match=f"has mode {mode:04o}, .*run 'chmod 600 {path}'"):
        load_key_file(path)
    path.chmod(0o600)
    assert load_key_file(path).offered == KEY


def test_a_file_of_another_owner_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SEC-14: a key that another user has put there is not ours."""
    path = write(tmp_path / "key", line(KEY))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(KeyFileError, match=f"must belong to user {os.getuid() + 1}, .* belongs to user {os.getuid()}"):
        load_key_file(path)


def test_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    target = write(tmp_path / "target", line(KEY))
    (tmp_path / "key").symlink_to(target)
    with pytest.raises(KeyFileError, match="symbolic link; name the file itself"):
        load_key_file(tmp_path / "key")


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir(mode=0o700)
    for name in ("pipe", "folder"):
        with pytest.raises(KeyFileError, match=f"{name} must be a regular file"):
            load_key_file(tmp_path / name)


def test_a_missing_file_comes_with_the_way_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match=r"does not exist; copy it .*'worker.py --new-key --key-file .*'"):
        load_key_file(tmp_path / "key")
    with pytest.raises(KeyFileError, match="does not exist"):
        load_key_file(write(tmp_path / "file", "") / "key")


@pytest.mark.parametrize("content", [b"\xff" * 100, b"a" * 5000, b"\0" * 1024, os.urandom(900)])
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(KeyFileError, match="key"):
        load_key_file(path)


def test_refusing_leaves_no_descriptor_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    loose = write(tmp_path / "loose", line(KEY), 0o644)
    probe = os.open(loose, os.O_RDONLY)
    os.close(probe)
    for path in (tmp_path / "pipe", tmp_path, loose, write(tmp_path / "empty", "")):
        with pytest.raises(KeyFileError):
            load_key_file(path)
    again = os.open(loose, os.O_RDONLY)
    os.close(again)
    assert again == probe


# --- where keys are found


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Keyring]:
    """Four sources with a key each."""
    names = ["explicit", "variable", "default"]
    (tmp_path / "config" / "psgd").mkdir(parents=True)
    paths = [tmp_path / "explicit", tmp_path / "variable", tmp_path / "config" / "psgd" / "key"]
    rings = {name: create_key_file(path) for name, path in zip(names, paths, strict=True)}
    return {**rings, "text": Keyring((KEY, OTHER))}


def test_sources_are_asked_in_order(tmp_path: Path, places: dict[str, Keyring]) -> None:
    environ = {
        "PSGD_KEY_FILE": str(tmp_path / "variable"),
        "PSGD_KEY": format_keyring(places["text"]),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }
    before = dict(environ)
    assert find_keys(tmp_path / "explicit", environ, create=False) == places["explicit"]
    assert find_keys(None, environ, create=False) == places["variable"]
    assert environ == before
    del environ["PSGD_KEY_FILE"]
    assert find_keys(None, environ, create=False) == places["text"]
    del environ["PSGD_KEY"]
    assert find_keys(None, environ, create=False) == places["default"]
    assert find_keys(None, environ, create=True) == places["default"]


def test_a_source_that_is_named_but_faulty_is_not_passed_over(tmp_path: Path, places: dict[str, Keyring]) -> None:
    config = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    with pytest.raises(KeyFileError, match="missing does not exist"):
        find_keys(tmp_path / "missing", config, create=True)
    with pytest.raises(KeyFileError, match="missing does not exist"):
        find_keys(None, {**config, "PSGD_KEY_FILE": str(tmp_path / "missing")}, create=True)
    with pytest.raises(KeyFileError, match="variable PSGD_KEY holds no key"):
        find_keys(None, {**config, "PSGD_KEY": ""}, create=True)
    assert not (tmp_path / "missing").exists()
    assert find_keys(None, {**config, "PSGD_KEY_FILE": ""}, create=False) == places["default"]


def test_the_default_file_is_made_at_the_first_use(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    with pytest.raises(KeyFileError, match="does not exist"):
        find_keys(None, environ, create=False)
    ring = find_keys(None, environ, create=True)
    assert find_keys(None, environ, create=False) == ring
    assert load_key_file(tmp_path / ".config" / "psgd" / "key") == ring


def test_the_default_file_is_not_made_anew_when_it_is_faulty(tmp_path: Path) -> None:
    """SEC-15: a default key of mode 0644 is refused, not replaced."""
    (tmp_path / "psgd").mkdir()
    path = write(tmp_path / "psgd" / "key", line(KEY), 0o644)
    with pytest.raises(KeyFileError, match="chmod 600"):
        find_keys(None, {"XDG_CONFIG_HOME": str(tmp_path)}, create=True)
    assert path.read_text() == line(KEY)


def test_the_configuration_directory(tmp_path: Path) -> None:
    assert default_key_path({"XDG_CONFIG_HOME": "/etc/here", "HOME": "/h"}) == Path("/etc/here/psgd/key")
    assert default_key_path({"XDG_CONFIG_HOME": "relative", "HOME": "/h"}) == Path("/h/.config/psgd/key")
    assert default_key_path({"HOME": "/h"}) == Path("/h/.config/psgd/key")


def test_a_user_without_a_home_is_told_what_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(KeyFileError, match=r"no home directory .*--key-file or set PSGD_KEY_FILE"):
        default_key_path({})


def test_the_variable_is_gone_once_taken() -> None:
    """SEC-16: children inherit no key, not even a malformed one."""
    environ = {"PSGD_KEY": line(KEY), "PATH": "/bin"}
    assert take_key_from_environment(environ) == Keyring((KEY,))
    assert environ == {"PATH": "/bin"}
    assert take_key_from_environment(environ) is None
    environ["PSGD_KEY"] = line(KEY)[:-9]
    with pytest.raises(KeyFileError, match="variable PSGD_KEY, line 1") as refused:
        take_key_from_environment(environ)
    assert environ == {"PATH": "/bin"}
    assert not any(form in str(refused.value) for form in secret_forms(KEY))


def test_key_file_errors_are_network_errors() -> None:
    assert issubclass(KeyFileError, NetworkError)


FIRST_USE = """
import sys
from network.keys import find_keys
sys.stdout.write("ready\\n")
sys.stdout.flush()
sys.stdin.readline()
sys.stdout.write(repr(find_keys(None, {"XDG_CONFIG_HOME": sys.argv[1]}, create=True)))
"""


def test_processes_that_make_the_first_key_at_once_agree(tmp_path: Path) -> None:
    """SEC-14: whoever loses the race reads the winner's file, which is never to be seen half-written."""
    command = [sys.executable, "-c", FIRST_USE, str(tmp_path)]
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
        for _ in range(4)
    ]
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        answers = []
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        for child in children:
            answers.append(child.communicate(timeout=30)[0])
    finally:
        for child in children:
            child.kill()
            child.communicate()
    assert answers == [repr(find_keys(None, {"XDG_CONFIG_HOME": str(tmp_path)}, create=False))] * 4
    assert [entry.name for entry in (tmp_path / "psgd").iterdir()] == ["key"]


def test_the_race_is_decided_before_the_file_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SEC-14: a file that appears between looking and publishing wins, and our own draft is removed."""
    link = os.link
    path = tmp_path / "psgd" / "key"

    def overtaken(source: Path, target: Path) -> None:
        if not path.exists():
            write(path, line(KEY))
        link(source, target)

    monkeypatch.setattr(os, "link", overtaken)
    assert find_keys(None, {"XDG_CONFIG_HOME": str(tmp_path)}, create=True) == Keyring((KEY,))
    assert [entry.name for entry in path.parent.iterdir()] == ["key"]
