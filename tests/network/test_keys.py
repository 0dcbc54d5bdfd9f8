"""Keys, the text of their files, and where they are looked for: what is written is read by its owner alone, the secret never
shows, and everything else is refused."""

import base64
import contextlib
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

from network.key_files import (
    create_key_file,
    default_key_path,
    find_keys,
    find_keys_for,
    load_key_file,
    take_key_from_environment,
)
from network.keys import Key, KeyFileError, Keyring, format_keyring, new_key, parse_keyring
from network.nodes import Address

from ..statements import covers

KEY, OTHER = Key(bytes(range(32))), Key(bytes(range(32, 64)))


def line(key: Key) -> str:
    return format_keyring(Keyring((key,)))


def write(path: Path, text: str = line(KEY), mode: int = 0o600) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def shows(text: str) -> bool:
    """Whether the secret slipped into a text: as repr, hex or base64, whole or in part."""
    code = base64.b64encode(KEY.secret).decode()
    return any(f in text for f in (repr(KEY.secret)[2:30], KEY.secret.hex()[:16], code[:10], code[10:20], code[-12:-2]))


# ---- Key and Keyring


def test_a_key_id_is_the_start_of_a_labelled_hash_and_a_keyring_finds_by_it() -> None:
    assert hashlib.sha256(b"psgd key id" + KEY.secret).digest()[:8] == KEY.id
    assert KEY == Key(bytes(range(32))) != OTHER and len({KEY, Key(KEY.secret), OTHER}) == 2
    assert KEY.secret != KEY and new_key() != new_key()
    with pytest.raises(AttributeError):
        KEY.secret = b"y" * 32  # type: ignore[misc]
    ring = Keyring((KEY, OTHER))
    assert ring.offered is KEY and list(ring) == [KEY, OTHER]
    assert (ring.find(KEY.id), ring.find(OTHER.id), ring.find(b"12345678")) == (KEY, OTHER, None)


@pytest.mark.parametrize(
    ("make", "refusal"),
    [
        *((lambda n=n: Key(b"x" * n), f"Key 'secret' must be 32 bytes, got {n} bytes") for n in (0, 31, 33)),
        (lambda: Key("x" * 32), "Key 'secret' must be 32 bytes, got str"),
        *((lambda keys=keys: Keyring(keys), "Keyring 'keys' must") for keys in ((), (KEY, OTHER, new_key()), (KEY, KEY))),
    ],
)
def test_a_key_has_32_bytes_and_a_keyring_one_or_two_different_keys(make: Callable[[], object], refusal: str) -> None:
    with pytest.raises(ValueError, match=refusal):
        make()


@covers("SEC-16")
def test_a_key_is_not_pickled_or_copied_and_the_secret_is_in_no_text() -> None:
    """Repr, str, format, repr of containers and the refusals: a key inside something that is packed for another process stops
    that, instead of travelling along."""
    texts = [repr(KEY), str(KEY), f"{KEY}", repr(Keyring((KEY, OTHER))), repr({"key": KEY})]
    for spill, holders in ((pickle.dumps, (KEY, [KEY], {1: (KEY,)})), (copy.deepcopy, (KEY, [KEY])), (copy.copy, (KEY,))):
        for holder in holders:
            with pytest.raises(TypeError, match="neither pickled nor copied") as refused:
                spill(holder)  # type: ignore[operator]
            texts.append(str(refused.value))
    assert not any(map(shows, texts)) and KEY.id.hex() in repr(KEY)


# ---- the text of a key file


@given(st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=2, unique=True))
def test_what_is_formatted_is_parsed(secrets: list[bytes]) -> None:
    ring = Keyring(tuple(Key(secret) for secret in secrets))
    text = format_keyring(ring)
    assert [words.split()[0] for words in text.splitlines()] == ["psgd-key-1"] * len(secrets)
    assert parse_keyring(text, "here") == parse_keyring("\n" + text.replace("\n", "\r\n\n"), "here") == ring


