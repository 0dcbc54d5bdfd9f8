"""Standard streams hold up no writer, whatever their reader does: consoles over real pipes, terminals, sockets and devices."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from network.keys import Keyring, new_key
from rpc.agent.agent import Agent
from rpc.agent.settings import AgentSettings
from rpc.support import console
from rpc.support.console import WAITING_BYTES, Console, ConsoleStream
from tests.programs import environment
from tests.sources import ROOT, library_files

SMALL = 4096  # bytes of the smallest pipe
AT_ONCE = 10.0  # seconds for thousands of lines that wait for nothing, on a busy machine; those that wait take minutes
LINE = b"x" * 99 + b"\n"


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, SMALL)
    yield reading, writing
    for descriptor in (reading, writing):
        try:
            os.close(descriptor)
        except OSError:
            continue


def fill(shown: Console, count: int = 10_000) -> float:
    """Write so many lines; returns the seconds."""
    begin = time.monotonic()
    for _ in range(count):
        shown.write(LINE)
    return time.monotonic() - begin


def read_all(reading: int, shown: Console) -> bytes:
    """Read until the console has nothing left to show."""
    os.set_blocking(reading, False)
    found = b""
    for _ in range(100_000):
        done = shown.settle()
        try:
            found += os.read(reading, 1 << 16)
        except BlockingIOError:
            if done:
                return found
    raise AssertionError("the console never has all shown")


def test_a_full_pipe_holds_up_nobody_and_says_later_what_was_left_out(pipe: tuple[int, int]) -> None:
    """Lines that fit are whole and in order; one line tells how many are missing, where they would stand, and what comes later
    follows it."""
    reading, writing = pipe
    shown = Console(writing)
    assert fill(shown, 4000) < AT_ONCE
    assert shown.lost and shown.settle() is False
    shown.told_in = "/log/of/it"
    head = read_all(reading, shown)
    shown.write(b"later\n")
    *lines, note, later = (head + read_all(reading, shown)).splitlines(keepends=True)
    assert set(lines) == {LINE} and later == b"later\n"
    missing = 4000 - len(lines)
    assert WAITING_BYTES <= len(lines) * 100 <= WAITING_BYTES + SMALL
    assert note.decode() == f"[{missing:,} lines were left out here: nobody reads it; they are in /log/of/it]\n"
    assert missing * 100 == shown.lost


def test_an_agent_says_where_its_lines_are_while_it_runs(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Lines that nobody reads are in its log; a program that goes on after its agent has no such log."""
    reading, writing = pipe
    shown = Console(writing)
    monkeypatch.setitem(console._CONSOLES, console.STDERR, shown)

    def note() -> bytes:
        fill(shown, 4000)
        head = read_all(reading, shown)
        shown.write(b"later\n")
        (found,) = [line for line in (head + read_all(reading, shown)).splitlines() if b"left out" in line]
        return found

    with contextlib.closing(Agent(AgentSettings("127.0.0.1", 0, work_dir=str(tmp_path), keyring=Keyring((new_key(),))))):
        assert f"nobody reads it; they are in {tmp_path}/".encode() in note()
    assert note().endswith(b"nobody reads it]")


def test_the_flag_of_others_stays(pipe: tuple[int, int]) -> None:
    """The pipe that this process was given is as blocking as before for all who share it."""
    _, writing = pipe
    shown = Console(writing)
    fill(shown, 100)
    assert os.get_blocking(writing)


def test_a_slow_reader_gets_all_and_a_burst_is_no_loss(pipe: tuple[int, int]) -> None:
    """One that reads what it can gets every line, though a burst is larger than the pipe."""
    reading, writing = pipe
    found: list[bytes] = []

    def read() -> None:
        while data := os.read(reading, 1 << 16):
            found.append(data)

    reader = threading.Thread(target=read)
    reader.start()
    shown = Console(writing)
    for number in range(2000):
        shown.write(b"%099d\n" % number)
    assert shown.settle(10, anew=True) and not shown.lost
    os.close(writing)
    shown._let_go()
    reader.join()
    assert b"".join(found) == b"".join(b"%099d\n" % number for number in range(2000))


