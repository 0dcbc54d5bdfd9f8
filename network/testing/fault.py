"""What can be made to fail, written down: one dataclass for a node's process, one for a link, and their words."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from network.nodes import PARAMETER_SERVER

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
    """A place in a training: epoch and batch, both counted from 0; without `batch` the first that comes in that epoch."""

    epoch: int
    batch: int | None = None

    def __str__(self) -> str:
        return f"e{self.epoch + 1}" if self.batch is None else f"e{self.epoch + 1}.b{self.batch + 1}"

    def is_at(self, epoch: int, batch: int) -> bool:
        """Whether this place is meant."""
        return epoch == self.epoch and self.batch in (None, batch)

    def has_come(self, epoch: int, batch: int) -> bool:
        """Whether this place is reached or passed."""
        return (epoch, batch) >= (self.epoch, self.batch or 0)


@dataclass(frozen=True)
class ProcessFault:
    """Something that happens to the process of `node` (-2: the parameter server) when it begins `step`.

    `attempt` None means every one. `seconds` is how long a stop or hang lasts (None: for ever), `code` the exit code.
    """

    kind: str
    node: int
    step: Step
    attempt: int | None = FIRST
    seconds: float | None = None
    code: int | None = None

    def __str__(self) -> str:
        code = "" if self.code is None else f" code {self.code}"
        return f"{self.kind} {node_text(self.node)}@{self.step}{_attempt(self.attempt)}{_lasting(self.seconds)}{code}"


@dataclass(frozen=True)
class LinkFault:
    """Something that happens to what `sender` sends to `receiver`, and with `both` also the other way.

    It begins with `step` (None: at once) and lasts `seconds` (None: to the end). `delay` and `jitter` are seconds, `rate` bytes
    per second, `share` a part of 1.
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

    def __str__(self) -> str:
        link = f"{node_text(self.sender)}{'-' if self.both else '>'}{node_text(self.receiver)}"
        step = f"@{self.step}" if self.step else ""
        what = self.kind
        if self.kind == "delay":
            what = f"+{_time_text(self.delay)}" + (f"~{_time_text(self.jitter)}" if self.jitter else "")
        argument = {"throttle": f" {_rate_text(self.rate)}", "lose": f" {_plain(_exact(self.share) * 100)}%"}.get(self.kind, "")
        return f"{what} {link}{step}{_attempt(self.attempt)}{argument}{_lasting(self.seconds)}"

    def concerns(self, sender: int, receiver: int) -> bool:
        """Whether it is about what `sender` sends to `receiver`."""
        link = (self.sender, self.receiver)
        return (sender, receiver) == link or (self.both and (receiver, sender) == link)


Fault = ProcessFault | LinkFault


def node_text(node: int) -> str:
    """A node as the grammar writes it."""
    return "ps" if node == PARAMETER_SERVER else str(node)


def _attempt(attempt: int | None) -> str:
    return "" if attempt == FIRST else "@a*" if attempt is None else f"@a{attempt + 1}"


def _lasting(seconds: float | None) -> str:
    return "" if seconds is None else f" for {_time_text(seconds)}"


def _time_text(seconds: float) -> str:
    exact = _exact(seconds)
    return f"{_plain(exact)}s" if exact >= 1 else f"{_plain(exact * 1000)}ms"


def _rate_text(rate: float) -> str:
    bits = _exact(rate) * 8
    for unit, size in (("gbit", 10**9), ("mbit", 10**6), ("kbit", 10**3)):
        if bits >= size:
            return f"{_plain(bits / size)}{unit}"
    return f"{_plain(bits)}bit"


def _exact(number: float) -> Decimal:
    """The shortest decimal that is read as the same float, so that what is printed is what was read."""
    return Decimal(repr(number))


def _plain(number: Decimal) -> str:
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
