"""How a job of ParallelSGD can end badly."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from network.errors import PeerLost
from rpc.logs import clean

_PEER_LOST = f"{PeerLost.__module__}.{PeerLost.__qualname__}:"


class JobFailed(RuntimeError):
    """The job started and did not end well on every node that it needed.

    Attributes: `failures`, {node id: (state, detail)}, causes before their consequences (a node that ended because it lost
    another one, or was stopped), else in the order in which they became known; `files`, the saved files of each node; `job_id`.
    """

    def __init__(self, failures: Mapping[int, tuple[str, str]], files: Mapping[int, list[Path]], job_id: str) -> None:
        self.failures = dict(sorted(failures.items(), key=lambda item: _is_consequence(*item[1])))
        self.files = dict(files)
        self.job_id = job_id
        super().__init__(f"Job {job_id} failed. {describe_failures(self.failures)}")


def describe_failures(failures: Mapping[int, tuple[str, str]]) -> str:
    """One sentence for each node: how it ended, and the last line of what it said."""
    return " ".join(f"Node({node}) {state}: {_last_line(detail)}" for node, (state, detail) in failures.items())


def _is_consequence(state: str, detail: str) -> bool:
    return state == "stopped" or _last_line(detail).startswith(_PEER_LOST)


def _last_line(detail: str) -> str:
    lines = detail.strip().splitlines()
    return clean(lines[-1]) if lines else "no reason given"
