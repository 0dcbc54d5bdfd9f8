"""Faults of processes and links, and their written form.

    plan     clause; clause; ...
    clause   kill 1@e1.b3            stop 2@e1.b5 for 4s      hang 2@e1.b5 for 4s     exit 1@e1.b3 code 3
             raise 2@e1.b2           nan 1@e1.b4              kill ps@e2
             +500ms 0>1              +500ms~100ms 0-1         throttle 0>1 1mbit      lose 0>1 10%
             cut 0-2@e2 for 3s       swallow 0>1@e1.b2        duplicate 0>1            reorder 0>1

Epochs, batches and attempts count from 1. `@e2` alone, or `@e2.b0`, is the first batch of that epoch that comes. `0>1` is the
direction from node 0 to node 1, `0-1` is both directions. A fault happens in the first attempt, unless `@a2` or `@a*` (every
one) follows. Times are ns, us, ms, s or min; rates are bit, kbit, mbit or gbit per second (network/units.py).
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from numbers import Integral
from typing import Any

from network.names import did_you_mean
from network.nodes import PARAMETER_SERVER
from network.units import RATE, TIME, plain_number, rate_of, rate_text, seconds_of, time_text

PROCESS_KINDS = {
    "kill": "SIGKILL to itself",
    "stop": "SIGSTOP to itself, and with `for` SIGCONT after that time",
    "hang": "wait in the middle of the work while the rest of the process lives",
    "exit": "leave by SystemExit with `code`, 1 unless told otherwise",
    "raise": "raise InjectedFault",
    "nan": "make the loss of this batch not a number",
}
LINK_KINDS = {
    "delay": "written +500ms, or +500ms~100ms for up to 100 ms more: everything arrives later, in order",
    "throttle": "that many bits per second",
    "lose": "that share of the messages never arrives",
    "swallow": "the link takes everything and brings nothing, and no end of the connection either",
    "duplicate": "every message arrives twice",
    "reorder": "neighbouring messages change places",
    "cut": "connections are reset, new ones refused",
}
FIRST = 0
"""The attempt, counted from 0, that a fault belongs to unless it says otherwise."""


@dataclass(frozen=True)
class Step:
    """Place in a training.

    Args:
        epoch: the epoch, counted from 0.
        batch: the batch, counted from 0; None for the first that comes in that epoch.
    """

    epoch: int
    batch: int | None = None

    def __str__(self) -> str:
        return f"e{self.epoch + 1}" if self.batch is None else f"e{self.epoch + 1}.b{self.batch + 1}"

    def is_at(self, epoch: int, batch: int) -> bool:
        # without a batch any: the plan fires at the first that comes
        """Tell if this place is the given one.

        Args:
            epoch, batch: where the training is, both counted from 0.
        """
        return epoch == self.epoch and self.batch in (None, batch)

    def has_come(self, epoch: int, batch: int) -> bool:
        """Tell if this place is reached or passed.

        Args:
            epoch, batch: where the training is, both counted from 0.
        """
        return (epoch, batch) >= (self.epoch, self.batch or 0)


def _check_kind(owner: object, kind: object, known: Collection[str]) -> None:
    if not isinstance(kind, str) or kind not in known:
        raise ValueError(f"{type(owner).__name__} 'kind' must be one of {', '.join(known)}, got {kind!r:.80}")


def _check_integers(owner: object, least: int, **given: object) -> None:
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
            raise ValueError(f"{type(owner).__name__} '{name}' must be an integer of at least {least}, got {value!r:.80}")


def _check_numbers(owner: object, **given: object) -> None:
    for name, value in given.items():
        # written so that NaN is refused as well
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise ValueError(f"{type(owner).__name__} '{name}' must be a number >= 0, got {value!r:.80}")


def _given(**values: object) -> dict[str, object]:
    """Return the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def _check_step(owner: object, step: object) -> None:
    if not isinstance(step, Step):
        raise TypeError(f"{type(owner).__name__} 'step' must be a Step, such as Step(epoch=0, batch=2), got {step!r:.80}")


@dataclass(frozen=True)
class ProcessFault:
    """Fault of the process of a node when it begins a step.

    Args:
        kind: a key of `PROCESS_KINDS`.
        node: id of the node (-2: the parameter server).
        step: place in the training.
        attempt: counted from 0; None is every one.
        seconds: duration of a stop or hang (None: for ever).
        code: exit code of `exit`.

    Raises: TypeError or ValueError naming the argument, the expectation and the value that came.
    """

    kind: str
    node: int
    step: Step
    attempt: int | None = FIRST
    seconds: float | None = None
    code: int | None = None

    def __post_init__(self) -> None:
        _check_kind(self, self.kind, PROCESS_KINDS)
        _check_integers(self, PARAMETER_SERVER, node=self.node)
        _check_step(self, self.step)
        _check_integers(self, FIRST, **_given(attempt=self.attempt, code=self.code))
        _check_numbers(self, **_given(seconds=self.seconds))

    def __str__(self) -> str:
        code = "" if self.code is None else f" code {self.code}"
        return f"{self.kind} {node_text(self.node)}@{self.step}{_attempt(self.attempt)}{_lasting(self.seconds)}{code}"


