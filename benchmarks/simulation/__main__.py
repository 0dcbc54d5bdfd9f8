"""Print how many messages a second of processor time the networks of simulated nodes carry, beside SimGrid's Python binding.

Every program runs on a star of 1 Gbit/s and 50 us whose links are shared fairly, and once more first in, first out, which
SimGrid does not model. Pairs among 100 hosts are shown, but not judged: their links settle one after another in a long chain.
The peer is its Python binding: each of its actors is a thread, which costs more than its C++ interface.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import psgd

from benchmarks import machine
from benchmarks.simulation.figures import Kept, origin
from benchmarks.simulation.peer import ABSENT, peer_python, simulate
from benchmarks.simulation.schedules import Schedule, chain, drive, literal_ring, nothing_more
from parallel_sgd.simulation.network import network_of
from parallel_sgd.simulation.platform_text import parse_platform

FAIR, FIFO = (f"star 1Gbit/s 50us {ports}" for ports in ("fair", "fifo"))
GOAL, FIFO_GOAL = 1.0, 150_000
PIECE = 10_000  # bytes


class Program(NamedTuple):
    """Program for both: a schedule, and the same for the peer."""

    hosts: int
    schedule: Callable[[], Schedule]
    told: dict[str, Any]
    is_judged: bool = True


def of_flows(hosts: int, pairs: list[tuple[int, int]], is_judged: bool = True) -> Program:
    generator = random.Random(7)
    flows = [(*pair, generator.randrange(10_000, 1_000_000)) for pair in pairs]
    told = {"kind": "flows", "flows": flows}
    return Program(hosts, lambda: Schedule([(*flow, None) for flow in flows], nothing_more), told, is_judged)


def pairs(hosts: int, count: int) -> list[tuple[int, int]]:
    """Draw different pairs of hosts."""
    drawn = random.Random(3).sample(range(hosts * (hosts - 1)), count)
    return [(number // (hosts - 1), (number // (hosts - 1) + 1 + number % (hosts - 1)) % hosts) for number in drawn]


def ring(workers: int) -> Program:
    told = {"kind": "ring", "rounds": 2 * (workers - 1), "size": PIECE}
    return Program(workers, lambda: literal_ring(workers, PIECE * workers), told)


def a_chain(workers: int, pieces: int) -> Program:
    told = {"kind": "chain", "pieces": pieces, "size": PIECE}
    return Program(workers, lambda: chain(workers, PIECE * pieces, pieces, True), told)


PROGRAMS = {
    "chain of 64, 64 pieces": a_chain(64, 64),
    "incast of 1,000": of_flows(1001, [(number, 0) for number in range(1, 1001)]),
    "1,000 random pairs of 1,000": of_flows(1000, pairs(1000, 1000)),
    "1,000 random pairs of 100": of_flows(100, pairs(100, 1000), False),
    "all-reduce in a ring of 64": ring(64),
    "all-reduce in a ring of 256": ring(256),
}


def run(text: str, program: Program) -> tuple[float, int, float]:
    """Simulate; return seconds of processor time, messages, and the virtual time of the last arrival."""
    network, schedule = network_of(parse_platform(text), range(program.hosts)), program.schedule()
    began = time.process_time()
    arrivals = drive(network, *schedule)
    return time.process_time() - began, len(arrivals), arrivals[-1][0]


def part(content: Mapping[str, Any]) -> str:
    """Return the part of the guide that a file of rows makes.

    Args:
        content: that of the file.
    """
    lines = [
        f"Messages per second of processor time, median of the rounds, which take turns. {origin(content)}.",
        "",
        "| Program | messages | `fifo` | `fair` | SimGrid's Python binding | times as fast, `fair` |",
        "|---|---|---|---|---|---|",
    ]
    for row in content["rows"]:
        rates = " | ".join("-" if rate is None else f"{rate:,}" for rate in row["rates"])
        times = "-" if row["times"] is None else f"{row['times']:.1f}"
        lines.append(f"| {row['program']} | {row['messages']:,} | {rates} | {times} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation", description=__doc__)
    parser.add_argument("--rounds", type=psgd.positive, default=3, help="in turns; the median counts (default 3)")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="of the rows, such as the one the guide is made of")
    parser.add_argument("--programs", nargs="*", default=list(PROGRAMS), choices=list(PROGRAMS), metavar="PROGRAM")
    options = parser.parse_args()
    machine.show()
    python = peer_python()
    if python is None:
        print(f"Without the peer: {ABSENT}.")
    print(
        f"{'messages per second of CPU':30} {'messages':>9} {'fifo':>10} {'fair':>10} {'SimGrid':>10} {'times':>6}  difference"
    )
    kept = Kept(options.keep, f"python -m benchmarks.simulation --rounds {options.rounds}", anew=True)
    reached = []
    for name in options.programs:
        program = PROGRAMS[name]
        fifo, fair, theirs = [], [], []
        for _ in range(options.rounds):
            fifo.append(run(FIFO, program)[0])
            seconds, messages, last = run(FAIR, program)
            fair.append(seconds)
            if python is not None:
                answer = simulate(python, program.told | {"hosts": program.hosts})
                theirs.append(float(answer["seconds"]))
                difference = abs(max(answer["ends"]) / last - 1)
        rates = [round(messages / statistics.median(each)) if each else None for each in (fifo, fair, theirs)]
        times = statistics.median(other / own for other, own in zip(theirs, fair, strict=True)) if theirs else None
        kept.add({"program": name, "messages": messages, "rates": rates, "times": times and round(times, 2)})
        shown = [f"{'-' if rate is None else f'{rate:,}':>10}" for rate in rates]
        line = f"{name:30} {messages:9,} {' '.join(shown)}"
        reached.append(messages / statistics.median(fifo) >= FIFO_GOAL)
        if times is not None:
            line += f" {times:6.1f}  {difference:.0e}"
            if program.is_judged:
                reached.append(times >= GOAL)
        print(line, flush=True)
    said = "reached" if all(reached) else "missed"
    print(f"The goals, {FIFO_GOAL:,} messages a second in fifo ports and the peer's rate in fair ones, are {said}.")
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
