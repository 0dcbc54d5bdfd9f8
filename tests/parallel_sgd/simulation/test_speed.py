"""Rates of the networks: messages and events per second of processor time."""

from __future__ import annotations

import pytest

from benchmarks.simulation.__main__ import FAIR, FIFO, FIFO_GOAL, PROGRAMS, run
from tests.statements import covers

EVENTS_GOAL = 3_000


def rate(text: str, program: str) -> float:
    """Return the messages per second of processor time, the best of three runs."""
    runs = [run(text, PROGRAMS[program]) for _ in range(3)]
    return max(messages / seconds for seconds, messages, _ in runs)


@pytest.mark.alone
def test_ports_that_are_first_in_first_out_carry_many_messages() -> None:
    assert rate(FIFO, "all-reduce in a ring of 64") >= FIFO_GOAL


@covers("SIM-5")
@pytest.mark.alone
@pytest.mark.parametrize("program", ["incast of 1,000", "1,000 random pairs of 1,000", "1,000 random pairs of 100"])
def test_a_thousand_flows_that_share_links_begin_and_end(program: str) -> None:
    """Two events a message: its flow begins, and ends."""
    assert 2 * rate(FAIR, program) >= EVENTS_GOAL
