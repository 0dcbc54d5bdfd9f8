"""The rule whose learning rate a callback sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nn.callback.callback import Callback

if TYPE_CHECKING:
    from nn.gradient_descent import IGradientDescent


def rule_of(callback: Callback) -> IGradientDescent:
    """Return the rule of the callback's model; raise ValueError where a schedule gives its learning rate."""
    rule = callback.model.optimizer.rule
    if rule.schedule is not None:
        raise ValueError(
            f"{type(callback).__name__} sets the learning rate, but that of {type(rule).__name__} comes from "
            f"{rule.schedule!r}: give the rule a number, or leave the callback out"
        )
    return rule
