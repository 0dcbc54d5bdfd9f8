"""torch, as its users write it. The argument is `<task>:<workload>:<variant>`; variants are eager, last (channels last),
fused (Adam) and compile."""

import os
import time
from collections.abc import Callable
from typing import Any

from benchmarks.nn.workload import WORKLOADS, Workload, repetitions


def build(workload: Workload) -> Any:
    """Return the network; images have their channels first, as torch wants them."""
    import torch

    class LastStep(torch.nn.Module):
        def __init__(self, features: int, units: int) -> None:
            super().__init__()
            self.lstm = torch.nn.LSTM(features, units, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.lstm(x)[0][:, -1]

    activation = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}[workload.activation]
    layers: list[torch.nn.Module] = []
    *space, features = workload.sample
    for place, (kind, size) in enumerate(workload.layers):
        if kind == "dense":
            layers.append(torch.nn.Linear(features, size))
        elif kind == "conv":
            layers.append(torch.nn.Conv2d(features, size, 3, padding="same"))
        elif kind == "lstm":
            layers.append(LastStep(features, size))
        elif kind == "pool":
            layers.append(torch.nn.MaxPool2d(size))
            space = [axis // size for axis in space]
        else:
            layers.append(torch.nn.Flatten())
            size = features * space[0] * space[1]
        features = features if kind == "pool" else size
        if kind in ("dense", "conv") and place < len(workload.layers) - 1:
            layers.append(activation())
    return torch.nn.Sequential(*layers)


def prepare(argument: str) -> Callable[[], float]:
    """Return one round of training or of predictions."""
    import torch

    task, name, variant = argument.split(":")
    workload = WORKLOADS[name]
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(0)
    network = build(workload)
    layout = torch.channels_last if variant == "last" else torch.contiguous_format
    if variant == "last":
        network = network.to(memory_format=layout)
    forward = torch.compile(network) if variant == "compile" else network

    def tensors(count: int | None = None) -> tuple[Any, Any]:
        x, y = workload.data(count)
        samples = torch.from_numpy(x.transpose(0, 3, 1, 2) if x.ndim == 4 else x)
        return (samples.contiguous(memory_format=layout) if x.ndim == 4 else samples), torch.from_numpy(y)

    if task == "train":
        x, y = tensors()
        optimizer = torch.optim.Adam(network.parameters(), fused=True if variant != "eager" else None)

        def run() -> float:
            start = time.perf_counter()
            loss_sum, right = 0.0, 0
            for rows in torch.randperm(len(x)).split(workload.batch):
                batch, label = x[rows], y[rows]
                output = forward(batch)
                loss = torch.nn.functional.cross_entropy(output, label)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                loss_sum += loss.item() * len(rows)
                right += int((output.argmax(1) == label).sum())
            return time.perf_counter() - start

        return run

    size = int(task.removeprefix("predict"))
    x, _ = tensors(repetitions(size) * size)
    network.eval()

    def predict() -> float:
        start = time.perf_counter()
        with torch.inference_mode():
            for batch in x.split(size):
                torch.softmax(forward(batch), 1).numpy()
        return time.perf_counter() - start

    return predict
