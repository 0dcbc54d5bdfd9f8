"""Every benchmark with the products of two checkouts, old and new in turns.

`python -m benchmarks.compare OLD NEW` prints the ratio new / old of each benchmark: the median of all rounds and its quartiles.
One is slower when the median is more than 3 % above 1 and the quartiles agree that it is above. Each checkout runs its own
benchmarks, for they may use what only their product has; where it lacks a folder of them, or its own fails, that of this
checkout runs with its product. Benchmarks that compute in their own process have a new one for each round
(`pairing.take_turns`), and rounds of less than 50 ms are repeated. All of them take hours; the machine should have nothing else
to do.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import psgd

from benchmarks import machine
from benchmarks.codecs.__main__ import DIRECTIONS
from benchmarks.codecs.workload import STAGES
from benchmarks.exchange.workload import NETWORKS, REDUCTIONS
from benchmarks.executor.workload import WORKLOADS as CALLS
from benchmarks.jobs.__main__ import JOBS
from benchmarks.network.workload import WORKLOADS as MESSAGES
from benchmarks.nn.__main__ import PREDICTIONS
from benchmarks.pairing import Result, quartiles, take_turns
from benchmarks.recovery.__main__ import FAULTS

OLD, NEW = "old", "new"
SLOWER = 1.03
COMPUTING = ("benchmarks.nn.ours", "benchmarks.network.product", "benchmarks.codecs.stage", "benchmarks.exchange.alone")
"""Modules that compute in the process of a round. The others start processes for each round, whose memory is new."""
WORKERS = (2, 4)
TRAINED = {
    "tutorial": ("PSGDOptimizer:", "PSGDOptimizer:parallel_sgd.codec.Ring", "ShardedPSGDOptimizer:"),
    "large256": ("PSGDOptimizer:", "ShardedPSGDOptimizer:"),
    "large1024": ("PSGDOptimizer:", "ShardedPSGDOptimizer:"),
}
PRINTED = {
    "import nn": "benchmarks.nn.import_time|",
    **{f"memory of training {name}": f"benchmarks.nn.memory nn {name}|" for name in PREDICTIONS},
    "signals of a step": "benchmarks.recovery.cost:signals|:",
    "a commit of 100 MB": "benchmarks.recovery.cost:snapshot|:",
    "ledger of a step": "benchmarks.recovery.ledger:ledger|:",
    **{f"{fault}: mended": f"benchmarks.recovery.__main__:distribution:{fault}:1|next batch complete  p50" for fault in FAULTS},
}


def benchmarks() -> Iterator[tuple[str, str, str]]:
    """(name, module, argument) of every contender of ours; what takes minutes a round comes last."""
    for name, (module, argument) in JOBS.items():
        yield f"jobs: {name}", module, argument
    for name, sizes in PREDICTIONS.items():
        for task in ("train", *(f"predict{batch}" for batch in sizes)):
            yield f"nn: {task} {name}", "benchmarks.nn.ours", f"{task}:{name}"
    for name in MESSAGES:
        for mode in ("plain", "sealed"):
            yield f"network: {name} {mode}", "benchmarks.network.product", f"{name}:{mode}"
    for name in STAGES:
        for direction in DIRECTIONS:
            yield f"codecs: {name} {direction}", "benchmarks.codecs.stage", f"{name}:{direction}"
    for name in REDUCTIONS:
        for workers in WORKERS:
            yield f"exchange: all-reduce {name}, {workers}", "benchmarks.exchange.reduction", f"{name}:{workers}"
    for name in NETWORKS:
        yield f"exchange: {name}, 1 process", "benchmarks.exchange.alone", name
        for kinds in TRAINED.get(name, ()):
            title = f"exchange: {name}, {kinds.strip(':').replace(':', ' ').replace('parallel_sgd.codec.', '')}"
            yield title, "benchmarks.exchange.training", f"{name}:2:{kinds}"
    for codec in ("DummyCodec:256", "Paced:256"):
        yield f"exchange: throttled {codec}", "benchmarks.exchange.throttled", codec
    for name in CALLS:
        yield f"executor: {name}", "benchmarks.executor.ours", name
    yield "executor: sorted and collect", "benchmarks.executor.unsorted", "sort"
    for name, argument in PRINTED.items():
        yield f"printed: {name}", "benchmarks.printed", argument


def main() -> int:
    parser = argparse.ArgumentParser(description="Every benchmark with two checkouts in turns: the ratio of times, new / old.")
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=psgd.positive, default=15, help="pairs of each benchmark (default 15)")
    parser.add_argument("--threads", type=psgd.positive, default=1, help="BLAS threads of a process (default 1)")
    parser.add_argument("--only", nargs="*", default=[""], metavar="TEXT", help="benchmarks whose name has one of these in it")
    parser.add_argument("--list", action="store_true", help="print the names and end")
    options = parser.parse_args()
    chosen = [each for each in benchmarks() if any(text in each[0] for text in options.only)]
    if options.list:
        print("\n".join(name for name, _, _ in chosen))
        return 0
    machine.show(options.threads)
    checkouts = {OLD: options.old.resolve(), NEW: options.new.resolve()}
    print(f"{'':46}{'old':>11}{'new':>11}{'new/old':>9}   quartiles", flush=True)
    verdicts, failed = [], False
    for name, module, argument in chosen:
        contenders = dict.fromkeys(checkouts, (module, argument))
        results = take_turns(contenders, options.threads, options.rounds, checkouts, anew=module in COMPUTING)
        verdicts.append(line(name, results[OLD], results[NEW]))
        failed = failed or bool(results[NEW].note)
        print(verdicts[-1], flush=True)
    slower, missing = ([text for text in verdicts if word in text] for word in ("slower", "not measured"))
    print(f"{len(chosen)} benchmarks, {len(slower)} slower, {len(missing)} not measured", *slower, *missing, sep="\n")
    return 1 if slower or failed else 0


def line(name: str, old: Result, new: Result) -> str:
    """One row of the table."""
    if old.note or new.note:
        return f"{name:<46}not measured: {'; '.join(f'{side}: {r.note}' for side, r in ((OLD, old), (NEW, new)) if r.note)}"
    ratios = [b / a for a, b in zip(old.seconds, new.seconds, strict=True)]
    low, middle, high = quartiles(ratios)
    word = "slower" if middle > SLOWER and low > 1 else "faster" if middle < 1 / SLOWER and high < 1 else ""
    return f"{name:<46}{old.median:>11.4g}{new.median:>11.4g}{middle:>9.3f}   {low:.3f} {high:.3f}  {word}".rstrip()


if __name__ == "__main__":
    sys.exit(main())
