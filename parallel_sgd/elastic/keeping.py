"""Copies of what is changed in place: generators, samplers, rules, and everything that tells its state."""

from __future__ import annotations

import copy
import random
from typing import Any, Protocol, runtime_checkable

import numpy as np

_PythonGenerator = random.Random  # noqa: S311 - to be told from others, not to draw from


@runtime_checkable
class Stateful(Protocol):
    """Tells its state and takes one over, such as a sampler, a rule, an optimizer or a callback."""

    def state_dict(self) -> Any:
        """The state, which may be live."""

    def load_state_dict(self, state: Any) -> Any:
        """Take over a copy of a state."""


def is_kept(value: object) -> bool:
    """Whether `value` stays the same object while what is in it is saved and restored; else a deep copy takes its place."""
    return isinstance(value, (np.random.Generator, _PythonGenerator)) or (
        isinstance(value, Stateful) and not isinstance(value, type)
    )


def content(value: Any) -> Any:
    """A copy of what is in a value that `is_kept`, as data that may travel."""
    if isinstance(value, np.random.Generator):
        return copy.deepcopy(value.bit_generator.state)
    if isinstance(value, _PythonGenerator):
        return value.getstate()
    return copy.deepcopy(value.state_dict())


def fill(value: Any, state: Any) -> None:
    """Put a copy of such a content into a value that `is_kept`."""
    if isinstance(value, np.random.Generator):
        value.bit_generator.state = copy.deepcopy(state)
    elif isinstance(value, _PythonGenerator):
        value.setstate(state)
    else:
        value.load_state_dict(copy.deepcopy(state))