def entry(secret: str) -> str:
    return f"psgd-key-1 {KEY.id.hex()} {secret}"


MALFORMED = {
    "empty": ("", "holds no key"),
    "blank": ("\n \n", "holds no key"),
    "three keys": (line(KEY) + line(OTHER) + line(Key(b"z" * 32)), "one or two keys, got 3 lines"),
    "same key twice": (line(KEY) * 2, "twice"),
    "a password": ("correct horse battery staple\n", "must read 'psgd-key-1"),
    "another format": (line(KEY).replace("key-1", "key-2"), "must read 'psgd-key-1"),
    "a word more": (line(KEY).rstrip() + " x\n", "must read 'psgd-key-1"),
    "no id": ("psgd-key-1 " + line(KEY).split()[2], "must read 'psgd-key-1"),
    "31 bytes": (entry(base64.b64encode(KEY.secret[:31]).decode()), "32 bytes, got 31"),
    "33 bytes": (entry(base64.b64encode(KEY.secret + b"x").decode()), "32 bytes, got 33"),
    "not base64": (entry("!" * 44), "not base64"),
    "not ascii": (entry("ä" * 44), "not base64"),
    "wrong id": (line(KEY).replace(KEY.id.hex(), OTHER.id.hex()), "key id does not belong"),
    "id in capitals": (line(KEY).replace(KEY.id.hex(), KEY.id.hex().upper()), "key id does not belong"),
    "bits that say nothing": (line(KEY).rstrip()[:-2] + chr(ord(line(KEY).rstrip()[-2]) + 1) + "=", "a part was altered"),
    "faulty second line": (line(KEY) + "garbage", "line 2"),
}


@covers("SEC-16")
@pytest.mark.parametrize(("text", "fault"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_text_is_refused_by_its_fault(text: str, fault: str) -> None:
    """The message names origin and fault; neither it nor its traceback holds any part of the key."""
    with pytest.raises(KeyFileError, match=fault) as refused:
        parse_keyring(text, "Key file k")
    assert "Key file k" in str(refused.value)
    assert not shows("".join(traceback.format_exception(refused.value)))


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.text())
def test_no_altered_character_gives_a_key_and_no_other_text_one(place: int, code: int, other: str) -> None:
    text = line(KEY).rstrip()
    place %= len(text)
    altered = text[:place] + chr(code % 128) + text[place + 1 :]
    with contextlib.suppress(KeyFileError):
        assert parse_keyring(altered, "here").keys == (KEY,) and altered.split() == text.split()
    with pytest.raises(KeyFileError):
        parse_keyring(other, "here")


# ---- files


@covers("SEC-14")
@pytest.mark.parametrize("umask", [0, 0o277])
def test_a_created_file_can_be_loaded_and_belongs_to_its_owner_alone(tmp_path: Path, umask: int) -> None:
    """File mode 0600 and the directory's 0700, whatever the umask; an existing one is never overwritten."""
    path = tmp_path / "psgd" / "key"
    if umask:  # which would keep us out of a directory of our own
        path.parent.mkdir(mode=0o700)
    old = os.umask(umask)
    try:
        ring = create_key_file(path)
    finally:
        os.umask(old)
    with pytest.raises(KeyFileError, match="exists already and is kept"):
        create_key_file(path)
    assert load_key_file(path) == ring
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
    assert [entry.name for entry in path.parent.iterdir()] == ["key"]


@covers("SEC-14", "SEC-15")
def test_a_file_that_others_can_use_or_own_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """a key of mode 0644, or any other that lets group or others in, is refused with the command that helps; one that another
    user has put there is not ours."""
    path = tmp_path / "key"
    for mode in (0o644, 0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o660, 0o777):
        with pytest.raises(KeyFileError, match=f"has mode {mode:04o}, .*run 'chmod 600 {path}'"):
            load_key_file(write(path, mode=mode))
    assert load_key_file(write(path)).offered == KEY
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(KeyFileError, match=f"must belong to user {os.getuid() + 1}, .* belongs to user {os.getuid()}"):
        load_key_file(path)


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    """A folder with what is no key file."""
    write(tmp_path / "empty", "")
    (tmp_path / "link").symlink_to(write(tmp_path / "target"))
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir(mode=0o700)
    (tmp_path / "utf-16").write_bytes(line(KEY).encode("utf-16"))
    (tmp_path / "utf-16").chmod(0o600)
    for number, content in enumerate((b"\xff" * 100, b"a" * 5000, b"\0" * 1024, os.urandom(900))):
        (tmp_path / f"content{number}").write_bytes(content)
        (tmp_path / f"content{number}").chmod(0o600)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("link", "symbolic link; name the file itself"),
        ("pipe", "pipe must be a regular file"),
        ("folder", "folder must be a regular file"),
        ("key", r"does not exist; copy it .*'psgd worker --new-key --key-file .*'"),
        ("empty/key", "does not exist"),
        ("empty", "holds no key"),
        ("utf-16", "utf-16 is UTF-16 text; save it as UTF-8"),
        *((f"content{number}", "key") for number in range(4)),
    ],
)
def test_what_is_no_key_file_is_refused_at_once(faulty: Path, name: str, fault: str) -> None:
    """And leaves no descriptor open. A place that cannot hold a file is named."""
    probe = os.open(faulty / "target", os.O_RDONLY)
    os.close(probe)
    with pytest.raises(KeyFileError, match=fault):
        load_key_file(faulty / name)
    again = os.open(faulty / "target", os.O_RDONLY)
    os.close(again)
    assert again == probe
    with pytest.raises(KeyFileError, match=r"empty/key cannot be written: .*; name another with 'key_file'"):
        create_key_file(faulty / "empty" / "key")


