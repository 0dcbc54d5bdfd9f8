"""What all launchers have in common: they bring agents into being, or wait for those that somebody else starts."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol, TypeVar

from network.nodes import Address

L = TypeVar("L", bound="Launcher")
C = TypeVar("C", bound="Closing")
KeyFile = str | Path | None


class Launcher(Protocol):
    """Used as `with launcher: addresses = launcher.start(4)`."""

    @property
    def key_file(self) -> KeyFile:
        """Where the key of its agents is on this machine, once `start` has returned; None for the usual places."""

    @property
    def lasting(self) -> bool:
        """Whether its agents live on after `close`, so that a job may outlive its submitter."""

    def start(self, count: int) -> list[Address]:
        """Where `count` agents listen: all of them, or an error and none. To be called once.

        Raises: ValueError for a wrong count; NetworkError naming what does not come up, and why.
        """

    def discover(self) -> list[str]:
        """A line `host:port [slots=n]` for every agent that there is now: a discovery for elastic jobs.

        Raises: NetworkError when that cannot be found out.
        """

    def close(self) -> None:
        """Let go of everything, and end the agents unless they are `lasting`; idempotent."""

    def __enter__(self: L) -> L:
        """The launcher itself."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close."""


class Offer(NamedTuple):
    """A launcher, and how many agents it has when nobody says; None: somebody must."""

    launcher: Launcher
    agents: int | None = None


class Closing:
    """The `with` statement of a launcher: `close` at the end."""

    def __enter__(self: C) -> C:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is held."""


def checked_count(launcher: str, count: object) -> int:
    """The count itself.

    Raises: ValueError unless it is a positive integer.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"{launcher} 'count' must be a positive integer, got {count!r}.")
    return count
