"""One fault in a running job on local workers: when it came, when it was named, when training went on."""

from __future__ import annotations

import logging
import os
import random
import re
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import nn
import parallel_sgd
from nn.dataset.transforms import ImageCls, Shuffle
from parallel_sgd.codec import GlobalSettings
from parallel_sgd.codec.plain import Plain
from parallel_sgd.nodes import LocalNodes
from parallel_sgd.profiles import FixedBlockAssignment
from rpc.support.logs import SUBMIT_LOGGER

WORKERS = 4
STALL_SECONDS = 2.0
LIMIT_SECONDS = 60.0
_SOON = 40  # batches after which the fault may come
_WORST = 200  # and until when


class Stamped(Plain):
    """Every batch leaves its moment in a file of its process, and takes some milliseconds, so that a fault finds it."""

    def update_blocks(self, block_weight: Any) -> Any:
        """Stamp, and send as `Plain` does."""
        with open(Path(GlobalSettings.get_params("folder")) / f"{self.node_id}.{os.getpid()}", "a", encoding="ascii") as file:
            file.write(f"{time.monotonic()}\n")
        time.sleep(0.005)
        return super().update_blocks(block_weight)


class Outcome(NamedTuple):
    """Seconds from the fault until the submitter named it, and until the first batch was complete that had not been."""

    named: float
    mended: float


class _Story(logging.Handler):
    """What the submitter says, with the moments."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[tuple[float, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((time.monotonic(), record.getMessage()))


def kill(pid: int) -> None:
    """End it at once."""
    os.kill(pid, signal.SIGKILL)


def stop(pid: int) -> None:
    """Suspend it, for ever."""
    os.kill(pid, signal.SIGSTOP)


def silence(pid: int) -> None:
    """Suspend its agent, as if the host were gone; the connections stand."""
    stop(int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]))


def weather(nodes: LocalNodes, act: Callable[[int], None], word: str, policy: str, seed: int) -> Outcome:
    """Run a job in which `act` is done to the process of a random worker at a random batch; the verdict contains `word`."""
    draw = random.Random(seed)
    victim, moment = draw.randrange(WORKERS), draw.randrange(_SOON, _WORST)
    story = _Story()
    logger = logging.getLogger(SUBMIT_LOGGER)
    logger.addHandler(story)
    faults: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        stamps = Path(folder) / "stamps"
        stamps.mkdir()

        def strike() -> None:
            path = _await(lambda: _process_of(stamps, victim, moment))
            faults.append(time.monotonic())
            act(int(path.suffix[1:]))

        thread = threading.Thread(target=strike)
        thread.start()
        try:
            _job().parallel(
                nodes,
                epoch=_WORST // 16,
                block_size=8,
                assignment_type=FixedBlockAssignment.of(blocks=WORKERS),
                codec={0: Stamped},
                codec_extra_parameters={"folder": str(stamps)},
                on_failure=policy,
                stall_timeout=STALL_SECONDS,
                directory=folder,
            )
        finally:
            thread.join()
            logger.removeHandler(story)
        (begin,) = faults
        named = min(at for at, line in story.lines if at >= begin and re.search(word, line))
        first = min(float(path.read_text().split()[1]) for path in stamps.iterdir() if _first(path) > begin)
    return Outcome(named - begin, first - begin)


def _job() -> parallel_sgd.ParallelSGD:
    model = nn.model.SequentialModel(input_shape=[-1, 64], seed=1)
    model.add(nn.layer.Dense(32, activation=nn.activation.Tanh()))
    model.add(nn.layer.Dense(10, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    return parallel_sgd.ParallelSGD(model, nn.dataset.Digits(), Shuffle().add(ImageCls()))


def _process_of(stamps: Path, node: int, batches: int) -> Path | None:
    """The file of the process of `node`, once it has begun so many batches."""
    return next((path for path in stamps.glob(f"{node}.*") if path.read_text().count("\n") >= batches), None)


def _first(path: Path) -> float:
    return float(path.read_text().split()[0])


def _await(found: Callable[[], Path | None]) -> Path:
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline:
        path = found()
        if path is not None:
            return path
        time.sleep(0.002)
    raise TimeoutError("The job did not come to the batch at which the fault was due.")
