"""Train, predict, import, and print times, memory and ratios."""

import argparse
import statistics
import sys

import psgd

from benchmarks import machine
from benchmarks.nn.bare import BARE
from benchmarks.nn.bound import BOUND
from benchmarks.nn.workload import EAGER, WORKLOADS, repetitions
from benchmarks.pairing import Result, ratio, run_child, take_turns
from rpc.agent.kernel_sets import runnable

OURS = "nn"
IMPORT_LIMIT = 0.25
"""Seconds that `import nn` may take on top of `import numpy`."""

WITHIN = {2: 1.06}
"""So many times the bare step training may take, by the number of threads."""

PREDICTIONS = {name: {1: 1.8, 1024: 1.0} if name == "small" else {1024: 1.0} for name in WORKLOADS}
"""What predictions of a batch size must reach against torch eager."""

STEADY_ROUNDS, STEADY = 50, 2.0
"""Of so many rounds of training the worst may take so many times the median: threads that wait for each other do not
collapse."""

TASKS = ("train", "steady", "predict", "memory", "import")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.nn", description="nn against torch, JAX, Keras and scikit-learn, as ratios in one run."
    )
    parser.add_argument(
        "--rounds", type=psgd.positive, default=9, help="rounds in which every contender takes its turn (default 9)"
    )
    parser.add_argument("--threads", type=psgd.positive, nargs="*", default=[1, 2], help="threads (default 1 2)")
    parser.add_argument("--workloads", nargs="*", default=list(WORKLOADS), choices=list(WORKLOADS))
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=TASKS)
    parser.add_argument("--quick", action="store_true", help="only torch eager as a peer")
    parser.add_argument(
        "--kernels",
        default="",
        choices=runnable(),
        help="training with this set of OpenBLAS's kernels, too, in a second column",
    )
    options = parser.parse_args()
    reached = True
    for threads in options.threads:
        machine.show(threads)
        for name in options.workloads:
            if "train" in options.tasks:
                reached &= train(name, threads, options.rounds, options.kernels, quick=options.quick)
            if "steady" in options.tasks:
                reached &= steady(name, threads)
            if "predict" in options.tasks:
                for batch, goal in PREDICTIONS[name].items():
                    reached &= predict(name, batch, goal, threads, options.rounds)
    if "memory" in options.tasks:
        for name in options.workloads:
            reached &= memory(name)
    if "import" in options.tasks:
        reached &= import_time(options.rounds)
    return 0 if reached else 1


def train(name: str, threads: int, rounds: int, kernels: str, *, quick: bool) -> bool:
    """Print one table of training; return whether the goals are reached."""
    workload = WORKLOADS[name]
    task = f"train:{name}"
    contenders = {OURS: ("benchmarks.nn.ours", task), BOUND: ("benchmarks.nn.bound", task)}
    if workload.hidden and workload.activation == "relu":
        contenders[BARE] = ("benchmarks.nn.bare", task)
    contenders[EAGER] = ("benchmarks.nn.torch_peer", f"{task}:eager")
    if not quick:
        contenders["torch fused Adam"] = ("benchmarks.nn.torch_peer", f"{task}:fused")
        contenders["torch.compile"] = ("benchmarks.nn.torch_peer", f"{task}:compile")
        if len(workload.sample) == 3:
            contenders["torch channels last"] = ("benchmarks.nn.torch_peer", f"{task}:last")
        if workload.hidden:
            contenders["scikit-learn"] = ("benchmarks.nn.sklearn_peer", name)
        contenders["jax.jit"] = ("benchmarks.nn.jax_peer", name)
        contenders["Keras on JAX"] = ("benchmarks.nn.keras_peer", name)
    other = f"{OURS}, {kernels}" if kernels else ""
    if other:
        contenders[other] = contenders[OURS]
    print(f"{workload.title}, batch {workload.batch}, {threads} thread{'s' * (threads != 1)}: a step")
    results = take_turns(contenders, threads, rounds, kernels={other: kernels})
    goals = {EAGER: workload.goals.get(threads, 1.0)}
    if workload.best:
        goals = {contender: goals.get(contender, 1.0) for contender in contenders if contender not in (OURS, other)}
    goals[BOUND] = workload.share
    goals[BARE] = 1 / WITHIN[threads] if threads in WITHIN else 0.0
    return table(results, workload.steps, goals, other)


