"""Packets that are handed over together: nodes get them later than these arrive, and nothing but the work changes."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import parallel_sgd
from parallel_sgd import codec as codecs
from parallel_sgd.codec import Codec
from parallel_sgd.codec.compose.packet import Packet
from parallel_sgd.codec.compose.reduce import Peers
from parallel_sgd.engine.accounts import SENT
from parallel_sgd.profiles.blockassignment import DuplicateAssignment, IIDBlockAssignment
from parallel_sgd.record.run import JobResult
from parallel_sgd.simulation.arrivals import Arrival
from parallel_sgd.simulation.kernel import Kernel
from parallel_sgd.simulation.platform_text import parse_platform
from parallel_sgd.simulation.queues import Queues
from tests.parallel_sgd.simulation.test_jobs import STAR, train, weights
from tests.parallel_sgd.simulation.test_size import calls
from tests.statements import covers

#: Units of the layers: enough numbers for a shard at each of 32 workers.
WIDE = (512, 64, 10)


def told(result: JobResult) -> tuple[Any, ...]:
    """All that must not change: bits, accounts, trace, events and times."""
    times = result.simulated
    assert times is not None
    return weights(result), dict(result.accounts), times.digest, times.events, times.seconds


def wide(count: int, folder: Path, steps: int) -> JobResult:
    """Train with `Ring` a model that has a shard for each worker."""
    nodes = parallel_sgd.simulated(count, STAR, compute=0.001, codec_time=0)
    return train(nodes, codecs.Ring, folder, steps, widths=WIDE)


def sent(result: JobResult) -> int:
    """Packets of the job; one counts for each of its variables."""
    entries = [entry for entries in result.accounts.values() for entry in entries]
    return sum(entry.packets for entry in entries if entry.direction == SENT and entry.variable == 0)


def turns(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Count the turns of each node from now on."""
    found: Counter[int] = Counter()
    turn = Kernel._turn

    def counted(self: Kernel, seat: Any, moment: float) -> int:
        found[seat.node] += 1
        return turn(self, seat, moment)

    monkeypatch.setattr(Kernel, "_turn", counted)
    return found


JOBS: list[tuple[type[Codec], int, dict[str, Any]]] = [
    (codecs.Ring, 8, {"widths": WIDE}),
    (codecs.Ring, 6, {"widths": WIDE, "assignment_type": DuplicateAssignment, "redundancy": 2}),
    (codecs.Ring, 6, {"widths": WIDE, "assignment_type": IIDBlockAssignment, "redundancy": 2}),
    (codecs.TopK, 5, {}),
    (codecs.PowerSGD, 5, {"widths": WIDE}),
]


@pytest.mark.parametrize(("kind", "count", "given"), JOBS, ids=lambda value: getattr(value, "__name__", None))
def test_packets_that_are_handed_over_together_change_nothing(
    kind: type[Codec], count: int, given: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def job(name: str) -> JobResult:
        return train(parallel_sgd.simulated(count, STAR, compute=0.001, codec_time=0), kind, tmp_path / name, **given)

    together = job("together")
    monkeypatch.setattr(Peers, "counts_packets", False)
    assert told(job("one by one")) == told(together)


def test_after_a_time_out_each_packet_is_handed_over_as_it_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions are answered at once: a limit of 8 ms is overdue for workers that compute for much longer."""

    def job(name: str) -> JobResult:
        nodes = parallel_sgd.simulated(6, STAR, compute="exponential 1ms 3ms", codec_time=0)
        return train(nodes, codecs.Ring, tmp_path / name, widths=WIDE, ssgd_timeout_limit=8)

    stopped = []
    stop = Kernel._stop_deferring
    monkeypatch.setattr(Kernel, "_stop_deferring", lambda self: (stopped.append(self), stop(self)))
    together = job("together")
    assert stopped
    monkeypatch.setattr(Peers, "counts_packets", False)
    assert told(job("one by one")) == told(together)


@covers("SIM-20")
def test_turns_grow_with_the_workers_and_not_with_their_packets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for count in (8, 32):
        counted = turns(monkeypatch)
        result = wide(count, tmp_path / str(count), 2)
        assert sent(result) == 2 * 2 * count * (count - 1)
        found[count] = sum(counted.values()) / count
        monkeypatch.undo()
    assert found[32] < 1.5 * found[8]


@covers("SIM-20")
def test_a_packet_costs_few_calls_and_its_form_is_looked_at_once(tmp_path: Path) -> None:
    """A batch more of 32 workers, by the calls of functions of Python: of all of it, for each packet."""
    wide(2, tmp_path / "warm", 1)
    counted, packets = {}, {}
    for steps in (1, 3):
        results: list[JobResult] = []
        folder = tmp_path / str(steps)
        counted[steps] = calls(lambda r=results, f=folder, s=steps: r.append(wide(32, f, s)))
        packets[steps] = sent(results[0])
    more = sum(counted[3].values()) - sum(counted[1].values())
    assert more / (packets[3] - packets[1]) < 60
    check = Packet.check.__code__
    assert counted[1][check] > 0 and counted[3][check] == counted[1][check]


def test_messages_of_a_star_keep_the_order_of_one_heap() -> None:
    """Each link has a line of its own, and only its first message is in the heap; messages without a size arrive at one
    moment, in the order of their numbers.
    """
    draw = random.Random(4)
    lines, heap = (Queues(parse_platform(STAR), range(5)) for _ in range(2))
    heap._star = None  # each message takes its route, and the heap holds all of them
    now = 0.0
    arrived: tuple[list[Arrival], list[Arrival]] = ([], [])
    for number in range(2_000):
        source, target = draw.sample(range(5), 2)
        size = draw.choice([0, 0, 1, 1_500, 100_000])
        for queues in (lines, heap):
            queues.send(now, source, target, size, number)
        if draw.random() < 0.3:
            now += draw.choice([0.0, 1e-5, 1e-3])
            for queues, found in zip((lines, heap), arrived, strict=True):
                found += queues.advance(now)
    for queues, found in zip((lines, heap), arrived, strict=True):
        found += queues.advance(1e9)
    assert len(arrived[0]) == 2_000 and arrived[0] == arrived[1]
    assert lines.busy() == heap.busy()
