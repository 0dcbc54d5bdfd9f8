import fcntl
import os
import pty
import struct
import sys
import termios

import pytest

from nn.model.progress import Progress


def test_a_terminal_shows_a_bar_that_ends_with_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    try:
        with os.fdopen(writer, "w") as terminal:
            monkeypatch.setattr(sys, "stderr", terminal)
            progress = Progress("Epoch 1/3", 200, silent=False)
            progress.advance(100)
            progress.advance(100)
            progress.finish({"Loss": 0.25})
            terminal.flush()
            shown = os.read(reader, 10_000).decode()
    finally:
        os.close(reader)
    last = shown.replace("\n", "\r").split("\r")
    lines = [line for line in last if line.strip()]
    assert lines[0].startswith("Epoch 1/3:   0%")
    assert "200/200" in lines[-1]
    assert "Loss 0.2500" in lines[-1]
