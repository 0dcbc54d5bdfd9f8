"""Nodes of a job: from worker.json, from a launcher, as local processes, or inside this process."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from network.nodes import Address, NodeAssignment
from nn.extension import check_like, checked_call
from rpc.launch import Launcher, LocalAgents, LocalLauncher, Offer, launcher_of, local_agents
from rpc.submit import telling, uninterrupted
from rpc.support.files import parsed, read_text
from rpc.support.forks import OwnProcess
from rpc.support.logs import SUBMIT_LOGGER, attach_console, get_logger
from rpc.support.processors import usable_cores

from .engine.channel import Parameter_Server
from .options.checks import positive
from .record.machine import CORES_HERE, SIMULATED, WORKERS_HERE, WORKERS_IN_TURN
from .record.spared import spared


@checked_call
def parse_worker(
    worker_cnt: int, ps: bool = False, filename: str | Path = "worker.json", key_file: str | Path | None = None
) -> NodeAssignment:
    """Return the first `worker_cnt` workers of a node file, and with `ps` its parameter server.

    Args:
        worker_cnt: number of workers, at least 1.
        ps: take the parameter server of the file, too.
        filename: path of the file. It holds `{"PS": address, "Worker": [address, ...]}`, an address being `host` or
            `host:port`.
        key_file: the cluster key of these workers; default as in `network.Request`.

    Raises: ValueError naming the file, the expectation and its content; FileNotFoundError; TypeError for a `ps` that is no
    bool.
    """
    positive("worker_cnt", worker_cnt)
    check_ps(ps, f"; write parse_worker({worker_cnt}, filename={str(ps)!r})" if isinstance(ps, (str, Path)) else "")
    if not isinstance(filename, (str, os.PathLike)):
        raise TypeError(f"parse_worker() 'filename' must be the path of a node file, got {filename!r:.80}")
    path = Path(filename)
    content = _read(path)
    workers = content["Worker"]
    if len(workers) < worker_cnt:
        listed = f"{len(workers)} worker{'s' * (len(workers) != 1)}"
        raise ValueError(f"The node file {path} lists {listed}, but {worker_cnt} were asked for.")
    nodes = NodeAssignment(key_file)
    try:
        if ps:
            if not isinstance(content.get("PS"), str):
                raise ValueError("it names no parameter server ('PS')")
            nodes.add(Parameter_Server, content["PS"])
        for node_id, address in enumerate(workers[:worker_cnt]):
            nodes.add(node_id, Address.parse(address))
    except ValueError as error:
        raise ValueError(f"The node file {path} cannot be used: {error}.".replace("..", ".")) from error
    return nodes


def workers_in(filename: str | Path = "worker.json") -> tuple[int, bool]:
    """Count the workers that a node file lists, and tell whether it names a parameter server.

    Raises: as `parse_worker`.
    """
    content = _read(Path(filename))
    return len(content["Worker"]), isinstance(content.get("PS"), str)


def _read(path: Path) -> dict[str, Any]:
    try:
        content: Any = parsed(json.loads, read_text(path))
    except FileNotFoundError:
        raise FileNotFoundError(
            f'The node file {path} does not exist; write {{"Worker": ["127.0.0.1"]}} into it, or name another file. '
            "Workers that are started for the job need none: local_workers(2), --local 2."
        ) from None
    except OSError as error:
        raise ValueError(f"The node file {path} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        if isinstance(error, json.JSONDecodeError) and not error.doc.strip():
            raise ValueError(f'The node file {path} is empty; write {{"Worker": ["127.0.0.1"]}} into it.') from None
        raise ValueError(f"The node file {path} is no valid JSON: {error}.") from error
    if not isinstance(content, dict) or not isinstance(content.get("Worker"), list):
        raise ValueError(
            f'The node file {path} must hold {{"PS": address, "Worker": [address, ...]}}, got {str(content)[:80]}.'
        )
    return content


class LocalNodes(NodeAssignment):
    """Nodes on agents that this process has started; Ctrl-C stops their job, because they end with this process.

    Args:
        key_file: the cluster key of the agents; default as in `network.Request`.
        agents: agents of this machine. With them the files that nodes keep of a job outlive the agents.
        lasting: whether what agents keep in their own work directories outlives this program, although jobs here do not.
    """

    def __init__(self, key_file: str | Path | None = None, agents: LocalAgents | None = None, *, lasting: bool = False) -> None:
        super().__init__(key_file)
        self.agents, self.lasting = agents, lasting
        # reports and checkpoints move when the agents have let go of their folders
        self.ended: list[Callable[[], None]] = []  # called once the agents have ended

    def close(self) -> None:
        """Close the nodes after their agents have ended, and do the work that had to wait for that."""
        self._closed = (
            "These workers have ended, with close() or with the 'with' block that started them: use the nodes before that, or "
            "start others (in a notebook: run that cell again). Workers that stay are started with 'psgd worker'."
        )
        self._do_what_waited()

    def _do_what_waited(self) -> None:
        while self.ended:
            with spared("What had to wait for the end of the workers"):
                # last in, first out, as with contexts
                self.ended.pop()()


class LocalWorkers(LocalNodes):
    """Nodes that `local_workers` starts, for a `with` block, or until `close` or the end of the program.

    Args:
        count: number of workers.
        ps: start an agent for a parameter server, too.
        work_dir: folder of the agents; None for a temporary one.
    """

    def __init__(self, count: int, ps: bool, work_dir: str | Path | None) -> None:
        super().__init__(lasting=work_dir is not None)
        self._ps, self._work_dir = ps, work_dir
        self._running = contextlib.ExitStack()
        self._process = OwnProcess()
        self._start(count)
        # a notebook or a script that just ends leaves no agents behind
        atexit.register(self._close_at_exit)

    def _start(self, count: int) -> None:
        # agents tell their warnings to the submitter, too
        agents = local_agents(count + self._ps, log_level="ERROR", work_dir=self._work_dir)
        self.agents = self._running.enter_context(agents)
        self.key_file, self.lives = self.agents.key_file, self.agents.lives
        # the nodes stay the same object, which the user's program holds
        self._addresses.clear()
        ids = [*range(count), Parameter_Server] if self._ps else range(count)
        for node_id, address in zip(ids, self.agents.addresses, strict=True):
            self.add(node_id, address)

    def scale(self, count: int) -> LocalWorkers:
        """Have `count` workers from the next job on, which are started anew, and return these nodes.

        Do not scale while a job runs here: it would fail. Files that earlier jobs have left stay, as at the end of the workers.

        Raises: ValueError for a wrong count, ClosedByUs after `close`, NetworkError when an agent does not come up,
        RuntimeError in a process that was forked from the one that has started the workers.
        """
        positive("count", count)
        # a fork has the object, and not the agents
        self._process.check("set of local workers")
        self.check_open()
        # the same number keeps its agents, with their caches
        if count != len(self.worker_ids):
            try:
                self._running.close()
                self._do_what_waited()
                self._start(count)
            except BaseException:
                # a set that lacks some of its workers is of no use
                self.close()
                raise
        return self

    def close(self) -> None:
        """End the workers. A second call does nothing, nor does one in a process that was forked from the one that has started
        the workers.
        """
        # a forked child that ends must not end the agents of its parent
        if not self._process.is_here:
            return
        atexit.unregister(self._close_at_exit)
        with telling("The end of local workers", get_logger(SUBMIT_LOGGER)):
            try:
                self._running.close()
            finally:
                with uninterrupted():
                    super().close()

    def _close_at_exit(self) -> None:
        # nothing is left to stop, and Python shows the traceback of an error in an exit handler
        with contextlib.suppress(KeyboardInterrupt):
            self.close()

    def __enter__(self) -> LocalWorkers:
        self.check_open()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


@checked_call
def local_workers(count: int, ps: bool = False, *, work_dir: str | Path | None = None) -> LocalWorkers:
    """Start `count` agents on free ports of this machine (and one for a parameter server) and return their nodes.

    They have a key of their own and end with a `with` block, with `close()`, or with this process; `scale(4)` has four of them
    from then on. Their checkpoints of a job lie in the folder of its run (`runs/<title>-<number>/`), so that `resume="last"`
    goes on with it later.

    Args:
        count: number of workers, at least 1.
        ps: start a parameter server besides.
        work_dir: folder in which the checkpoints lie instead, besides the logs of the agents and their copies of data sets.

    Raises: ValueError for a wrong count or a `work_dir` that cannot be written to, NetworkError when an agent does not come up.

    >>> with parallel_sgd.local_workers(2) as nodes:  # doctest: +SKIP
    ...     job.parallel(nodes, codec=Plain)
    >>> nodes = parallel_sgd.local_workers(2)  # doctest: +SKIP
    >>> job.parallel(nodes), job.parallel(nodes.scale(4))  # doctest: +SKIP
    """
    positive("count", count)
    check_ps(ps)
    return LocalWorkers(count, ps, work_dir)


@checked_call
@contextmanager
def nodes_from(
    launcher: Launcher | Offer | str,
    count: int | None = None,
    ps: bool = False,
    *,
    key_file: str | Path | None = None,
    wait: float | None = None,
) -> Iterator[NodeAssignment]:
    """Start `count` workers (and a parameter server), or wait for those that a scheduler starts, and yield their nodes.

    Args:
        launcher: from `rpc.launch`, the result of `rpc.launch.launcher_of`, or text: `local:4`, `ssh:host1,host2`, `slurm:DIR`,
            `mpi:DIR`, `kubernetes:SERVICE`, `dask:tcp://host:8786`.
        count: number of workers; by default as many as `launcher` says in its text.
        ps: with a parameter server, which takes one agent more. Without `count` it is one of those that the launcher has;
            `local:4` starts it besides.
        key_file: key of agents that another program starts; only for a launcher given as text.
        wait: seconds for the agents to come up, only for a launcher given as text; default as the launcher has it.

    They end with the `with` block, except those of a batch system or of Kubernetes, which serve the next job.

    Raises: ValueError for arguments that do not fit; NetworkError when the agents do not come up.

    >>> with parallel_sgd.nodes_from("slurm:/home/me/rendezvous", 8, key_file="/home/me/key") as nodes:  # doctest: +SKIP
    ...     job.parallel(nodes, codec=Plain)
    """
    check_ps(ps)
    if isinstance(launcher, str):
        launcher = launcher_of(launcher, key_file, wait)
    made, offered = launcher if isinstance(launcher, Offer) else (launcher, None)
    check_like(made, Launcher)
    if count is None and offered is not None:
        # one of the agents serves; a local launcher starts it besides
        count = offered - (ps and not isinstance(made, LocalLauncher))
    if isinstance(made, LocalLauncher) and offered not in (None, count):
        raise ValueError(f"local:{offered} and a count of {count} disagree.")
    if count is None:
        raise ValueError("'count' must say how many workers to use, got None")
    positive("count", count)
    attach_console()  # a launcher may wait for minutes, and logs the reason
    with contextlib.ExitStack() as at_end:
        nodes = NodeAssignment() if made.lasting else LocalNodes()
        if isinstance(nodes, LocalNodes):
            # before the launcher enters, so that it runs after the launcher has ended
            at_end.callback(nodes.close)
        at_end.enter_context(made)
        addresses = made.start(count + bool(ps))
        nodes.key_file = made.key_file
        if isinstance(nodes, LocalNodes) and isinstance(made, LocalLauncher):
            nodes.agents = made.agents
            nodes.lives = made.lives
        for node_id, address in zip([*range(count), Parameter_Server] if ps else range(count), addresses, strict=True):
            nodes.add(node_id, address)
        yield nodes


class InProcessNodes(NodeAssignment):
    """Nodes inside this process: one after the other, deterministic, over memory; the same bits as on agents."""

    shared: bool | None = None
    """Whether the workers share one state; None: past 16 workers, where the codec says that all are in equal states."""

    simulated = ""
    """The platform, in a line, of nodes whose times are simulated; "" of others."""

    learns = True
    """Whether jobs learn, or only take their time."""

    @property
    def clock(self) -> str:
        """Text that tells what the seconds of a job on these nodes depend on, but for this machine."""
        return "measured"

    @property
    def place(self) -> str:
        """Place where they compute, for messages."""
        return "on simulated hosts" if self.simulated else "in this process"

    def resized(self, count: int, ps: bool) -> InProcessNodes:
        """Return such nodes in another number.

        Args:
            count: number of workers, at least 1.
            ps: with a parameter server.
        """
        return in_process(count, ps)

    def close(self) -> None:
        """Do nothing: there are no processes to end. So that these nodes can stand in the place of local workers."""

    def __enter__(self) -> InProcessNodes:
        return self

    def __exit__(self, *_error: object) -> None:
        pass


def are_here(nodes: NodeAssignment) -> bool:
    """Tell if all nodes are processes of this machine beside this one, as their addresses tell."""
    return not isinstance(nodes, InProcessNodes) and all(address.host.startswith(_HERE) for _, address in nodes.items())


_HERE = ("127.", "localhost", "::1")


@checked_call
def in_process(count: int, ps: bool = False) -> InProcessNodes:
    """Return `count` nodes (and a parameter server) that run a job inside this process: for breakpoints, tests, teaching.

    Args:
        count: number of workers, at least 1.
        ps: with a parameter server.
    """
    positive("count", count)
    check_ps(ps)
    nodes = InProcessNodes()
    for node_id in [*range(count), Parameter_Server] if ps else range(count):
        # an address that no connection leads to; ports must be positive, and the server is -2
        nodes.add(node_id, Address("in-process", node_id + 3))
    return nodes


def check_ps(ps: object, instead: str = "") -> None:
    """Refuse a value that Python takes for true, such as a file name."""
    if not isinstance(ps, bool):
        raise TypeError(f"'ps' must be True or False (whether there is a parameter server), got {ps!r}{instead}")


def machine_of(nodes: NodeAssignment, workers: int | None = None) -> dict[str, str]:
    """Return the cores of this machine, and how many workers share them; of simulated nodes their platform.

    Args:
        nodes: nodes of a job.
        workers: how many of them train; None for all.
    """
    count = str(len(nodes.worker_ids) if workers is None else workers)
    found = {CORES_HERE: str(usable_cores())}
    if not isinstance(nodes, InProcessNodes):
        return {**found, WORKERS_HERE: count} if are_here(nodes) else found
    return {**found, SIMULATED: nodes.simulated} if nodes.simulated else {**found, WORKERS_IN_TURN: count}
