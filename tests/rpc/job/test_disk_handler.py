"""A job process tells its submitter that the disk of its node refuses what is written, and that it takes it again, once."""

from __future__ import annotations

import logging
from pathlib import Path

from rpc.job.process import DiskHandler
from rpc.protocol import MOST_SENTENCE
from rpc.support.logs import DISK_REFUSES, DISK_TAKES


def test_the_first_record_of_a_kind_is_told_and_no_other(tmp_path: Path) -> None:
    told: list[tuple[str, bool]] = []
    logger = logging.Logger("disk test")  # of no hierarchy
    logger.addHandler(DiskHandler(lambda text, over: told.append((text, over)), tmp_path))
    logger.info("Checkpoint after epoch 1.", extra=DISK_TAKES)
    logger.warning("A codec reads a parameter that there is not.")
    for name in ("TR.csv", "BA.csv", "TR.csv"):
        logger.warning("%s cannot be written: %s.", tmp_path / name, "No space left on device", extra=DISK_REFUSES)
    for _ in range(2):
        logger.info("%s is written again.", tmp_path / "TR.csv", extra=DISK_TAKES)
    logger.warning("%s", "x" * 2 * MOST_SENTENCE, extra=DISK_REFUSES)
    refused = "./TR.csv cannot be written: No space left on device. Its log tells what else is refused."
    assert told[:2] == [(refused, False), ("./TR.csv is written again.", True)]
    assert len(told) == 3 and len(told[2][0]) <= MOST_SENTENCE
