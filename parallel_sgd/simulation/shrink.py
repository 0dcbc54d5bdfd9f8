"""Shrinking of a fault plan that makes a job go wrong: to the clauses that matter, with the mildest values that still do.

Clauses are left out by delta debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", IEEE
Transactions on Software Engineering 28, 2002); then each time, rate and share that is left is halved, or doubled where more is
milder, as long as the job goes wrong. A run of a job takes seconds, so no plan is tried twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from network.faults.fault import Fault
from network.faults.plan import FaultPlan

__all__ = ["shrunk"]

_FACTORS = {"seconds": 0.5, "delay": 0.5, "jitter": 0.5, "share": 0.5, "rate": 2.0}
#: Of a value at most: one that does not matter would be halved for ever.
_HALVINGS = 5
#: Digits of a value that was halved: a plan is read by people.
_SIGNIFICANT = 3


def shrunk(plan: FaultPlan, fails: Callable[[FaultPlan], bool], most: int = 100) -> FaultPlan:
    """Return a plan of a few clauses of `plan` with which a job still goes wrong: none of them can be left out.

    Where the runs are used up before, it may have clauses that could be left out.

    Args:
        plan: makes the job go wrong.
        fails: runs the job with a plan, and tells if it goes wrong.
        most: runs at most.

    Raises: ValueError where the job does not go wrong with `plan`.
    """
    tried: dict[tuple[Fault, ...], bool] = {}

    def test(faults: Sequence[Fault]) -> bool:
        key = tuple(faults)
        if key not in tried:
            if len(tried) >= most:
                return False
            tried[key] = fails(FaultPlan(key, plan.seed))
        return tried[key]

    left = list(plan.faults)
    if not test(left):
        raise ValueError(f"'plan' must make the job go wrong, but it does not: {plan}")
    parts = 2
    while len(left) > 1:
        size = -(-len(left) // parts)
        pieces = [left[start : start + size] for start in range(0, len(left), size)]
        without = [[fault for piece in pieces if piece is not part for fault in piece] for part in pieces]
        # of two pieces each is all but the other
        candidates = [*pieces, *without] if len(pieces) > 2 else pieces
        found = next((each for each in candidates if len(each) < len(left) and test(each)), None)
        if found is not None:
            # as in the paper: halves again of a piece; of a rest one piece less, as the others were tried with it
            parts = 2 if len(found) <= size else max(len(pieces) - 1, 2)
            left = found
        elif size == 1:
            break
        else:
            parts = min(2 * parts, len(left))
    return FaultPlan(_milder(left, test), plan.seed)


def _milder(faults: list[Fault], test: Callable[[Sequence[Fault]], bool]) -> list[Fault]:
    """Return the faults with values that are as mild as the job goes wrong with."""
    for place, fault in enumerate(faults):
        for name, factor in _FACTORS.items():
            for _ in range(_HALVINGS):
                value = getattr(fault, name, None)
                if not value:
                    break
                less: dict[str, Any] = {name: float(f"{value * factor:.{_SIGNIFICANT}g}")}
                milder = replace(fault, **less)
                if not test([*faults[:place], milder, *faults[place + 1 :]]):
                    break
                faults[place] = fault = milder
    return faults
