"""Train both networks with one and two BLAS threads and print the time of a step and the ratios."""

import argparse
import sys

from benchmarks.nn.workload import WORKLOADS
from benchmarks.pairing import ratio, run_child, take_turns

OURS = "nn"


def main() -> int:
    parser = argparse.ArgumentParser(description="Training speed of nn against torch and scikit-learn, as ratios in one run.")
    parser.add_argument("--rounds", type=int, default=9, help="rounds in which every contender takes its turn (default 9)")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2], help="BLAS threads (default 1 2)")
    parser.add_argument("--workloads", nargs="*", default=list(WORKLOADS), choices=list(WORKLOADS))
    options = parser.parse_args()
    reached = True
    for threads in options.threads:
        print(run_child("benchmarks.pairing", ["--blas"], threads).strip(), flush=True)
        for name in options.workloads:
            reached &= compare(name, threads, options.rounds)
    return 0 if reached else 1


def compare(name: str, threads: int, rounds: int) -> bool:
    """Print one table; return whether the goals are reached."""
    workload = WORKLOADS[name]
    contenders = {
        OURS: ("benchmarks.nn.ours", name),
        "torch eager": ("benchmarks.nn.torch_peer", f"{name}:eager"),
        "torch fused Adam": ("benchmarks.nn.torch_peer", f"{name}:fused"),
        "torch.compile": ("benchmarks.nn.torch_peer", f"{name}:compile"),
        "scikit-learn": ("benchmarks.nn.sklearn_peer", name),
    }
    results = take_turns(contenders, threads, rounds)
    print(f"{workload}, {threads} thread(s): time of a step, and how many times that of nn")
    if results[OURS].note:
        print(f"  {OURS}: {results[OURS].note}")
        return False
    ratios = {}
    for contender, result in results.items():
        if result.note:
            print(f"  {contender:<18} not measured: {result.note}")
        else:
            ratios[contender] = ratio(result, results[OURS])
            print(f"  {contender:<18} {result.median / workload.steps * 1e6:9.0f} µs  {ratios[contender]:5.2f}", flush=True)
    goals = {contender: workload.goal if contender == "torch eager" else 1.0 for contender in ratios if contender != OURS}
    missed = [f"{contender} {ratios[contender]:.2f} < {goal}" for contender, goal in goals.items() if ratios[contender] < goal]
    print(f"  missed: {'; '.join(missed)}" if missed else "  all goals reached", flush=True)
    return not missed


if __name__ == "__main__":
    sys.exit(main())
