"""Layers one by one, forward and backward, those that change images forward only, beside torch eager.

    OMP_NUM_THREADS=1 python -m benchmarks.nn.layers [layer ...]
    OMP_NUM_THREADS=2 python -m benchmarks.nn.layers --threads 2 [layer ...]

Times are those of a thread's processor, shortest of many in turns, so that other work on the machine matters little; with
several threads they are those of a clock, and the machine has to be free. A turn is then many steps, after a pause: threads of
torch look for more work on the core that those of nn would need.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np

import nn
from benchmarks.pairing import SPINNING_SECONDS
from nn import activation, layer
from nn.arrays import Array
from nn.model.section import Section
from nn.operation.operation import Mode
from nn.plan.plan import Plan
from nn.threads import Team
from nn.value.graph import Graph

BATCH, ROUNDS = 32, 40
TURNS = 4
"""With several threads: of `ROUNDS` / `TURNS` steps each."""

Clock = Callable[[], float]
Step = Callable[[Clock], float]
"""A step of one side, which returns the seconds of a clock that it takes."""


class Case(NamedTuple):
    """One layer on both sides.

    Args:
        shapes: of a sample of each input, channels last.
        ours: makes the layer.
        theirs: makes that of torch, of `torch.nn`, or a function.
        front: whether torch's samples have their channels in front.
        backward: whether the gradients of input and variables are computed, too.
        alone: whether it is computed without a product in front, as it is where there are several inputs.
    """

    shapes: Sequence[tuple[int, ...]]
    ours: Callable[[], layer.Layer]
    theirs: Callable[[Any], Callable[..., Any]]
    front: bool = False
    backward: bool = True
    alone: bool = False


ROWS, LINES, SEQUENCE, IMAGE, PIXELS = (1024,), (64, 128), (128, 32), (16, 16, 64), (32, 32, 3)
STEPS, STATE = (24, 32), (32,)


def of_numbers(name: str, function: Callable[[Any], Callable[..., Any]]) -> Case:
    """Return the case of an activation, by its name."""
    kind: Callable[[], activation.Activation] = getattr(activation, name)
    return Case([ROWS], lambda: layer.Activation(kind()), function)


def of_two(make: Callable[[], layer.Layer], function: Callable[[Any], Callable[..., Any]]) -> Case:
    """Return the case of a layer that combines two values."""
    return Case([ROWS, ROWS], make, function)


def of_recurrence(kind: str, count: int, **options: Any) -> Case:
    """Return the case of a recurrent layer with dropout of its state, of which torch has cells, and users write the loop.

    Args:
        kind: name of the layer here, and of torch's cell without its last word.
        count: how many states it has.
        options: arguments of the layer.
    """
    cell = {"SimpleRNN": "RNNCell"}.get(kind, f"{kind}Cell")
    return Case(
        [STEPS],
        lambda: getattr(layer, kind)(32, recurrent_dropout=0.3, **options),
        lambda n: dropped(n, getattr(n, cell), count),
        alone=True,
    )


def of_images(make: Callable[[], layer.Layer], function: Callable[..., Any]) -> Case:
    """Return the case of a layer at the begin of a model, where no gradient is wanted."""
    return Case([PIXELS], make, lambda n: function, front=True, backward=False)


# Where torch would return a view, and leave the copy to whichever layer comes next, the copy is part of its time.
CASES: dict[str, Case] = {
    "Conv2D dilation": Case(
        [(32, 32, 16)], lambda: layer.Conv2D(16, 3, dilation=2), lambda n: n.Conv2d(16, 16, 3, dilation=2), front=True
    ),
    "Conv1D dilation": Case(
        [SEQUENCE], lambda: layer.Conv1D(32, 3, dilation=2), lambda n: n.Conv1d(32, 32, 3, dilation=2), front=True
    ),
    "DepthwiseConv2D": Case(
        [(32, 32, 32)],
        lambda: layer.DepthwiseConv2D(3, padding="same"),
        lambda n: n.Conv2d(32, 32, 3, padding="same", groups=32),
        front=True,
    ),
    "DepthwiseConv1D": Case(
        [SEQUENCE],
        lambda: layer.DepthwiseConv1D(3, padding="same"),
        lambda n: n.Conv1d(32, 32, 3, padding="same", groups=32),
        front=True,
    ),
    "SeparableConv2D": Case(
        [(16, 16, 32)],
        lambda: layer.SeparableConv2D(64, 3, padding="same"),
        lambda n: n.Sequential(n.Conv2d(32, 32, 3, padding="same", groups=32, bias=False), n.Conv2d(32, 64, 1)),
        front=True,
    ),
    "SeparableConv1D": Case(
        [SEQUENCE],
        lambda: layer.SeparableConv1D(64, 3, padding="same"),
        lambda n: n.Sequential(n.Conv1d(32, 32, 3, padding="same", groups=32, bias=False), n.Conv1d(32, 64, 1)),
        front=True,
    ),
    "Conv2DTranspose": Case(
        [(16, 16, 32)],
        lambda: layer.Conv2DTranspose(16, 4, 2, "same"),
        lambda n: n.ConvTranspose2d(32, 16, 4, 2, 1),
        front=True,
    ),
    "Conv1DTranspose": Case(
        [(64, 32)], lambda: layer.Conv1DTranspose(16, 4, 2, "same"), lambda n: n.ConvTranspose1d(32, 16, 4, 2, 1), front=True
    ),
    "LSTM states": Case(
        [STEPS, STATE, STATE],
        lambda: layer.LSTM(32, return_sequences=True, return_state=True),
        lambda n: with_states(n, n.LSTM),
    ),
    "GRU states": Case(
        [STEPS, STATE], lambda: layer.GRU(32, return_sequences=True, return_state=True), lambda n: with_states(n, n.GRU)
    ),
    "LSTM stateful": Case(
        [STEPS], lambda: layer.LSTM(32, return_sequences=True, stateful=True), lambda n: carrying(n), alone=True
    ),
    "LSTM dropout": of_recurrence("LSTM", 2),
    "GRU dropout": of_recurrence("GRU", 1),
    "SimpleRNN dropout": of_recurrence("SimpleRNN", 1),
    "Bidirectional LSTM": Case([STEPS], lambda: layer.Bidirectional(layer.LSTM(32)), lambda n: last_step(n)),
    "TimeDistributed": Case([(16, 64)], lambda: layer.TimeDistributed(layer.Dense(64)), lambda n: n.Linear(64, 64)),
    "Dot": Case([(16, 64), (16, 64)], layer.Dot, lambda n: lambda a, b: a @ b.mT),
    "GroupNorm": Case([IMAGE], lambda: layer.GroupNorm(8), lambda n: n.GroupNorm(8, 64), front=True),
    "LayerNorm": Case([LINES], layer.LayerNorm, lambda n: n.LayerNorm(128)),
    "RMSNorm": Case([LINES], layer.RMSNorm, lambda n: n.RMSNorm(128)),
    "GlobalMaxPool": Case([IMAGE], layer.GlobalMaxPool, lambda n: lambda x: n.functional.adaptive_max_pool2d(x, 1), front=True),
    "ZeroPadding": Case([IMAGE], lambda: layer.ZeroPadding(1), lambda n: n.ZeroPad2d(1), front=True),
    "Cropping": Case([IMAGE], lambda: layer.Cropping(1), lambda n: lambda x: x[:, :, 1:-1, 1:-1].contiguous(), front=True),
    "UpSampling": Case([IMAGE], lambda: layer.UpSampling(2), lambda n: n.Upsample(scale_factor=2), front=True),
    "UpSampling bilinear": Case(
        [IMAGE],
        lambda: layer.UpSampling(2, "bilinear"),
        lambda n: n.Upsample(scale_factor=2, mode="bilinear"),
        front=True,
    ),
    "RepeatVector": Case([(64,)], lambda: layer.RepeatVector(32), lambda n: lambda x: x[:, None].repeat(1, 32, 1)),
    "Permute": Case([LINES], lambda: layer.Permute((2, 1)), lambda n: lambda x: x.mT.contiguous()),
    "PReLU": Case([IMAGE], lambda: layer.PReLU(shared_axes=[1, 2]), lambda n: n.PReLU(64), front=True),
    "GLU": Case([(2048,)], layer.GLU, lambda n: n.GLU()),
    "SELU": of_numbers("SELU", lambda n: n.SELU()),
    "Mish": of_numbers("Mish", lambda n: n.Mish()),
    "HardSigmoid": of_numbers("HardSigmoid", lambda n: n.Hardsigmoid()),
    "HardSwish": of_numbers("HardSwish", lambda n: n.Hardswish()),
    "Softsign": of_numbers("Softsign", lambda n: n.Softsign()),
    "LogSoftmax": of_numbers("LogSoftmax", lambda n: n.LogSoftmax(-1)),
    "Lambda": Case([ROWS], lambda: layer.Lambda(nn.function.square), lambda n: lambda x: x.square()),
    "Add": of_two(layer.Add, lambda n: lambda a, b: a + b),
    "Subtract": of_two(layer.Subtract, lambda n: lambda a, b: a - b),
    "Multiply": of_two(layer.Multiply, lambda n: lambda a, b: a * b),
    "Average": of_two(layer.Average, lambda n: lambda a, b: (a + b) / 2),
    "Maximum": of_two(layer.Maximum, lambda n: maximum),
    "Minimum": of_two(layer.Minimum, lambda n: minimum),
    "Concatenate": of_two(layer.Concatenate, lambda n: concatenated),
    "SpatialDropout": Case([IMAGE], lambda: layer.SpatialDropout(0.4), lambda n: n.Dropout2d(0.4), front=True),
    "GaussianDropout": Case([(256,)], lambda: layer.GaussianDropout(0.1), lambda n: lambda x: x * normal(x, 1, 1 / 3)),
    "GaussianNoise": Case([(256,)], lambda: layer.GaussianNoise(0.1), lambda n: lambda x: x + normal(x, 0, 0.1)),
    "Normalization": of_images(lambda: layer.Normalization(-1, [1, 2, 3], [4, 9, 16]), lambda x: standardised(x)),
    "Rescaling": of_images(lambda: layer.Rescaling(1 / 255), lambda x: x * (1 / 255)),
    "CategoryEncoding": Case(
        [(16,)], lambda: layer.CategoryEncoding(64, "count"), lambda n: lambda x: counted(n, x), backward=False
    ),
    "Resizing": of_images(lambda: layer.Resizing(24, 24), lambda x: resized(x)),
    "CenterCrop": of_images(lambda: layer.CenterCrop(24, 24), lambda x: x[:, :, 4:28, 4:28].contiguous()),
    "RandomFlip": of_images(layer.RandomFlip, lambda x: flipped(x)),
    "RandomRotation": of_images(lambda: layer.RandomRotation(0.2), lambda x: moved(x, turn=0.4)),
    "RandomZoom": of_images(lambda: layer.RandomZoom(0.2), lambda x: moved(x, zoom=0.4)),
    "RandomTranslation": of_images(lambda: layer.RandomTranslation(0.2, 0.2), lambda x: moved(x, shift=0.8)),
    "RandomCrop": of_images(lambda: layer.RandomCrop(24, 24), lambda x: cropped(x)),
    "RandomContrast": of_images(lambda: layer.RandomContrast(0.2), lambda x: contrasted(x)),
}


def last_step(n: Any) -> Any:
    """Return a module: the last step of an LSTM of both directions."""

    class LastStep(n.LSTM):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return super().forward(x)[0][:, -1]

    return LastStep(32, 32, bidirectional=True, batch_first=True)


def with_states(n: Any, kind: Any) -> Any:
    """Return a module: a recurrence that takes the states before the first step and gives those after the last one."""

    class WithStates(kind):  # type: ignore[misc]
        def forward(self, x: Any, *states: Any) -> Any:
            before = [state[None] for state in states]
            made, last = super().forward(x, tuple(before) if len(before) > 1 else before[0])
            return [made, *(last if isinstance(last, tuple) else (last,))]

    return WithStates(*STATE, *STATE, batch_first=True)


def carrying(n: Any) -> Any:
    """Return a module: an LSTM that begins with the states that the batch before has ended with."""

    class Carrying(n.LSTM):  # type: ignore[misc]
        states: Any = None

        def forward(self, x: Any) -> Any:
            made, last = super().forward(x, self.states)
            self.states = [state.detach() for state in last]
            return made

    return Carrying(*STATE, *STATE, batch_first=True)


def dropped(n: Any, kind: Any, count: int) -> Any:
    """Return a module: the last state of a cell that sees the same part of its state in all steps."""
    import torch

    class Dropped(kind):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            states = [torch.zeros(len(x), *STATE) for _ in range(count)]
            mask = n.functional.dropout(torch.ones_like(states[0]), 0.3)
            for step in x.unbind(1):
                hidden = states[0] * mask
                made = super().forward(step, (hidden, states[1]) if count > 1 else hidden)
                states = list(made) if count > 1 else [made]
            return states[0]

    return Dropped(*STATE, *STATE)


def maximum(a: Any, b: Any) -> Any:
    """Return the greater of two numbers in each place."""
    import torch

    return torch.maximum(a, b)


def minimum(a: Any, b: Any) -> Any:
    """Return the lesser of two numbers in each place."""
    import torch

    return torch.minimum(a, b)


def concatenated(a: Any, b: Any) -> Any:
    """Return one array behind the other."""
    import torch

    return torch.cat([a, b], -1)


def normal(x: Any, mean: float, deviation: float) -> Any:
    """Return normal draws in the shape of x."""
    import torch

    return torch.empty_like(x, requires_grad=False).normal_(mean, deviation)


def standardised(x: Any) -> Any:
    """Return images with each channel less its mean, over its deviation."""
    import torch

    mean, deviation = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 3.0, 4.0])
    return (x - mean[:, None, None]) / deviation[:, None, None]


def counted(n: Any, x: Any) -> Any:
    """Return how often each number occurs in a sample."""
    return n.functional.one_hot(x.long(), 64).sum(1).float()


def resized(x: Any) -> Any:
    """Return images of 24 x 24 pixels."""
    import torch

    return torch.nn.functional.interpolate(x, (24, 24), mode="bilinear")


def flipped(x: Any) -> Any:
    """Return images mirrored along each axis or not."""
    import torch

    for axis in (2, 3):
        x = torch.where(torch.rand(len(x), 1, 1, 1) < 0.5, x.flip(axis), x)
    return x


def moved(x: Any, turn: float = 0.0, zoom: float = 0.0, shift: float = 0.0) -> Any:
    """Return images turned, zoomed and shifted by draws of their own each, mirrored beyond the edges.

    Args:
        x: images.
        turn: range of the angle, as a share of a turn.
        zoom: range of the factor of distances, around 1.
        shift: range of the shift; 2 is the whole image.
    """
    import torch

    angle, factor = ((torch.rand(len(x)) - 0.5) * bounds for bounds in (turn * 2 * np.pi, zoom))
    right, down = (torch.rand(2, len(x)) - 0.5) * shift
    cosine, sine = torch.cos(angle) * (1 + factor), torch.sin(angle) * (1 + factor)
    matrices = torch.stack([torch.stack([cosine, -sine, right], 1), torch.stack([sine, cosine, down], 1)], 1)
    grid = torch.nn.functional.affine_grid(matrices, list(x.shape), align_corners=False)
    return torch.nn.functional.grid_sample(x, grid, padding_mode="reflection", align_corners=False)


def cropped(x: Any) -> Any:
    """Return a part of each image at a place of its own."""
    import torch

    places = torch.randint(0, 9, (len(x), 2)).tolist()
    parts = [image[:, top : top + 24, left : left + 24] for image, (top, left) in zip(x, places, strict=True)]
    return torch.stack(parts)


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
        case = CASES[name]
        draw = np.random.default_rng(0)
        # At the begin of a model: pixels, or numbers of categories.
        draws: Callable[..., Array] = draw.standard_normal if case.backward else partial(draw.integers, 0, 64)
        xs = [draws(size=(BATCH, *shape)).astype(np.float32) for shape in case.shapes]
        run, other = step_of_nn(case, xs, threads), step_of_torch(case, xs, threads)
        if threads == 1:
            times = np.array([[run(clock), other(clock)] for _ in range(ROUNDS)]).min(axis=0)
        else:
            times = np.array([[turn(run, clock), turn(other, clock)] for _ in range(TURNS)]).min(axis=0)
        print(f"{name:<20} {times[0] * 1e6:6.0f} µs {times[1] * 1e6:6.0f} µs  {times[1] / times[0]:9.2f}", flush=True)
    return 0


def turn(step: Step, clock: Clock) -> float:
    """Return the seconds of the shortest of some steps, which begin when threads of the other side have come to rest."""
    time.sleep(SPINNING_SECONDS)
    return min(step(clock) for _ in range(ROUNDS // TURNS))


def step_of_nn(case: Case, xs: Sequence[Array], threads: int) -> Step:
    """Return a step of a layer: its output and the gradients that are wanted."""
    entries, one = [nn.Input(shape) for shape in case.shapes], case.ours()
    # In a model products decide which large results threads share out: the layer is computed as behind one.
    front = layer.Dense(case.shapes[0][-1], name="front")
    alone = case.alone or len(entries) > 1 or len(case.shapes[0]) == 1 or not case.backward
    values = [*entries] if alone else [front(entries[0]), *entries[1:]]
    model = nn.model.Model(entries, one(values if len(values) > 1 else values[0]))
    model.setup("mse")
    graph, whole = model.graph, None
    if not alone:
        section, entry = Section(model.graph, front.name, None), nn.Input(case.shapes[0])
        graph, whole = Graph(entry, section.copy(entry)), section.whole()
    dtype, outputs = np.dtype(np.float32), len(graph.outputs)
    states = [np.zeros((len(xs[0]), *each.shape[1:]), dtype) for each in graph.carried]
    graph, shapes = graph.carrying(), [x.shape for x in (*xs, *states)]
    plan = Plan(graph, shapes, dtype, training=True, input_gradient=True, team=Team(threads), whole=whole)
    # Draws of their own for each step, as in training: of equal ones the processor learns the branches, and normal draws take
    # half the time.
    modes = (Mode(training=True, key=(0, 0, batch, 0)) for batch in count())
    made = plan.forward((*xs, *states), next(modes))[:outputs]
    gradients = [np.random.default_rng(1).standard_normal(output.shape).astype(np.float32) for output in made]

    def run(clock: Clock) -> float:
        mode = next(modes)
        start = clock()
        ends = plan.forward((*xs, *states), mode)[outputs:]
        # As a model does it: backward reads the states before the batch.
        states[:] = [end.copy() for end in ends]
        seconds = clock() - start
        if case.backward:
            # Not part of the time: the layer behind writes them there, and torch is given them as they lie.
            for target, gradient in zip(plan.output_gradients, gradients, strict=False):
                np.copyto(target, gradient)
            start = clock()
            plan.backward(None)
            seconds += clock() - start
        return seconds

    return run


def several(made: Any) -> list[Any]:
    """Return the results of a module as a list, also where there is one."""
    return made if isinstance(made, list) else [made]


def step_of_torch(case: Case, xs: Sequence[Array], threads: int) -> Step:
    """Return the same step of torch's layer."""
    import torch

    torch.set_num_threads(threads)
    inputs = [torch.from_numpy(np.ascontiguousarray(np.moveaxis(x, -1, 1)) if case.front else x.copy()) for x in xs]
    for x in inputs:
        x.requires_grad_(case.backward)
    made = case.theirs(torch.nn)
    gradients = [torch.randn(each.shape) for each in several(made(*inputs))]

    def run(clock: Clock) -> float:
        for x in inputs:
            x.grad = None
        if isinstance(made, torch.nn.Module):
            made.zero_grad()
        start = clock()
        found = several(made(*inputs))
        if case.backward:
            torch.autograd.backward(found, gradients)
        return clock() - start

    return run


if __name__ == "__main__":
    sys.exit(main())
