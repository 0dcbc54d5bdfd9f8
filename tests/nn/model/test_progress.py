import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import Callable

import pytest

from nn.model.training import Progress
from tests.nn.model.models import classifier, samples

RESULTS = {"Loss": 0.25, "accuracy": 0.9876, "val_Loss": 0.5, "val_accuracy": 0.75, "val_top_5_accuracy": 1.0}


def on_terminal(monkeypatch: pytest.MonkeyPatch, columns: int, rows: int, show: Callable[[], None]) -> list[str]:
    """Return the lines that a terminal of this size has been sent, also those that were written over later."""
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    try:
        with os.fdopen(writer, "w") as terminal:
            monkeypatch.setattr(sys, "stderr", terminal)
            show()
        shown = b"".join(iter(lambda: _read(reader), b"")).decode()
    finally:
        os.close(reader)
    return [line for line in re.split(r"[\r\n]", shown) if line.strip()]


def _read(reader: int) -> bytes:
    try:
        return os.read(reader, 10_000)
    except OSError:  # the other end is closed, and all is read
        return b""


def epoch() -> None:
    with Progress("Epoch 10/10", 200, silent=False) as progress:
        progress.advance(100)
        progress.advance(100)
        progress.finish(RESULTS)


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_terminal_shows_a_bar_and_then_all_results(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    lines = on_terminal(monkeypatch, columns, 24, epoch)
    assert lines[0].startswith("Epoch 10/10:   0%")
    assert all(len(line) <= columns for line in lines[:-1])
    results = "Loss 0.2500, accuracy 0.9876, val_Loss 0.5000, val_accuracy 0.7500, val_top_5_accuracy 1.0000"
    assert re.fullmatch(rf"Epoch 10/10: {results} \(\d+\.\d s\)", lines[-1])


def test_a_terminal_without_a_width_shows_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = on_terminal(monkeypatch, 0, 0, epoch)
    assert line.startswith("Epoch 10/10: Loss 0.2500, accuracy 0.9876")


def test_an_error_leaves_the_bar_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        with pytest.raises(RuntimeError), Progress("Epoch 1/2", 200, silent=False) as progress:
            progress.advance(50)
            raise RuntimeError

    lines = on_terminal(monkeypatch, 80, 24, fail)
    assert lines[-1].startswith("Epoch 1/2:  25%")


def test_fit_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    def train() -> None:
        classifier().fit(*samples(), epoch=2, validation_split=0.2)

    shown = [line for line in on_terminal(monkeypatch, 80, 24, train) if "Loss" in line]
    assert [line.split(":")[0] for line in shown] == ["Epoch 1/2", "Epoch 2/2"]
    assert all("val_accuracy" in line for line in shown)
