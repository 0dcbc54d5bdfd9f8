"""Report on a cluster: the findings, the problems in plain sentences, and both as a table and as data."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from network import VERSION
from network.loopback import Misplaced
from network.nodes import Address, is_loopback

from ..agent.checks import python_version
from ..agent.output import DEFAULT_LIMIT
from ..support.console import columns_of, in_columns
from ..support.logs import clean
from .messages import AgentStatus, Measured

MOST_OFFSET = 1.0  # seconds between two clocks
LEAST_FREE = DEFAULT_LIMIT  # bytes: the log of a single job may take so many
SLOW = 5.0  # times slower than the median of the other pairs


@dataclass(frozen=True)
class Worker:
    """Agent under the address by which it was called.

    Args:
        address: that address.
        problem: why it was not reached, or not asked; "" where it was.
        version: its release.
        status: its own report; with a `problem`, one of before.
        link: the way to it from here; with a `problem`, as of before.
    """

    address: Address
    problem: str = ""
    version: str = ""
    status: AgentStatus | None = None
    link: Measured | None = None


@dataclass(frozen=True)
class Pair:
    """Way from the worker at `source` to the one at `target`, as it was `found`."""

    source: Address
    target: Address
    found: Measured


@dataclass(frozen=True)
class Problem:
    """Problem of `subject`: `what` describes it, `repair` says how to mend it ("" where `what` does)."""

    subject: str
    what: str
    repair: str = ""

    def __str__(self) -> str:
        return f"{self.subject}: {self.what} {self.repair}".rstrip()


@dataclass
class Report:
    """Report with the worker's findings. `key` is the id of the key with which all were called, `misplaced` a loopback
    address among those of other machines.
    """

    key: str
    workers: list[Worker] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    misplaced: Misplaced | None = None

    def without(self, address: Address) -> Report:
        """Return the report without one worker."""
        pairs = [pair for pair in self.pairs if address not in (pair.source, pair.target)]
        return Report(self.key, [worker for worker in self.workers if worker.address != address], pairs, self.misplaced)

    @property
    def problems(self) -> list[Problem]:
        """Problems found; those of single workers come first."""
        return [
            # first: it may explain what follows
            *self._of_addresses(),
            *self._of_workers(),
            *self._of_clocks(),
            *self._of_pairs(),
            *self._of_sizes(),
            *self._of_speed(),
        ]

    @property
    def taken(self) -> list[Worker]:
        """Workers without a free slot. They are at work, so this is no problem; the next job waits for theirs."""
        return [
            worker
            for worker in self.workers
            if not worker.problem and worker.status is not None and worker.status.jobs >= worker.status.slots
        ]

    def _of_addresses(self) -> Iterator[Problem]:
        if self.misplaced is not None:
            yield Problem(str(self.misplaced.address), f"{self.misplaced.what}.", self.misplaced.repair)

    def _of_workers(self) -> Iterator[Problem]:
        known: dict[str, Address] = {}
        for worker in self.workers:
            name, status = str(worker.address), worker.status
            if worker.problem:
                # the name stands in front of it anyway
                yield Problem(name, clean(worker.problem).removeprefix(f"{name}: "))
            if worker.version and worker.version != VERSION:
                what = f"it runs version {clean(worker.version)}, this is {VERSION}."
                yield Problem(name, what, "Install the same release everywhere: a job needs one version.")
            if status is None:
                continue
            if status.python != python_version():
                what = f"it runs Python {clean(status.python)}, this is Python {python_version()}."
                yield Problem(name, what, "Code travels between equal minor versions only: use one everywhere.")
            if status.unwritable:
                what = f"no job can begin in its work directory {clean(status.work_dir)}: {clean(status.unwritable)}."
                yield Problem(
                    name, what, "Make room there, or let the worker write there; where it is gone, start the worker anew."
                )
            elif status.free_bytes < LEAST_FREE:
                what = f"its work directory {clean(status.work_dir)} has room for {status.free_bytes / 2**20:.3g} MiB."
                yield Problem(name, what, f"Make more there: what one job prints may take {LEAST_FREE >> 20} MiB.")
            if not status.unix_path:
                yield Problem(
                    name,
                    "it has no Unix socket, so its jobs share no memory with others on the host.",
                    "Its log says why; a shorter --work-dir, or XDG_RUNTIME_DIR, helps where the path is too long.",
                )
            if status.instance in known:
                what = f"it is the same worker as {known[status.instance]}."
                yield Problem(name, what, "Name each worker once; for two nodes of a job give it --slots 2.")
            known.setdefault(status.instance, worker.address)

    def _of_clocks(self) -> Iterator[Problem]:
        repair = "Set the clocks, best by NTP (timedatectl set-ntp true): times in logs of several workers do not fit together."
        told: set[Address] = set()
        for worker in self.workers:
            if worker.link is not None and _is_off(worker.link):
                # one clock that is off would show in each of its pairs
                told.add(worker.address)
                yield Problem(str(worker.address), f"its clock is {_ahead(worker.link.offset)} the one here.", repair)
        for pair in self.pairs:
            if _is_off(pair.found) and not told.intersection((pair.source, pair.target)):
                told.update((pair.source, pair.target))
                what = f"its clock is {_ahead(pair.found.offset)} that of {pair.source}."
                yield Problem(str(pair.target), what, repair)

    def _of_pairs(self) -> Iterator[Problem]:
        status = {worker.address: worker.status for worker in self.workers}
        lost = {worker.address for worker in self.workers if worker.problem}  # which is told already
        blamed = set[Address]() if self.misplaced is None else {self.misplaced.address}
        for pair in self.pairs:
            if lost.intersection((pair.source, pair.target)):
                continue
            source, target = status.get(pair.source), status.get(pair.target)
            # another instance answers there: the address means two machines
            other = target is not None and pair.found.instance not in ("", target.instance)
            if not pair.found.problem and not other:
                continue
            # on one host a loopback address is right
            strangers = source is not None and target is not None and source.host != target.host
            if strangers and is_loopback(pair.target.host):
                if pair.target not in blamed:
                    blamed.add(pair.target)
                    yield Problem(
                        str(pair.target),
                        f"a loopback address, which means another machine to {pair.source}.",
                        "Start the worker with --listen 0.0.0.0 and name it by an address that all machines reach; "
                        "in a rendezvous, --advertise HOST tells that.",
                    )
            elif other:
                what = f"reaches another worker at {pair.target} than this machine does."
                yield Problem(
                    str(pair.source), what, "Use an address that means the same everywhere; look at its name resolution."
                )
            else:
                what = f"does not reach {pair.target}, which answers here: {clean(pair.found.problem)}"
                yield Problem(str(pair.source), what, "Look for a firewall or a missing route between the two.")

    def _of_sizes(self) -> Iterator[Problem]:
        """Yield problems of ways that carry no large packets."""
        for worker in self.workers:
            if worker.link is not None and worker.link.swallowed and not worker.problem:
                yield Problem(str(worker.address), _swallows(worker.link, "from here"), _MTU)
        for pair in self.pairs:
            if pair.found.swallowed:
                yield Problem(str(pair.source), _swallows(pair.found, f"to {pair.target}"), _MTU)

    def _of_speed(self) -> Iterator[Problem]:
        """Yield problems of pairs between hosts: the speed between two processes of one host tells of its load, not of a
        network.
        """
        hosts = {worker.address: worker.status.host for worker in self.workers if worker.status is not None}
        measured = [pair for pair in self.pairs if pair.found.bandwidth and hosts.get(pair.source) != hosts.get(pair.target)]
        for pair in measured:
            # without the pair itself, which would be half of the measure where there are two
            others = [each.found.bandwidth for each in measured if each is not pair]
            # the median: one fast or slow pair must not move the measure
            if others and pair.found.bandwidth * SLOW < (usual := statistics.median(others)):
                what = f"sends {_rate(pair.found.bandwidth)} to {pair.target}, where other pairs have {_rate(usual)}."
                yield Problem(str(pair.source), what, "Look at cable, duplex, switch port and traffic of this way.")

    def as_data(self) -> dict[str, Any]:
        """Return the report as data for JSON; None stands for values that were not measured."""
        return {
            "version": VERSION,
            "key": self.key,
            "workers": [
                {
                    "address": str(worker.address),
                    "problem": worker.problem,
                    "version": worker.version,
                    "status": None if worker.status is None else asdict(worker.status),
                    "free_slots": None if worker.status is None or worker.problem else _free(worker.status),
                    "link": None if worker.link is None else _numbers(worker.link),
                }
                for worker in self.workers
            ],
            "pairs": [{"from": str(pair.source), "to": str(pair.target), "link": _numbers(pair.found)} for pair in self.pairs],
            "problems": [asdict(problem) for problem in self.problems],
        }

    def as_text(self) -> str:
        rows = [("Worker", "Host", "Version", "Key", "Free slots", "Clock", "Round trip", "Bandwidth")]
        for worker in self.workers:
            status = worker.status
            host, slots = ("-", "-") if status is None else (clean(status.name, 40), f"{_free(status)} of {status.slots}")
            if status is not None and worker.problem:
                slots = "lost"
            # the version comes in the handshake, in which the key is proven
            proven = self.key if worker.version else "-"
            link = None if worker.problem else worker.link
            rows.append((str(worker.address), host, clean(worker.version, 20) or "-", proven, slots, *_cells(link)))
        columns = columns_of(sys.stdout)
        parts = [in_columns(rows, columns)]
        if self.pairs:
            ways = [("From", "To", "Clock", "Round trip", "Bandwidth")]
            ways += [(str(pair.source), str(pair.target), *_cells(pair.found)) for pair in self.pairs]
            parts.append(in_columns(ways, columns))
        problems = self.problems
        count = f"{len(problems)} thing{'s are' if len(problems) > 1 else ' is'} wrong:"
        if taken := ", ".join(str(worker.address) for worker in self.taken):
            parts.append(
                f"No free slot for another job: {taken}. Wait for the jobs there ('psgd jobs'), or stop one; with more --slots "
                "a worker runs several."
            )
        parts.append("\n".join([count, *(f"* {problem}" for problem in problems)]) if problems else "All is well.")
        return "\n\n".join(parts)


def _free(status: AgentStatus) -> int:
    return max(0, status.slots - status.jobs)


def _is_off(link: Measured) -> bool:
    return abs(link.offset) - link.uncertainty > MOST_OFFSET


def _ahead(offset: float) -> str:
    return f"{_seconds(abs(offset))} {'ahead of' if offset > 0 else 'behind'}"


def _numbers(link: Measured) -> dict[str, Any]:
    known = not link.problem
    names = ("latency", "offset", "uncertainty")
    return {
        "problem": link.problem,
        **{f"{name}_seconds": getattr(link, name) if known else None for name in names},
        "bytes_per_second": link.bandwidth or None,
        "busy": link.busy,
        "carried_bytes": link.carried,
        "swallowed_bytes": link.swallowed or None,
    }


_MTU = (
    "The way drops large packets: compare the MTU of both ends with that of tunnels between them (ip link, tracepath HOST), "
    "let ICMP 'fragmentation needed' pass, or lower it, as by 'ip link set dev DEVICE mtu 1280'."
)


def _swallows(link: Measured, way: str) -> str:
    small = f"messages of {link.carried} bytes" if link.carried else "small messages"
    return f"{small} {way} are answered in {_seconds(link.latency)}, those of {link.swallowed} bytes not at all."


def _cells(link: Measured | None) -> tuple[str, str, str]:
    if link is None or link.problem:
        return "-", "-", "-"
    # after rounding: -0.00 ms would look like a fault
    sign = "-" if round(1e3 * link.offset, 2) < 0 else "+"
    clock = f"{sign}{_seconds(abs(link.offset))} ± {_seconds(link.uncertainty)}"
    if link.swallowed:
        return clock, _seconds(link.latency), "small packets only"
    return clock, _seconds(link.latency), _rate(link.bandwidth) if link.bandwidth else "a job runs"


def _seconds(value: float) -> str:
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if value >= 2 * size:  # as of a clock that was never set
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} s" if value >= 1 else f"{1e3 * value:.2f} ms"


def _rate(value: float) -> str:
    for unit, size in (("GB/s", 1e9), ("MB/s", 1e6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e3:.3g} kB/s"
