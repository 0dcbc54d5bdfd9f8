"""What a worker saves when training ends before its time, and that this hides no error."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from parallel_sgd import in_process
from parallel_sgd.checkpoint.store import Store
from parallel_sgd.codec.plain import Plain
from tests.processes.training.jobs import line_job

from ...statements import covers

SETTINGS: dict[str, Any] = {"epoch": 9, "block_size": 3, "checkpoint_every": "epoch"}


class Failing(Plain):
    """Fails at its eleventh block: four batches to an epoch, so in the third batch of the third epoch."""

    seen = 0

    def update_blocks(self, block_weight: Any) -> Any:
        self.seen += 1
        if self.seen == 11:
            raise ArithmeticError("the cause")
        return super().update_blocks(block_weight)


class Grumbling(Failing):
    """From then on its state cannot be had either."""

    def state_dict(self) -> dict[str, Any]:
        if self.seen == 11:
            raise OSError("no state")
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Nothing."""


def newest(folder: Path) -> tuple[int, int]:
    found = Store(folder / "Node-0-Retrieve" / "checkpoints").newest()
    assert found is not None
    return found.header.position


@covers("FD-8")
def test_the_last_batch_that_was_applied_is_saved(tmp_path: Path) -> None:
    """Not only the end of the last epoch."""
    with in_process(2) as nodes, pytest.raises(ArithmeticError, match="the cause"):
        line_job().parallel(nodes, codec={0: Failing}, directory=tmp_path, **SETTINGS)
    assert newest(tmp_path) == (2, 2)


def test_a_state_that_cannot_be_had_hides_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    with in_process(2) as nodes, pytest.raises(ArithmeticError, match="the cause"):
        line_job().parallel(nodes, codec={0: Grumbling}, directory=tmp_path, **SETTINGS)
    assert newest(tmp_path) == (2, 0)
    assert "The state after 2 epochs and 2 batches could not be saved" in caplog.text and "no state" in caplog.text
