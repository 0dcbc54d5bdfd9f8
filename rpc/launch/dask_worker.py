"""Code inside a Dask worker: it starts an agent beside itself, reports where that listens, and ends it when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from network.nodes import is_loopback

from .launcher import agent_options, end_agents, start_agent

END_SECONDS = 2.5  # for the agent to leave; Dask kills a worker that takes longer to close
GRACE_SECONDS = 2.0  # of these, for its jobs to save their state
_MOST_WORDS = 500  # characters of the output of an agent that does not come up


class Told(NamedTuple):
    """Report of a Dask worker on its agent; both texts are empty where there is none yet.

    Args:
        address: where the agent listens.
        problem: why it never will.
    """

    address: str
    problem: str


class AgentKeeper:
    """Keeper of one agent on a free port of the host at which its Dask worker is reached; the part of a plugin that knows no
    Dask.

    The agent ends when `teardown` is called, and when the worker's process ends in any way: its standard input closes then.

    Args:
        key_file: place of the key on the worker's machine.
        key: text of that file instead, if it is not empty.
        slots: jobs that the agent may run at once.
    """

    def __init__(self, key_file: str, key: str, slots: int) -> None:
        self._key_file, self._key, self._slots = key_file, key, slots
        self._agent: subprocess.Popen[bytes] | None = None
        self._folder = Path()
        self._problem = ""

    def setup(self, worker: Any) -> None:
        """Start the agent; `told` reports whether it has come up."""
        # in the worker's own folder, which Dask removes with it
        self._folder = Path(worker.local_directory) / f"psgd-{secrets.token_hex(4)}"
        try:
            self._agent = self._start(_host_of(worker.address))
        except OSError as error:
            self._problem = f"its agent cannot be started: {error}"

    async def teardown(self, worker: Any) -> None:
        """End the agent, with its jobs; the worker goes on meanwhile."""
        if self._agent is not None:
            # the worker's loop must go on: it may have to answer the scheduler meanwhile
            await asyncio.to_thread(end_agents, [self._agent], END_SECONDS)

    def told(self) -> Told:
        """Report where the agent listens, or why it does not."""
        # looked at first: the file of an agent that has ended may still be there
        if self._agent is None or self._agent.poll() is not None:
            return Told("", self._problem or f"its agent has ended: {self._last_words()}")
        try:
            return Told((self._folder / "address").read_text("utf-8").strip(), "")
        except FileNotFoundError:
            return Told("", "")

    def _start(self, host: str) -> subprocess.Popen[bytes]:
        self._folder.mkdir(mode=0o700)
        options = agent_options(host, self._slots, "WARNING", "--grace", str(GRACE_SECONDS))
        options += ["--work-dir", str(self._folder / "agent"), "--announce", str(self._folder / "address")]
        # never on the command line, which others of the machine can see
        options += ["--key-stdin"] if self._key else ["--key-file", self._key_file]
        with open(self._folder / "console", "wb") as console:
            agent = start_agent(options, self._folder, console)
        if self._key and agent.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # it has ended already, and `told` says why
                os.write(agent.stdin.fileno(), self._key.encode("ascii") + b"\n\n")
        return agent

    def _last_words(self) -> str:
        try:
            said = (self._folder / "console").read_text("utf-8", "replace").split()
        except OSError:
            said = []
        return " ".join(said)[-_MOST_WORDS:] or "it said nothing"


def agent_of(name: str, dask_worker: Any) -> Told:
    """Return the report of the keeper that is registered as `name`; Dask runs this in the worker and fills in the last
    argument.
    """
    # a worker that came just now may not have the plugin yet
    keeper = dask_worker.plugins.get(name)
    return Told("", "") if keeper is None else keeper.told()


def _host_of(address: str) -> str:
    """Return the host in a Dask address, `tcp://10.0.0.3:40123` or `tls://[fd00::3]:40123`; workers of one process have
    none.
    """
    scheme, _, rest = address.partition("://")
    host = rest.rpartition(":")[0].strip("[]")
    return "127.0.0.1" if scheme == "inproc" or is_loopback(host) else host
