"""torch eager, as its users write a decoder: one product for query, key and value, fused attention, a cache that is allocated
once. The argument is `<task>:<workload>`.
"""

import os
import time
from collections.abc import Callable
from typing import Any

from benchmarks.language.workload import WORKLOADS, Workload


def build(workload: Workload) -> Any:
    """Return the decoder. Called with a cache and a place, it takes one token behind those that the cache holds."""
    import torch
    from torch.nn import functional

    depth = workload.features // workload.heads
    waves = 10_000.0 ** (-torch.arange(0, depth, 2) / depth)
    angles = torch.arange(workload.length)[:, None] * waves
    turns = torch.polar(torch.ones_like(angles), angles)

    def turned(x: Any, place: int) -> Any:
        pairs = torch.view_as_complex(x.unflatten(3, (-1, 2)))
        return torch.view_as_real(pairs * turns[place : place + x.shape[2]]).flatten(3)

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = (torch.nn.LayerNorm(workload.features) for _ in range(2))
            self.project = torch.nn.Linear(workload.features, 3 * workload.features)
            self.join = torch.nn.Linear(workload.features, workload.features)
            self.wide = torch.nn.Linear(workload.features, 4 * workload.features)
            self.narrow = torch.nn.Linear(4 * workload.features, workload.features)

        def forward(self, x: Any, cache: Any, place: int) -> Any:
            heads = self.project(self.first(x)).unflatten(2, (3, workload.heads, depth)).permute(2, 0, 3, 1, 4)
            query, key, value = turned(heads[0], place), turned(heads[1], place), heads[2]
            if cache is None:
                attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            else:
                cache[0, :, :, place], cache[1, :, :, place] = key[:, :, 0], value[:, :, 0]
                seen = cache[:, :, :, : place + 1]
                attended = functional.scaled_dot_product_attention(query, seen[0], seen[1])
            x = x + self.join(attended.transpose(1, 2).flatten(2))
            return x + self.narrow(functional.gelu(self.wide(self.second(x))))

    class Decoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(workload.vocabulary, workload.features)
            torch.nn.init.normal_(self.embedding.weight, std=0.03)
            self.blocks = torch.nn.ModuleList([Block() for _ in range(workload.blocks)])
            self.last = torch.nn.LayerNorm(workload.features)

        def forward(self, ids: Any, caches: Any = None, place: int = 0) -> Any:
            x = self.embedding(ids) * workload.features**0.5
            for number, block in enumerate(self.blocks):
                x = block(x, None if caches is None else caches[number], place)
            return self.last(x) @ self.embedding.weight.T

    return Decoder()


def prepare(argument: str) -> Callable[[], float]:
    """Return one round."""
    import torch

    task, name = argument.split(":")
    workload = WORKLOADS[name]
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(0)
    network = build(workload)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    x, y = map(torch.from_numpy, workload.data())
    shape = (workload.blocks, 2, 1, workload.heads, workload.length, workload.features // workload.heads)

    def train() -> None:
        total = 0.0
        for rows in torch.randperm(len(x)).split(workload.batch):
            loss = torch.nn.functional.cross_entropy(network(x[rows]).flatten(0, 1), y[rows].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()

    def sample() -> None:
        with torch.inference_mode():
            caches, ids = torch.zeros(shape), torch.ones((1, 1), dtype=torch.long)
            for place in range(workload.drawn):
                scores = network(ids, caches, place)[:, -1]
                ids = torch.multinomial(torch.softmax(scores, 1), 1)

    tasks = {"train": train, "sample": sample}

    def run() -> float:
        start = time.perf_counter()
        tasks[task]()
        return time.perf_counter() - start

    return run
