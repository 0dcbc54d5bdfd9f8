"""From the call of `parallel()` to the end of the first step on the last worker, with agents that run.

The argument is the number of workers. A round is a program that submits one job, a process of its own, as users' programs are:
what it imports for the first time while it submits counts.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import nn
import parallel_sgd
from network import NodeAssignment
from nn.dataset.transforms import ImageCls
from parallel_sgd.codec import GlobalSettings, Plain
from rpc.support.logs import SUBMIT_LOGGER


class Stamped(Plain):
    """Leaves the moment of the first merged result of its process in a file."""

    def get_result(self) -> Any:
        """As `Plain`."""
        result = super().get_result()
        path = Path(GlobalSettings.get_params("folder"), f"{self.node_id}.{os.getpid()}")
        if result is not None and not path.exists():
            path.write_text(str(time.monotonic()), "ascii")
        return result


def prepare(workers: str) -> Callable[[], float]:
    from benchmarks.network.workload import held

    return held(lambda: rounds(int(workers)))


def rounds(workers: int) -> Iterator[Callable[[], float]]:
    with parallel_sgd.local_workers(workers) as nodes:
        addresses = [str(nodes[node]) for node in range(workers)]
        command = [sys.executable, str(Path(__file__).resolve()), str(nodes.key_file), *addresses]
        product = Path(parallel_sgd.__file__).parent.parent

        def run() -> float:
            environment = {**os.environ, "PYTHONPATH": str(product)}
            done = subprocess.run(command, cwd=product, env=environment, check=False, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(done.stderr.strip().rpartition("\n")[2])
            return float(done.stdout)

        yield run


def submit(key_file: str, addresses: Sequence[str]) -> float:
    """Submit a short job and return the seconds until every worker has done it."""
    logging.getLogger(SUBMIT_LOGGER).setLevel(logging.ERROR)
    model = nn.model.SequentialModel(input_shape=[-1, 64], seed=1)
    model.add(nn.layer.Dense(32, activation=nn.activation.Tanh()))
    model.add(nn.layer.Dense(10, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    nodes = NodeAssignment(key_file=key_file)
    for node, address in enumerate(addresses):
        nodes.add(node, address)
    job = parallel_sgd.ParallelSGD(model, nn.dataset.Digits(), ImageCls())
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        job.parallel(
            nodes,
            codec=Stamped,
            codec_extra_parameters={"folder": folder},
            epoch=1,
            block_size=64,
            checkpoint_every=None,
            directory=folder,
        )
        stamps = [float(path.read_text("ascii")) for node in range(len(addresses)) for path in Path(folder).glob(f"{node}.*")]
    if len(stamps) != len(addresses):
        raise RuntimeError(f"{len(stamps)} of {len(addresses)} workers have left the moment of their first step.")
    return max(stamps) - begin


if __name__ == "__main__":
    print(submit(sys.argv[1], sys.argv[2:]))
