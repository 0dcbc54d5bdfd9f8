"""Codec for runs of a sweep that are under way for as long as a test wants. No program of the commands is imported."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from parallel_sgd.codec import BlockWeight, Plain
from tests.processes.harness import wait_for


class Admitted(Plain):
    """Codec whose run waits in its first step until it may take a file `admitted-...` of the current folder, or `all` is there:
    the others are under way for as long as the test wants."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.waits = node_id == 0

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        if self.waits:
            wait_for(_admitted, "an admission")
            self.waits = False
        return super().update_blocks(block_weight)


def _admitted() -> bool:
    for path in Path().glob("admitted-*"):
        with contextlib.suppress(FileNotFoundError):  # another run was faster
            path.unlink()
            return True
    return Path("all").exists()
