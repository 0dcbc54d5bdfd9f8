"""What a rule for the worker's own values is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from nn.gradient_descent import IGradientDescent
from parallel_sgd.codec.interfaces import Array

RuleMaker = Callable[[], IGradientDescent]


class LocalRule:
    """Changes a worker's own value of each batch, what it sends of it, and what comes back.

    One object serves one variable on one worker; vectors are flat. A subclass overrides what it needs.
    """

    sends: ClassVar[tuple[str, ...]] = ()
    """With which `send` of `Codec.of` it goes."""

    agrees: ClassVar[bool] = True
    """All workers have the same parameters after an exchange."""

    updates: ClassVar[bool] = False
    """What comes back is turned into an increment of the parameters, whatever was sent."""

    means: ClassVar[bool] = True
    """What it sends must come back as a mean."""

    width: ClassVar[int] = 1
    """How many vectors it sends in place of one."""

    def use(self, rule: RuleMaker | None) -> None:
        """Take note of what makes the rule of the job, by which the worker steps; None where there is none."""
        return

    def begin(self, parameters: Array) -> None:
        """Take note of the common parameters, at the start and after every exchange. They change later."""
        return

    def step(self, value: Array) -> Array:
        """Return what becomes of the worker's own value of a batch, which is not changed."""
        return value

    def outgoing(self, value: Array, dense: bool) -> Array:
        """Return what is sent in place of `value`, in a batch with an exchange; `dense`: it goes past all stages."""
        return value

    def incoming(self, merged: Array, dense: bool) -> Array:
        """Return what the result is made of, from what was merged."""
        return merged

    def state_dict(self) -> dict[str, Any]:
        """Return what the rule remembers: arrays and numbers, live."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of what `state_dict` returned.

        Raises: ValueError for names that the rule does not know.
        """
        if state:
            raise ValueError(f"{type(self).__name__} remembers nothing, got {', '.join(sorted(state))}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class LocalRate:
    """The learning rate of the worker's own steps: a number, or that of the job's rule, step by step.

    Raises: LookupError where it is asked for without either.
    """

    def __init__(self, rate: float | None) -> None:
        self.given = rate
        self.steps = 0
        self.maker: RuleMaker | None = None
        self._rule: IGradientDescent | None = None

    def next(self) -> float:
        """Return that of the next step."""
        self.steps += 1
        if self.given is not None:
            return self.given
        if self._rule is None:
            if self.maker is None:
                raise LookupError(
                    "the learning rate of local steps is that of the job's rule, but there is none: pass 'learn_rate'"
                )
            self._rule = self.maker()
        self._rule.step = self.steps - 1
        return self._rule.learn_rate