def test_a_byte_order_mark_is_no_part_of_a_key_file(tmp_path: Path) -> None:
    """Some editors write one."""
    path = write(tmp_path / "key")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load_key_file(path).offered == KEY


# ---- where keys are found


def test_sources_are_asked_in_order_and_a_faulty_one_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "config" / "psgd").mkdir(parents=True)
    explicit, variable, default = (create_key_file(tmp_path / n) for n in ("explicit", "variable", "config/psgd/key"))
    config, missing = {"XDG_CONFIG_HOME": str(tmp_path / "config")}, tmp_path / "missing"
    environ = {**config, "PSGD_KEY_FILE": str(tmp_path / "variable"), "PSGD_KEY": line(KEY)}
    before = dict(environ)
    assert find_keys(tmp_path / "explicit", environ, create=False) == explicit
    assert find_keys(None, environ, create=False) == variable
    assert environ == before
    assert find_keys(None, {**config, "PSGD_KEY": line(KEY)}, create=False) == Keyring((KEY,))
    for more, create in (({}, False), ({}, True), ({"PSGD_KEY_FILE": ""}, False)):
        assert find_keys(None, {**config, **more}, create=create) == default  # type: ignore[dict-item]
    for path, more, fault in (
        (missing, {}, "missing does not exist"),
        (None, {"PSGD_KEY_FILE": str(missing)}, "missing does not exist"),
        (None, {"PSGD_KEY": ""}, "variable PSGD_KEY holds no key"),
    ):
        with pytest.raises(KeyFileError, match=fault):
            find_keys(path, {**config, **more}, create=True)  # type: ignore[dict-item]
    assert not missing.exists()


