"""How many cores a process may use: affinity of a real process, quotas of trees that control groups of both versions have."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rpc.agent.checks import threads_of
from rpc.messages import CanCommit
from rpc.support.processors import limit_met, process_limit, usable_cores
from tests.sources import ROOT, findings, library_files

UNIFIED = "35 24 0:30 {root} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
FIRST = "33 31 0:29 {root} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
"""Lines of /proc/self/mountinfo."""
FIRST_CORE = str(min(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else "0"


@pytest.fixture(autouse=True)
def many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process run on 16 cores, as far as it is told."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)


def tree(root: Path, group: str, mounts: str, files: dict[str, str]) -> Path:
    """Write what a process of the control group `group` sees in `proc` and `sys`."""
    for name, text in {"proc/self/cgroup": group, "proc/self/mountinfo": mounts, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return root


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("max 100000", 16), ("400000 100000", 4), ("350000 100000", 3), ("50000 100000", 1), ("9900000 100000", 16)],
)
def test_the_quota_of_a_group_of_version_2(tmp_path: Path, quota: str, cores: int) -> None:
    root = tree(tmp_path, "0::/user.slice/job\n", UNIFIED.format(root="/"), {"sys/fs/cgroup/user.slice/job/cpu.max": quota})
    assert usable_cores(root) == cores


@pytest.mark.parametrize(("quota", "cores"), [("-1", 16), ("200000", 2), ("1", 1)])
def test_the_quota_of_a_group_of_version_1(tmp_path: Path, quota: str, cores: int) -> None:
    folder = "sys/fs/cgroup/cpu,cpuacct/slurm/job"
    files = {f"{folder}/cpu.cfs_quota_us": quota, f"{folder}/cpu.cfs_period_us": "100000\n"}
    groups = "9:name=systemd:/x\n3:cpuset:/\n2:cpu,cpuacct:/slurm/job\n0::/\n"
    assert usable_cores(tree(tmp_path, groups, UNIFIED.format(root="/") + FIRST.format(root="/"), files)) == cores


def test_the_narrowest_group_around_counts(tmp_path: Path) -> None:
    files = {"sys/fs/cgroup/a/cpu.max": "300000 100000", "sys/fs/cgroup/a/b/cpu.max": "800000 100000"}
    assert usable_cores(tree(tmp_path, "0::/a/b\n", UNIFIED.format(root="/"), files)) == 3


@pytest.mark.parametrize(
    ("group", "mounted"),
    [("/docker/abc", "/docker/abc"), ("/docker/abc", "/"), ("/../other", "/"), ("/", "/")],
)
def test_in_a_container_the_mounted_part_counts(tmp_path: Path, group: str, mounted: str) -> None:
    """The path is that on the host where the container has no namespace of groups: what is mounted is its own group."""
    files = {"sys/fs/cgroup/cpu.max": "200000 100000"}
    assert usable_cores(tree(tmp_path, f"0::{group}\n", UNIFIED.format(root=mounted), files)) == 2


@pytest.mark.parametrize("text", ["", "nonsense", "a b\n", "max", "100000 0", "-5 100000"])
def test_what_cannot_be_read_limits_nothing(tmp_path: Path, text: str) -> None:
    root = tree(tmp_path, "0::/\n" + text, UNIFIED.format(root="/") + text, {"sys/fs/cgroup/cpu.max": text})
    assert usable_cores(root) == usable_cores(tmp_path / "none") == 16


def test_jobs_of_a_host_share_what_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """`blas_threads="auto"` asks for as many threads as there are usable cores for each job, not for those of the machine."""
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3}, raising=False)
    order = CanCommit("job", "title", 0, [0], 0, "3.11", "1.0", 0, 1, 68.0, 60.0)
    assert threads_of(order) == 1
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 4, 5, 6, 7}, raising=False)
    assert [threads_of(replace(order, jobs_on_host=jobs)) for jobs in (1, 2, 8)] == [5, 2, 1]


@pytest.mark.processes
@pytest.mark.skipif(shutil.which("taskset") is None, reason="there is no taskset here")
def test_a_process_that_is_bound_to_one_core_has_one() -> None:
    code = "from rpc.support.processors import limit_met, process_limit, usable_cores; print(usable_cores())"
    command = ["taskset", "-c", FIRST_CORE, sys.executable, "-c", code]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout == "1\n"


def test_nothing_else_counts_cores() -> None:
    """One function tells how many there are."""

    def counts(tree: ast.Module, name: str) -> list[str]:
        if name == "rpc/support/processors.py":
            return []
        words = ("cpu_count", "process_cpu_count", "sched_getaffinity")
        return [f"line {node.lineno}" for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in words]

    assert findings(library_files(), counts) == []


def refused_thread() -> RuntimeError:
    """Return the error of a thread that the system really refuses: there is no room for its stack."""
    threading.stack_size(1 << 46)
    try:
        threading.Thread(target=print).start()
    except RuntimeError as error:
        return error
    finally:
        threading.stack_size(0)
    raise AssertionError("a thread with a stack of 64 TiB has started")


@pytest.mark.parametrize("words", [None, "kein neuer Thread"])
def test_a_thread_that_cannot_start_is_known_by_its_place(words: str | None) -> None:
    """The words of the error differ between versions of Python."""
    error = refused_thread()
    if words is not None:
        error.args = (words,)
    assert limit_met(error) == process_limit()


def started_twice() -> None:
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    thread.start()


def not_made() -> None:
    class Thread(threading.Thread):
        def __init__(self) -> None:
            pass

    Thread().start()


def raised_by_a_user() -> None:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("wrong", [started_twice, not_made, raised_by_a_user])
def test_another_error_about_a_thread_is_no_limit(wrong: Callable[[], None]) -> None:
    with pytest.raises(RuntimeError) as raised:
        wrong()
    assert limit_met(raised.value) == "" == limit_met(RuntimeError("can't start new thread"))