def test_a_reader_that_takes_little_costs_a_twentieth_of_the_time(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page now and then is waited for with a small share of the time, not each time."""
    reading, writing = pipe
    writable, waited = console._writable, 0.0

    def counted(descriptor: int, seconds: float) -> bool:
        nonlocal waited
        begin = time.monotonic()
        takes = writable(descriptor, seconds)
        waited += min(seconds, time.monotonic() - begin)  # what a busy machine adds is no patience of the console
        return takes

    monkeypatch.setattr(console, "_writable", counted)
    over = threading.Event()

    def sip() -> None:
        while not over.wait(0.1):
            os.read(reading, 512)

    reader = threading.Thread(target=sip)
    reader.start()
    shown = Console(writing)
    begin = time.monotonic()
    try:
        while time.monotonic() < begin + 2:
            shown.write(LINE)
            time.sleep(0.002)
        took = time.monotonic() - begin
    finally:
        over.set()
        os.set_blocking(writing, False)
        reader.join()
    assert 0.05 < waited <= 0.25 + 0.05 * took


@pytest.mark.parametrize("device", ["/dev/full", "closed", "broken"])
def test_a_stream_that_refuses_is_no_error(device: str, pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    shown = Console(writing)
    if device == "/dev/full":
        full = os.open(device, os.O_WRONLY)
        os.dup2(full, writing)
        os.close(full)
    else:
        os.close(reading if device == "broken" else writing)
    assert fill(shown, 10) < AT_ONCE
    assert shown.lost == 1000 and shown.problem in ("No space left on device", "Bad file descriptor", "Broken pipe")


def test_a_stream_that_is_full_for_a_while_goes_on(pipe: tuple[int, int]) -> None:
    """A disk that has room again, say: the descriptor leads elsewhere meanwhile."""
    reading, writing = pipe
    shown, kept = Console(writing), os.dup(writing)
    shown.write(b"half a line")
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, writing)
    shown.write(b"nowhere\nat all\n")
    os.dup2(kept, writing)
    os.close(kept)
    os.close(full)
    shown.write(b"again\n")
    assert read_all(reading, shown).decode() == "half a line\n[2 lines were left out here: No space left on device]\nagain\n"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives a terminal a second, non-blocking description")
def test_a_terminal_that_was_stopped(pipe: tuple[int, int]) -> None:
    """By Ctrl-S: nothing waits; Ctrl-Q shows what is left."""
    master, slave = pty.openpty()
    try:
        shown = Console(slave)
        termios.tcflow(slave, termios.TCOOFF)
        assert fill(shown, 4000) < AT_ONCE and shown.lost
        termios.tcflow(slave, termios.TCOON)
        assert b"lines were left out here" in read_all(master, shown)
    finally:
        shown._let_go()
        os.close(master)
        os.close(slave)


def test_a_socket_that_nobody_reads() -> None:
    """As an agent of inetd, or of ssh without a terminal, has."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        shown = Console(ours.fileno())
        assert fill(shown, 10_000) < 2 * AT_ONCE and shown.lost and ours.getblocking()
        assert b"lines were left out here" in read_all(theirs.fileno(), shown)
        shown._let_go()


def test_a_signal_handler_may_write_in_the_midst_of_a_write(pipe: tuple[int, int]) -> None:
    """Its text comes after what it has interrupted, and nothing twice."""
    reading, writing = pipe
    shown = Console(writing)
    before = signal.signal(signal.SIGALRM, lambda *_: shown.write(b"from the handler\n"))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        fill(shown, 41)
        shown.settle(0.3)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    found = read_all(reading, shown)
    assert found.count(LINE) == 41 and found.endswith(b"from the handler\n")


def test_text_that_an_encoding_lacks_is_shown_as_escapes(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    stream = ConsoleStream(Console(writing), "ascii")
    assert stream.write("Zürich \udcc3\n") == 9 and not stream.isatty() and stream.fileno() == writing
    assert stream.buffer.write(b"bytes\n") == 6
    assert os.read(reading, 100) == b"Z\\xfcrich \\udcc3\nbytes\n"


def program(folder: Path, text: str, redirect: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    """Run a program of Python by a shell."""
    (folder / "program.py").write_text(text)
    command = f"{sys.executable} program.py {redirect}"
    return subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=environment(folder, **more),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


OPEN = """
import os, sys
from rpc.support.console import open_descriptors
open_descriptors()
import socket
first = socket.socket()
print(sys.stdin.read(), end="")
print("shown"); print("told", file=sys.stderr); sys.stdout.flush(); sys.stderr.flush()
open("found", "w").write(f"{first.fileno() > 2} {[os.fstat(n) is not None and os.get_inheritable(n) for n in range(3)]}")
"""


@pytest.mark.parametrize("closed", ["", "<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_descriptors_are_open_from_the_start(tmp_path: Path, closed: str) -> None:
    """No socket of ours gets their numbers, children inherit them, and Python's streams take text."""
    done = program(tmp_path, OPEN, f"</dev/null {closed}")
    assert (tmp_path / "found").read_text() == "True [True, True, True]", done.stderr
    assert done.stdout == ("" if ">&-" in closed.replace("2>&-", "") else "shown\n")
    assert done.stderr == ("" if "2>&-" in closed else "told\n")


RUN = """
import sys, logging
from rpc.support.console import run_program
def main():
    {body}
    return {code}
sys.exit(run_program(main))
"""


WARNS = """
import warnings
from rpc.support.console import run_program

def main():
    warnings.warn("of the command")
    warnings.warn_explicit("of a codec", UserWarning, "mine.py", 7)
    return 0

raise SystemExit(run_program(main))
"""


def test_a_warning_of_a_command_is_a_sentence(tmp_path: Path) -> None:
    """Its line is one of ours; that of a file of the user's is told."""
    (tmp_path / "program.py").write_text(WARNS)
    ended = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stderr.splitlines() == ["warning  of the command", "mine.py:7: UserWarning: of a codec"], ended.stderr


@pytest.mark.parametrize(
    ("body", "code", "redirect", "ends"),
    [
        ("print('all')", 0, "", 0),
        ("print('all')", 0, ">/dev/full", 74),
        ("print('all')", 0, ">&-", 74),
        ("print('all')", 3, ">/dev/full", 3),  # what became of the work comes first
        ("pass", 0, ">&-", 0),  # there was nothing to print
        ("print('all'); sys.exit(0)", 1, ">/dev/full", 74),  # as --help ends
        ("print('all'); sys.exit(2)", 1, ">/dev/full", 2),
        ("raise ValueError('told')", 0, "", 1),
    ],
)
def test_how_a_program_ends_whose_output_could_not_be_printed(
    tmp_path: Path, body: str, code: int, redirect: str, ends: int
) -> None:
    done = program(tmp_path, RUN.format(body=body, code=code), redirect)
    assert done.returncode == ends
    assert ("Not all could be printed on standard output (" in done.stderr) == (ends == 74)
    assert ("ValueError: told" in done.stderr) == (ends == 1)


UNREAD = """
import os, sys, time
from rpc.support.console import run_program
def main():
    for _ in range(20_000):
        sys.stderr.write("line\\n")
    open("done", "w").close()
    return 0
sys.exit(run_program(main))
"""


def test_the_end_of_a_program_waits_a_second_for_its_last_lines(tmp_path: Path, pipe: tuple[int, int]) -> None:
    """Whose standard error nobody reads: it ends, and all that fits into the pipe is there."""
    (tmp_path / "program.py").write_text(UNREAD)
    reading, writing = pipe
    started = subprocess.Popen([sys.executable, "program.py"], cwd=tmp_path, env=environment(tmp_path), stderr=writing)
    while not (tmp_path / "done").exists():
        assert started.poll() is None
        time.sleep(0.01)
    assert started.wait(60) == 0, "it waits no longer than it must"
    assert os.read(reading, SMALL).startswith(b"line\nline\n")


def test_a_forked_process_shows_nothing_of_its_parent_again(pipe: tuple[int, int]) -> None:
    """What waits is the parent's to show."""
    reading, writing = pipe
    shown = Console(writing)
    fill(shown, 100)
    shown.begin_anew()
    assert read_all(reading, shown).count(b"\n") <= SMALL // 100


def test_a_stream_that_a_program_has_put_in_place_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of a notebook, of a test, or a file: it gets the text itself. So does none at all."""
    with open(tmp_path / "file", "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert console.console_stream(sys.stdout) is stream
        assert console.show_result("told\n") == ""
    assert console.show_result("told\n") == "I/O operation on closed file."
    assert (tmp_path / "file").read_text() == "told\n"
    monkeypatch.setattr(sys, "stdout", None)
    assert console.show_result("told\n") == "it was closed when the program began"
    console.show(None, "nowhere\n")


ORDER = """
import sys
from rpc.support.console import show
for number in range(3):
    print("mine", number)
    show(sys.stdout, f"ours {number}\\n")
"""


@pytest.mark.parametrize("redirect", ["| cat", "> out; cat out"])
def test_text_of_a_program_and_ours_keep_their_order(tmp_path: Path, redirect: str) -> None:
    """Though Python holds back what is printed into a pipe."""
    done = program(tmp_path, ORDER, redirect)
    assert done.stdout.split("\n")[:-1] == [f"{whose} {number}" for number in range(3) for whose in ("mine", "ours")], (
        done.stderr
    )


def test_every_program_of_ours_begins_with_open_streams() -> None:
    """Modules that are run, by a person or by one of our processes, call the one routine, or a function that does."""
    begins = re.compile(
        r"\b(run_program|open_descriptors)\(|from \. import main\b|^from psgd import (worker|submit)$", re.MULTILINE
    )
    programs = [
        path for path in (*library_files(), ROOT / "worker.py", ROOT / "job_submit.py") if _is_program(path.read_text("utf-8"))
    ]
    assert {"worker.py", "job_submit.py", "__main__.py", "cli.py", "fork_server.py", "process.py", "standby.py"} <= {
        path.name for path in programs
    }
    assert [str(path) for path in programs if not begins.search(path.read_text("utf-8"))] == []
    assert "run_program(" in (ROOT / "psgd" / "__init__.py").read_text("utf-8")


def _is_program(text: str) -> bool:
    return 'if __name__ == "__main__":' in text or re.search(r"^def main\(\) -> None:$", text, re.MULTILINE) is not None
