"""The right of a driver to go on from one attempt with the next, or to end the job: the word of enough of its nodes."""

from __future__ import annotations

from collections.abc import Collection

from network.errors import NetworkError
from network.nodes import NodeAssignment
from network.request import Request
from rpc import Deposed
from rpc.lease import Candidacy, Decision, Election, Office
from rpc.logs import SUBMIT_LOGGER, clean, get_logger

_log = get_logger(SUBMIT_LOGGER)


class NoMajority(NetworkError):
    """Too many nodes are silent, so somebody else may be going on with the job."""


class Quorum:
    """Of the nodes of one attempt at `job`, for its `driver`; `since` is the term and the number of that attempt.

    `lost` are the nodes that the driver has lost, `known_dead` those of them whose agents it saw end.
    """

    def __init__(
        self,
        request: Request,
        nodes: NodeAssignment,
        job: str,
        driver: str,
        sha256: str,
        office: Office,
        since: tuple[int, int],
        term: int,
        lost: Collection[int],
        known_dead: Collection[int],
    ) -> None:
        self._nodes, self._lost = set(nodes), set(lost)
        self._election = Election(job, driver, sha256, set(nodes), office, term=term, since=since, known_dead=known_dead)
        self._candidacy = Candidacy(request, nodes, self._election, job, _log)

    @property
    def term(self) -> int:
        return self._election.term

    @property
    def reasons(self) -> str:
        """Who keeps us from going on."""
        return self._candidacy.reasons

    def ask(self, needed: Collection[int] = ()) -> Decision:
        """Who is lost, and is not needed, is asked only where the others are not enough, for a silent host takes its time."""
        decision = self._candidacy.ask(self._nodes - self._lost.difference(needed))
        return self._candidacy.ask() if decision is Decision.PAUSE else decision

    def require(self) -> None:
        """See that the job may go on from here, or be ended.

        Raises: NoMajority, Deposed when somebody else drives the job, or it is over.
        """
        self._check(self.ask())

    def agree(self, attempt: int, state: str, staying: Collection[int]) -> None:
        """See that this attempt may begin, with the nodes `staying`; those that are left out know of it then, too.

        Raises: as `require`.
        """
        self._check(self.ask(staying))
        self._check(self._candidacy.propose(attempt, state))

    def _check(self, decision: Decision) -> None:
        if decision is Decision.PAUSE:
            raise NoMajority(self.reasons or "Too few nodes of the last attempt agree.")
        if decision is not Decision.DRIVE:
            raise Deposed(f"The job is not driven from here any more: {clean(self.reasons or decision.value).rstrip('.')}.")

    def tell(self, outcome: str, detail: str, told: Collection[int] = ()) -> None:
        """Tell those that have granted us the job, but for those that were told, how it is over for them."""
        self._candidacy.leave(self._election.granted.keys() - set(told), outcome, detail)

    def leave(self, nodes: Collection[int], detail: str) -> None:
        """Tell those of `nodes` that have granted us the job that it goes on without them."""
        self._candidacy.leave(nodes, "left", detail)

    def close(self) -> None:
        """Let go of what was granted on these connections; others may stand."""
        self._candidacy.close()
