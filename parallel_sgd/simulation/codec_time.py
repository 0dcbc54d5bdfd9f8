"""Time that codecs take: to make a packet, and to take one in.

The model of a call is linear in the bytes of its packet, seconds = a + bytes / rate, as in LogGP (Alexandrov et al., 1995) the
overhead of a processor with its time per byte. a and rate are given by class of codec, or measured: a few of the job's workers
exchange the gradients of a few samples here, and the seconds of their calls are fitted by least squares.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from network.names import did_you_mean
from network.units import RATE, rate_of
from nn.dataset.interface import Arrays
from nn.model import Model
from rpc.support.files import read_toml

from ..codec.interfaces import Codec
from ..engine.channel import Parameter_Server
from ..engine.exchange import Participant
from ..engine.parameter_server import build_server
from ..engine.plan import WorkerPlan, likes_of
from ..engine.worker import build_worker
from ..profiles import IIDBlockAssignment, ISetting
from .compute import DEFAULT, MEASURED, time_of
from .kernel import Kernel, MemoryChannel, run_kernel
from .timeline import SkippingClock

__all__ = ["CodecTime", "Cost", "codec_time_of", "measured_codec_time"]

_KEYS: Final = ("encode", "encode_rate", "merge", "merge_rate")
#: Workers of which the codecs are measured, batches of each measurement, and of one where codecs send seldom.
_WORKERS: Final = 8
_BATCHES: Final = (6, 60)
_SERVER_SECONDS: Final = 10.0


class Cost(NamedTuple):
    """Time of the calls of a codec.

    Args:
        encode: seconds to make a packet.
        encode_rate: bytes per second while it is made; infinite: none are counted.
        merge: seconds to take a packet in.
        merge_rate: bytes per second while it is taken in.
    """

    encode: float = 0.0
    encode_rate: float = math.inf
    merge: float = 0.0
    merge_rate: float = math.inf


@dataclass(frozen=True)
class CodecTime:
    """Times of the codecs of a job (`kernel.Costs`).

    Args:
        costs: by name of the codec's class.
        default: of all others; None: each needs its own.
    """

    costs: Mapping[str, Cost]
    default: Cost | None = None

    def encode(self, codec: Codec, size: int) -> float:
        """Return the seconds in which a codec makes a packet.

        Args:
            codec: the codec.
            size: bytes of the packet.
        """
        cost = self._of(type(codec))
        return cost.encode + size / cost.encode_rate

    def merge(self, codec: Codec, size: int) -> float:
        """Return the seconds in which a codec takes in a packet.

        Args:
            codec: the codec.
            size: bytes of the packet.
        """
        cost = self._of(type(codec))
        return cost.merge + size / cost.merge_rate

    def check(self, codecs: Iterable[type]) -> None:
        """Check that there is a time for each of these codecs.

        Args:
            codecs: their classes.

        Raises: ValueError naming the one that lacks.
        """
        for codec in codecs:
            self._of(codec)

    def table(self) -> dict[str, dict[str, float]]:
        """Return the times as `codec_time=` takes them; none where all are 0."""
        costs = {**self.costs, **({} if self.default is None else {DEFAULT: self.default})}
        found = {}
        for name, cost in costs.items():
            if cost != Cost():
                # a rate that is left out is infinite, and TOML files refuse `inf` (`_rate`)
                found[name] = {key: value for key, value in cost._asdict().items() if value != math.inf}
        return found

    def _of(self, codec: type) -> Cost:
        cost = self.costs.get(codec.__name__, self.default)
        if cost is None:
            known = ", ".join(self.costs) or "none"
            raise ValueError(f"'codec_time' must have a time for {codec.__name__}, or {DEFAULT!r} for all others, got {known}")
        return cost


def codec_time_of(given: object) -> CodecTime | None:
    """Return the times of codecs; None where they are to be measured.

    Args:
        given: `measured`, 0, a dict by class name, or the path of a TOML file with a table `codec_time`.

    Raises: ValueError or TypeError naming the field, the expectation, and the value that came.
    """
    if isinstance(given, str) and given == MEASURED:
        return None
    if isinstance(given, (int, float)) and not isinstance(given, bool) and given == 0:
        return CodecTime({}, Cost())
    if isinstance(given, Path) or (isinstance(given, str) and given.endswith(".toml")):
        try:
            content = read_toml(Path(given))
        except (OSError, ValueError) as error:
            raise ValueError(f"'codec_time' must be a TOML file that can be read, got {str(given)!r}: {error}") from None
        if not isinstance(content.get("codec_time"), dict):
            raise ValueError(f"'codec_time' must be a file with a table 'codec_time', got {str(given)!r}, which has none")
        given = content["codec_time"]
    if not isinstance(given, Mapping):
        raise TypeError(
            f"'codec_time' must be 'measured', 0, a dict of times by class of codec, or the path of a TOML file, got {given!r}"
        )
    costs = {str(name): _cost(str(name), table) for name, table in given.items()}
    default = costs.pop(DEFAULT, None)
    return CodecTime(costs, default)


def _cost(name: str, table: object) -> Cost:
    if not isinstance(table, Mapping):
        raise ValueError(f"'codec_time' of {name} must be a table with {', '.join(_KEYS)}, got {table!r}")
    found = {}
    for key, value in table.items():
        field = f"'codec_time' of {name}, {key!r},"
        if key not in _KEYS:
            near = did_you_mean(str(key), _KEYS).rstrip("?")
            raise ValueError(f"'codec_time' of {name} must have keys among {', '.join(_KEYS)}, got {key!r}{near}")
        found[key] = _rate(field, value) if key.endswith("_rate") else time_of(field, value)
    return Cost(**found)


def _rate(field: str, given: object) -> float:
    if isinstance(given, str) and (found := re.fullmatch(RATE, given.strip())):
        given = rate_of(found[1], found[2])
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not (math.isfinite(given) and given > 0):
        raise ValueError(f"{field} must be a rate above 0 such as '500MB/s', or bytes per second, got {given!r}")
    return float(given)


class _Calls:
    """Calls of codecs in a measurement, counted where a simulation would charge for them (`kernel.Costs`).

    Attributes: `made` and `taken`, by id of a codec the number of packets that it has made or taken in, and their bytes.
    """

    def __init__(self) -> None:
        self.made: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
        self.taken: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])

    def encode(self, codec: Codec, size: int) -> float:
        # by identity: two codecs of a node may be equal; all live as long as the measurement
        """Count a packet that is made."""
        return _count(self.made[id(codec)], size)

    def merge(self, codec: Codec, size: int) -> float:
        """Count a packet that is taken in."""
        return _count(self.taken[id(codec)], size)


def _count(entry: list[int], size: int) -> float:
    entry[0] += 1
    entry[1] += size
    return 0.0  # no virtual time: the accounts measure real seconds


#: Calls of a codec in a measurement: their number, bytes of all packets, and seconds.
_Sample = tuple[int, int, float]
_Samples = dict[str, list[_Sample]]


def measured_codec_time(plan: WorkerPlan, model: Model, samples: Arrays, server: bool) -> CodecTime:
    """Measure the times of the codecs of a job here, with at most eight of its workers.

    Args:
        plan: the plan of the job.
        model: its model, of which copies are used.
        samples: those of the job, prepared.
        server: whether it has a parameter server.

    Raises: ValueError where the codecs cannot be measured: then `codec_time` is to be given.
    """
    made: _Samples = defaultdict(list)
    taken: _Samples = defaultdict(list)
    own = plan.assignment
    alike = own.redundancy == 1 and own.block_count == own.node_count  # then a few workers are as all are
    settings: list[ISetting] = [IIDBlockAssignment(count) for count in (2, _WORKERS) if alike and count < own.node_count] or [
        own
    ]
    for batches in _BATCHES:
        for setting in settings:
            try:
                _measure(replace(plan, assignment=setting), model, samples, server, batches, made, taken)
            except ValueError:
                if setting is own:  # a codec may refuse fewer workers, but not those of the job
                    raise
        if not made and own not in settings:  # codecs that need as many workers as the job has
            _measure(plan, model, samples, server, batches, made, taken)
        if made and taken:
            break
    costs = {name: Cost(*_fitted(made.get(name, ())), *_fitted(taken.get(name, ()))) for name in {**made, **taken}}
    # a time of 0 that was not asked for would make the codec look free
    if not costs or any(cost == Cost() for cost in costs.values()):
        raise ValueError(
            f"'codec_time' must take time where it is measured, got none for {', '.join(costs) or 'codecs that sent nothing'}: "
            f"give times, or 0"
        )
    return CodecTime(costs, Cost())  # codecs that exchanged nothing here cost nothing


def _measure(
    plan: WorkerPlan, model: Model, samples: Arrays, server: bool, batches: int, made: _Samples, taken: _Samples
) -> None:
    """Let the workers of a plan exchange the gradients of blocks of one sample, and note the calls of their codecs."""
    # packets are as large with clients as without
    options = replace(plan.options, epoch=1, block_size=1, callbacks=(), checkpoint_every=None, clients=None)
    plan = replace(plan, options=options)
    # few samples are repeated: bytes and seconds do not depend on them
    rows = np.arange(batches * plan.assignment.block_count) % len(samples[0])
    # the epoch ends with an evaluation, of which nothing is measured
    few = samples[0][rows], samples[1][rows], samples[2][:1], samples[3][:1]
    clock, calls = SkippingClock(), _Calls()
    participants: list[Participant] = []

    def build(channel: MemoryChannel) -> Participant:
        participants.append(build_worker(plan, deepcopy(model), few, channel, clock.monotonic))
        return participants[-1]

    def build_ps(channel: MemoryChannel) -> Participant:
        likes, buffers = likes_of(model.store), bool(model.store.buffers)
        participants.append(build_server(plan, likes, channel, clock.monotonic, _SERVER_SECONDS, has_buffers=buffers))
        return participants[-1]

    builds = dict.fromkeys(plan.assignment.nodes, build)
    if server:
        builds[Parameter_Server] = build_ps
    kernel = Kernel(list(builds), clock)
    kernel.costs = calls
    run_kernel(kernel, builds)
    for participant in participants:
        bank = participant.exchange.bank
        encoding = list(bank.accounts.encoding)
        # a server counts the seconds of its answers for all variables together
        answers = bank.accounts.watch.encode - sum(encoding)
        size = sum(calls.made[id(codec)][1] for codec in bank.codecs)
        for place, codec in enumerate(bank.codecs):
            name = type(codec).__name__
            count, mine = calls.made[id(codec)]
            if count:
                made[name].append((count, mine, encoding[place] + answers * mine / size))
            count, its = calls.taken[id(codec)]
            if count:
                taken[name].append((count, its, bank.accounts.merging[place]))


def _fitted(found: Sequence[_Sample]) -> tuple[float, float]:
    """Return a and rate of seconds = a + bytes / rate per call: least squares of the mean seconds, neither below 0.

    Of samples of one size the quickest quarter counts: others have had the core meanwhile.
    """
    by_size: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    for count, size, seconds in found:
        # packets of about one size, as sparse ones are, make one point of the line
        by_size[round(math.log2(max(1.0, size / count)))].append((seconds / count, size / count))
    points = []
    for group in by_size.values():
        quick = sorted(group)[: max(1, len(group) // 4)]
        points.append((sum(size for _, size in quick) / len(quick), sum(seconds for seconds, _ in quick) / len(quick)))
    if not points:
        return 0.0, math.inf
    sizes, seconds = np.array(points).T
    weights = 1 / np.maximum(seconds, 1e-9)  # errors are relative
    if len(points) > 1:
        table = np.stack([weights, sizes * weights], axis=1)
        call, byte = (float(value) for value in np.linalg.lstsq(table, seconds * weights, rcond=None)[0])
        if call >= 0 and byte > 0:
            return call, 1 / byte
        # larger packets that take less time are noise: no bytes are counted then
        if byte <= 0:
            return float(np.mean(seconds)), math.inf
    # a call that would take less than nothing: the line goes through 0
    byte = float(np.sum(seconds * weights) / np.sum(sizes * weights))
    return 0.0, 1 / byte if byte else math.inf
