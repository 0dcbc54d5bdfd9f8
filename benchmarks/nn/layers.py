"""Layers one by one, forward and backward, those that change images forward only, beside torch eager.

    OMP_NUM_THREADS=1 python -m benchmarks.nn.layers [layer ...]
    OMP_NUM_THREADS=2 python -m benchmarks.nn.layers --threads 2 [layer ...]

Times are those of a thread's processor, shortest of many in turns, so that other work on the machine matters little; with
several threads they are those of a clock, and the machine has to be free.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from nn import layer
from nn.model import SequentialModel
from nn.operation.operation import Mode
from nn.plan.plan import Plan
from nn.threads import Team

BATCH, ROUNDS = 32, 20

CASES: dict[str, tuple[tuple[int, ...], Callable[[], layer.Layer], Callable[[Any], Any]]] = {
    "GroupNorm": ((16, 16, 64), lambda: layer.GroupNorm(8), lambda n: n.GroupNorm(8, 64)),
    "DepthwiseConv2D": (
        (32, 32, 32),
        lambda: layer.DepthwiseConv2D(3, padding="same"),
        lambda n: n.Conv2d(32, 32, 3, padding="same", groups=32),
    ),
    "Conv2D dilation": ((32, 32, 16), lambda: layer.Conv2D(16, 3, dilation=2), lambda n: n.Conv2d(16, 16, 3, dilation=2)),
    "GaussianNoise": ((256,), lambda: layer.GaussianNoise(0.1), lambda n: lambda x: x + 0.1 * x.detach().clone().normal_()),
    "RandomRotation": ((32, 32, 3), lambda: layer.RandomRotation(0.2), lambda n: rotated),
    "RandomContrast": ((32, 32, 3), lambda: layer.RandomContrast(0.2), lambda n: contrasted),
    "RepeatVector": ((64,), lambda: layer.RepeatVector(32), lambda n: lambda x: x[:, None].repeat(1, 32, 1)),
    "SELU": ((1024,), lambda: layer.Activation("selu"), lambda n: n.SELU()),
    "Bidirectional LSTM": (
        (24, 32),
        lambda: layer.Bidirectional(layer.LSTM(32)),
        lambda n: n.LSTM(32, 32, bidirectional=True, batch_first=True),
    ),
}
"""Shape of samples, channels last; the layer here; and torch's, of `torch.nn`."""

FORWARD = ("RandomRotation", "RandomContrast")
"""Layers at the begin of a model, where no gradient is wanted."""


def rotated(x: Any) -> Any:
    """Return images turned by an angle of their own each, mirrored beyond the edges."""
    import torch

    angle = torch.rand(len(x)) * 2.5 - 1.25
    cosine, sine, zero = torch.cos(angle), torch.sin(angle), torch.zeros(len(x))
    matrices = torch.stack([torch.stack([cosine, -sine, zero], 1), torch.stack([sine, cosine, zero], 1)], 1)
    grid = torch.nn.functional.affine_grid(matrices, list(x.shape), align_corners=False)
    return torch.nn.functional.grid_sample(x, grid, padding_mode="reflection", align_corners=False)


def contrasted(x: Any) -> Any:
    """Return images with a contrast of their own each."""
    import torch

    mean = x.mean((2, 3), keepdim=True)
    return ((x - mean) * (torch.rand(len(x), 1, 1, 1) * 0.4 + 0.8) + mean).clamp(0, 255)


def main() -> int:
    """Print the times of both and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("layers", nargs="*", default=list(CASES), metavar="layer", help=", ".join(CASES))
    parser.add_argument(
        "--threads", type=int, default=1, help="threads of either side, as many as OMP_NUM_THREADS (default: 1)"
    )
    arguments = parser.parse_args()
    chosen, threads = arguments.layers, arguments.threads
    if threads < 1:
        parser.error(f"'--threads' must be at least 1, got {threads}")
    clock = time.thread_time if threads == 1 else time.perf_counter
    for name in chosen:
        if name not in CASES:
            parser.error(f"'layer' must be among {', '.join(CASES)}, got {name!r}")
    print(f"{'layer':<20} {'nn':>9} {'torch':>9}  torch / nn")
    for name in chosen:
        shape, ours, theirs = CASES[name]
        backward = name not in FORWARD
        run, other = step_of_nn(shape, ours(), backward, threads), step_of_torch(shape, theirs, backward, threads)
        times = np.array([[timed(run, clock), timed(other, clock)] for _ in range(ROUNDS)]).min(axis=0)
        print(f"{name:<20} {times[0] * 1e6:6.0f} µs {times[1] * 1e6:6.0f} µs  {times[1] / times[0]:9.2f}", flush=True)
    return 0


def timed(run: Callable[[], object], clock: Callable[[], float]) -> float:
    """Return the seconds of a clock that a call takes."""
    start = clock()
    run()
    return clock() - start


def step_of_nn(shape: tuple[int, ...], one: layer.Layer, backward: bool, threads: int) -> Callable[[], object]:
    """Return a step of a model of one layer: its output and, with `backward`, the gradients of input and variables."""
    model = SequentialModel([-1, *shape], [one])
    model.setup("mse")
    draw = np.random.default_rng(0)
    x = draw.standard_normal((BATCH, *shape)).astype(np.float32)
    plan = Plan(model.graph, [x.shape], np.dtype(np.float32), training=True, input_gradient=True, team=Team(threads))
    (output,) = plan.forward((x,), Mode(training=True, key=(0, 0, 0, 0)))
    gradient = draw.standard_normal(output.shape).astype(np.float32)

    def run() -> None:
        plan.forward((x,), Mode(training=True, key=(0, 0, 0, 0)))
        if backward:
            np.copyto(plan.output_gradients[0], gradient)
            plan.backward(None)

    return run


def step_of_torch(shape: tuple[int, ...], make: Callable[[Any], Any], backward: bool, threads: int) -> Callable[[], object]:
    """Return the same step of torch's layer; images have their channels in front there."""
    import torch

    torch.set_num_threads(threads)
    given = (BATCH, shape[-1], *shape[:-1]) if len(shape) == 3 else (BATCH, *shape)
    x = torch.randn(given, requires_grad=backward)
    made = make(torch.nn)

    def output() -> Any:
        found = made(x)
        return found[0][:, -1] if isinstance(found, tuple) else found

    gradient = torch.randn(output().shape)

    def run() -> None:
        x.grad = None
        if isinstance(made, torch.nn.Module):
            made.zero_grad()
        found = output()
        if backward:
            found.backward(gradient)

    return run


if __name__ == "__main__":
    sys.exit(main())
