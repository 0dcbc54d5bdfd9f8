"""A user who may start few processes and threads: agent, submitter and job say so in one sentence."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parallel_sgd.networks import mlp
from tests.sources import ROOT

from .harness import LIMIT
from .ordinary_user import as_user

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or not (shutil.which("setpriv") and shutil.which("prlimit")),
    reason="needs a user without other processes, whom only root can become",
)


@pytest.fixture
def user() -> Iterator[tuple[int, Path]]:
    """One whom nobody else is, and a folder of his with a model."""
    number = random.SystemRandom().randrange(100_000, 1 << 30)
    folder = Path(tempfile.mkdtemp(prefix="psgd-few-"))  # pytest's own folders are closed to others
    try:
        mlp().save(folder / "dnn.model")
        for path in (folder, folder / "dnn.model"):
            os.chown(path, number, number)
        yield number, folder
    finally:
        shutil.rmtree(folder)


def submit(user: tuple[int, Path], most: int) -> subprocess.CompletedProcess[str]:
    number, folder = user
    command = ["prlimit", f"--nproc={most}", *as_user(number), sys.executable, "-m", "psgd", "submit", "-m", "dnn.model"]
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PSGD_KERNEL_PROBE": "off"}
    options = ["--dataset", "digits", "--epochs", "2", "--local", "1"]
    return subprocess.run(
        [*command, *options], cwd=folder, env=environ, capture_output=True, text=True, timeout=LIMIT, check=False
    )


@pytest.mark.parametrize(
    ("most", "code", "said"),
    [
        (1, 4, "The local workers cannot be started: "),
        (3, 4, "The worker cannot serve: "),  # its threads are too many
        (4, 3, "The job process ended without a report: its process could not be forked: "),
        (7, 1, "The job process may start "),  # the thread that saves checkpoints, after the first epoch
        (30, 0, ""),
    ],
)
@pytest.mark.share(18)
def test_a_user_who_may_start_few_processes(user: tuple[int, Path], most: int, code: int, said: str) -> None:
    done = submit(user, most)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert not said or f"{said}no more processes or threads (ulimit -u {most})" in done.stderr
