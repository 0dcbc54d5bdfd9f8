"""Agents on a Dask cluster: one beside each Dask worker, for as long as both live. Needs the extra `dask`."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

from network.errors import NetworkError
from network.key_files import create_key_file, load_key_file
from network.nodes import Address

from ..support.logs import get_logger
from ..support.temporary import TemporaryFolder
from .dask_worker import AgentKeeper, agent_of
from .launcher import KeyFile, Launcher, Offer, await_agents, checked_count, checked_limit

START_SECONDS = 60.0  # for the workers that are asked for, and for their agents
ANSWER_SECONDS = 5.0  # for the cluster to answer one question
_LOOK_SECONDS = 0.05
_PORT, _TLS = 8786, "tls://"
_GONE = ("closing", "closing_gracefully", "closed", "failed")
_log = get_logger(__name__)


class DaskLauncher(Launcher):
    """Launcher of an agent on every worker of a Dask cluster, those that come later included; each ends with its worker.

    The agents listen on free ports of the hosts at which their Dask workers are reached. Their key travels as a path, under
    which every worker's machine must have it; only when all connections of the cluster are `tls://` its text travels.

    Args:
        cluster: a `distributed.Client`, or the address of a scheduler (`tcp://host:8786`), called with Dask's own settings.
        key_file: the key of the agents; default one that is made now and removed by `close`, which over `tcp://` only workers
            of this machine find.
        slots: jobs that an agent may run at once.
        limit: seconds for everything to come up in `start`.

    >>> with DaskLauncher("tcp://10.0.0.2:8786", key_file="/home/me/key") as launcher:  # doctest: +SKIP
    ...     print(launcher.start(4), launcher.discover())
    """

    lasting = False

    def __init__(
        self, cluster: Any, *, key_file: str | Path | None = None, slots: int = 1, limit: float = START_SECONDS
    ) -> None:
        self._cluster, self._limit = cluster, checked_limit("DaskLauncher", limit)
        self._slots = checked_count("DaskLauncher", slots, "slots")
        self.key_file: Path | None = None if key_file is None else Path(key_file).absolute()
        # a name of its own: several launchers may use one cluster
        self._name = f"psgd-agent-{secrets.token_hex(4)}"
        self._agents: dict[str, Address] = {}  # by Dask worker; an agent keeps its address for life
        self._problems: dict[str, str] = {}  # by Dask worker: why it has no agent
        self._client: Any = None
        self._held = contextlib.ExitStack()

    def start(self, count: int) -> list[Address]:
        """Start the agents, and return where `count` of them listen: all of them, or an error and none.

        Raises: TimedOut when there are not as many within the limit; NetworkError naming the Dask worker whose agent does not
        come up, or the cluster that cannot be had.
        """
        checked_count("DaskLauncher", count)
        if self._client is not None:
            raise ValueError("This DaskLauncher has been started already.")
        # all or nothing: agents that came up before a failure are ended by `close`
        try:
            self._client = self._held.enter_context(_client_of(self._cluster, self._limit))
            # after the client, whose connections tell whether the key may travel
            key = self._held.enter_context(self._key())
            # before registering: half a registration is taken back, too
            self._held.callback(self._unregister)
            plugin = _plugin(str(self.key_file), key, self._slots)
            self._ask(self._client.register_plugin, plugin, self._name, seconds=self._limit)

            def enough(agents: dict[str, Address]) -> bool:
                # only while there are too few: one faulty worker among many is no reason to fail
                for worker, problem in self._problems.items() if len(agents) < count else ():
                    raise NetworkError(f"The Dask worker {worker} has no agent: {problem}")
                return len(agents) >= count

            def late(agents: dict[str, Address]) -> str:
                return f"{count} agents on the Dask cluster, which has {len(agents)}"

            await_agents(self._look, enough, late, self._limit, _LOOK_SECONDS)
        except BaseException:
            self.close()
            raise
        return list(self._agents.values())[:count]

    def discover(self) -> list[str]:
        """List a line `host:port slots=n` for every agent that there is now: a discovery for `ParallelSGD.parallel`.

        A worker without an agent that comes up is left out, and warned of once.

        Raises: NetworkError when the cluster does not answer.
        """
        return [f"{address} slots={self._slots}" for address in self._look().values()]

    def close(self) -> None:
        """End all agents; idempotent. The Dask cluster goes on."""
        self._held.close()
        self._agents = {}

    def _look(self) -> dict[str, Address]:
        """Find the agents. Only Dask workers without a known agent are asked: they may be busy for seconds."""
        workers = self._workers()
        known = {worker: address for worker, address in self._agents.items() if worker in workers}
        self._problems = {worker: problem for worker, problem in self._problems.items() if worker in workers}
        new = [worker for worker in workers if worker not in known and worker not in self._problems]
        for worker in new:
            told = self._agent_of(worker)
            if isinstance(told, Exception):
                _log.info("The Dask worker %s does not tell of its agent: %s", worker, told)
            elif told.problem:
                self._problems[worker] = told.problem
                _log.warning("The Dask worker %s has no agent: %s", worker, told.problem)
            elif told.address:
                known[worker] = Address.parse(told.address)
        self._agents = known
        return known

    def _agent_of(self, worker: str) -> Any:
        """Ask a Dask worker for its agent; return the answer, or the error. The others do not wait for one that holds the
        GIL.
        """
        try:
            # one call for each worker: a call to all answers when the slowest does
            return self._ask(self._client.run, agent_of, self._name, workers=[worker], on_error="return")[worker]
        except (NetworkError, KeyError) as error:  # not in time, or it has left meanwhile
            return error

    def _workers(self) -> list[str]:
        """List the addresses of the Dask workers that are not about to leave."""
        scheduler = None if self._client is None else self._client.scheduler
        if scheduler is None:
            raise NetworkError("This DaskLauncher has not been started, or its client was closed.")
        told = self._ask(scheduler.identity, n_workers=-1)
        return [address for address, worker in told["workers"].items() if worker.get("status") not in _GONE]

    @contextlib.contextmanager
    def _key(self) -> Iterator[str]:
        """Yield the text of the key if it may travel, else nothing; the file is there meanwhile."""
        folder = None if self.key_file is not None else TemporaryFolder()
        path = self.key_file or Path("" if folder is None else folder.path, "key")
        try:
            if folder is not None:
                create_key_file(path)
            load_key_file(path)  # its faults are told here, not by every worker
            self.key_file = path
            addresses = [self._client.scheduler.address, *self._workers()]
            # over plain TCP the text of a key must not travel
            yield path.read_text("ascii") if all(address.startswith(_TLS) for address in addresses) else ""
        finally:
            if folder is not None:
                folder.close()

    def _unregister(self) -> None:
        if self._client.status != "running":
            return  # the cluster is gone, and with it the agents
        try:
            self._ask(self._client.unregister_worker_plugin, self._name)
        except NetworkError as error:
            _log.info("The agents end with their Dask workers: %s", error)

    def _ask(self, call: Callable[..., Any], *args: Any, seconds: float = ANSWER_SECONDS, **options: Any) -> Any:
        try:
            return self._client.sync(call, *args, callback_timeout=seconds, **options)
        # of distributed, tornado and asyncio: which of them tells depends on where the connection ends
        except (OSError, RuntimeError, ValueError, CancelledError, asyncio.TimeoutError) as error:
            raise NetworkError(f"The Dask cluster does not answer: {type(error).__name__}: {error}") from error


def offer(where: str, key_file: KeyFile, wait: float | None) -> Offer:
    """Offer `dask:tcp://host:8786`; the agents have the key in `key_file`, or one of their own."""
    if not where:
        raise ValueError("The launcher 'dask' needs the address of a scheduler, as in dask:tcp://host:8786, got ''.")
    return Offer(DaskLauncher(where, key_file=key_file, limit=START_SECONDS if wait is None else wait))


def _plugin(key_file: str, key: str, slots: int) -> Any:
    # made here: its base exists only where Dask is installed
    class AgentPlugin(AgentKeeper, _distributed().WorkerPlugin):  # type: ignore[misc]
        """Keeper in the form of a plugin of Dask."""

    return AgentPlugin(key_file, key, slots)


@contextlib.contextmanager
def _client_of(cluster: Any, limit: float) -> Iterator[Any]:
    """Yield a client: the one that was given, or a new one for an address, closed at the end."""
    distributed = _distributed()
    if not isinstance(cluster, str):
        if not isinstance(cluster, distributed.Client) or cluster.asynchronous:
            raise TypeError(f"DaskLauncher 'cluster' must be a blocking distributed.Client or an address, got {cluster!r:.80}.")
        yield cluster
        return
    _await_scheduler(cluster, limit)
    try:
        # not as default: the user's own Dask calls must not go through ours
        client = distributed.Client(cluster, timeout=limit, set_as_default=False)
    except (OSError, ValueError, TypeError, asyncio.TimeoutError) as error:
        raise NetworkError(f"The Dask scheduler {cluster} cannot be had: {error}") from error
    with client:
        yield client


def _await_scheduler(address: str, limit: float) -> None:
    """Wait until the scheduler listens: a client that cannot be made would leave its thread behind.

    Raises: NetworkError.
    """
    deadline = time.monotonic() + limit
    try:
        host, port = Address.parse(address.rpartition("://")[2], _PORT)
        while True:
            try:
                socket.create_connection((host, port), max(0.1, deadline - time.monotonic())).close()
                return
            except ConnectionRefusedError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_LOOK_SECONDS)
    except (OSError, ValueError) as error:
        raise NetworkError(f"The Dask scheduler {address} cannot be had: {error}") from error


def _distributed() -> Any:
    try:
        import distributed  # noqa: PLC0415 - needed here only
    except ImportError as error:
        raise NetworkError("Dask is not installed here: pip install distributed.") from error
    return distributed
