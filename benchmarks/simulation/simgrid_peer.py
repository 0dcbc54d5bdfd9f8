"""SimGrid's Python binding as a peer: messages on a star with a duplex port per host.

Runs under a Python that has the module `simgrid` (Debian: python3-simgrid), reads a program as JSON from its input, and prints
JSON: the times of arrivals or ends, and the seconds of processor time that the simulation took. A program is flows, which all
leave at once; rounds of a ring, in which each host sends a message when it has the one before; or pieces that pass a chain of
hosts, each when the one before has arrived.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import simgrid

Ends = dict[int, float]


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


def flows(hosts: list[Any], program: dict[str, Any], ends: Ends) -> None:
    """Let all messages leave at time 0, each between two actors of its own."""
    for number, (source, target, size) in enumerate(program["flows"]):
        box = simgrid.Mailbox.by_name(str(number))
        simgrid.Actor.create(f"s{number}", hosts[source], box.put, 0, size)
        simgrid.Actor.create(f"r{number}", hosts[target], receiver(ends, number), box)


def receiver(ends: Ends, number: int) -> Callable[[Any], None]:
    def receive(box: Any) -> None:
        box.get()
        ends[number] = simgrid.Engine.clock

    return receive


def boxes(hosts: list[Any], number: int) -> tuple[Any, Any]:
    """Return the mailbox of a host and that of the next one."""
    here, there = f"to {number}", f"to {(number + 1) % len(hosts)}"
    return simgrid.Mailbox.by_name(here), simgrid.Mailbox.by_name(there)


def ring(hosts: list[Any], program: dict[str, Any], ends: Ends) -> None:
    """Let each host send to the next one in each round, when it has the message of the round before."""

    def member(number: int) -> None:
        here, there = boxes(hosts, number)
        for _ in range(program["rounds"]):
            sent = there.put_async(0, program["size"])
            here.get()
            sent.wait()
        ends[number] = simgrid.Engine.clock

    for number, host in enumerate(hosts):
        simgrid.Actor.create(f"m{number}", host, member, number)


def chain(hosts: list[Any], program: dict[str, Any], ends: Ends) -> None:
    """Let pieces pass from host to host."""

    def member(number: int) -> None:
        here, there = boxes(hosts, number)
        sent = None
        for _ in range(program["pieces"]):
            if number:
                here.get()
            if sent is not None:
                sent.wait()
            if number + 1 < len(hosts):
                sent = there.put_async(0, program["size"])
        if sent is not None:
            sent.wait()
        ends[number] = simgrid.Engine.clock

    for number, host in enumerate(hosts):
        simgrid.Actor.create(f"m{number}", host, member, number)


def main() -> None:
    program = json.load(sys.stdin)
    engine = simgrid.Engine(["peer", "--log=root.thres:critical", *(f"--cfg={each}" for each in program["settings"])])
    hosts, ends = star(program), Ends()
    {"flows": flows, "ring": ring, "chain": chain}[program["kind"]](hosts, program, ends)
    began = time.process_time()
    engine.run()
    seconds = time.process_time() - began
    print(
        json.dumps({"seconds": seconds, "ends": [ends[number] for number in sorted(ends)], "version": simgrid.simgrid_version})
    )


if __name__ == "__main__":
    main()
