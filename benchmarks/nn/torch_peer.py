"""torch, as its users write it; the argument is `<workload>:<variant>` with variant eager, fused or compile."""

import os
import time
from collections.abc import Callable

from benchmarks.nn.workload import WORKLOADS


def prepare(argument: str) -> Callable[[], float]:
    import torch

    name, variant = argument.split(":")
    workload = WORKLOADS[name]
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(0)
    x, y = (torch.from_numpy(array) for array in workload.data())
    activation = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}[workload.activation]
    layers: list[torch.nn.Module] = []
    for before, after in zip(workload.sizes, workload.sizes[1:], strict=False):
        layers += [torch.nn.Linear(before, after), activation()]
    network = torch.nn.Sequential(*layers[:-1])
    optimizer = torch.optim.Adam(network.parameters(), fused=True if variant != "eager" else None)
    forward = torch.compile(network) if variant == "compile" else network

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
