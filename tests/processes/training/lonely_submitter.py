"""A submitter as a program of its own, to be left or killed: `lonely_submitter KEY FOLDER HURRY ADDRESS...`.

Its job goes slowly until the file HURRY exists; `LONELY_POLICY` in the environment is its on_failure,
`LONELY_PATIENCE` how many seconds it pauses where others may be going on without it.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import network
from parallel_sgd import JobResult
from parallel_sgd.codec import GlobalSettings
from parallel_sgd.codec.plain import Plain
from rpc.liveness import limits
from tests.processes.training.jobs import FOUR_BLOCKS, line_job

EPOCHS = 500  # of two batches


class Unhurried(Plain):
    """Takes its time, so that something can happen meanwhile."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.hurry = Path(GlobalSettings.get_params("hurry"))

    def update_blocks(self, block_weight: Any) -> Any:
        if not self.hurry.exists():
            time.sleep(0.03)
        return super().update_blocks(block_weight)


def train(nodes: network.NodeAssignment, folder: Path, codec: Any, **settings: Any) -> JobResult:
    """The same bits wherever it runs."""
    settings |= {"codec": {0: codec}, "assignment_type": FOUR_BLOCKS, "epoch": EPOCHS, "block_size": 3}
    return line_job().parallel(nodes, directory=folder, mission_title="lonely", **settings)


def main() -> None:
    key_file, folder, hurry, *addresses = sys.argv[1:]
    nodes = network.NodeAssignment(key_file)
    for number, address in enumerate(addresses):
        nodes.add(number, address)
    parameters = {"hurry": hurry}
    policy = os.environ.get("LONELY_POLICY", "restart")
    limits.WAIT_SECONDS = float(os.environ.get("LONELY_PATIENCE", limits.WAIT_SECONDS))
    train(nodes, Path(folder), Unhurried, on_failure=policy, checkpoint_every=20, codec_extra_parameters=parameters)


if __name__ == "__main__":
    main()