@covers("SEC-15")
def test_the_default_file_is_made_at_the_first_use_and_not_anew_when_it_is_faulty(tmp_path: Path) -> None:
    """a default key of mode 0644 is refused, not replaced."""
    environ, path = {"HOME": str(tmp_path)}, tmp_path / ".config" / "psgd" / "key"
    with pytest.raises(KeyFileError, match="does not exist"):
        find_keys(None, environ, create=False)
    ring = find_keys(None, environ, create=True)
    assert find_keys(None, environ, create=False) == load_key_file(path) == ring
    path.chmod(0o644)
    with pytest.raises(KeyFileError, match="chmod 600"):
        find_keys(None, environ, create=True)
    assert path.read_text() == format_keyring(ring)


def test_a_key_is_made_to_call_agents_of_this_machine_alone(tmp_path: Path) -> None:
    """No agent of another machine has a key that is made for the call, so that a missing one is told there."""
    environ, here, there = {"HOME": str(tmp_path)}, Address("127.0.0.1", 1), Address("192.168.1.2", 1)
    for agents in ([there], [here, there]):
        with pytest.raises(KeyFileError, match="key does not exist; copy it from a machine of the cluster"):
            find_keys_for(agents, None, environ)
    assert not list(tmp_path.iterdir())
    made = find_keys_for([here, Address("::1", 1)], None, environ)
    assert find_keys_for([there], None, environ) == made


def test_the_configuration_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a home is told what to give."""
    for config, path in (({"XDG_CONFIG_HOME": "/etc/here"}, "/etc/here"), ({"XDG_CONFIG_HOME": "relative"}, "/h/.config")):
        assert default_key_path({**config, "HOME": "/h"}) == Path(path, "psgd", "key")
    assert default_key_path({"HOME": "/h"}) == Path("/h/.config/psgd/key")

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(KeyFileError, match=r"no home directory .*'key_file' or set PSGD_KEY_FILE"):
        default_key_path({})


@covers("SEC-16")
def test_the_variable_is_gone_once_taken() -> None:
    """Children inherit no key, not even a malformed one."""
    environ = {"PSGD_KEY": line(KEY), "PATH": "/bin"}
    assert take_key_from_environment(environ) == Keyring((KEY,))
    assert environ == {"PATH": "/bin"} and take_key_from_environment(environ) is None
    environ["PSGD_KEY"] = line(KEY)[:-9]
    with pytest.raises(KeyFileError, match="variable PSGD_KEY, line 1") as refused:
        take_key_from_environment(environ)
    assert environ == {"PATH": "/bin"} and not shows(str(refused.value))


FIRST_USE = """
import sys
from network.key_files import find_keys
print("ready", flush=True)
sys.stdin.readline()
print(repr(find_keys(None, {"XDG_CONFIG_HOME": sys.argv[1]}, create=True)))
"""


@covers("SEC-14")
def test_processes_that_make_the_first_key_at_once_agree(tmp_path: Path) -> None:
    """Whoever loses the race reads the winner's file, which is never to be seen half-written."""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", FIRST_USE, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for _ in range(4)
    ]
    try:
        for child in children:
            assert child.stdout is not None and child.stdout.readline() == "ready\n"
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        answers = [child.communicate(timeout=60)[0] for child in children]
    finally:
        for child in children:
            child.kill()
            child.communicate()
    assert answers == [f"{find_keys(None, {'XDG_CONFIG_HOME': str(tmp_path)}, create=False)!r}\n"] * 4
    assert [entry.name for entry in (tmp_path / "psgd").iterdir()] == ["key"]


@covers("SEC-14")
def test_the_race_is_decided_before_the_file_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """a file that appears between looking and publishing wins, and our own draft is removed."""
    link, path = os.link, tmp_path / "psgd" / "key"

    def overtaken(source: Path, target: Path) -> None:
        if not path.exists():
            write(path)
        link(source, target)

    monkeypatch.setattr(os, "link", overtaken)
    assert find_keys(None, {"XDG_CONFIG_HOME": str(tmp_path)}, create=True) == Keyring((KEY,))
    assert [entry.name for entry in path.parent.iterdir()] == ["key"]
