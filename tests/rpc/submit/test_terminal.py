"""What a person at a terminal, off it or in a notebook sees of a job: its progress, the log; and Ctrl-C as an event."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import rpc.submit.terminal
from nn.extension import answering
from rpc.agent.children import project_root
from rpc.launch import local
from rpc.launch.launcher import end_agents
from rpc.submit.terminal import Interrupts, ProgressDisplay, interrupted, telling, uninterrupted
from rpc.support import temporary
from rpc.support.logs import (
    BRIEF,
    HEADLINE,
    SUBMIT_LOGGER,
    ConsoleFilter,
    ConsoleFormatter,
    attach_console,
    in_notebook,
    verbosity,
)
from tests.processes.harness import LIMIT, wait_for

from ...screen import Screen
from ...statements import covers

logger = logging.getLogger("terminal test")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Callable[[], Screen]:
    """Called by the test itself: pytest takes stderr over once more after fixtures."""
    caplog.set_level(logging.INFO)

    def make() -> Screen:
        terminal = Screen()
        monkeypatch.setattr(sys, "stderr", terminal)
        return terminal

    return make


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> list[dict[str, str]]:
    """A kernel, as far as it is asked: everything that is shown."""
    caplog.set_level(logging.INFO)
    shown: list[dict[str, str]] = []

    def display(content: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert raw and display_id
        shown.append(content)
        return SimpleNamespace(update=lambda content, raw: shown.append({**content, "again": str(raw)}))

    shell = ModuleType("IPython")
    shell.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    shell.display = ModuleType("IPython.display")  # type: ignore[attr-defined]
    shell.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", shell.display)
    return shown


@covers("SUB-12")
def test_lines(caplog: pytest.LogCaptureFixture) -> None:
    """One line per change, none for a repetition or a stranger."""
    caplog.set_level(logging.INFO)
    display = ProgressDisplay([0, 1], logger)
    for node, percent in ((0, 0), (0, 10), (0, 10), (7, 50), (1, 100)):
        display.update(node, percent, "Loss 0.5")
    display.close()
    assert caplog.messages == [
        "Current progress: Worker(0): 10% Worker(1):  0% | Running",
        "Current progress: Worker(0): 10% Worker(1):100% | Running",
    ]


def test_a_short_console_without_a_terminal_tells_a_long_job_at_growing_distances(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not each percent: the epochs have their lines. A job that ends soon has none."""
    caplog.set_level(logging.INFO)
    now = 100.0
    monkeypatch.setattr(rpc.submit.terminal, "monotonic", lambda: now)
    with verbosity(1, short=True):
        display = ProgressDisplay([0, 1], logger)
        for percent in range(1, 101):
            now += 3.0
            display.update(0, percent, "Loss 0.5")
            display.update(1, percent, "Loss 0.5")
        display.close()
    shown = [each.getMessage() for each in caplog.records if vars(each).items() >= BRIEF.items()]
    told, left = zip(*(message.rsplit(", ", 1) for message in shown), strict=True)
    assert list(told) == [f"{percent} % of 2 workers, {3 * percent} s" for percent in (10, 20, 40, 80)]
    assert all(re.fullmatch(r"about \d+ s left", each) for each in left)


@covers("SUB-12")
def test_bars(terminal: Callable[[], Screen], caplog: pytest.LogCaptureFixture) -> None:
    """On a terminal each worker has its bar, with the time that is left and how it stands, in the order of workers whoever
    reports first."""
    screen, display = terminal(), ProgressDisplay([0, 1], logger)
    display.update(0, 40, "Loss 0.5000\x1b[2J")
    display.update(1, 100)
    display.close()
    display.close()
    shown = screen.getvalue()
    assert "Worker(0):  40%|" in shown and "Worker(1): 100%|" in shown and not caplog.messages
    assert "| 00:00<00:00, Loss 0.5000\\x1b[2J" in shown
    screen, display = terminal(), ProgressDisplay([], logger)
    for node in (1, 2, 0):
        display.add(node, 10 * node)
    display.update(1, 50)
    display.close()
    last = [line for line in screen.getvalue().split("\r") if "Worker(" in line][-3:]
    assert [line[line.index("Worker") :][:15] for line in last] == ["Worker(0):   0%", "Worker(1):  50%", "Worker(2):  20%"]


def test_a_bar_shows_each_change_at_once(terminal: Callable[[], Screen]) -> None:
    """However soon it comes after another: the next one may be minutes away."""
    screen, display = terminal(), ProgressDisplay([0], logger)
    for percent, note in ((40, "Loss 0.5"), (41, "Loss 0.4"), (42, "Loss 0.3")):
        display.update(0, percent, note)
        assert f"Worker(0):  {percent}%|" in screen.getvalue() and note in screen.getvalue()
    display.close()


