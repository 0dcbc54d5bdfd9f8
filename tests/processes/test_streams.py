"""Streams that take no text, at real agents, submitters and jobs: these go on, and say what they are asked all the same."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parallel_sgd.networks import mlp
from tests.programs import environment

from .executors import Sum
from .harness import LIMIT, AgentProcess, Cluster, wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pipes of one page")

PAGE = 4096
SUBMIT = ("-m", "psgd", "submit", "-m", "dnn.model", "--dataset", "digits", "--epochs", "1", "--local", "1")


@contextlib.contextmanager
def stuck_pipe(path: Path) -> Iterator[int]:
    """A pipe at `path` with room for 60 bytes, and its end for reading."""
    os.mkfifo(path)
    both = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        fcntl.fcntl(both, fcntl.F_SETPIPE_SZ, PAGE)
        os.write(both, b"." * (PAGE - 60))
        yield both
    finally:
        os.close(both)


def agent_with(cluster: Cluster, redirect: str, **variables: str) -> AgentProcess:
    """An agent whose streams are as a shell has them after `redirect`."""
    on = ("sh", "-c", f'exec "$@" {redirect}', "sh")
    agent = AgentProcess(cluster.root / "agent", cluster.key_file, on=on, **variables)
    cluster.agents.append(agent)
    return agent.await_address()


def log_of(agent: AgentProcess) -> str:
    return "".join(path.read_text() for path in (agent.work / "log").glob("*.log"))


def read_from(descriptor: int) -> str:
    try:
        return os.read(descriptor, 1 << 20).decode()
    except BlockingIOError:
        return ""


def run(cluster: Cluster, folder: Path) -> str:
    """One whole job; returns its id."""
    done = cluster.run(Sum, folder)
    assert done.results and not done.error, done.failures
    return done.coordinator.job


def as_shown(agent: AgentProcess) -> str:
    """The lines of the log of an agent as its console has them, where a line has a time without a date."""
    return re.sub(r"(?<=@)\d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d)[+-]\d\d:\d\d(?=: )", r"\1", log_of(agent))


def test_an_agent_whose_console_nobody_reads(own: Cluster, tmp_path: Path) -> None:
    """It serves job after job, and has all it says in its log; once somebody reads, the console goes on, each line once."""
    with stuck_pipe(own.root / "console") as console:
        agent = agent_with(own, f">{own.root}/console 2>&1")
        jobs = [run(own, tmp_path) for _ in range(3)]
        shown = ""
        assert all(job in log_of(agent) for job in jobs)

        def all_shown() -> bool:
            nonlocal shown
            shown += read_from(console)
            return all(job in shown for job in jobs)

        wait_for(all_shown, "the console to show what has waited")  # without another line: the agent looks now and then
        # the last line may have come in part, as a pipe takes what there is room for
        assert as_shown(agent).startswith(shown.lstrip("."))


@pytest.mark.long
def test_an_agent_whose_console_nobody_reads_ends_when_it_is_told(own: Cluster, tmp_path: Path) -> None:
    with stuck_pipe(own.root / "console"):
        agent = agent_with(own, f">{own.root}/console 2>&1")
        run(own, tmp_path)
        begin = time.monotonic()
        assert agent.end(signal.SIGTERM) == 0 and time.monotonic() - begin < 10


def test_what_an_agent_leaves_out_is_counted_and_told_once(own: Cluster, tmp_path: Path) -> None:
    """And where it stands. Here 300 bytes may wait, so that a few jobs say too much."""
    (tmp_path / "sitecustomize.py").write_text("import rpc.support.console\nrpc.support.console.WAITING_BYTES = 300\n")
    with stuck_pipe(own.root / "console") as console:
        path = os.pathsep.join([environment(tmp_path)["PYTHONPATH"], str(tmp_path)])
        agent = agent_with(own, f">{own.root}/console 2>&1", PYTHONPATH=path)
        for _ in range(3):
            run(own, tmp_path)
        shown = read_from(console)
        run(own, tmp_path)
        shown += read_from(console)
        agent.end()
        shown += read_from(console)
    lines, log = shown.lstrip(".").splitlines(), as_shown(agent).splitlines()
    place = next(number for number, line in enumerate(lines) if "left out here" in line)
    note, count = lines.pop(place), len(log) - len(lines)
    assert lines == log[:place] + log[place + count :] and count > 5
    assert note.startswith(f"[{count} lines were left out here: nobody reads it; they are in {agent.work}/log/")


@pytest.mark.long
def test_an_agent_whose_reader_is_stopped(own: Cluster, tmp_path: Path) -> None:
    """As `worker.py | less` has it: what it said meanwhile comes when the reader goes on, in order and whole."""
    path, shown = own.root / "console", own.root / "shown"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reading, True)
    writing = os.open(path, os.O_WRONLY)
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PAGE)
    with open(shown, "wb") as file, subprocess.Popen(["cat"], stdin=reading, stdout=file) as reader:
        os.close(reading)
        reader.send_signal(signal.SIGSTOP)
        agent = agent_with(own, f">{path} 2>&1")
        os.write(writing, b"." * (PAGE - 1000) + b"\n")
        os.close(writing)
        for _ in range(4):
            run(own, tmp_path)
        reader.send_signal(signal.SIGCONT)
        agent.end()
        assert reader.wait(LIMIT) == 0
    assert shown.read_text().replace("." * (PAGE - 1000) + "\n", "") == as_shown(agent)


@pytest.mark.parametrize("redirect", ["2>&-", ">&- 2>&-", "2>/dev/full", "2>broken"])
@pytest.mark.share(4)
def test_an_agent_without_a_console_serves(own: Cluster, tmp_path: Path, redirect: str) -> None:
    """Closed from the start, full, or broken: its jobs have descriptors of their own under 0, 1 and 2."""
    if redirect == "2>broken":
        path = own.root / "broken"
        os.mkfifo(path)
        both = os.open(path, os.O_RDWR)
        agent = agent_with(own, f"2>{path}")
        os.close(both)
    else:
        agent = agent_with(own, redirect)
    for _ in range(2):
        job = run(own, tmp_path)
    assert job in log_of(agent)
    for number in range(3):
        assert not os.readlink(f"/proc/{agent.pid}/fd/{number}").startswith("socket:")


@pytest.mark.parametrize("redirect", [">&-", ">/dev/full"])
@pytest.mark.share(2)
def test_an_agent_that_cannot_say_where_it_listens_does_not_start(tmp_path: Path, redirect: str) -> None:
    command = f"{sys.executable} -m rpc.agent.cli --port 0 --temporary --announce - {redirect}"
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == 2 and "--announce -: the address cannot be printed on standard output: " in done.stderr


@pytest.fixture
def place(tmp_path: Path) -> Path:
    mlp().save(tmp_path / "dnn.model")
    return tmp_path


def ran(place: Path) -> Path:
    """The folder of the one run there, which has all that a run leaves."""
    (run,) = [path for path in (place / "runs").iterdir() if path.is_dir() and not path.is_symlink()]
    assert (run / "manifest.json").exists() and json.loads((run / "outcome.json").read_text())
    return run


@contextlib.contextmanager
def unread(place: Path) -> Iterator[int]:
    """The writing end of a full pipe, as blocking as a shell makes it."""
    with stuck_pipe(place / "console") as console:
        os.write(console, b"." * 60)
        writing = os.open(place / "console", os.O_WRONLY)
        try:
            yield writing
        finally:
            os.close(writing)


@contextlib.contextmanager
def submitting(place: Path, *options: str, **streams: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, *SUBMIT, *options]
    with subprocess.Popen(command, cwd=place, env=environment(place), stdin=subprocess.DEVNULL, **streams) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            process.kill()


def test_a_submitter_whose_streams_nobody_reads(place: Path) -> None:
    """Its job is done; that the result could not be printed has a code of its own."""
    with unread(place) as console, submitting(place, stdout=console, stderr=console) as process:
        assert process.wait(LIMIT) == 74
    ran(place)


@pytest.mark.long
def test_a_submitter_whose_log_nobody_reads(place: Path) -> None:
    """The result is printed as ever."""
    with unread(place) as console, submitting(place, stdout=subprocess.PIPE, stderr=console) as process:
        out, _ = process.communicate(timeout=LIMIT)
        assert process.returncode == 0 and out.startswith(b"{'Loss'")
    ran(place)


@pytest.mark.long
def test_a_submitter_on_a_terminal_that_stands_still(place: Path) -> None:
    """By Ctrl-S, or because nobody reads its other end: bars and log are for later, the job is not."""
    master, slave = pty.openpty()
    try:
        os.set_blocking(slave, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(slave, b"." * 64)
        os.set_blocking(slave, True)
        with submitting(place, stdout=subprocess.PIPE, stderr=slave) as process:
            out, _ = process.communicate(timeout=LIMIT)
            assert process.returncode == 0 and out.startswith(b"{'Loss'")
    finally:
        os.close(master)
        os.close(slave)
    ran(place)


@pytest.mark.parametrize("redirect", ["<&- >&- 2>&-", ">&-", "2>&-"])
@pytest.mark.long
def test_a_submitter_without_streams(place: Path, redirect: str) -> None:
    command = f"{sys.executable} {' '.join(SUBMIT)} {redirect}"
    done = subprocess.run(
        ["sh", "-c", command], cwd=place, env=environment(place), capture_output=True, text=True, timeout=LIMIT
    )
    run = ran(place)
    assert done.returncode == (0 if redirect == "2>&-" else 74)
    assert done.stdout.startswith("{'Loss'") == (redirect == "2>&-")
    told = "The job is done, but its result could not be printed on standard output (it was closed when the program began)"
    told += f"; see {run.relative_to(place)}."
    assert (told in done.stderr) == (redirect == ">&-")


PROGRAM = """
import sys
import parallel_sgd, nn
from executor import ClusterExecutor
from tests.parallel_sgd.networks import mlp

def talk(number):
    for line in range(100):
        print("line", line)
        print("error", line, file=sys.stderr)
    return number

with parallel_sgd.local_workers(1) as nodes:
    with ClusterExecutor(nodes) as executor:
        found = list(executor.map(talk, range(4)))
    result = parallel_sgd.ParallelSGD(mlp(), nn.dataset.Digits(), nn.dataset.transforms.ImageCls()).parallel(nodes, epochs=1)
open("found", "w").write(f"{found} {sorted(result)}")
"""


@pytest.mark.long
def test_a_program_with_jobs_whose_streams_nobody_reads(place: Path) -> None:
    """What its tasks print goes through us, and so do log and progress: none of it holds up the program."""
    (place / "program.py").write_text(PROGRAM)
    with unread(place) as console:
        command = [sys.executable, "program.py"]
        with subprocess.Popen(command, cwd=place, env=environment(place), stdout=console, stderr=console) as process:
            try:
                assert process.wait(LIMIT) == 0
            finally:
                process.kill()
    assert (place / "found").read_text() == "[0, 1, 2, 3] ['Loss', 'accuracy']"
