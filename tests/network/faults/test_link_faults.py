"""What late, repeated and reordered packets do to a training in memory, in virtual time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from network.testing import VirtualClock
from parallel_sgd.profiles import FixedBlockAssignment
from tests.parallel_sgd.digits_job import ADAM, DigitsJob, plan_of
from tests.parallel_sgd.networks import mlp

from ...statements import covers


@covers("SUB-22", "SUB-23", "FLT-9", "FLT-10")
def test_delays_and_duplicates_change_no_bit_of_a_training() -> None:
    """Three workers, one link half a second late, one whose packets come twice, one on which neighbours change places."""
    chance, met = random.Random(1), Counter[str]()

    def link(sender: int, receiver: int, key: Sequence[int]) -> tuple[float, ...]:
        """After how many seconds each copy of a message arrives."""
        if (sender, receiver) == (0, 1):
            met["late"] += 1
            return (0.5 + 0.05 * chance.random(),)
        if {sender, receiver} == {0, 2}:
            met["reordered"] += 1
            return (0.001 * (met["reordered"] % 2),)
        met["twice"] += 1
        return (0.0, 0.0)

    weights = []
    for faulty in (False, True):
        clock = VirtualClock(100.0)
        plan = plan_of(FixedBlockAssignment(3, 1, 4), block_size=32, epoch=3, optimizer=ADAM)
        job = DigitsJob(plan, mlp(), link=link if faulty else lambda *_: (0.0,), clock=clock)
        weights += job.run().weights()
    assert len(weights) == 6 and len(set(weights)) == 1
    assert met.keys() == {"late", "reordered", "twice"} and clock.monotonic() > 102
