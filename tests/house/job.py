"""A small job on two real agents, of which each process tells what it has imported, and one worker what a batch calls.

`python -m tests.house.job FOLDER` submits it. Then FOLDER holds `worker.json`, `submitter.json` and `agent-0.json`, each the
modules of that process with their files, and `calls.json`, what Python called in one worker (`Probe`).
"""

from __future__ import annotations

import contextlib
import gc
import json
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from network import NodeAssignment
from network.session import Session
from parallel_sgd.codec.plain import Plain
from parallel_sgd.codec.settings import GlobalSettings

SKIPPED, MEASURED = 10, 41  # batches; what is made once, in the first ones, counts for none
NODES = 2
LABELS = 3
AGENT = """
import atexit, json, sys
def tell():
    with open({place!r}, "w") as file:
        json.dump({{name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}}, file)
atexit.register(tell)
import psgd
sys.exit(psgd.worker())
"""


class Probe(Plain):
    """`Plain`, which tells of worker 0 what it has imported when its first gradient is there, and what 40 batches call.

    The worker waits for the other one at the first vector of every batch, so that nothing hangs on their pace: what the
    other one sends is there when this one looks for it, or has been read already.
    """

    traits = Plain.traits  # as Plain, also where it counts for the class that says it

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self._batches = 0
        self._events: list[tuple[str, str, str, str]] = []

    def update_blocks(self, block_weight: Any) -> Any:
        """Begin, go on or end with writing down."""
        if self._node_id == 0:
            self._look()
        return super().update_blocks(block_weight)

    def _look(self) -> None:
        sys.setprofile(None)
        self._batches += 1
        folder = GlobalSettings.get_params("folder")
        if self._batches == 1:
            tell_modules(Path(folder, "worker.json"))
        select.select([each.link for each in gc.get_objects() if isinstance(each, Session)], [], [], 0.1)
        if self._batches == SKIPPED + MEASURED:
            Path(folder, "calls.json").write_text(json.dumps(self._events))
        elif SKIPPED <= self._batches < SKIPPED + MEASURED:
            self._events.append(("batch", "", "", ""))
            sys.setprofile(recorder(self._events))


def recorder(events: list[tuple[str, str, str, str]]) -> Callable[[FrameType, str, Any], None]:
    """Writes down (kind, file, function, the caller's file) of every call and return of a Python function, and of what is
    called of sockets."""

    def record(frame: FrameType, kind: str, about: Any) -> None:
        code = frame.f_code
        if kind == "call":
            caller = frame.f_back
            events.append((kind, code.co_filename, code.co_name, caller.f_code.co_filename if caller else ""))
        elif kind == "return":
            events.append((kind, code.co_filename, code.co_name, ""))
        elif kind == "c_call" and getattr(about, "__qualname__", "").startswith("socket."):
            events.append(("socket", code.co_filename, about.__name__, ""))

    return record


def tell_modules(place: Path) -> None:
    """Write down the modules of this process, with their files."""
    place.write_text(json.dumps({name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}))


def submit(folder: Path) -> None:
    """Train two dense layers, which are four variables, for 64 batches on agents of this machine."""
    import numpy as np

    import nn
    import parallel_sgd

    model = nn.model.SequentialModel(input_shape=[-1, 4])
    model.add(nn.layer.Dense(8, activation=nn.activation.Tanh()))
    model.add(nn.layer.Dense(LABELS, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    x = np.random.default_rng(0).standard_normal((64 * 8 * NODES, 4)).astype(np.float32)
    y = np.eye(LABELS, dtype=np.float32)[np.arange(len(x)) % LABELS]
    job = parallel_sgd.ParallelSGD(model, nn.dataset.ArrayDataset(x, y, x[:8], y[:8]))
    with agents_of(folder, AGENT) as nodes:
        job.parallel(
            nodes,
            codec=Probe,
            codec_extra_parameters={"folder": str(folder)},
            gd_type=nn.gradient_descent.SGDOptimizer,
            epoch=1,
            block_size=8,
            checkpoint_every=None,
            directory=folder,
        )
        tell_modules(folder / "submitter.json")


@contextlib.contextmanager
def agents_of(folder: Path, program: str) -> Iterator[NodeAssignment]:
    """Start `NODES` agents with this program, in which `{place!r}` stands for a file of each; end them behind the block."""
    agents: list[subprocess.Popen[bytes]] = []
    try:
        agents += [start_agent(folder, number, program) for number in range(NODES)]
        nodes = NodeAssignment(key_file=folder / "key")
        for number, agent in enumerate(agents):
            nodes.add(number, address(folder / f"address-{number}", agent))
        yield nodes
    finally:
        for agent in agents:
            agent.terminate()
        for agent in agents:
            agent.communicate(timeout=60)


def start_agent(folder: Path, number: int, program: str) -> subprocess.Popen[bytes]:
    """An agent that ends with this process, with the key of the folder."""
    key = ["--key-file", str(folder / "key")]
    if number == 0:
        subprocess.run([sys.executable, "-c", "import psgd; psgd.worker()", "--new-key", *key], check=True)
    code = program.format(place=str(folder / f"agent-{number}.json"))
    place = ["--announce", str(folder / f"address-{number}"), "--work-dir", str(folder / f"work-{number}")]
    command = [sys.executable, "-c", code, "--port", "0", "--end-with-parent", "--log-level", "ERROR", *key, *place]
    return subprocess.Popen(command, stdin=subprocess.PIPE)


def address(announced: Path, agent: subprocess.Popen[bytes]) -> str:
    """Where the agent listens, as soon as it does."""
    deadline = time.monotonic() + 60.0
    while not announced.exists():
        if agent.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("An agent does not listen.")
        time.sleep(0.005)
    return announced.read_text("utf-8")


if __name__ == "__main__":
    submit(Path(sys.argv[1]))
