"""Four workers on this machine train; one is killed, one is stopped, one more comes in. The weights are those of a calm run.

Run it as `python examples/survive_a_crash.py`. The log tells who failed, where, since when, and what follows; the last line
compares the final weights, bit by bit, with those of a run in which nothing happened.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the checkout, for a Python without Parallel-SGD

import psgd

import nn
import parallel_sgd
from nn.dataset.transforms import ImageCls, Shuffle
from parallel_sgd import LocalNodes
from parallel_sgd.profiles import FixedBlockAssignment

OUTPUT = Path("survive-output")
WORKERS = 4
# attempts count from 0: the second clause is for the one that follows the first failure
FAULTS = "kill 3@e2.b4; stop 2@e3.b2@a2"


def make_job() -> parallel_sgd.ParallelSGD:
    """A small network on the handwritten digits."""
    model = nn.model.SequentialModel(input_shape=[-1, 64], seed=1)
    model.add(nn.layer.Dense(64, activation=nn.activation.Tanh()))
    model.add(nn.layer.Dense(10, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    return parallel_sgd.ParallelSGD(model, nn.dataset.Digits(), Shuffle().add(ImageCls()))


def main() -> int:
    """Train twice and compare; returns 0 when the bits are equal."""
    psgd.no_options(__doc__)
    train = partial(make_job().parallel, epoch=5, block_size=16, assignment_type=FixedBlockAssignment.of(blocks=4))
    with parallel_sgd.in_process(1) as nodes:
        calm = train(nodes, directory=OUTPUT / "calm")
    with parallel_sgd.local_workers(WORKERS + 1) as agents:  # one to spare
        first = LocalNodes(agents.key_file)
        for node in range(WORKERS):
            first.add(node, agents[node])
        result = train(
            first,
            fault=FAULTS,
            stall_timeout=3.0,
            discovery=lambda: [str(address) for _, address in agents.items()],
            min_workers=2,
            max_workers=WORKERS,
            directory=OUTPUT / "stormy",
        )
    print(f"{WORKERS} workers began, {result.restarts} failed, one came in, {len(result.models)} were there at the end.")
    print(f"Accuracy {result['accuracy']:.4f}, in a calm run {calm['accuracy']:.4f}.")
    same = all((model.store.values == calm.models[0].store.values).all() for model in result.models.values())
    print(f"The final weights are {'equal to the last bit' if same else 'NOT equal'}.")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
