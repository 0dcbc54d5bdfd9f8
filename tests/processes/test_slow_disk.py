"""A file system that stands still for seconds: the agent on it is not taken for a host that is gone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rpc.communication import Communication
from rpc.executable import AbsSimpleExecutor
from rpc.liveness.limits import SILENT_SECONDS
from rpc.monitor import monitor_batch_begin, monitor_batch_end, monitor_train_end

from .harness import LIMIT, Cluster, start_job, wait_for

FROZEN_SECONDS = 2 * SILENT_SECONDS
STEPS = 100


class Steps(AbsSimpleExecutor):
    """Steps of 10 ms, each of which says something, until the file `end` is there. A hundred steps after the file `frozen` the
    file `stepped` tells of them. A frozen disk can have none of these."""

    signals = True

    def run(self, com: Communication) -> Any:
        (com.output_directory / "begun").touch()
        folder, steps, frozen = Path(self.shipped["folder"]), 0, 0
        while not (folder / "end").exists():
            monitor_batch_begin()
            self.logger.info("step %d", steps)
            time.sleep(0.01)
            steps += 1
            frozen += (folder / "frozen").exists()
            if frozen == STEPS:
                (folder / "stepped").touch()
            monitor_batch_end()
        monitor_train_end()
        return frozen


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, which can be frozen: of a disk or a server that hangs the kernel shows the same."""
    if sys.platform != "linux" or os.geteuid() != 0 or not all(map(shutil.which, ("mkfs.ext4", "mount", "fsfreeze"))):
        pytest.skip("needs a file system of its own, which only root on Linux can make")
    image, folder = tmp_path / "disk.img", tmp_path / "disk"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(32 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    mounted = subprocess.run(["mount", "-o", "loop", str(image), str(folder)], capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _frozen(disk: Path, begun: Path, folder: Path) -> None:
    wait_for(begun.exists, "the job to begin")
    with ExitStack() as stack:
        stack.callback((folder / "end").touch)
        subprocess.run(["fsfreeze", "--freeze", str(disk)], check=True)
        stack.callback(subprocess.run, ["fsfreeze", "--unfreeze", str(disk)], check=True)
        (folder / "frozen").touch()
        time.sleep(FROZEN_SECONDS)
        wait_for((folder / "stepped").exists, "the job to go on though the disk stands still")


def test_a_disk_that_stands_still_is_no_lost_host(own: Cluster, disk: Path, tmp_path: Path) -> None:
    """The agent writes the log of the job on that disk, so its loop stands still, too; its heartbeats come."""
    (agent,) = own.start(1, work=disk / "work")
    with own.request() as com:
        coordinator = start_job(com, Steps, tmp_path, objects={"folder": str(tmp_path)})
        begun = agent.work / f"jobs/{coordinator.job}.0/out/begun"
        freezer = threading.Thread(target=_frozen, args=(disk, begun, tmp_path))
        freezer.start()
        results, error = coordinator.join()
        freezer.join()
    assert not error and results[0] >= STEPS
    log = "".join(path.read_text() for path in (agent.work / "log").glob("*.log"))
    assert "The disk has held this process up for " in log
    agent.process.terminate()  # before its disk is taken away
    assert agent.process.wait(LIMIT) == 0
