"""Times of a job on simulated nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

TIME_ONLY: Final = "time only, nothing is learned"
"""End of the line on the platform of a job that takes times alone."""
FEWER_BLOCKS: Final = "different blocks in a batch, the other workers send the gradients of these"
"""End of the line on the platform of a job that computes some blocks of a batch alone."""


def is_time_only(platform: str) -> bool:
    """Tell if nothing was learned on a platform, so that figures of its runs say nothing.

    Args:
        platform: the line on it, as the record of a run has it; "" for nodes that are not simulated.
    """
    return platform.endswith(TIME_ONLY)


def cut_short(platform: str) -> str:
    """Return the part of the computation that a simulation left out, in words; "" for one with all, and the bits of any nodes.

    Args:
        platform: the line on the platform, as the record of a run has it.

    >>> cut_short("star of 8 hosts; 1 Gbit/s and 50 us; time only, nothing is learned")
    'time only, nothing is learned'
    """
    last = platform.rpartition("; ")[2]
    return last if is_time_only(last) or last.endswith(FEWER_BLOCKS) else ""


class Failure(NamedTuple):
    """Failure of a node of a job on simulated nodes, in virtual seconds.

    Args:
        node: the node that failed first.
        what: the verdict on it, such as "crashed".
        at: when it failed.
        known: when the driver knew it.
        resumed: when the next attempt began to train; None where none did.
    """

    node: int
    what: str
    at: float
    known: float
    resumed: float | None = None


@dataclass(frozen=True)
class Simulated:
    """Times of a job on simulated nodes. They are simulated, not measured.

    Args:
        platform: the platform, in a line.
        seconds: virtual seconds of the job, evaluations included.
        events: number of events.
        real_seconds: seconds that the simulation took here, computing included.
        compute: seconds of a block step, where they were measured here: give it as `compute=` to have the same times again.
        codec_time: times of the codecs by the names of their classes, where they are not 0; it can be given as `codec_time=`.
        links: bytes that each link has carried, and the seconds that they take at its full bandwidth.
        digest: SHA-256 of all arrivals, in hexadecimal digits: equal for equal jobs, on any machine.
        failures: those after which the job went on.
        outside: properties of the job beyond the platform's calibration, a sentence each; none where nothing was calibrated.
        arrivals: order of arrival, where it was kept (`simulation.order.Arrivals`): give it as `arrivals=` to have it again.
    """

    platform: str
    seconds: float
    events: int
    real_seconds: float
    compute: float | None
    codec_time: Mapping[str, Mapping[str, float]] = field(repr=False)
    links: Mapping[str, tuple[float, float]] = field(repr=False)
    digest: str = field(repr=False)
    failures: Sequence[Failure] = field(default=(), repr=False)
    arrivals: object = field(default=None, repr=False)
    outside: Sequence[str] = field(default=(), repr=False)

    def __str__(self) -> str:
        rate = self.events / self.real_seconds if self.real_seconds else 0.0
        return (
            f"simulated, not measured: {self.seconds:.6g} s on {self.platform} ({self.events:,} events in "
            f"{self.real_seconds:.3g} s here, {rate:,.0f} a second)"
            f"{'' if self.codec_time else ', without the time of codecs'}"
            f"{'; outside of what was calibrated: ' + '; '.join(self.outside) if self.outside else ''}"
        )
