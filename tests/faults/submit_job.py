"""The program of the submitter: one job on the agents that it is told of, and a line that says what came of it.

python -m tests.faults.submit_job KEY_FILE DIRECTORY SERVER_ADDRESS|- ADDRESS...
"""

from __future__ import annotations

import hashlib
import sys
import time
from pathlib import Path
from typing import Any

from network import NodeAssignment
from parallel_sgd import JobFailed
from parallel_sgd.codec import SyncPS
from parallel_sgd.codec.plain import Plain
from tests.processes.training.jobs import FOUR_BLOCKS, line_job, only_weights

STEP_SECONDS = 0.02
STALL_SECONDS = 2.0
EPOCHS = 6


class PacedPlain(Plain):
    """So slow that somebody can be hit in the middle of it."""

    def update_blocks(self, block_weight: Any) -> Any:
        time.sleep(STEP_SECONDS)
        return super().update_blocks(block_weight)


class PacedPS(SyncPS):
    def update_blocks(self, block_weight: Any) -> Any:
        time.sleep(STEP_SECONDS)
        return super().update_blocks(block_weight)


def main(key_file: str, directory: str, server: str, *workers: str) -> int:
    nodes = NodeAssignment(key_file=key_file)
    for number, address in enumerate(workers):
        nodes.add(number, address)
    if server != "-":
        nodes.add(-2, server)
    settings: dict[str, Any] = {"assignment_type": FOUR_BLOCKS, "epoch": EPOCHS, "block_size": 2, "on_failure": "restart"}
    settings |= {"codec": PacedPlain} if server == "-" else {"codec": PacedPS, "ps_codec": SyncPS}
    try:
        result = line_job().parallel(
            nodes, directory=Path(directory), stall_timeout=STALL_SECONDS, mission_title="cell", wait=10, **settings
        )
    except JobFailed as error:
        print(f"failed: {error}")
    except Exception as error:
        print(f"failed: {type(error).__name__}: {error}")
    else:
        print(f"completed {hashlib.sha256(only_weights(result)).hexdigest()} {result.restarts}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
