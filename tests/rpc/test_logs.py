"""Log lines: their look, what peers cannot do to them, and that nothing of a job's log gets lost."""

from __future__ import annotations

import errno
import io
import logging
import os
import re
import resource
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rpc.support import logs
from rpc.support.console import columns_of, fitted, in_columns, side_by_side
from rpc.support.logs import COPIED, PLAIN, SUBMIT_LOGGER, CleanFormatter, attach_console, attach_file, clean, get_logger

from ..screen import Screen
from ..statements import covers

HOSTILE = "a\x1b[2J\x1b]0;t\x07b\rc\nINFO Worker@00:00:00: forged\n\x9b31m\u202e\ud800\x00\u2028end"
TIME = r"\d\d:\d\d:\d\d"


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """The root logger, put back afterwards."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield root
    for handler in [h for h in root.handlers if h not in before]:
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


def line(message: str, *arguments: object) -> str:
    return CleanFormatter().format(logging.LogRecord(SUBMIT_LOGGER, logging.INFO, "", 0, message, arguments, None))


def fail(logger: logging.Logger) -> None:
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logger.exception("It failed")


@covers("SUB-10", "SEC-17")
def test_peers_can_neither_act_on_the_terminal_nor_forge_lines(logger: logging.Logger, tmp_path: Path) -> None:
    """`INFO P-SGD Submit@23:23:13: Start job.` No escape codes; every line after the first begins with a tab."""
    assert re.fullmatch(rf"INFO P-SGD Submit@{TIME}: Start job\.", line("Start job."))
    assert line("Workers: (%s) nodes:\n\t\t-->ID: %s", 1, 0).endswith(": Workers: (1) nodes:\n\t\t-->ID: 0")
    first, *rest = line("detail: %s", HOSTILE).split("\n")
    assert first.startswith("INFO P-SGD Submit@") and "\\x1b[2J" in first
    assert [text[:1] for text in rest] == ["\t", "\t"] and "\\u202e" in rest[-1]
    assert all(text.replace("\t", "").isprintable() for text in (first, *rest))
    attach_file(tmp_path / "log")
    fail(logger)
    first, *rest = (tmp_path / "log").read_text().splitlines()
    assert re.match(r"ERROR root@\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d: ", first)
    assert all(text.startswith("\t") for text in rest)
    assert any("ValueError: a\\x1b" in text for text in rest)


@pytest.mark.long
@covers("SEC-17")
def test_every_control_character_is_escaped() -> None:
    """All of Unicode; what is shown on one line is cut at 512 (Security 8)."""
    odd = [chr(c) for c in range(sys.maxunicode + 1) if not chr(c).isprintable()]
    for start in range(0, len(odd), 50_000):
        text = "".join(odd[start : start + 50_000])
        assert clean(text, 10**6).isprintable() and clean(text, 10**6).isascii()
        assert line(text).replace("\n", "").replace("\t", "").isprintable()
    assert clean("plain ä 漢") == "plain ä 漢" and clean("tab\tline\n") == "tab\\tline\\n"
    assert clean("x" * 512) == "x" * 512 and clean("x" * 513) == "x" * 512 + "..."
    assert clean("\x00" * 10**6) == ("\\x00" * 200)[:512] + "..." and clean("abc", 2) == "ab..."


@covers("SEC-17")
@pytest.mark.parametrize("name", [SUBMIT_LOGGER, "rpc.test"])
def test_handlers_of_an_application_get_clean_records(name: str) -> None:
    """One that has called logging.basicConfig() sees no escape codes either, and no line that a peer has begun."""
    shown = io.StringIO()
    handler = logging.StreamHandler(shown)
    handler.setFormatter(logging.Formatter(logging.BASIC_FORMAT))
    own = get_logger(name)
    own.addHandler(handler)
    try:
        own.error("Node(%s) failed:\n%s", 1, HOSTILE)
        fail(own)
        own.warning("%(detail)s", {"detail": HOSTILE})
        own.warning("%d workers", 3)
    finally:
        own.removeHandler(handler)
    lines = shown.getvalue().splitlines()
    assert [line for line in lines if not line.startswith("\t")] == [
        f"ERROR:{name}:Node(1) failed:",
        f"ERROR:{name}:It failed",
        f"WARNING:{name}:a\\x1b[2J\\x1b]0;t\\x07b\\rc",
        f"WARNING:{name}:3 workers",
    ]
    assert all(line.replace("\t", "").isprintable() for line in lines) and sum("INFO Worker@" in line for line in lines) == 3


@pytest.mark.long
@covers("SUB-19", "SEC-14")
def test_ten_thousand_lines_through_rotation(logger: logging.Logger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All lines, in order, over the parts; each part readable by its owner only. Nobody makes the agent write elsewhere."""
    monkeypatch.setattr(logs, "AGENT_LOG_BYTES", 150_000)
    logger.setLevel(logging.INFO)
    (tmp_path / "log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        attach_file(tmp_path / "log")
    (tmp_path / "log").unlink()
    handler = attach_file(tmp_path / "log")
    for number in range(10_000):
        logger.info("line %05d", number)
    handler.flush()
    kept = [part for n in range(4, -1, -1) if (part := tmp_path / f"log.{n}".removesuffix(".0")).exists()]
    assert sorted(kept) == sorted(tmp_path.iterdir()) and len(kept) > 2
    assert [int(text[-5:]) for part in kept for text in part.read_text().splitlines()] == list(range(10_000))
    assert {stat.S_IMODE(part.stat().st_mode) for part in kept} == {0o600}


def test_console(logger: logging.Logger, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One handler on stderr, unless the application has configured logging."""
    monkeypatch.setattr(logger, "handlers", [])
    attach_console(logging.WARNING)
    attach_console(logging.DEBUG)
    assert len(logger.handlers) == 1 and logger.level == logging.WARNING
    logging.getLogger(SUBMIT_LOGGER).warning("Start \x1b job.")
    assert re.fullmatch(rf"WARNING P-SGD Submit@{TIME}: Start \\x1b job\.\n", capsys.readouterr().err)


def test_lines_end_with_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """At their words, of figures between these; a pipe, and a terminal that tells no width, get them whole."""
    screen = Screen()
    monkeypatch.setenv("COLUMNS", "40")
    epoch = "epoch 1/8   Loss 0.6950   accuracy 0.4875   test: Loss 0.6780   accuracy 0.5625"
    assert fitted(epoch, screen).split("\n") == [
        "epoch 1/8   Loss 0.6950",
        "            accuracy 0.4875",
        "            test: Loss 0.6780",
        "            accuracy 0.5625",
    ]
    monkeypatch.setenv("COLUMNS", "80")
    long = "epoch 14/30   Loss 0.0317   accuracy 0.9947   test: Loss 0.3520   accuracy 0.9125"
    assert (len(long), fitted(long, screen)) == (81, long.replace("   ", "  "))
    monkeypatch.setenv("COLUMNS", "40")
    said = "2 workers took 0.33 s; one alone would have needed at most 0.14 s."
    assert fitted(f"{said}\n\tFile x, line 7, which has more than forty columns", screen).split("\n") == [
        "2 workers took 0.33 s; one alone would",
        "  have needed at most 0.14 s.",
        "\tFile x, line 7, which has more than forty columns",
    ]
    assert fitted("warning  All nodes start again from the newest state.", screen).split("\n") == [
        "warning  All nodes start again from the",
        "         newest state.",
    ]
    assert fitted("x" * 60, screen) == "x" * 60 and fitted(epoch, io.StringIO()) == epoch
    for columns in ("", "none", "9" * 9):
        monkeypatch.setenv("COLUMNS", columns)
        assert columns_of(screen) == 0 and fitted(epoch, screen) == epoch


def test_a_table_that_is_wider_than_a_terminal_has_further_lines() -> None:
    """Below its first cell, for the columns that have no room; no cell is cut or broken."""
    rows = [("Worker", "Host", "Free slots", "Bandwidth"), ("127.0.0.1:1", "alpha", "1 of 1", "139 MB/s")]
    assert in_columns(rows, 42).splitlines() == [
        "Worker       Host   Free slots  Bandwidth",
        "127.0.0.1:1  alpha  1 of 1      139 MB/s",
    ]
    assert in_columns(rows, 30).splitlines() == [
        "Worker       Host   Free slots",
        "             Bandwidth",
        "127.0.0.1:1  alpha  1 of 1",
        "             139 MB/s",
    ]
    # without a line for cells that are empty
    assert in_columns([rows[0], ("127.0.0.1:1", "alpha", "1 of 1", "")], 30).splitlines()[2:] == ["127.0.0.1:1  alpha  1 of 1"]
    assert in_columns(rows, 5).count("\n") == 7, "a cell that is wider than all stands alone"


def test_columns_of_one_kind_stay_side_by_side() -> None:
    """Long cells have several lines where the terminal is narrow; short columns leave their room to the others."""
    rows = [
        ("", "a-1", "good-1", "last-1"),
        ("best", "epoch 2, test accuracy 0.7643", "epoch 3", "epoch 4, test accuracy 0.8586"),
        ("on", "-", "-", ""),
    ]
    assert side_by_side(rows, 50).splitlines() == [
        "      a-1              good-1   last-1",
        "best  epoch 2, test    epoch 3  epoch 4, test",
        "      accuracy 0.7643           accuracy 0.8586",
        "on    -                -",
    ]
    for columns in (0, 120, 30):  # a pipe, a wide terminal, one that has no room for three columns
        assert side_by_side(rows, columns) == in_columns(rows, columns)


def test_a_console_breaks_sentences_and_no_commands(logger: logging.Logger, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setenv("COLUMNS", "30")
    handler = logs.ConsoleHandler(screen)
    handler.setFormatter(logs.ConsoleFormatter(screen))
    said = "go on    psgd run digits-1 --resume last"
    for mark in (PLAIN, COPIED):
        handler.emit(logging.makeLogRecord({"name": SUBMIT_LOGGER, "levelno": 20, "msg": said, **mark}))
    assert screen.rows == ["go on    psgd run digits-1", "         --resume last", said, ""]


@covers("SUB-19")
def test_a_disk_that_refuses_lines_is_told_in_a_sentence(
    logger: logging.Logger, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """No traceback of logging for each line. What the other handlers show goes on, and the file when there is room again."""
    path = tmp_path / "log"
    attach_file(path)
    logger.setLevel(logging.INFO)
    shown = io.StringIO()
    other = logging.StreamHandler(shown)
    logging.getLogger().addHandler(other)
    try:
        logger.warning("there is room")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, hard))
        try:
            logger.warning("a full disk")
            logger.warning("still full")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        logger.warning("room again")
    finally:
        logging.getLogger().removeHandler(other)
    assert capfd.readouterr().err == ""
    refused = f"The disk refuses lines for {path} (File too large): they are on the console alone."
    taken = f"The disk takes lines for {path} again; some may be missing."
    told = ["there is room", refused, "a full disk", "still full", taken, "room again"]
    assert shown.getvalue().splitlines() == told
    assert path.read_text().splitlines()[-1].endswith(taken)


def test_two_files_on_a_full_disk_do_not_wait_for_each_other(tmp_path: Path, logger: logging.Logger) -> None:
    """Each tells the other's handler of it, at the same moment, from a thread of its own."""
    both = threading.Barrier(2, timeout=10)

    class Full(io.StringIO):
        """File on a disk that takes no line."""

        meets = True

        def write(self, text: str, /) -> int:
            if self.meets:
                self.meets = False
                both.wait()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    threads = []
    for name in ("a", "b"):
        handler = attach_file(tmp_path / name)
        assert isinstance(handler, logging.StreamHandler)
        handler.stream.close()
        handler.stream = Full()
        record = logging.LogRecord(name, logging.INFO, "", 0, "line", (), None)
        threads.append(threading.Thread(target=handler.handle, args=(record,), daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)
