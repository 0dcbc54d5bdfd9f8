"""Tests marked `ordinary_user` run as a user whom the kernel lets look into no protected process: where this one is root's, in
a pytest of their own, as nobody."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile

import pytest

from rpc.agent.children import project_root

NOBODY = 65534
_CAP_SYS_PTRACE = 19
_IDS = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
# an interpreter in the folder of root, which nobody may enter: the right to read any file gives none to look into processes
_BUT_READ = [f"--{name}=-all,+dac_read_search" for name in ("inh-caps", "ambient-caps", "bounding-set")]


def as_user(number: int) -> list[str]:
    """What a command begins with that root starts as this user."""
    return ["setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups", "--no-new-privs", *_BUT_READ]


def capabilities() -> int:
    """Those that this process may use."""
    with open("/proc/self/status", encoding="ascii") as status:
        return int(next(line for line in status if line.startswith("CapEff:")).split()[1], 16)


def is_ordinary() -> bool:
    """Whether this process is that of such a user."""
    return os.geteuid() != 0 and not capabilities() >> _CAP_SYS_PTRACE & 1


def run_as_nobody(test: str) -> None:
    """Run one test by its id."""
    folder = tempfile.mkdtemp(prefix="psgd-nobody-")  # pytest's own folders are closed to others
    environ = {"PATH": os.environ["PATH"], "HOME": folder, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    try:
        os.chown(folder, NOBODY, NOBODY)
        command = [sys.executable, "-m", "pytest", "-q", "--basetemp", f"{folder}/tests", test]
        for prefix, ids in (([], _IDS), (as_user(NOBODY), {})):
            trial = [*prefix, sys.executable, "-c", "import pytest"]
            if _runs(trial, ids, environ):
                done = subprocess.run(
                    [*prefix, *command], cwd=project_root(), env=environ, capture_output=True, text=True, timeout=250, **ids
                )
                assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
                return
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    pytest.skip("Neither an ordinary user nor able to become one: no right to change the user, or no setpriv.")


def _runs(command: list[str], ids: dict[str, object], environ: dict[str, str]) -> bool:
    try:
        return subprocess.run(command, env=environ, cwd=project_root(), capture_output=True, timeout=60, **ids).returncode == 0  # type: ignore[call-overload,no-any-return]
    except OSError:
        return False
