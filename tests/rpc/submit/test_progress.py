"""Progress on a terminal, off it, in a notebook, and not at all."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rpc.logs import HEADLINE, ConsoleFilter, attach_console, in_notebook, verbosity
from rpc.submit.terminal import ProgressDisplay

from ...statements import covers

logger = logging.getLogger("progress test")


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


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Terminal]:
    """Called by the test itself: pytest takes stderr over once more after fixtures."""

    def make() -> Terminal:
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        return terminal

    return make


@covers("SUB-12")
def test_bars(terminal: Callable[[], Terminal], caplog: pytest.LogCaptureFixture) -> None:
    """On a terminal each worker has its bar, with the time that is left and how it stands."""
    caplog.set_level(logging.INFO)
    screen = terminal()
    display = ProgressDisplay([0, 1], logger)
    display.update(0, 40, "Loss 0.5000\x1b[2J")
    display.update(1, 100)
    display.close()
    display.close()
    shown = screen.getvalue()
    assert "Worker(0):  40%|" in shown and "Worker(1): 100%|" in shown and not caplog.messages
    assert "| 00:00<00:00, Loss 0.5000\\x1b[2J" in shown


def test_bars_stand_in_the_order_of_workers_whoever_reports_first(terminal: Callable[[], Terminal]) -> None:
    screen = terminal()
    display = ProgressDisplay([], logger)
    for node in (1, 2, 0):
        display.add(node, 10 * node)
    display.update(1, 50)
    display.close()
    last = [line for line in screen.getvalue().split("\r") if "Worker(" in line][-3:]
    assert [line[line.index("Worker") :][:15] for line in last] == ["Worker(0):   0%", "Worker(1):  50%", "Worker(2):  20%"]


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """A kernel, as far as it is asked: everything that is shown."""
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


def test_a_notebook_has_one_bar(notebook: list[dict[str, str]], caplog: pytest.LogCaptureFixture) -> None:
    """One output, drawn anew: the mean of all workers."""
    caplog.set_level(logging.INFO)
    display = ProgressDisplay([1, 0], logger)
    display.update(0, 100, "Loss <0.1>")
    display.update(1, 50, "Loss 0.2")
    display.close()
    assert not caplog.messages and "again" not in notebook[0]
    assert all("again" in content for content in notebook[1:])
    last = notebook[-1]
    assert last["text/plain"].startswith(f"|{'█' * 30}          | 75 % of 2 workers, 0 s, about 0 s left, Loss 0.2")
    assert last["text/html"].startswith('<progress value="75" max="100"></progress> 75 % of 2 workers')
    assert "&lt;0.1&gt;" in notebook[-2]["text/html"]


@pytest.mark.parametrize("place", ["terminal", "notebook", "neither"])
def test_nothing_is_shown_where_nobody_wants_it(
    place: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    shown = None if place == "neither" else request.getfixturevalue(place)
    shown = shown() if callable(shown) else shown
    caplog.set_level(logging.INFO)
    with verbosity(0):
        display = ProgressDisplay([0], logger)
        display.update(0, 50)
        display.close()
    assert not caplog.messages and not (shown.getvalue() if isinstance(shown, Terminal) else shown)


def record(level: int, **extra: Any) -> logging.LogRecord:
    return logger.makeRecord("x", level, "", 0, "text", (), None, extra=extra)


def seen() -> list[bool]:
    """Whether the console shows an ordinary line, a headline, a warning."""
    lines = record(logging.INFO), record(logging.INFO, **HEADLINE), record(logging.WARNING)
    return [ConsoleFilter().filter(line) for line in lines]


@covers("SUB-10")
def test_what_the_console_shows_of_the_log(request: pytest.FixtureRequest) -> None:
    """a program shows all of it unless asked not to; a notebook shows the headlines."""
    expected = {0: [False, False, True], 1: [True, True, True], 2: [True, True, True]}
    for level, shown in expected.items():
        with verbosity(level):
            assert seen() == shown
    assert not in_notebook() and seen() == expected[1]
    request.getfixturevalue("notebook")
    assert in_notebook() and seen() == [False, True, True]
    with verbosity(0):
        assert seen() == [False, False, True]
    with verbosity(2):
        assert seen() == [True, True, True]


@pytest.mark.parametrize("level", [3, -1, "1", None, 1.5])
def test_other_levels_are_refused(level: Any) -> None:
    with pytest.raises(ValueError, match=f"'verbose' must be 0, 1 or 2, got {level!r}"):
        verbosity(level)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], logging.Logger]:
    """The root logger of a program that has set this level, and no handlers."""

    def make(level: int) -> logging.Logger:
        root = logging.RootLogger(level)
        monkeypatch.setattr(logging, "getLogger", lambda name=None: root)
        return root

    return make


def test_the_console_of_a_notebook_is_its_output(bare: Callable[[int], logging.Logger], request: pytest.FixtureRequest) -> None:
    """On stderr it would stand on red ground."""
    root = bare(logging.WARNING)
    attach_console()
    assert [handler.stream for handler in root.handlers] == [sys.stderr]  # type: ignore[attr-defined]
    request.getfixturevalue("notebook")
    root.handlers.clear()
    attach_console()
    assert [handler.stream for handler in root.handlers] == [sys.stdout]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("level", "becomes"), [(logging.WARNING, logging.INFO), (logging.ERROR, logging.ERROR), (logging.DEBUG, logging.DEBUG)]
)
def test_a_level_that_a_program_has_set_stays(bare: Callable[[int], logging.Logger], level: int, becomes: int) -> None:
    root = bare(level)
    attach_console()
    assert root.level == becomes