def predict(name: str, batch: int, goal: float, threads: int, rounds: int) -> bool:
    """Print one table of predictions; return whether the goal is reached."""
    task = f"predict{batch}:{name}"
    contenders = {OURS: ("benchmarks.nn.ours", task), BOUND: ("benchmarks.nn.bound", task)}
    contenders[EAGER] = ("benchmarks.nn.torch_peer", f"{task}:eager")
    print(f"{WORKLOADS[name].title}, {threads} thread{'s' * (threads != 1)}: {batch} prediction{'s' * (batch != 1)}")
    return table(take_turns(contenders, threads, rounds), repetitions(batch), {EAGER: goal})


def steady(name: str, threads: int) -> bool:
    """Print how far the worst round of training, and of bare products, is from the median; return whether that is within the
    limit. Where the bare products exceed it, too, the machine has other things to do.
    """
    task = f"train:{name}"
    contenders = {OURS: ("benchmarks.nn.ours", task), BOUND: ("benchmarks.nn.bound", task)}
    results = take_turns(contenders, threads, STEADY_ROUNDS)
    worst = {contender: max(result.seconds) / result.median for contender, result in results.items()}
    shown = ", ".join(f"{contender} {times:.2f}" for contender, times in worst.items())
    print(
        f"{WORKLOADS[name].title}, {threads} thread{'s' * (threads != 1)}: "
        f"worst of {STEADY_ROUNDS} rounds over the median: {shown}",
        flush=True,
    )
    return worst[OURS] <= STEADY


def table(results: dict[str, Result], steps: int, goals: dict[str, float], other: str = "") -> bool:
    """Print of each its time, how many times that of nn it is, its share of the bound, and its worst round as a multiple of its
    median; return whether the goals are reached.

    Args:
        results: rounds of each contender, nn and the bare products among them.
        steps: steps of a round.
        goals: how many times that of nn the time of a contender must be.
        other: contender that stands for nn in a further column; "": none.
    """
    if results[OURS].note:
        print(f"  {OURS}: {results[OURS].note}")
        return False
    missed = []
    print(f"  {'':<20} {'median':>12}  x of nn  of bound  worst{f'  x of {other}' if other else ''}", flush=True)
    for contender, result in results.items():
        if result.note:
            print(f"  {contender:<20} not measured: {result.note}")
            continue
        times = ratio(result, results[OURS])
        share = "" if results[BOUND].note else f"{ratio(results[BOUND], result):.2f}"
        worst = max(result.seconds) / result.median
        beside = f"  {ratio(result, results[other]):{len(other) + 5}.2f}" if other else ""
        print(
            f"  {contender:<20} {result.median / steps * 1e6:9.0f} µs  {times:7.2f}  {share:>8}  {worst:5.2f}{beside}",
            flush=True,
        )
        if times < goals.get(contender, 0):
            missed.append(f"{contender} {times:.2f} < {goals[contender]:.3g}")
    print(f"  missed: {'; '.join(missed)}" if missed else "  goal reached", flush=True)
    return not missed


def memory(name: str) -> bool:
    """Print the growth of both processes in training; return whether nn's is not the larger."""
    ours, theirs = (int(run_child("benchmarks.nn.memory", [library, name], 1)) for library in ("nn", "torch"))
    print(f"{WORKLOADS[name].title}: peak memory of training {ours >> 20} MiB, torch eager {theirs >> 20} MiB", flush=True)
    return ours <= theirs


def import_time(rounds: int) -> bool:
    """Print how long `import nn` takes on top of `import numpy`; return whether that is within the limit."""
    seconds = statistics.median(float(run_child("benchmarks.nn.import_time", [], 1)) for _ in range(rounds))
    print(f"import nn: {seconds * 1000:.0f} ms more than import numpy (limit {IMPORT_LIMIT * 1000:.0f} ms)")
    return seconds <= IMPORT_LIMIT


if __name__ == "__main__":
    sys.exit(main())