@dataclass(frozen=True)
class LinkFault:
    """Fault of the messages from one node to another.

    Args:
        kind: a key of `LINK_KINDS`.
        sender: id of the sending node.
        receiver: id of the receiving node.
        both: whether the other direction has it, too.
        step: its begin (None: at once).
        attempt: counted from 0; None is every one.
        seconds: its duration (None: to the end).
        delay: seconds.
        jitter: seconds at most that are added to `delay`.
        rate: bytes per second.
        share: part of the messages, from 0 to 1.

    Raises: TypeError or ValueError naming the argument, the expectation and the value that came.
    """

    kind: str
    sender: int
    receiver: int
    both: bool = False
    step: Step | None = None
    attempt: int | None = FIRST
    seconds: float | None = None
    delay: float = 0.0
    jitter: float = 0.0
    rate: float = 0.0
    share: float = 0.0

    def __post_init__(self) -> None:
        _check_kind(self, self.kind, LINK_KINDS)
        _check_integers(self, PARAMETER_SERVER, sender=self.sender, receiver=self.receiver)
        if not isinstance(self.both, bool):
            raise TypeError(f"LinkFault 'both' must be True or False, got {self.both!r:.80}")
        if self.step is not None:
            _check_step(self, self.step)
        _check_integers(self, FIRST, **_given(attempt=self.attempt))
        _check_numbers(
            self, **_given(seconds=self.seconds), delay=self.delay, jitter=self.jitter, rate=self.rate, share=self.share
        )
        if self.share > 1:
            raise ValueError(f"LinkFault 'share' must be a number from 0 to 1, got {self.share!r}")

    def __str__(self) -> str:
        link = f"{node_text(self.sender)}{'-' if self.both else '>'}{node_text(self.receiver)}"
        step = f"@{self.step}" if self.step else ""
        what = self.kind
        if self.kind == "delay":
            what = f"+{time_text(self.delay)}" + (f"~{time_text(self.jitter)}" if self.jitter else "")
        # in decimal: 0.07 * 100 is 7.000000000000001, and the text must be read as the same share
        percent = plain_number(Decimal(repr(self.share)) * 100)
        argument = {"throttle": f" {rate_text(self.rate)}", "lose": f" {percent}%"}.get(self.kind, "")
        return f"{what} {link}{step}{_attempt(self.attempt)}{argument}{_lasting(self.seconds)}"

    def concerns(self, sender: int, receiver: int) -> bool:
        """Tell if the fault is one of the way from one node to another.

        Args:
            sender, receiver: ids of the nodes.
        """
        link = (self.sender, self.receiver)
        return (sender, receiver) == link or (self.both and (receiver, sender) == link)


Fault = ProcessFault | LinkFault
"""Fault of a process or of a link."""


def node_text(node: int) -> str:
    """Write a node as the grammar does."""
    return "ps" if node == PARAMETER_SERVER else str(node)


def _attempt(attempt: int | None) -> str:
    # as it is read: none means the first attempt, and people count from 1
    return "" if attempt == FIRST else "@a*" if attempt is None else f"@a{attempt + 1}"


def _lasting(seconds: float | None) -> str:
    return "" if seconds is None else f" for {time_text(seconds)}"


# digits are bounded, here and below: int() of thousands of them raises an error of its own
_NODE = r"(\d{1,6}|ps)"
_NUMBER = r"\d{1,9}"
_DELAY = re.compile(rf"\+{TIME}(?:~{TIME})?")
_SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,9})?)%")
_STEP = re.compile(rf"e({_NUMBER})(?:\.b({_NUMBER}))?")
_ATTEMPT = re.compile(rf"a({_NUMBER}|\*)")
_LINK = re.compile(rf"{_NODE}([>-]){_NODE}")


def parse_fault(clause: str) -> Fault:
    """Read one clause.

    Raises: ValueError naming the clause, the expectation, and the text that came.
    """
    return _Clause(clause).fault()


