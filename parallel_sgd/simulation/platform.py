"""Platforms: the hosts of a simulated cluster and the network between them.

A platform comes from a text such as `star 1Gbit/s 50us` (`platform_text`), from a TOML file, or from `Platform(...)`. It is
checked when it is made, so a faulty field is told before anything runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from string import ascii_letters
from typing import Final

from network.names import did_you_mean
from network.units import plain_number, rate_text, time_text

from .calibration import Calibration
from .timeline import LONGEST_SECONDS

__all__ = ["FACTORS", "MODELS", "PORTS", "SHAPES", "Factors", "Platform"]

STAR, RING, MESH, FAT_TREE, TWO_SITES, MATRIX = SHAPES = ("star", "ring", "mesh", "fat tree", "two sites", "matrix")
ALPHA_BETA, FLOW, STORE_AND_FORWARD = MODELS = ("alpha-beta", "flow", "store-and-forward")
FAIR, FIFO = PORTS = ("fair", "fifo")
FULL, HALF = ("full", "half")
TRANSPORTS: Final = {"tcp": "TCP", "unix": "Unix sockets", "memory": "shared memory", "process": "one process"}


_LINES: Final = ("latencies", "bandwidths")
#: Least bytes per second of a link: with less the times of messages are as long as clocks cannot count.
_LEAST_RATE: Final = 1e-3


@dataclass(frozen=True)
class Factors:
    """Corrections of a flow model.

    Args:
        latency: by which latencies are multiplied.
        bandwidth: by which rates are multiplied.
        payload: bytes of the term S in the round-trip time by which flows share a link; None shares links evenly.
    """

    latency: float = 1.0
    bandwidth: float = 1.0
    payload: float | None = None


FACTORS: Final = {"none": Factors(), "CM02": Factors(payload=0.0), "LV08": Factors(13.01, 0.97, 20537.0)}


@dataclass(frozen=True)
class Platform:
    """Hosts of a simulated cluster, their network, and the model by which its times are computed.

    Args:
        shape: one of `SHAPES`.
        bandwidth: bytes per second of a port, or of a link of a ring or mesh, in each direction. A matrix has its own.
        latency: seconds from a host to another through the switch, or of one link of a ring or mesh. A matrix has its own.
        hosts: number of hosts; None as many as the nodes need.
        nodes_per_host: how many nodes share a host's ports and cores.
        cores: of each host.
        model: one of `MODELS`; None means alpha-beta, or flow where inner links of the shape are shared.
        ports: `fair` or `fifo`; None means fair, of store-and-forward fifo.
        duplex: `full`, or `half` where both directions share a host's link.
        factors: a key of `FACTORS`.
        cross_traffic: whether acknowledgements take 5 % of a flow's rate on the way back.
        window: most bytes in flight of a connection, gamma; its rate is at most window / (2 latency). None: no limit.
        limit: most flows that share a link at a time; None: no limit. Further ones wait.
        fading: share of a link's bandwidth that each flow beyond the first costs it.
        backbone: bytes per second of a star's switch, all flows together; None: ideal.
        leaf: hosts of a leaf switch of a fat tree.
        spines: spine switches of a fat tree.
        thin_bandwidth: bytes per second, in each direction, of the link between two sites.
        thin_latency: seconds of the link between two sites.
        near: hosts of the first of two sites; None: half of them, rounded up.
        latencies: of a matrix, seconds from each host (row) to each host (column).
        bandwidths: of a matrix, bytes per second from each host (row) to each host (column).
        local_bandwidth: bytes per second between nodes of a host; None: without limit.
        local_latency: seconds between nodes of a host.
        speeds: relative speed of computing of each node; empty: 1.
        transport: frames of which kind of connection are counted, one of `TRANSPORTS`.
        note: where the figures come from.
        calibration: measurements behind it; None: there are none.

    Raises:
        ValueError: A field is out of range, does not fit another one, or is missing.
    """

    shape: str = STAR
    bandwidth: float | None = None
    latency: float | None = None
    hosts: int | None = None
    nodes_per_host: int = 1
    cores: int = 1
    model: str | None = None
    ports: str | None = None
    duplex: str = FULL
    factors: str = "none"
    cross_traffic: bool = False
    window: float | None = None
    limit: int | None = None
    fading: float = 0.0
    backbone: float | None = None
    leaf: int | None = None
    spines: int | None = None
    thin_bandwidth: float | None = None
    thin_latency: float | None = None
    near: int | None = None
    latencies: tuple[tuple[float, ...], ...] = ()
    bandwidths: tuple[tuple[float, ...], ...] = ()
    local_bandwidth: float | None = None
    local_latency: float = 0.0
    speeds: tuple[float, ...] = ()
    transport: str = "tcp"
    note: str = ""
    calibration: Calibration | None = None

    def __post_init__(self) -> None:
        _among("shape", self.shape, SHAPES)
        self._take_lists()
        # alpha-beta knows ports alone: any number of flows would cross an inner link, each at its full rate
        inner = self.shape in (RING, FAT_TREE, TWO_SITES) or self.backbone is not None
        self._default("model", FLOW if inner else ALPHA_BETA)
        _among("model", self.model, MODELS)
        self._default("ports", FIFO if self.model == STORE_AND_FORWARD else FAIR)
        self._check_words()
        self._check_numbers()
        self._check_shape()
        self._check_model()

    def _default(self, name: str, value: object) -> None:
        if getattr(self, name) is None:
            # frozen, but still being made: no reader has it yet
            object.__setattr__(self, name, value)

    def _take_lists(self) -> None:
        """Make tuples of lists, so that platforms can be compared and hashed."""
        # lists come from TOML; a platform is frozen, and hashed by its values, so it keeps tuples
        if not isinstance(self.speeds, (list, tuple)):
            raise _error("speeds", "a list", self.speeds)
        object.__setattr__(self, "speeds", tuple(self.speeds))
        for name in _LINES:
            rows = getattr(self, name)
            if not isinstance(rows, (list, tuple)) or not all(isinstance(row, (list, tuple)) for row in rows):
                raise _error(name, "a list of lists", rows)
            object.__setattr__(self, name, tuple(map(tuple, rows)))

    def _check_words(self) -> None:
        _among("ports", self.ports, PORTS)
        _among("duplex", self.duplex, (FULL, HALF))
        _among("factors", self.factors, tuple(FACTORS))
        _among("transport", self.transport, tuple(TRANSPORTS))
        if not isinstance(self.note, str):
            raise _error("note", "a text", self.note)
        if self.calibration is not None and not isinstance(self.calibration, Calibration):
            raise _error("calibration", "a Calibration", self.calibration)
        if not isinstance(self.cross_traffic, bool):
            raise _error("cross_traffic", "true or false", self.cross_traffic)

    def _check_numbers(self) -> None:
        for name in ("nodes_per_host", "cores", "hosts", "limit", "leaf", "spines", "near"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):  # True is an int to isinstance
                raise _error(name, "an integer of at least 1", value)
        for name in ("bandwidth", "window", "backbone", "thin_bandwidth", "local_bandwidth"):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and value > 0):
                raise _error(name, "a number above 0", value)
            if value is not None and value < _LEAST_RATE:
                raise _error(name, f"at least {_LEAST_RATE:g}", value)
        for name in ("latency", "thin_latency", "local_latency"):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and value >= 0):
                raise _error(name, "a number of at least 0", value)
            if value is not None and value > LONGEST_SECONDS:
                raise _error(name, f"at most {LONGEST_SECONDS:g} seconds", value)
        if not (_is_number(self.fading) and 0 <= self.fading < 1):
            raise _error("fading", "a share from 0 to below 1", self.fading)
        for number, value in enumerate(self.speeds):
            if not (_is_number(value) and value > 0):
                raise _error(f"speeds[{number}]", "a number above 0", value)

    def _check_shape(self) -> None:
        """Check that the fields of the shape are there, and those of no other."""
        own = {
            STAR: ("bandwidth", "latency"),
            RING: ("bandwidth", "latency"),
            MESH: ("bandwidth", "latency"),
            FAT_TREE: ("bandwidth", "latency", "leaf", "spines"),
            TWO_SITES: ("bandwidth", "latency", "thin_bandwidth", "thin_latency"),
            MATRIX: _LINES,
        }[self.shape]
        optional = {STAR: ("backbone",), TWO_SITES: ("near",)}.get(self.shape, ())
        for name in ("bandwidth", "latency", "backbone", "leaf", "spines", "thin_bandwidth", "thin_latency", "near", *_LINES):
            value = getattr(self, name)
            given = value is not None and value != ()
            if name in own and not given:
                raise ValueError(f"The platform needs '{name}', for its shape is {self.shape}, got none.")
            if given and name not in (*own, *optional):
                raise ValueError(f"The platform's '{name}' does not belong to its shape, {self.shape}; got {value!r}.")
        if self.shape == MATRIX:
            self._check_matrix()
        if self.shape in (RING, MESH) and self.duplex == HALF:
            raise _error("duplex", f"full, for the links of a {self.shape} have one direction", HALF)
        if self.near is not None and self.hosts is not None and self.near >= self.hosts:
            raise _error("near", f"below the number of hosts, {self.hosts}", self.near)

    def _check_matrix(self) -> None:
        size = len(self.latencies)
        for name, least, most in (("latencies", 0.0, LONGEST_SECONDS), ("bandwidths", _LEAST_RATE, math.inf)):
            rows = getattr(self, name)
            if len(rows) != size or any(len(row) != size for row in rows):
                counts = f"{len(rows)} rows of {sorted({len(row) for row in rows})}"
                raise _error(name, f"as many rows and columns as 'latencies' has rows, {size}", counts)
            for i, row in enumerate(rows):
                for j, value in enumerate(row):
                    # the diagonal is free: nodes of one host have `local_latency` and `local_bandwidth`
                    if i != j and not (_is_number(value) and least <= value <= most):
                        limit = f"at least {least:g}" if least else f"at least 0 and at most {most:g}"
                        raise _error(f"{name}[{i}][{j}]", f"a number of {limit}", value)
        self._default("hosts", size)
        if self.hosts != size:
            raise _error("hosts", f"as many as 'latencies' has rows, {size}", self.hosts)

    def _check_model(self) -> None:
        if self.model == FLOW and self.ports == FIFO:
            raise _error("ports", "fair, for the model flow shares each link", FIFO)
        if self.model == STORE_AND_FORWARD and self.ports == FAIR:
            raise _error("ports", "fifo, for the model store-and-forward sends messages one after the other", FAIR)
        if self.model != FLOW:
            for name, plain in (("factors", "none"), ("cross_traffic", False)):
                if getattr(self, name) != plain:
                    raise _error(name, f"{plain}, for only the model flow has more", getattr(self, name))
        if self.limit is not None and self.cross_traffic:
            raise _error("cross_traffic", "false where flows have a 'limit'", "true")
        if self.ports == FIFO:
            for name, nothing in (("window", None), ("limit", None), ("fading", 0.0)):
                if getattr(self, name) != nothing:
                    raise ValueError(
                        f"The platform's '{name}' needs ports that are shared fairly, got {getattr(self, name)!r}."
                    )

    @property
    def is_plain_star(self) -> bool:
        """Whether every message passes a port of its own at each end and nothing else, with one latency and bandwidth."""
        return self.shape == STAR and self.backbone is None and self.duplex == FULL

    def fitted(self, nodes: int) -> Platform:
        """Return this platform with as many hosts as `nodes` need, or as it has.

        Args:
            nodes: number of nodes of the job, a parameter server included.

        Raises:
            ValueError: There are too few hosts, or speeds.
        """
        if type(nodes) is not int or nodes < 1:
            raise ValueError(f"A platform needs at least 1 node, got {nodes!r}.")
        if self.speeds and len(self.speeds) < nodes:
            raise _error("speeds", f"one for each of the job's {nodes} nodes", f"{len(self.speeds)} of them")
        if self.hosts is None:
            # each of two sites has a host, and the first one leaves one for the second
            least = 2 if self.shape == TWO_SITES else 1
            needed = max(least, -(-nodes // self.nodes_per_host), (self.near or 0) + 1)
            return replace(self, hosts=needed)
        if self.hosts * self.nodes_per_host < nodes:
            room = f"{self.hosts} hosts of {self.nodes_per_host} nodes"
            raise ValueError(f"The platform's 'hosts' must have room for the job's {nodes} nodes, got {room}.")
        return self

    def speed(self, place: int) -> float:
        """Return the relative speed of computing of a node.

        Args:
            place: position of the node among the job's nodes, from 0.
        """
        return self.speeds[place] if self.speeds else 1.0

    def describe(self) -> str:
        """Return one line for the head of a report."""
        measured = self.calibration
        told = "" if measured is None else f"calibrated {measured.date}{measured.date and ' '}with {measured.workers} workers"
        return "; ".join(filter(None, (self._hosts_text(), self._network_text(), self._model_text(), told, self.note)))

    def _hosts_text(self) -> str:
        text = self.shape if self.hosts is None else f"{self.shape} of {_counted(self.hosts, 'host')}"
        parts = [f"{self.near} near" if self.near else ""]
        parts.append(f"{self.nodes_per_host} nodes per host" if self.nodes_per_host > 1 else "")
        parts.append(f"{self.cores} cores per host" if self.cores > 1 else "")
        parts.append(f"{self.leaf} hosts per leaf, {_counted(self.spines, 'spine')}" if self.leaf and self.spines else "")
        parts.append(f"speeds {_range(self.speeds, str)}" if self.speeds else "")
        return ", ".join(filter(None, (text, *parts)))

    def _network_text(self) -> str:
        if self.shape == MATRIX:
            pairs = [(i, j) for i in range(len(self.latencies)) for j in range(len(self.latencies)) if i != j]
            rates = _range([self.bandwidths[i][j] for i, j in pairs], _rate)
            return f"{rates} and {_range([self.latencies[i][j] for i, j in pairs], _time)} as measured"
        parts = [_and(self.bandwidth, self.latency)]
        if self.thin_bandwidth is not None:
            parts = [f"{parts[0]} within", f"{_and(self.thin_bandwidth, self.thin_latency)} between"]
        parts.append(f"backbone of {_rate(self.backbone)}" if self.backbone else "")
        parts.append(f"{_and(self.local_bandwidth, self.local_latency)} within a host" if self.local_bandwidth else "")
        parts.append("half duplex" if self.duplex == HALF else "")
        return ", ".join(filter(None, parts))

    def _model_text(self) -> str:
        parts = [f"model {self.model}"]
        parts.append(f"factors {self.factors}" if self.factors != "none" else "")
        parts.append("cross-traffic" if self.cross_traffic else "")
        parts.append(f"window of {plain_number(self.window)} bytes" if self.window else "")
        parts.append(f"at most {_counted(self.limit, 'flow')} of a link at a time" if self.limit else "")
        parts.append(f"{100 * self.fading:.3g} % of a link lost per further flow" if self.fading else "")
        parts.append("ports shared fairly" if self.ports == FAIR else "ports first in, first out")
        parts.append(TRANSPORTS[self.transport])
        return ", ".join(filter(None, parts))


def _and(bandwidth: float | None, latency: float | None) -> str:
    return f"{_rate(bandwidth or 0.0)} and {_time(latency or 0.0)}"


def _rate(rate: float) -> str:
    number, unit = _number_and_unit(rate_text(rate))
    return f"{number} {unit if unit == 'bit' else unit.capitalize()}/s"


def _time(seconds: float) -> str:
    return " ".join(_number_and_unit(time_text(seconds)))


def _number_and_unit(text: str) -> tuple[str, str]:
    number = text.rstrip(ascii_letters)
    return number, text[len(number) :]


def _range(values: Sequence[float], text: Callable[[float], str]) -> str:
    low, high = text(min(values, default=0.0)), text(max(values, default=0.0))
    return low if low == high else f"{low} to {high}"


def _counted(number: int | None, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _among(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in allowed:
        near = did_you_mean(value, allowed).rstrip("?") if isinstance(value, str) else ""
        raise ValueError(f"The platform's '{name}' must be one of {', '.join(allowed)}, got {value!r}{near}.")


def _error(name: str, expected: str, got: object) -> ValueError:
    shown = got if isinstance(got, str) else repr(got)
    return ValueError(f"The platform's '{name}' must be {expected}, got {shown}.")
