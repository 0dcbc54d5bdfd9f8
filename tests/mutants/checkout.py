"""A copy of the checkout, in which one mutant at a time stands and pytest runs."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
import venv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from tests.mutants.listing import Mutant
from tests.mutants.places import apply, find
from tests.proc import children_of
from tests.sources import ROOT

BLAS_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
# nothing by chance, and what a mutant makes hang counts as failed sooner than a slow test on a busy machine
PYTEST = ("-m", "pytest", "-v", "-x", "--no-header", "--tb=line", "--hypothesis-seed=0", "--timeout=30", "-p", "no:xdist")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?\.py(?:::[^\s\[]+)?)", re.MULTILINE)
_BEGUN = re.compile(r"^(tests/\S+\.py::[^\s\[]+)", re.MULTILINE)
_GONE = re.compile(r"^ERROR: (?:not found|file or directory not found): (\S+)", re.MULTILINE)
_NONE_COLLECTED = 5
_USAGE = 4


def checkout_files() -> list[str]:
    """What git tracks, and what is new and not ignored."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted(name for name in listed if (ROOT / name).is_file())


class Outcome(NamedTuple):
    """How one run of pytest ended. `failed` is the first test that failed, empty where all passed; the one under way where time
    ran out."""

    failed: str
    expired: bool = False


class Checkout:
    """The copy, with a virtual environment in which the packages are those of the copy, for child processes, too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in checkout_files():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
        venv.create(folder / ".venv", symlinks=True)
        self._python = folder / ".venv" / "bin" / "python"
        library = f"python{sys.version_info.major}.{sys.version_info.minor}"
        packages = folder / ".venv" / "lib" / library / "site-packages"
        (packages / "checkout.pth").write_text(f"{folder}\n{sysconfig.get_path('purelib')}\n")
        self._environment = {**os.environ, **dict.fromkeys(BLAS_THREADS, "1"), "TMPDIR": str(folder.parent)}
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of runs: each module is compiled once
        self._environment.setdefault("PSGD_SHARED_DATA", str(ROOT.parent / "shared" / "data"))
        self._changed = time.time()

    @contextlib.contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """The copy with the mutant in it."""
        place = find(mutant.package, mutant.name, mutant.statement, self._folder)
        source = place.path.read_text("utf-8")
        self._write(place.path, apply(place, mutant.becomes, source))
        try:
            yield
        finally:
            self._write(place.path, source)
            shutil.rmtree(self._folder / ".hypothesis", ignore_errors=True)

    def _write(self, path: Path, text: str) -> None:
        """Compiled modules are told apart by size and whole seconds: each text gets a second of its own."""
        path.write_text(text, "utf-8")
        self._changed += 2
        os.utime(path, (self._changed, self._changed))

    def run(self, tests: Sequence[str], marks: str, limit: float, without: Iterable[str] = ()) -> Outcome:
        """The tests in the order given, up to the first that fails, for at most `limit` seconds; none that is gone."""
        command = [str(self._python), *PYTEST, "-m", marks, *_passed_over(without), *tests]
        # a file, since what pytest leaves behind would keep a pipe open
        with open(self._folder / ".mutants.txt", "w+", encoding="utf-8", errors="replace") as output:
            process = _started(command, self._folder, self._environment, output)
            expired = False
            try:
                process.wait(limit)
            except subprocess.TimeoutExpired:
                expired = True
            finally:
                _end(process)
            output.seek(0)
            text = output.read()
        if expired:
            under_way = _BEGUN.findall(text)[-1:]
            return Outcome(under_way[0] if under_way else "", expired=True)
        if process.returncode in (0, _NONE_COLLECTED):
            return Outcome("")
        if process.returncode == _USAGE:
            gone = {name.removeprefix(f"{self._folder}/") for name in _GONE.findall(text)}
            here = [test for test in tests if test not in gone]
            if gone:
                return self.run(here, marks, limit, without) if here else Outcome("")
        failed = _FAILED.search(text)
        return Outcome(failed[1] if failed is not None else "tests/conftest.py")


def _passed_over(without: Iterable[str]) -> list[str]:
    """Options for tests, and for files that cannot be read."""
    return [f"--deselect={name}" if "::" in name else f"--ignore={name}" for name in without]


_RUNNING: dict[int, subprocess.Popen[bytes]] = {}  # every pytest of this program
_LOCK = threading.Lock()
_ENDED = threading.Event()


def _started(command: Sequence[str], folder: Path, environment: dict[str, str], output: IO[str]) -> subprocess.Popen[bytes]:
    with _LOCK:
        if _ENDED.is_set():
            raise RuntimeError("The run was interrupted.")
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        _RUNNING[process.pid] = process
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    """End pytest where it still runs, and what it has left: processes of sessions of their own became our children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with _LOCK:
        del _RUNNING[process.pid]
        for orphan in children_of() - _RUNNING.keys():
            with contextlib.suppress(ProcessLookupError):
                os.kill(orphan, signal.SIGKILL)


def end_all() -> None:
    """End every pytest and start no other, so that the threads that wait for one end, too."""
    with _LOCK:
        _ENDED.set()
        for process in _RUNNING.values():
            process.kill()
