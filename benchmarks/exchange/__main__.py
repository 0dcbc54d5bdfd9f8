"""Print times of all-reduces and of training steps, ours against torch gloo, MPI, and one process, as ratios in one run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping

import psgd

from benchmarks import machine
from benchmarks.exchange.throttled import hidden
from benchmarks.exchange.workload import NETWORKS, REDUCTIONS
from benchmarks.pairing import Result, ratio, take_turns

OURS, SHARDED, GLOO, MPI, DDP, ALONE = (
    "com.allreduce",
    "sharded rule",
    "torch gloo",
    "MPI (mpich)",
    "torch DDP, gloo",
    "1 process",
)
PLAIN, RING = "Plain", "Ring"
FOUR = {SHARDED: "4 workers, sharded", PLAIN: "4 workers, Plain"}
FOUR_SHARE = 0.87  # of the speed of two workers that four on two cores are to reach: they may take 15 % longer
OURS_WHOLE = "the product"
BARE = {"plain": "PSGDOptimizer", "sharded": "ShardedPSGDOptimizer"}
TASKS = ("reduce", "steps", "bare", "two", "throttled")
SHARE = 0.85  # of the faster bare loop, which the product is to reach


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.exchange",
        description="All-reduces and data-parallel training on loopback, as ratios in one run.",
    )
    parser.add_argument(
        "--rounds", type=psgd.positive, default=9, help="rounds in which every contender takes its turn (default 9)"
    )
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=TASKS)
    parser.add_argument(
        "--workers", type=psgd.positive, nargs="*", default=[2, 4], help="processes of an all-reduce (default 2 4)"
    )
    parser.add_argument("--quick", action="store_true", help="three rounds, all-reduces of two processes only")
    options = parser.parse_args()
    machine.show()
    rounds, workers = (3, [2]) if options.quick else (options.rounds, options.workers)
    reached = []
    if "reduce" in options.tasks:
        reached += [reduce(name, count, rounds) for count in workers for name in REDUCTIONS]
    if "steps" in options.tasks:
        reached.append(steps(rounds))
    if "bare" in options.tasks:
        reached += [bare(rule, optimizer, rounds) for rule, optimizer in BARE.items()]
    if "two" in options.tasks:
        reached += [two(name, goal, rounds) for name, goal in (("large256", 1.35), ("large1024", 1.75))]
    if "throttled" in options.tasks:
        reached.append(hidden(rounds))
    return 0 if all(reached) else 1


def reduce(name: str, workers: int, rounds: int) -> bool:
    """Print one table of all-reduces; return whether the goals are reached."""
    reduction, argument = REDUCTIONS[name], f"{name}:{workers}"
    print(f"All-reduce of {reduction} of float32, {workers} processes: time, and how many times that of {OURS}")
    contenders = {
        OURS: ("benchmarks.exchange.reduction", argument),
        GLOO: ("benchmarks.exchange.gloo", argument),
        MPI: ("benchmarks.exchange.mpi", argument),
    }
    results = take_turns(contenders, 1, rounds)
    pair = {(GLOO, OURS): reduction.gloo, (MPI, OURS): reduction.mpi}
    goals = pair if workers == 2 else {(GLOO, OURS): reduction.many}
    return table(results, reduction.count, OURS, goals)


def steps(rounds: int) -> bool:
    """Print steps of the tutorial model; return whether the goals are reached."""
    network = NETWORKS["tutorial"]
    print(f"{network}, 2 workers: time of a step, and how many times that of {PLAIN}")
    results = take_turns(
        {
            PLAIN: ("benchmarks.exchange.training", "tutorial:2:PSGDOptimizer:"),
            RING: ("benchmarks.exchange.training", "tutorial:2:PSGDOptimizer:parallel_sgd.codec.Ring"),
            SHARDED: ("benchmarks.exchange.training", "tutorial:2:ShardedPSGDOptimizer:"),
            DDP: ("benchmarks.exchange.data_parallel", "tutorial:2"),
            ALONE: ("benchmarks.exchange.alone", "tutorial"),
        },
        1,
        rounds,
    )
    return table(results, network.steps, PLAIN, {(DDP, PLAIN): 4.0, (DDP, SHARDED): 6.0})


def bare(rule: str, optimizer: str, rounds: int) -> bool:
    """Print steps of the tutorial model by the product and by bare loops; return whether the product comes near enough."""
    network = NETWORKS["tutorial"]
    print(f"{network}, 2 workers, {rule}: time of a step, and the share of its speed that the product reaches")
    loops = {f"bare {kind} loop": ("benchmarks.exchange.bare", f"tutorial:{kind}:{rule}") for kind in ("socket", "memory")}
    results = take_turns({OURS_WHOLE: ("benchmarks.exchange.training", f"tutorial:2:{optimizer}:"), **loops}, 1, rounds)
    shares = {}
    for contender, result in results.items():
        shares[contender] = ratio(result, results[OURS_WHOLE])
        print(f"  {contender:<18} {result.median / network.steps * 1e6:10.0f} us  {shares[contender]:6.2f}", flush=True)
    share = min(shares[loop] for loop in loops)
    print(
        f"  {'goal reached' if share >= SHARE else f'missed: {share:.2f} of the faster loop, the goal is {SHARE}'}", flush=True
    )
    return share >= SHARE


def two(name: str, goal: float, rounds: int) -> bool:
    """Print steps of a wide model on one, two and four workers; return whether two are as much faster as they should be, and
    four, which share the cores of two, not slower than they may be."""
    network = NETWORKS[name]
    print(f"{network}: time of a step, and how many times that of two workers with the {SHARDED}")
    rules = {SHARDED: "ShardedPSGDOptimizer", PLAIN: "PSGDOptimizer"}
    training = "benchmarks.exchange.training"
    results = take_turns(
        {
            **{rule: (training, f"{name}:2:{optimizer}:") for rule, optimizer in rules.items()},
            ALONE: ("benchmarks.exchange.alone", name),
            **{FOUR[rule]: (training, f"{name}:4:{optimizer}:") for rule, optimizer in rules.items()},
        },
        1,
        rounds,
    )
    goals = {(ALONE, SHARDED): goal, **dict.fromkeys(FOUR.items(), FOUR_SHARE)}
    return table(results, network.steps, SHARDED, goals)


def table(results: Mapping[str, Result], count: int, base: str, goals: Mapping[tuple[str, str], float]) -> bool:
    """Print times and their ratios to `base`; goals are (slower, faster) -> ratio. Return whether they are reached."""
    for contender, result in results.items():
        if result.note:
            print(f"  {contender:<18} not measured: {result.note}", flush=True)
        else:
            times = f"{ratio(result, results[base]):6.2f}" if not results[base].note else ""
            print(f"  {contender:<18} {result.median / count * 1e3:10.3f} ms  {times}", flush=True)
    missed = []
    for (slower, faster), goal in goals.items():
        if results[faster].note:
            missed.append(f"{faster} was not measured")
        elif not results[slower].note and (times := ratio(results[slower], results[faster])) < goal:
            missed.append(f"{slower} takes {times:.2f} times as long as {faster}, the goal is {goal}")
    print(f"  missed: {'; '.join(missed)}" if missed else "  goal reached", flush=True)
    return not missed


if __name__ == "__main__":
    sys.exit(main())
