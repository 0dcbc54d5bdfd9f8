"""Key files: what is written can be read by its owner alone, everything else is refused; where keys are looked for."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from network.key_files import create_key_file, default_key_path, find_keys, load_key_file, take_key_from_environment
from network.keys import KeyFileError, Keyring, format_keyring

from ..statements import covers
from .keys import KEY, OTHER, line, secret_forms, write

# --- files


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


@covers("SEC-15")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o660, 0o777])
def test_a_file_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    """a key of mode 0644, or any other that lets group or others in, is refused with the command that helps."""
    path = write(tmp_path / "key", line(KEY), mode)
    with pytest.raises(KeyFileError, match=f"has mode {mode:04o}, .*run 'chmod 600 {path}'"):
        load_key_file(path)
    path.chmod(0o600)
    assert load_key_file(path).offered == KEY


@covers("SEC-14")
def test_a_file_of_another_owner_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """a key that another user has put there is not ours."""
    path = write(tmp_path / "key", line(KEY))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(KeyFileError, match=f"must belong to user {os.getuid() + 1}, .* belongs to user {os.getuid()}"):
        load_key_file(path)


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    """A folder with what is no key file."""
    write(tmp_path / "empty", "")
    (tmp_path / "link").symlink_to(write(tmp_path / "target", line(KEY)))
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir(mode=0o700)
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
        ("key", r"does not exist; copy it .*'psgd-worker --new-key --key-file .*'"),
        ("empty/key", "does not exist"),
        ("empty", "holds no key"),
        *((f"content{number}", "key") for number in range(4)),
    ],
)
def test_what_is_no_key_file_is_refused_at_once(faulty: Path, name: str, fault: str) -> None:
    """And leaves no descriptor open."""
    probe = os.open(faulty / "target", os.O_RDONLY)
    os.close(probe)
    with pytest.raises(KeyFileError, match=fault):
        load_key_file(faulty / name)
    again = os.open(faulty / "target", os.O_RDONLY)
    os.close(again)
    assert again == probe


def test_a_place_that_cannot_hold_a_file_is_named(faulty: Path) -> None:
    with pytest.raises(KeyFileError, match=r"empty/key cannot be written: .*; name another with --key-file"):
        create_key_file(faulty / "empty" / "key")


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


def test_the_configuration_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a home is told what to give."""
    assert default_key_path({"XDG_CONFIG_HOME": "/etc/here", "HOME": "/h"}) == Path("/etc/here/psgd/key")
    assert default_key_path({"XDG_CONFIG_HOME": "relative", "HOME": "/h"}) == Path("/h/.config/psgd/key")
    assert default_key_path({"HOME": "/h"}) == Path("/h/.config/psgd/key")

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(KeyFileError, match=r"no home directory .*--key-file or set PSGD_KEY_FILE"):
        default_key_path({})


@covers("SEC-16")
def test_the_variable_is_gone_once_taken() -> None:
    """Children inherit no key, not even a malformed one."""
    environ = {"PSGD_KEY": line(KEY), "PATH": "/bin"}
    assert take_key_from_environment(environ) == Keyring((KEY,))
    assert environ == {"PATH": "/bin"}
    assert take_key_from_environment(environ) is None
    environ["PSGD_KEY"] = line(KEY)[:-9]
    with pytest.raises(KeyFileError, match="variable PSGD_KEY, line 1") as refused:
        take_key_from_environment(environ)
    assert environ == {"PATH": "/bin"}
    assert not any(form in str(refused.value) for form in secret_forms(KEY))


FIRST_USE = """
import sys
from network.key_files import find_keys
sys.stdout.write("ready\\n")
sys.stdout.flush()
sys.stdin.readline()
sys.stdout.write(repr(find_keys(None, {"XDG_CONFIG_HOME": sys.argv[1]}, create=True)))
"""


@covers("SEC-14")
def test_processes_that_make_the_first_key_at_once_agree(tmp_path: Path) -> None:
    """Whoever loses the race reads the winner's file, which is never to be seen half-written."""
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


@covers("SEC-14")
def test_the_race_is_decided_before_the_file_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """a file that appears between looking and publishing wins, and our own draft is removed."""
    link = os.link
    path = tmp_path / "psgd" / "key"

    def overtaken(source: Path, target: Path) -> None:
        if not path.exists():
            write(path, line(KEY))
        link(source, target)

    monkeypatch.setattr(os, "link", overtaken)
    assert find_keys(None, {"XDG_CONFIG_HOME": str(tmp_path)}, create=True) == Keyring((KEY,))
    assert [entry.name for entry in path.parent.iterdir()] == ["key"]
