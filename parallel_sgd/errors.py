"""Errors with which a job of ParallelSGD ends badly, and the verdicts of the failure detectors of its nodes on them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from network.errors import BadContent, PeerLost
from rpc import submit
from rpc.messages import Verdict, in_causal_order
from rpc.support.logs import clean, clean_text

NOT_BEGUN: Final = "The job, of which nothing had been trained,"
"""Name of a job of which there is no run yet, where Ctrl-C stops it."""
# by the text of an error: detail comes from other processes as text alone
_REFUSED = re.compile(rf"{BadContent.__module__}\.{BadContent.__qualname__}: Node\((-?\d+)\) sent")
_PEER_LOST = f"{PeerLost.__module__}.{PeerLost.__qualname__}:"


class JobFailed(RuntimeError):
    """Failure of a job that started and did not end well on every node that it needed.

    Args:
        failures: {node id: (state, detail)}, as the agents of the nodes tell it; `detail` is a text, often a traceback.
        files: the saved files of each node.
        job_id: id of the job.
        verdicts: verdicts of the failure detectors.
        reason: why the driver tried nothing more; "" where that is a matter of course.

    Attributes: as the arguments; `failures` and `verdicts` are in causal order, causes before their consequences (a node that
    ended because it lost another one, or was stopped), else in the order in which they became known. `verdicts[0].describe()`
    tells all there is to know.
    """

    def __init__(
        self,
        failures: Mapping[int, tuple[str, str]],
        files: Mapping[int, list[Path]],
        job_id: str,
        verdicts: Sequence[Verdict] = (),
        reason: str = "",
    ) -> None:
        self.verdicts, self.reason = in_causal_order(verdicts), clean_text(reason)
        # of several on one node the first cause counts: a node that is cut off may yet lose one that obeys the order to stop
        ranks = {verdict.node: verdict.rank for verdict in reversed(self.verdicts)}
        self.failures = dict(sorted(failures.items(), key=lambda item: ranks.get(item[0], _rank(*item[1]))))
        self.files = dict(files)
        self.job_id = job_id
        self._ranks = [ranks.get(node, _rank(*failure)) for node, failure in self.failures.items()]
        cause = self.verdicts[0] if self.verdicts and self.verdicts[0].rank <= min(self._ranks, default=2) else None
        # not a bystander of one without a verdict
        first = f", first Node({cause.node}) {cause.place}" if cause is not None else ""
        told = describe_failures(self.failures)
        # nodes that were told to stop tell the reason, too
        more = "" if self.reason in told else self.reason
        # by an order alone: nothing of it has failed
        stopped = bool(failures) and not verdicts and all(state == "stopped" for state, _ in failures.values())
        ended = "was stopped" if stopped else f"failed{first}"
        super().__init__(" ".join(text for text in (f"Job {job_id} {ended}.", told, more) if text))

    @property
    def culprits(self) -> list[int]:
        """Nodes that failed by themselves, not because others had, and nodes that sent packets which others had to refuse."""
        refused = [_REFUSED.match(_last_line(detail)) for _, detail in self.failures.values()]
        # the node that refused a packet is well; the sender is to blame (SEC-12)
        senders = {int(match[1]) for match in refused if match}
        return [node for node, rank in zip(self.failures, self._ranks, strict=True) if rank == 0 or node in senders]


def describe_failures(failures: Mapping[int, tuple[str, str]]) -> str:
    """Write one sentence for each way in which nodes ended: the nodes, their state, and the last line of their detail.

    Args:
        failures: {node id: (state, detail)}.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for node, (state, detail) in failures.items():
        alike.setdefault((state, _last_line(detail)), []).append(f"Node({node})")
    return " ".join(_sentence(nodes, state, last) for (state, last), nodes in alike.items())


def _sentence(nodes: Sequence[str], state: str, last: str) -> str:
    end = "" if last.endswith((".", "!", "?")) else "."
    # the sentence names the node itself
    if last.startswith(f"{nodes[0]} at"):
        return f"{last}{end}"
    *others, final = nodes
    return f"{', '.join(others)} and {final} {state}: {last}{end}" if others else f"{final} {state}: {last}{end}"


def _rank(state: str, detail: str) -> int:
    """Return the rank of a failure without a verdict, as `Verdict.rank` has it of one with a verdict."""
    return 2 if state == "stopped" or _last_line(detail).startswith(_PEER_LOST) else 0


def _last_line(detail: str) -> str:
    lines = detail.strip().splitlines()
    return clean(lines[-1]) if lines else "no reason given"


MOST_REPORT = 60_000  # characters


def places_of(failed: JobFailed) -> Set[submit.Place]:
    """Return the places where a job failed first (see `rpc.submit.places_of`). A bystander does not count, nor does one on a
    node that left no verdict.
    """
    senders = [node for node in failed.culprits if failed.failures[node][0] != "lost"]
    return submit.places_of(failed.verdicts, senders if failed.culprits else None)


def report_of(verdicts: Sequence[Verdict]) -> str:
    """Return the verdicts as JSON, first causes first, as many as fit into 60,000 characters."""
    told: list[Mapping[str, Any]] = []
    for verdict in verdicts:
        # whole verdicts: a text that is cut would be no JSON
        if len(json.dumps([*told, asdict(verdict)])) > MOST_REPORT:
            break
        told.append(asdict(verdict))
    return json.dumps(told)
