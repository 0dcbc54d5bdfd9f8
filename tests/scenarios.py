"""Scenarios in lines, for machines that are told events: each line is `event -> what follows`.

A table has a scenario after the other. Its first line says what it shows, in brackets are options, `(workers=3 resumes)`, of
which there may be several that it is played with; then come its events, indented. An event is a word and its arguments; what
follows are actions, separated by ` | `, as the `Player` of the machine puts them. One that ends with `...` may go on, `*` is
any number of any, and a line that begins with `&` continues the one before. Without an arrow nothing follows.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from network.testing import VirtualClock
from rpc import Tick


def scenarios(table: str, option: Callable[[str], Any] = int) -> list[Any]:
    """Rows of (options, scenario), named by their first lines; `option` reads a value, True where there is none."""
    rows = []
    for heading, body in re.findall(r"^(\S.*)\n((?: .*\n)+)", table, re.MULTILINE):
        name, *variants = heading.rstrip(")").split(" (")
        for words in variants or [""]:
            options = dict(word.partition("=")[::2] for word in words.rstrip(")").split())
            read = {key: option(value) if value else True for key, value in options.items()}
            rows.append(pytest.param(read, body, id=f"{name}, {words}" if variants[1:] else name))
    return rows


class Player(ABC):
    """Tells a machine the events of scenarios: `on_<word>(*arguments)` tells it one, and returns the actions that follow."""

    def play(self, scenario: str) -> None:
        """Tell it all events, and assert what follows from each."""
        for line in map(str.strip, scenario.replace("\n    &", "").splitlines()):
            event, _, expected = (part.strip() for part in line.partition("->"))
            word, *arguments = event.split()
            actions = [self.told(action) for action in getattr(self, f"on_{word}")(*arguments)]
            _compare(actions, expected.split(" | ") if expected else [], line)

    @abstractmethod
    def told(self, action: Any) -> str:
        """An action in a line."""


class TimedPlayer(Player):
    """A player of a machine that is told of time by Ticks: it decides at its `deadline`, and not before."""

    machine: Any

    def __init__(self) -> None:
        self.clock = VirtualClock(0.0)

    def tell(self, *events: Any) -> list[Any]:
        return [action for event in events for action in self.machine.handle(event, self.clock.monotonic())]

    def on_tick(self, seconds: str = "0") -> list[Any]:
        """After so many seconds."""
        self.clock.advance(float(seconds))
        return self.tell(Tick())

    def on_due(self, low: str, high: str = "") -> list[Any]:
        """Its deadline is so many seconds away; nothing follows before, and it is time now."""
        deadline = self.machine.deadline
        assert deadline is not None
        assert float(low) <= round(deadline - self.clock.monotonic(), 9) <= float(high or low)
        if deadline > self.clock.monotonic():
            self.clock.advance_to(math.nextafter(deadline, -math.inf))
            assert self.tell(Tick()) == []
        self.clock.advance_to(deadline)
        return self.tell(Tick())

    def on_rests(self) -> list[Any]:
        """It waits for nothing."""
        assert self.machine.deadline is None
        return self.on_tick("100")


def _compare(actions: Sequence[str], expected: Sequence[str], line: str) -> None:
    if "*" in expected:
        first = expected.index("*")
        last = len(expected) - first - 1
        assert len(actions) >= first + last, (line, actions)
        actions = [*actions[:first], *actions[len(actions) - last :]]
        expected = [text for text in expected if text != "*"]
    found = [
        text[: len(want) - 3] + "..." if want.endswith("...") else text for text, want in zip(actions, expected, strict=False)
    ]
    assert [*found, *actions[len(expected) :]] == list(expected), line
