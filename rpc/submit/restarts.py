"""Restarts of executors: the groups of a job, and whether another attempt is worth it; and repeated calls."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from network.clock import SleepingClock, SystemClock
from network.controller import Controller
from network.names import did_you_mean

from ..errors import SubmissionError
from ..executable import Resources
from ..liveness.limits import RETRY_SECONDS
from ..messages import StopNode
from ..shipping import Bundle
from ..support.logs import SUBMIT_LOGGER, get_logger
from ..verdict import Verdict
from .recovery import FAIL, RESTART, Recovery, places_of

POLICIES = (FAIL, RESTART)


class Group(NamedTuple):
    """Group of nodes that get one bundle.

    Args:
        bundle: the bundle.
        nodes: the nodes.
        limit: seconds of its preCommit.
    """

    bundle: Bundle
    nodes: Sequence[int]
    limit: float


class Restarts:
    """Restarts of one job. All its groups start again together, so they have one policy.

    Attributes: `groups` in the order of their submission; `resources`, the answers to their requests; `verdicts` of the
    attempts that others have followed.
    """

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self.resources = Resources(_nothing)
        self.verdicts: list[Verdict] = []
        self._recovery: Recovery | None = None

    def agree(self, on_failure: str, max_restarts: int) -> None:
        """Agree to the policy of another group that is to be submitted.

        Raises: ValueError for a policy or a number that does not exist, or that is not that of the groups before.
        """
        if on_failure not in POLICIES:
            choice = f"{', '.join(map(repr, POLICIES))}, got {on_failure!r}{did_you_mean(on_failure, POLICIES)}"
            raise ValueError(f"'on_failure' of a group must be one of {choice}")
        made, known = Recovery(on_failure, max_restarts), self._recovery
        if known is not None and (known.policy, known.max_restarts) != (made.policy, made.max_restarts):
            raise ValueError(
                "All groups of a job start again together, so they must have the same 'on_failure' and 'max_restarts': "
                f"{known.policy!r} and {known.max_restarts} before, got {made.policy!r} and {made.max_restarts}"
            )
        # the first, which counts the restarts
        self._recovery = known or made

    @property
    def wanted(self) -> bool:
        return self._recovery is not None and self._recovery.policy == RESTART

    @property
    def count(self) -> int:
        return 0 if self._recovery is None else self._recovery.restarts

    def give_up(self, verdicts: Sequence[Verdict]) -> str:
        """Return why no other attempt follows one that has failed with these verdicts, or "" when one does."""
        if self._recovery is None:
            return "no group was submitted"
        return self._recovery.give_up(places_of(verdicts))

    def describe(self) -> str:
        return "" if self._recovery is None else f"restart {self.count} of at most {self._recovery.max_restarts}"


def reconnect(com: Controller, job: str, nodes: Iterable[int]) -> None:
    """Open new connections with agents, that know nothing of the attempt before; one that was out of reach may have it still,
    and ends it.

    Args:
        com: holds the connections.
        job: id of the job.
        nodes: those to call.

    Raises: NetworkError naming the agent that cannot be reached.
    """
    wanted = {node: com.addresses[node] for node in nodes}
    again = com.again(wanted)
    # the next attempt derives its keys from the one of these connections; in place, as the program holds this controller
    com.key = again.key
    com.take_over(again)
    for node in wanted:
        # queued, not sent: it leaves in front of the first order of the new attempt
        com.sessions[node].queue(StopNode(job, node, "It starts again.").to_value())


def _nothing(node: int, request: str) -> None:
    raise SubmissionError(
        f"The job was not started: Node({node}) asks for {request!r}, and nobody answers. Call "
        "resources_dispatch(reply) before join(); reply(node, request) returns what the node gets."
    )


QUIET_SECONDS = 2.0  # in which most calls that are repeated succeed: a slot gets free, an agent is started again
_log = get_logger(SUBMIT_LOGGER)
Result = TypeVar("Result")


class Retry:
    """Repetition of a call that fails with one of `kinds`, but none of `never`, until `seconds` have passed on a clock.

    The reason is logged once, and as a warning once it has lasted so long that somebody would ask why nothing goes on.
    """

    def __init__(
        self,
        seconds: float,
        *kinds: type[Exception],
        never: tuple[type[Exception], ...] = (),
        clock: SleepingClock = SystemClock(),  # noqa: B008 - it has no state
    ) -> None:
        self._seconds, self._kinds, self._never, self._clock = seconds, kinds, never, clock

    def call(self, function: Callable[[], Result]) -> Result:
        """Return the result of `function`; raise its last error."""
        begun = self._clock.monotonic()
        deadline = begun + self._seconds
        said = "", False
        while True:
            try:
                return function()
            # first: it may be a subclass of one that is tried again
            except self._never:
                raise
            except self._kinds as error:
                now = self._clock.monotonic()
                left = deadline - now
                if left <= 0:
                    raise
                # the same words are logged once on each level, however often it is tried
                says = str(error), now - begun >= QUIET_SECONDS
                if says != said:
                    said = says
                    _log.log(logging.WARNING if says[1] else logging.INFO, "%s Trying again for up to %.0f s.", says[0], left)
                self._clock.sleep(min(RETRY_SECONDS, left))
