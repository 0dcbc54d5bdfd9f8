"""How a job stands, as its agents tell it to somebody who watches: from attempt to attempt, until the whole job is over."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from .logs import clean
from .messages import Notice, Operation, Progress, Standing, State, Verdict
from .progress import ProgressDisplay

_UNFINISHED = ("starting", "running")
_OVER = ("done", "failed", "stopped")


class Following:
    """Feed it what the agents of `nodes` say until `is_over`.

    Attributes: `states`, {node: (state, detail)} of the processes, as the sessions number them; `outcome` ("done", "failed",
    "stopped") and `detail` of the job as a whole, once it is over.
    """

    def __init__(self, nodes: Iterable[int], logger: logging.Logger) -> None:
        self._nodes = list(nodes)
        self._logger = logger
        self.states: dict[int, tuple[str, str]] = {}
        self._standings: dict[int, Standing] = {}
        self._attempt: int | None = None
        self._driver = ""
        self._display = ProgressDisplay([], logger)
        self.detail = ""

    def take(self, node: int, news: Operation) -> None:
        """Take in what the agent of a node says."""
        if isinstance(news, State):
            self.states[node] = (news.state, news.detail)
        elif isinstance(news, Standing):
            self._take_standing(node, news)
        elif isinstance(news, Progress):
            self._show(news)
        elif isinstance(news, Verdict) and news.rank == 2:  # what follows from the loss of another node
            self._logger.info("%s", news.headline)
        elif isinstance(news, (Notice, Verdict)):
            self._logger.warning("%s", news.describe())

    def lose(self, node: int, reason: str) -> None:
        """The agent of a node is gone."""
        self.states[node] = ("lost", reason)
        self._standings.pop(node, None)

    def _take_standing(self, node: int, news: Standing) -> None:
        known = self._standings.get(node)
        if known is not None and _age(news) < _age(known):
            return
        self._standings[node] = news
        if news.outcome == "left":
            return
        if self._attempt is not None and news.attempt > self._attempt:
            self._logger.warning("The job has been started again: attempt %s.", news.attempt + 1)
            self._display.close()
            self._display = ProgressDisplay([], self._logger)
        self._attempt = max(news.attempt, self._attempt or 0)
        if news.driver not in ("", "nobody", self._driver):
            if self._driver:
                self._logger.warning("%s drives the job from now on.", clean(news.driver))
            else:
                self._logger.info("%s drives the job.", clean(news.driver))
            self._driver = news.driver

    def _show(self, news: Progress) -> None:
        if news.node in self._display:
            self._display.update(news.node, news.percent, news.note)
        elif news.node >= 0:
            self._display.add(news.node, news.percent, news.note)

    @property
    def outcome(self) -> str:
        """How the whole job has ended; "" for a job that goes on."""
        newest = self._newest
        told = next((told for told in self._standings.values() if told.outcome in _OVER and _age(told) == newest), None)
        if told is not None:
            self.detail = told.detail
            return told.outcome
        if not all(self._is_settled(node) for node in self._nodes):
            return ""
        ends = {state for state, _ in self.states.values()}
        return "done" if ends <= {"done", "unknown"} else "stopped" if "stopped" in ends and "failed" not in ends else "failed"

    def _is_settled(self, node: int) -> bool:
        """Whether nothing more is to be expected of a node: its process has ended, and nobody starts it again."""
        standing = self._standings.get(node)
        driven = standing is not None and standing.driver != "" and standing.outcome == ""
        return self.states.get(node, ("starting", ""))[0] not in _UNFINISHED and not driven

    @property
    def _newest(self) -> tuple[int, int]:
        return max(map(_age, self._standings.values()), default=(0, 0))

    @property
    def outdated(self) -> list[int]:
        """The nodes of attempts from which the job has gone on without them: what they have is not its result."""
        newest = self._newest
        return [node for node, told in self._standings.items() if _age(told) < newest]

    @property
    def is_over(self) -> bool:
        """Whether all has been told: the job is over, and so is every process of which we hear."""
        ended = all(self.states.get(node, ("starting", ""))[0] not in _UNFINISHED for node in self._nodes)
        return self.outcome != "" and ended

    def close(self) -> None:
        """Leave the display as it is."""
        self._display.close()


def _age(standing: Standing) -> tuple[int, int]:
    """Which attempt it is of: a later driver counts on, but may not know how often the one before it has tried."""
    return standing.term, standing.attempt
