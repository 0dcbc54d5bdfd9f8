"""The main job in one go: two workers on this machine train a small network on handwritten digits. `make demo` runs it."""

import logging
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))  # the checkout, for a Python without Parallel-SGD

import psgd

import nn
import nn.dataset.transforms as transforms
import parallel_sgd
from parallel_sgd.codec.plain import Plain

WORKERS = 2
OUTPUT = Path("demo-output")


def main() -> int:
    """Train, tell what came out and where it lies; returns 0 when the network has learned something."""
    psgd.no_options(__doc__)
    print(f"Starting {WORKERS} workers on this machine ...", flush=True)
    model = nn.model.SequentialModel(input_shape=[-1, 64])
    model.add(nn.layer.Dense(128, activation=nn.activation.Tanh()))
    model.add(nn.layer.Dense(128, activation=nn.activation.Tanh()))
    model.add(nn.layer.Dense(10, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())

    data = nn.dataset.Digits()
    trans = transforms.Shuffle().add(transforms.ImageCls())
    job = parallel_sgd.ParallelSGD(model, data, trans)
    with parallel_sgd.local_workers(WORKERS) as nodes:
        result = job.parallel(nodes, codec=Plain, epoch=30, block_size=16, mission_title="Demo", directory=OUTPUT)
    print(result)
    print("A second worker gains little, or nothing, with a network as small as this one; README.md has one that gains by it.")
    folders = f"{result.files[0][0].parents[1]}/Node-*-Retrieve"
    print(f"Logs and tables of each worker (TR: every step, EV: every epoch) lie in {folders}.")
    return 0 if result["accuracy"] >= 0.9 else 1


if __name__ == "__main__":
    logging.captureWarnings(True)
    raise SystemExit(main())
