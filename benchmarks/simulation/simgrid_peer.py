"""SimGrid's Python binding as a peer: messages on a star with a duplex port per host.

Runs under a Python that has the module `simgrid` (Debian: python3-simgrid), reads a program as JSON from its input, and prints
JSON: the arrivals, and the seconds of real time that the simulation took. A program is either flows, which all leave at once,
or rounds of a ring in which each host sends a message when it has the one before.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import simgrid


def star(program: dict[str, Any]) -> list[Any]:
    """Make the platform; return its hosts."""
    zone = simgrid.NetZone.create_star_zone("star")
    hosts = []
    for number in range(program["hosts"]):
        host = zone.create_host(f"h{number}", 1e9)
        link = zone.create_split_duplex_link(f"l{number}", program["bandwidth"])
        link.set_latency(program["latency"] / 2).seal()
        zone.add_route(host.netpoint, None, None, None, [simgrid.LinkInRoute(link, simgrid.LinkInRoute.Direction.UP)], True)
        hosts.append(host)
    zone.seal()
    return hosts


def flows(hosts: list[Any], messages: list[tuple[int, int, int]], arrivals: dict[int, float]) -> None:
    """Let all messages leave at time 0, each between two actors of its own."""
    for number, (source, target, size) in enumerate(messages):
        simgrid.Actor.create(
            f"s{number}", hosts[source], lambda box, size: box.put(0, size), simgrid.Mailbox.by_name(str(number)), size
        )
        simgrid.Actor.create(f"r{number}", hosts[target], receiver(arrivals, number), simgrid.Mailbox.by_name(str(number)))


def receiver(arrivals: dict[int, float], number: int) -> Callable[[Any], None]:
    def receive(box: Any) -> None:
        box.get()
        arrivals[number] = simgrid.Engine.clock

    return receive


def ring(hosts: list[Any], rounds: int, size: int, arrivals: dict[int, float]) -> None:
    """Let each host send to the next one in each round, when it has the message of the round before."""

    def member(number: int) -> None:
        there = simgrid.Mailbox.by_name(f"to {(number + 1) % len(hosts)}")
        here = simgrid.Mailbox.by_name(f"to {number}")
        for _ in range(rounds):
            sent = there.put_async(0, size)
            here.get()
            sent.wait()
        arrivals[number] = simgrid.Engine.clock

    for number, host in enumerate(hosts):
        simgrid.Actor.create(f"m{number}", host, member, number)


def main() -> None:
    program = json.load(sys.stdin)
    engine = simgrid.Engine(["peer", "--log=root.thres:critical", *(f"--cfg={each}" for each in program["settings"])])
    hosts = star(program)
    arrivals: dict[int, float] = {}
    if "rounds" in program:
        ring(hosts, program["rounds"], program["size"], arrivals)
    else:
        flows(hosts, program["flows"], arrivals)
    began = time.perf_counter()
    engine.run()
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "arrivals": [arrivals[number] for number in sorted(arrivals)]}))


if __name__ == "__main__":
    main()
