"""Jobs on real agents whose driver and agents write down what they call and which operations they send and receive.

`python -m tests.house.traced FOLDER [fail]` submits a job to two agents; with `fail` a worker kills itself once, and the job
starts again. Then FOLDER holds `driver.json`, `agent-0.json` and `agent-1.json`, each a list of `Event`.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from tests.house.job import NODES, agents_of
from tests.sources import PACKAGES, ROOT

EPOCHS = 3
AGENT = """
import sys
from pathlib import Path
from tests.house.traced import write_down
write_down(Path({place!r}))
import psgd
sys.exit(psgd.worker())
"""
_PLACES = tuple(f"{ROOT / package}{os.sep}" for package in PACKAGES)


def name_of(code: CodeType) -> str:
    """Return the name of a function, with its class where Python tells it."""
    return getattr(code, "co_qualname", code.co_name)


class Event(NamedTuple):
    """A call from another file of the product, or an operation that was sent or received.

    Attributes:
        time: Seconds of the monotonic clock, which is one for all processes of a machine.
        place: The path of the file below the root of the repository.
        name: The function, with its class where Python tells it (from 3.11 on).
        sent: The name of the operation that this function sends, "" for none.
        received: The name of the operation that this function has received, "" for none.
    """

    time: float
    place: str
    name: str
    sent: str = ""
    received: str = ""


def write_down(place: Path) -> None:
    """Record the calls of all threads of this process from now on; write them to a file when the process ends."""
    events: list[Event] = []

    def record(frame: FrameType, kind: str, about: Any) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(_PLACES):
            return
        if kind == "call":
            if code.co_name == "to_value":
                note(frame, sent=type(frame.f_locals["self"]).__name__)
            elif frame.f_back is None or frame.f_back.f_code.co_filename != code.co_filename:
                events.append(Event(time.monotonic(), code.co_filename, name_of(code)))
        elif kind == "return" and code.co_name == "parse" and hasattr(about, "to_value"):
            note(frame, received=type(about).__name__)

    def note(frame: FrameType, **operation: str) -> None:
        """Note an operation for the function of another file that asked for it."""
        outer = frame.f_back
        while outer is not None and outer.f_code.co_filename == frame.f_code.co_filename:
            outer = outer.f_back
        if outer is not None and outer.f_code.co_filename.startswith(_PLACES):
            events.append(Event(time.monotonic(), outer.f_code.co_filename, name_of(outer.f_code), **operation))

    def write() -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        told = [each._replace(place=Path(each.place).relative_to(ROOT).as_posix()) for each in list(events)]
        place.write_text(json.dumps(told), "utf-8")

    atexit.register(write)
    threading.setprofile(record)
    sys.setprofile(record)


def submit(folder: Path, fail: bool) -> None:
    """Train a layer on two agents of this machine; with `fail` worker 1 is killed in its second epoch, once."""
    import numpy as np

    import nn
    import parallel_sgd
    from parallel_sgd.codec import Plain

    class Killed(Plain):
        """`Plain`, whose worker 1 kills its process once."""

        @classmethod
        def joins(cls) -> bool:
            """As Plain."""
            return True

        def update_blocks(self, block_weight: Any) -> Any:
            """Count batches; at the sixth one end the process as the kernel would."""
            self.batches = getattr(self, "batches", 0) + 1
            mark = folder / "killed"
            if self.node_id == 1 and self.batches == 6 and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().update_blocks(block_weight)

    model = nn.model.SequentialModel(input_shape=[-1, 4])
    model.add(nn.layer.Dense(3, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    x = np.random.default_rng(0).standard_normal((4 * 8 * NODES, 4)).astype(np.float32)
    y = np.eye(3, dtype=np.float32)[np.arange(len(x)) % 3]
    job = parallel_sgd.ParallelSGD(model, nn.dataset.ArrayDataset(x, y, x[:8], y[:8]))
    with agents_of(folder, AGENT) as nodes:
        options: dict[str, Any] = {"on_failure": "restart", "checkpoint_every": "epoch"} if fail else {}
        write_down(folder / "driver.json")
        job.parallel(nodes, codec=Killed if fail else Plain, epoch=EPOCHS, block_size=8, directory=folder, **options)
        sys.setprofile(None)


if __name__ == "__main__":
    submit(Path(sys.argv[1]), "fail" in sys.argv[2:])
