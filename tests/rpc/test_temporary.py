"""Temporary folders of processes that are killed: a later process removes them, and no others."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rpc.support.temporary import TemporaryFolder, owner_file, remove_abandoned
from tests.processes.harness import wait_for
from tests.programs import environment

_OWNER = """
import sys
from rpc.support.temporary import TemporaryFolder
folder = TemporaryFolder("test", sys.argv[1])
(folder.path / "deep").mkdir()
(folder.path / "deep" / "file").write_text("content")
print(folder.path, flush=True)
sys.stdin.read()
folder.close()
"""


@contextlib.contextmanager
def owner(root: Path, *code: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process with a folder of its own, and that folder."""
    with subprocess.Popen(
        [sys.executable, "-c", *(code or (_OWNER, str(root)))],
        env={**environment(root), "TMPDIR": str(root)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def test_the_folder_of_a_process_that_was_killed_goes_and_of_one_that_lives_stays(tmp_path: Path) -> None:
    with owner(tmp_path) as (killed, folder), owner(tmp_path) as (living, other):
        assert (folder / "deep" / "file").is_file() and folder.stat().st_mode & 0o777 == 0o700
        remove_abandoned(tmp_path)
        assert folder.is_dir() and other.is_dir()
        killed.kill()
        killed.wait()
        assert folder.is_dir()
        with TemporaryFolder("later", str(tmp_path)) as later:  # the first one of this process in this place
            assert sorted(tmp_path.iterdir()) == sorted([other, later])
        living.communicate("")
        assert list(tmp_path.iterdir()) == []


def test_a_folder_stays_while_a_worker_in_it_runs(tmp_path: Path) -> None:
    with owner(tmp_path) as (killed, folder):
        killed.kill()
        killed.wait()
    (folder / "agent-0").mkdir()
    with open(folder / "agent-0" / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        remove_abandoned(tmp_path)
        assert (folder / "deep" / "file").is_file()
    remove_abandoned(tmp_path)
    assert not folder.exists()


def test_a_folder_of_another_host_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where hosts share the place of temporary files, its process may run there: not every file system tells of its lock."""
    with owner(tmp_path) as (killed, folder):
        killed.kill()
        killed.wait()
    name = os.uname()
    elsewhere = os.uname_result((name.sysname, f"{name.nodename}-2", name.release, name.version, name.machine))
    with monkeypatch.context() as there:
        there.setattr(os, "uname", lambda: elsewhere)
        remove_abandoned(tmp_path)
        assert (folder / "deep" / "file").is_file()
    remove_abandoned(tmp_path)
    assert not folder.exists()


def test_what_could_not_be_removed_at_the_end_goes_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file server that keeps a name for a file that a process has open."""
    remove = os.rmdir

    def refuse(path: Any, **options: Any) -> None:
        if Path(path).name == "deep":
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        remove(path, **options)

    folder = TemporaryFolder("test", str(tmp_path))
    (folder.path / "deep").mkdir()
    (folder.path / "file").touch()
    with monkeypatch.context() as busy:
        busy.setattr(os, "rmdir", refuse)
        folder.close()
    assert (folder.path / "deep").is_dir() and not (folder.path / "file").exists()
    remove_abandoned(tmp_path)
    assert not folder.path.exists()


def test_what_is_no_folder_of_ours_stays(tmp_path: Path) -> None:
    for name in ("psgd-of-before", "psgd-link", "psgd-pipe", "other"):
        (tmp_path / name).mkdir()
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "psgd-link" / owner_file()).symlink_to(victim)
    os.mkfifo(tmp_path / "psgd-pipe" / owner_file())
    (tmp_path / "other" / owner_file()).touch()
    (tmp_path / "psgd-led").symlink_to(tmp_path / "other")
    (tmp_path / "psgd-file").touch()
    before = sorted(tmp_path.rglob("*"))
    remove_abandoned(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before and victim.read_text() == "mine"


def test_a_child_that_was_forked_removes_nothing_and_holds_nothing(tmp_path: Path) -> None:
    begin, end = os.pipe()
    told, tell = os.pipe()
    folder = TemporaryFolder("test", str(tmp_path))
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        os.close(end)
        folder.close()
        os.write(tell, b"x")
        os.read(begin, 1)
        os._exit(0)
    os.close(begin)
    try:
        assert os.read(told, 1) == b"x"
        assert folder.path.is_dir()
        folder._lock.close()  # as at the end of this process
        remove_abandoned(tmp_path)
        assert not folder.path.exists()
    finally:
        for descriptor in (end, told, tell):
            os.close(descriptor)
        os.waitpid(child, 0)


_WORKERS = """
import sys
from parallel_sgd import local_workers
with local_workers(2) as nodes:
    print(nodes.key_file, flush=True)
    sys.stdin.read()
"""


@pytest.mark.processes
def test_local_workers_of_a_program_that_was_killed_leave_nothing_for_long(tmp_path: Path) -> None:
    with owner(tmp_path, _WORKERS) as (killed, key):
        folder = key.parent
        locks = [folder / f"agent-{number}" / "lock" for number in range(2)]
        killed.kill()
        killed.wait()

    def is_free(path: Path) -> bool:
        with path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    wait_for(lambda: all(map(is_free, locks)), "the workers have ended")
    assert key.is_file(), "nobody was left to remove it"
    with owner(tmp_path, _WORKERS) as (_, later):
        assert [path for path in tmp_path.iterdir() if path.name.startswith("psgd-")] == [later.parent]
