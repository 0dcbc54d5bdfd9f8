"""Faults that a job asks for, where the job has changed meanwhile."""

from __future__ import annotations

from network.faults.plan import FaultPlan
from parallel_sgd.fault_injection import FaultInjector

from ..statements import covers


@covers("EL-19")
def test_a_link_to_a_node_that_is_gone_is_left_alone() -> None:
    """The next attempt has fewer workers, so a connection that was to be cut may not be there."""
    inject = FaultInjector(FaultPlan.parse("cut 0-1@e1.b1; nan 0@e1.b2"), 0, 0, {})
    assert inject(0, 0) is False
    assert inject(0, 1) is True
