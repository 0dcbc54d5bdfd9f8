"""torch DistributedDataParallel with gloo, as its users write it. The argument is `<network>:<workers>`."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.exchange.workload import NETWORKS
from benchmarks.network.workload import held, other_end


def prepare(argument: str) -> Callable[[], float]:
    return held(lambda: rounds(*argument.split(":")))


def rounds(name: str, workers: str) -> Iterator[Callable[[], float]]:
    count = int(workers)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        for rank in range(1, count):
            stack.enter_context(other_end("benchmarks.exchange.data_parallel", f"{name}:{folder}:{rank}:{count}"))
        yield trainer(name, folder, 0, count)


def trainer(name: str, folder: str, rank: int, count: int) -> Callable[[], float]:
    """Join the group, and return one round of training."""
    import torch
    import torch.distributed

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.distributed.init_process_group("gloo", init_method=f"file://{Path(folder, 'store')}", rank=rank, world_size=count)
    torch.manual_seed(0)
    network = NETWORKS[name]
    activation = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}[network.activation]
    layers: list[torch.nn.Module] = []
    for inputs, outputs in zip(network.layers, network.layers[1:], strict=False):
        layers += [torch.nn.Linear(inputs, outputs), activation()]
    replica = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers[:-1]))
    optimizer = torch.optim.Adam(replica.parameters())
    x, y = network.samples()
    own = network.batch // count
    samples, labels = torch.from_numpy(x), torch.from_numpy(y.argmax(1))

    def run() -> float:
        torch.distributed.barrier()
        start = time.perf_counter()
        for step in range(network.steps):
            first = step % network.per_epoch * network.batch + rank * own
            label = labels[first : first + own]
            output = replica(samples[first : first + own])
            loss = torch.nn.functional.cross_entropy(output, label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()
            (output.argmax(1) == label).sum().item()
        return time.perf_counter() - start

    return run


def serve(name: str, folder: str, rank: str, count: str) -> None:
    print("started", flush=True)
    run = trainer(name, folder, int(rank), int(count))
    while True:
        run()


if __name__ == "__main__":
    serve(*sys.argv[1].split(":"))
