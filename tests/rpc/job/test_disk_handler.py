"""A job process tells its submitter that the disk of its node refuses what is written, and that it takes it again, once."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from rpc.job.process import DiskHandler
from rpc.protocol import MOST_SENTENCE
from rpc.support import files
from rpc.support.logs import DISK_REFUSES, DISK_TAKES
from tests.fulldisk import FullDisk


def test_the_first_refusal_is_told_and_the_end_of_the_last_one(tmp_path: Path) -> None:
    told: list[tuple[str, bool]] = []
    logger = logging.Logger("disk test")  # of no hierarchy
    logger.addHandler(DiskHandler(lambda text, over: told.append((text, over)), tmp_path))
    logger.info("Checkpoint after epoch 1.", extra={DISK_TAKES: "checkpoints"})
    logger.warning("A codec reads a parameter that there is not.")
    for name in ("TR.csv", "BA.csv", "TR.csv"):
        path = tmp_path / name
        logger.warning("%s cannot be written: %s.", path, "No space left on device", extra={DISK_REFUSES: path})
    for name in ("TR.csv", "TR.csv"):
        logger.info("%s is written again.", tmp_path / name, extra={DISK_TAKES: tmp_path / name})
    refused = "./TR.csv cannot be written: No space left on device. Its log tells what else is refused."
    assert told == [(refused, False)]  # the other file is refused still
    for _ in range(2):
        logger.info("%s is written again.", tmp_path / "BA.csv", extra={DISK_TAKES: tmp_path / "BA.csv"})
    logger.warning("%s", "x" * 2 * MOST_SENTENCE, extra={DISK_REFUSES: "x"})
    assert told[1] == ("./BA.csv is written again.", True)
    assert len(told) == 3 and len(told[2][0]) <= MOST_SENTENCE


def test_what_is_written_after_all_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, bool]] = []
    logger = logging.Logger("disk test", logging.INFO)
    logger.addHandler(DiskHandler(lambda text, over: told.append((text, over)), tmp_path))
    disk = FullDisk(monkeypatch)
    monkeypatch.setattr(files, "PAUSE_SECONDS", 0.01)
    disk.full = True

    def write() -> int:
        disk.full = disk.refused < 2
        return files.append(tmp_path / "result", "all of it")

    assert files.when_there_is_room(write, "The result", logger) == len("all of it")
    assert disk.refused == 2 and [over for _, over in told] == [False, True]
    assert told[0][0].startswith("The result cannot be written: No space left on device. Trying again for up to ")
    assert told[1][0] == "The result is written after all."