class _Clause:
    """Clause while it is read, word by word."""

    def __init__(self, text: str) -> None:
        self._text = text.strip()
        self._words = self._text.split()

    def fault(self) -> Fault:
        if not self._words:
            raise self._error("a fault such as 'kill 1@e1.b3'", "nothing")
        first = self._words.pop(0)
        if first in PROCESS_KINDS:
            return self._process_fault(first)
        fields: dict[str, Any] = {}
        if first.startswith("+"):
            match = self._match(_DELAY, first, "a delay such as '+500ms' or '+500ms~100ms'")
            fields = {"delay": seconds_of(match[1], match[2]), "jitter": seconds_of(match[3], match[4]) if match[3] else 0.0}
            first = "delay"
        # 'delay' is a kind, but no word of the grammar: it is written +500ms
        elif first not in LINK_KINDS or first == "delay":
            kinds = sorted({*PROCESS_KINDS, *LINK_KINDS} - {"delay"})
            glued = re.split("[^a-z]", first)[0]
            if glued in kinds:
                place = "1@e1.b3" if glued in PROCESS_KINDS else "0-1@e2"
                raise self._error(f"a blank behind {glued}, as in '{glued} {place}'", repr(first))
            # the sentence goes on behind it
            near = did_you_mean(first, kinds).rstrip("?")
            raise self._error(
                f"one of {', '.join(kinds)}, or a delay such as '+500ms', at its begin, as in 'kill 1@e1.b3'",
                f"{first!r}{near}",
            )
        return self._link_fault(first, fields)

    def _process_fault(self, kind: str) -> ProcessFault:
        target, step, attempt = self._target()
        node = self._node(self._match(re.compile(_NODE), target, "a node (a number, or ps) before '@'")[1])
        if step is None:
            raise self._error(f"a step such as '@e1.b3' behind the node, for {kind} happens to a process", "none")
        seconds = self._lasting() if kind in ("stop", "hang") else None
        code = None
        if kind == "exit" and self._words[:1] == ["code"]:
            code = int(self._option(re.compile(_NUMBER), "an exit code such as 'code 3'")[0])
            # the system keeps the lowest eight bits of an exit code
            if code > 255:
                raise self._error("an exit code from 0 to 255", str(code))
        self._end()
        return ProcessFault(kind, node, step, attempt, seconds, code)

    def _link_fault(self, kind: str, fields: dict[str, Any]) -> LinkFault:
        target, step, attempt = self._target()
        match = self._match(_LINK, target, "a link such as '0>1' or '0-1'")
        sender, receiver = self._node(match[1]), self._node(match[3])
        if sender == receiver:
            raise self._error("a link between two nodes", repr(target))
        if kind == "throttle":
            rate = self._argument(re.compile(RATE), "a rate such as '1mbit'")
            fields["rate"] = rate_of(rate[1], rate[2])
            # a link that brings nothing has a fault of its own: `swallow`
            if not fields["rate"]:
                raise self._error("a rate above 0", repr(rate[0]))
        if kind == "lose":
            share = self._argument(_SHARE, "a share such as '10%'")
            fields["share"] = float(Decimal(share[1]) / 100)
            if not 0 < fields["share"] <= 1:
                raise self._error("a share above 0 % and up to 100 %", repr(share[0]))
        seconds = self._lasting()
        self._end()
        return LinkFault(kind, sender, receiver, match[2] == "-", step, attempt, seconds, **fields)

    def _target(self) -> tuple[str, Step | None, int | None]:
        """Node or link, step, and attempt."""
        if not self._words:
            raise self._error("a node or link behind the kind of fault", "nothing")
        target, *places = self._words.pop(0).split("@")
        step: Step | None = None
        attempt: int | None = FIRST
        # steps begin with e, attempts with a: either may be absent
        if places and not places[0].startswith("a"):
            match = self._match(_STEP, places.pop(0), "a step such as '@e1.b3'")
            epoch, batch = int(match[1]), int(match[2] or 0)
            if not epoch:
                raise self._error("epochs counted from 1", repr(match[0]))
            step = Step(epoch - 1, batch - 1 if batch else None)
        if places:
            number = self._match(_ATTEMPT, places.pop(0), "an attempt such as '@a1' or '@a*'")[1]
            if number == "0":
                raise self._error("attempts counted from 1", "'a0'")
            attempt = None if number == "*" else int(number) - 1
        if places:
            raise self._error("at most a step and an attempt behind the target", repr("@" + "@".join(places)))
        return target, step, attempt

    def _lasting(self) -> float | None:
        if self._words[:1] != ["for"]:
            return None
        match = self._option(re.compile(TIME), "a time such as 'for 4s'")
        return seconds_of(match[1], match[2])

    def _option(self, pattern: re.Pattern[str], expected: str) -> re.Match[str]:
        """Read the word behind `for` or `code`."""
        self._words.pop(0)
        return self._argument(pattern, expected)

    def _argument(self, pattern: re.Pattern[str], expected: str) -> re.Match[str]:
        if not self._words:
            raise self._error(expected, "nothing")
        return self._match(pattern, self._words.pop(0), expected)

    def _end(self) -> None:
        if self._words:
            raise self._error("nothing more behind it", repr(" ".join(self._words)))

    def _match(self, pattern: re.Pattern[str], text: str, expected: str) -> re.Match[str]:
        match = pattern.fullmatch(text)
        if match is None:
            raise self._error(expected, repr(text))
        return match

    def _node(self, text: str) -> int:
        return PARAMETER_SERVER if text == "ps" else int(text)

    def _error(self, expected: str, got: str) -> ValueError:
        return ValueError(f"The fault clause {self._text!r} must have {expected}, got {got}.")
