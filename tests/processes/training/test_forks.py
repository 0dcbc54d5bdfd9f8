"""What callbacks, transforms and data sets of a job fork ends as it would anywhere, and disturbs no worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from parallel_sgd.nodes import LocalNodes

from .test_user_code import run

pytestmark = pytest.mark.processes

SCRIPT = """
import multiprocessing
import os
import signal
import sys
import time
import nn
import parallel_sgd
from nn.callback import Callback
from nn.dataset.transforms import ImageCls
from nn.dataset.transforms.abstract import AbsTransformer

FORK = multiprocessing.get_context("fork")


def pooled(numbers):
    with FORK.Pool(2) as pool:
        return pool.map(abs, numbers)


class Pooling(AbsTransformer):
    def __call__(self, train_x, train_y, test_x, test_y, seed=0):
        assert pooled([-1, 2]) == [1, 2]
        return train_x, train_y, test_x, test_y


class Digits(nn.dataset.Digits):
    def load(self):
        assert pooled([-3, 4]) == [3, 4]
        return super().load()


class Forking(Callback):
    def on_epoch_end(self, epoch, logs):
        assert pooled([-5, 6]) == [5, 6]
        ended = []
        for act in ("sleeps", "returns", "raises", "exits"):
            pid = os.fork()
            if not pid:
                if act == "sleeps":
                    time.sleep(60)
                if act == "raises":
                    raise ValueError("in a child")
                if act == "exits":
                    sys.exit(9)
                return
            if act == "sleeps":
                os.kill(pid, signal.SIGTERM)
            ended.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        assert ended == [-15, 0, 1, 9], ended
        left = FORK.Process(target=time.sleep, args=(600,), daemon=True)  # its worker ends it
        left.start()


def trained(callbacks, transform):
    model = nn.model.SequentialModel(input_shape=[-1, 64])
    model.add(nn.layer.Dense(10))
    model.setup(nn.loss.MSELoss())
    job = parallel_sgd.ParallelSGD(model, Digits(), transform)
    nodes = parallel_sgd.parse_worker(2)
    result = job.parallel(nodes, epoch=2, block_size=128, gd_type=nn.gradient_descent.SGDOptimizer, callbacks=callbacks)
    return result.models[0].store.values.tobytes(), result


if __name__ == "__main__":
    bits, result = trained([Forking()], Pooling().add(ImageCls()))
    print(trained([], ImageCls())[0] == bits, result.failures, result.restarts)
"""


@pytest.mark.long
def test_a_job_whose_parts_fork(tmp_path: Path, agents: LocalNodes) -> None:
    """Pools, children that end in each way, and some that are left: the job has its bits, and its nodes are free after it."""
    assert run(tmp_path, agents, SCRIPT) == "True {} 0\n"
