"""The serving side of jobs as one object: what `worker.py` runs."""

from __future__ import annotations

from network.nodes import Address

from .agent.agent import Agent
from .agent.settings import AgentSettings


class Cohort:
    """An agent that takes jobs, one after another.

    >>> cohort = Cohort(AgentSettings(port=0))  # doctest: +SKIP
    >>> cohort.slave_forever()  # doctest: +SKIP
    """

    def __init__(self, settings: AgentSettings | None = None) -> None:
        self._agent = Agent(settings or AgentSettings())

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self._agent.address

    def slave_forever(self) -> None:
        """Serve until `stop` is called (from another thread or a signal handler), then end all jobs."""
        try:
            self._agent.serve_forever()
        finally:
            self._agent.close()

    def stop(self) -> None:
        """Make `slave_forever` return."""
        self._agent.stop()