def test_a_notebook_has_one_bar(notebook: list[dict[str, str]], caplog: pytest.LogCaptureFixture) -> None:
    """One output, drawn anew: the mean of all workers."""
    display = ProgressDisplay([1, 0], logger)
    display.update(0, 100, "Loss <0.1>")
    display.update(1, 50, "Loss 0.2")
    display.close()
    assert not caplog.messages and ["again" in content for content in notebook] == [False] + [True] * (len(notebook) - 1)
    last = notebook[-1]
    assert last["text/plain"].startswith(f"|{'█' * 30}          | 75 % of 2 workers, 0 s, about 0 s left, Loss 0.2")
    assert last["text/html"].startswith('<progress value="75" max="100"></progress> 75 % of 2 workers')
    assert "&lt;0.1&gt;" in notebook[-2]["text/html"]


def test_a_job_that_starts_again_goes_on_with_its_bars(
    request: pytest.FixtureRequest, terminal: Callable[[], Screen], caplog: pytest.LogCaptureFixture
) -> None:
    """On a terminal one for each worker that is there now, in a notebook one, off both lines that begin at 0 again."""

    def show() -> None:
        display = ProgressDisplay([0, 1, 2], logger)
        display.update(0, 40, "Loss 0.5")
        display.update(1, 30)
        display.begin([1, 0])
        display.update(1, 20, "Loss 0.4")
        display.close()

    show()
    assert caplog.messages[-1] == "Current progress: Worker(0):  0% Worker(1): 20% | Running"
    screen = terminal()
    show()
    assert [row[:15] for row in screen.rows if row] == ["Worker(0):   0%", "Worker(1):  20%"]
    shown: list[dict[str, str]] = request.getfixturevalue("notebook")
    show()
    assert ["again" in content for content in shown] == [False] + [True] * 4
    assert "0 % of 2 workers, 0 s, starts again" in shown[3]["text/html"]
    assert "10 % of 2 workers, 0 s, about 0 s left, Loss 0.4" in shown[4]["text/html"]


