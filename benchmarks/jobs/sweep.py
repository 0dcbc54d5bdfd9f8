"""Wall time of a sweep of small runs in processes, beside the sum of the same runs alone: `python -m benchmarks.jobs.sweep`.

Runs alone and the sweep of the same runs take turns, a few runs at a time, so that both meet the same load. With p processes on
as many free cores the sweep takes 1/p of the sum at best; the figure is how many times that it takes. Beside it stands the time
that it takes to know all runs again.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import psgd

import nn
import parallel_sgd
from benchmarks import machine
from nn.dataset.transforms import ImageCls, Shuffle
from rpc.support.processors import load_per_core

BLOCKS = (16, 24, 32, 48, 64)
SETTINGS = {"epoch": 6, "gd_type": "sgd", "gd_params": (0.1,), "verbose": 0, "checkpoint_every": None}


def model(seed: int) -> nn.model.Model:
    """The perceptron 64-64-10."""
    made = nn.model.SequentialModel([-1, 64], [nn.layer.Dense(64, "tanh"), nn.layer.Dense(10, "softmax")], seed=seed)
    made.setup("crossentropy_with_softmax", "accuracy")
    return made


def job(seed: int = 0) -> parallel_sgd.ParallelSGD:
    return parallel_sgd.ParallelSGD(model(seed), nn.dataset.Digits(), Shuffle().add(ImageCls()))


def alone(folder: Path, seeds: range) -> tuple[float, list[dict[str, float]]]:
    """Seconds that the runs take one after the other, and their figures."""
    began, found = time.monotonic(), []
    for block in BLOCKS:
        for seed in seeds:
            nodes = parallel_sgd.in_process(2)
            found.append(dict(job(seed).parallel(nodes, block_size=block, seed=seed, directory=folder, **SETTINGS)))
    return time.monotonic() - began, found


def together(folder: Path, seeds: range, processes: int) -> tuple[float, list[dict[str, float]]]:
    """Seconds of the sweep of the same runs, and their figures."""
    began = time.monotonic()
    result = parallel_sgd.sweep(
        job(), {"block_size": list(BLOCKS)}, list(seeds), processes=processes, directory=folder, **SETTINGS
    )
    return time.monotonic() - began, [dict(row.told.figures) for row in result.rows]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=psgd.positive, default=60, help="runs in all (default 60)")
    parser.add_argument("--processes", type=psgd.positive, default=2, help="processes of the sweep (default 2)")
    parser.add_argument(
        "--parts", type=psgd.positive, default=1, help="turns of runs alone and sweep (default 1; more under load)"
    )
    options = parser.parse_args()
    each = options.runs // (len(BLOCKS) * options.parts)
    if each < 1:
        parser.error(f"--runs must be at least {len(BLOCKS)} for each of --parts, got {options.runs} for {options.parts}")
    machine.show()
    ratios, sums, walls = [], 0.0, 0.0
    with tempfile.TemporaryDirectory() as place:
        for part in range(options.parts):
            seeds = range(part * each, (part + 1) * each)
            first, second = Path(place, f"alone-{part}"), Path(place, f"sweep-{part}")
            for folder in (first, second):
                folder.mkdir()
            # of two neighbours that meet a changing load neither is always the first
            if part % 2:
                wall, told = together(second, seeds, options.processes)
            total, figures = alone(first, seeds)
            if not part % 2:
                wall, told = together(second, seeds, options.processes)
            if figures != told:
                print("the figures of a run alone and in the sweep differ")
                return 1
            sums, walls = sums + total, walls + wall
            ratios.append(wall * options.processes / total)
        runs = each * len(BLOCKS) * options.parts
        again, _ = together(Path(place, "sweep-0"), range(each), options.processes)
    parts = " ".join(f"{ratio:.2f}" for ratio in ratios)
    print(f"{runs} runs alone {sums:.1f} s, sweep with {options.processes} processes {walls:.1f} s")
    print(f"times the best: {walls * options.processes / sums:.3f} (parts: {parts}), load per core {load_per_core():.1f} of "
          f"{os.cpu_count()} cores")  # fmt: skip
    print(f"{each * len(BLOCKS)} runs known again in {again:.2f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