@pytest.mark.parametrize("place", ["terminal", "notebook", "neither"])
def test_nothing_is_shown_where_nobody_wants_it(
    place: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    shown = None if place == "neither" else request.getfixturevalue(place)
    shown = shown() if callable(shown) else shown
    with verbosity(0):
        display = ProgressDisplay([0], logger)
        display.update(0, 50)
        display.close()
    assert not caplog.messages and not (shown.getvalue() if isinstance(shown, Screen) else shown)


def seen() -> list[bool]:
    """Whether the console shows an ordinary line, a headline, a warning."""
    kinds: list[tuple[int, dict[str, Any]]] = [(logging.INFO, {}), (logging.INFO, {**HEADLINE}), (logging.WARNING, {})]
    lines = [logger.makeRecord("x", level, "", 0, "text", (), None, extra=extra) for level, extra in kinds]
    return [ConsoleFilter().filter(line) for line in lines]


@covers("SUB-10")
def test_a_short_console_tells_of_errors_as_of_all_else() -> None:
    """Without time and logger, which the whole story has."""
    told = []
    for level in (0, 1, 2):
        record = logging.makeLogRecord({"name": SUBMIT_LOGGER, "levelno": 40, "levelname": "ERROR", "msg": "Node(1)\nx"})
        with verbosity(level, short=True):
            told.append(ConsoleFormatter(sys.stderr).format(record))
    assert told[:2] == ["error    Node(1)\n\tx"] * 2 and told[2].startswith(f"ERROR {SUBMIT_LOGGER}@")
    # of modules of ours, too, such as a fault that strikes in this process; a logger of the user's has his form
    for name, start in (("network.faults.plan", "warning  Injected"), ("networks.mine", "WARNING networks.mine@")):
        record = logging.makeLogRecord({"name": name, "levelno": 30, "levelname": "WARNING", "msg": "Injected"})
        with verbosity(1, short=True):
            assert ConsoleFormatter(sys.stderr).format(record).startswith(start)


@covers("SUB-10")
def test_what_the_console_shows_of_the_log(request: pytest.FixtureRequest) -> None:
    """a program shows all of it unless asked not to; a notebook shows the headlines."""
    nothing, everything = [False, False, True], [True, True, True]
    for place, unasked in (("program", everything), ("notebook", [False, True, True])):
        if place == "notebook":
            request.getfixturevalue("notebook")
        assert in_notebook() == (place == "notebook") and seen() == unasked
        for level, shown in ((0, nothing), (1, unasked), (2, everything)):
            with verbosity(level):
                assert seen() == shown
    for wrong in (3, -1, "1", None, 1.5):
        with pytest.raises(ValueError, match=f"'verbose' must be 0, 1 or 2, got {wrong!r}"):
            verbosity(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("level", "becomes"), [(logging.WARNING, logging.INFO), (logging.ERROR, logging.ERROR), (logging.DEBUG, logging.DEBUG)]
)
def test_the_console(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, level: int, becomes: int) -> None:
    """Of a notebook it is its output, since on stderr it would stand on red ground. A level that a program has set stays."""
    root = logging.RootLogger(level)
    monkeypatch.setattr(logging, "getLogger", lambda name=None: root)
    attach_console()
    assert [handler.stream for handler in root.handlers] == [sys.stderr]  # type: ignore[attr-defined]
    assert root.level == becomes
    request.getfixturevalue("notebook")
    root.handlers.clear()
    attach_console()
    assert [handler.stream for handler in root.handlers] == [sys.stdout]  # type: ignore[attr-defined]


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_is_noted_and_wakes() -> None:
    """Between any two statements of the block it is kept until somebody looks; afterwards it raises again."""
    with Interrupts() as interrupts:
        assert not interrupts.take()
        press()
        assert select.select([interrupts.sock], [], [], 5)[0]
        assert interrupts.take() and not interrupts.take()
        assert not select.select([interrupts.sock], [], [], 0)[0]
    with pytest.raises(KeyboardInterrupt):
        press()


def test_a_handler_of_the_program_stays_and_other_threads_have_none() -> None:
    """Whoever handles SIGINT goes on handling it; signals arrive in the main thread only."""
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: heard.append(number))
    try:
        with Interrupts() as interrupts:
            press()
            assert not interrupts.take()
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]
    noted: list[bool] = []

    def look() -> None:
        with Interrupts() as interrupts:
            noted.append(interrupts.take())

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert noted == [False] and signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("program", "shown"),
    [
        ("raise interrupted()", ""),
        ("try: raise interrupted()\nexcept KeyboardInterrupt: raise KeyboardInterrupt from None", "KeyboardInterrupt"),
        ("sys.excepthook = lambda *_: print('mine', file=sys.stderr)\nraise interrupted()", "mine"),
    ],
)
def test_what_was_told_ends_a_program_without_a_traceback(program: str, shown: str) -> None:
    """By the signal, as Python ends on Ctrl-C. Other interrupts are shown, and a program that shows errors itself does that."""
    command = [sys.executable, "-c", f"import sys\nfrom rpc.submit.terminal import interrupted\n{program}"]
    done = subprocess.run(command, cwd=project_root(), capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == -signal.SIGINT
    assert (done.stderr.strip().rpartition("\n")[2], "Traceback" in done.stderr) == (shown, shown == "KeyboardInterrupt")


@pytest.mark.parametrize("is_told", [True, False])
def test_what_was_told_has_no_frames_behind_the_call(is_told: bool) -> None:
    """A notebook shows the traceback of each error: behind a call of ours it says nothing where the log says all."""

    @answering
    def job() -> None:
        with telling("The job", logger) if is_told else contextlib.nullcontext():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        job()
    names = [frame.name for frame in traceback.extract_tb(stopped.value.__traceback__)]
    assert names == [sys._getframe().f_code.co_name, "call"] + ([] if is_told else ["job"])
    assert stopped.value.__suppress_context__ is is_told


@covers("SUB-44")
def test_where_it_comes_unexpectedly_a_line_tells_what_it_has_ended(caplog: pytest.LogCaptureFixture) -> None:
    """Once, also where an outer block would tell it again."""
    with pytest.raises(KeyboardInterrupt), telling("The job", logger), telling("Its start", logger):
        press()
        signal.pause()
    assert caplog.messages == ["Its start was stopped by Ctrl-C."]
    with pytest.raises(KeyboardInterrupt), telling("The job", logger):
        raise interrupted()
    assert len(caplog.records) == 1
    with pytest.raises(KeyboardInterrupt), telling("The plan", logger, whole=True), telling("The job", logger):
        raise KeyboardInterrupt
    assert caplog.messages[1:] == ["The plan was stopped by Ctrl-C."]
    with pytest.raises(KeyboardInterrupt), telling("The job", logger):
        raise KeyboardInterrupt
    assert caplog.messages[2:] == ["The job was stopped by Ctrl-C."]


@covers("SUB-44")
def test_a_second_one_is_no_second_line(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(KeyboardInterrupt), telling("The job", logger):
        try:
            raise interrupted()
        finally:
            press()
            signal.pause()
    assert caplog.messages == []


@covers("SUB-44")
def test_a_block_that_begins_after_an_earlier_one_tells_its_own(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise interrupted()
    except KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt), telling("Another job", logger):
            press()
            signal.pause()
    assert caplog.messages == ["Another job was stopped by Ctrl-C."]


def test_short_work_is_done_first() -> None:
    """And ends as after any other Ctrl-C that was told of."""
    done = []
    with pytest.raises(KeyboardInterrupt) as told, uninterrupted():
        press()
        done.append(1)
    assert done and vars(told.value)
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        press()
        done[1 // 0] = 1
    with pytest.raises(ZeroDivisionError), uninterrupted():
        done[1 // 0] = 1


_STUBBORN = """
import os, signal, sys
def on_term(*_):
    os.kill(os.getppid(), signal.SIGINT)
signal.signal(signal.SIGTERM, on_term)
print("ready", flush=True)
while True:
    signal.pause()
"""


@covers("SUB-44")
def test_ctrl_c_ends_agents_that_take_their_time_at_once() -> None:
    agent = subprocess.Popen([sys.executable, "-c", _STUBBORN], stdout=subprocess.PIPE)
    assert agent.stdout is not None and agent.stdout.readline()
    with agent.stdout, pytest.raises(KeyboardInterrupt) as told:
        end_agents([agent], 600)
    assert agent.returncode == -signal.SIGKILL and vars(told.value)


@covers("SUB-44")
@pytest.mark.processes
def test_ctrl_c_leaves_no_folder_of_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    remove = shutil.rmtree

    def pressed(*given: Any, **named: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        remove(*given, **named)

    monkeypatch.setattr(temporary.shutil, "rmtree", pressed)
    with pytest.raises(KeyboardInterrupt) as told, local.local_agents(1) as agents:
        pass
    assert vars(told.value) and not agents.key_file.parent.exists()


_AT_ONCE = """
import os, signal
from rpc.launch import local
start = local.start_agent
def start_agent(*given):
    agent = start(*given)
    os.kill(os.getpid(), signal.SIGINT)
    return agent
local.start_agent = start_agent
"""


@covers("SUB-44")
@pytest.mark.processes
@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.share(2)
def test_ctrl_c_during_the_start(tmp_path: Path, at_once: bool) -> None:
    """They end, and the program ends without a traceback. Here they do not come up, so that it comes before they have; or when
    the first has just been started."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if 'rpc.agent.cli' in sys.orig_argv: open(os.environ['MARKS'] + str(os.getpid()), 'w').close(), os.read(0, 1)\n"
    )
    (temporary := tmp_path / "temporary").mkdir()
    lines = (
        "from rpc.launch.local import local_agents\nprint('now', flush=True)\nwith local_agents(8): print('here', flush=True)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", _AT_ONCE * at_once + lines],
        cwd=project_root(),
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(tmp_path / "site"), "MARKS": f"{tmp_path}/mark-"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "now\n"
    if not at_once:
        wait_for(lambda: len(list(tmp_path.glob("mark-*"))) == 8 or process.poll() is not None, "all to be under way")
        process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=LIMIT)
    assert (process.returncode, output, errors.strip()) == (
        -signal.SIGINT,
        "",
        "The start of local workers was stopped by Ctrl-C.",
    )
    assert not list(temporary.iterdir())


def test_only_a_loop_that_waits_has_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short work that Ctrl-C is to leave whole opens none, so that none is left where its end fails."""
    opened: list[object] = []
    pair = socket.socketpair
    monkeypatch.setattr(socket, "socketpair", lambda *given: opened.append(given) or pair(*given))
    with uninterrupted():
        pass
    assert opened == []
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        # pressed before there was a socket
        assert select.select([interrupts.sock], [], [], 0)[0] == [interrupts.sock]
        assert interrupts.take() and not interrupts.take()
        assert select.select([interrupts.sock], [], [], 0)[0] == []
    assert len(opened) == 1 and interrupts.sock.fileno() == -1


def test_the_socket_is_closed_where_the_handler_cannot_be_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupts = Interrupts()
    with pytest.raises(OSError, match="no handler"), interrupts:
        assert interrupts.sock.fileno() >= 0
        monkeypatch.setattr(signal, "signal", lambda *_: (_ for _ in ()).throw(OSError("no handler")))
    monkeypatch.undo()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    assert interrupts.sock.fileno() == -1
