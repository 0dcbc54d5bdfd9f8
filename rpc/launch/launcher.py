"""Launchers, which start agents, or wait for those that another program starts: their interface and common parts.

Their names are in `LAUNCHERS`: `local:4`, `ssh:host1,host2`, `slurm:DIR`, `mpi:DIR`, `kubernetes:SERVICE`, `dask:tcp://...`.

To add one: a module of this package with a class that has the methods of `Launcher` and a function `offer(where, key_file,
wait)`, a row in `LAUNCHERS`, and its text in `test_names` of tests/rpc/launch/test_launchers.py, which fails for a row that it
lacks. docs/launchers.md describes it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import IO, NamedTuple, Protocol, TypeVar

import network
from network.errors import TimedOut
from network.names import did_you_mean
from network.nodes import Address

from ..submit.terminal import Interrupts, interrupted
from ..support.forks import close_in_children

L = TypeVar("L", bound="Launcher")
Found = TypeVar("Found")
KeyFile = str | Path | None
_END_LOOK_SECONDS = 0.005


class Launcher(Protocol):
    """Launcher of agents, used as `with launcher: addresses = launcher.start(4)`.

    Attributes: `key_file`, the key of its agents on this machine, once `start` has returned; None for the usual places.
    `lasting`, whether its agents live on after `close`, so that a job may outlive its submitter.
    """

    lasting: bool
    key_file: KeyFile

    def start(self, count: int) -> list[Address]:
        """Return the addresses on which `count` agents listen: all of them, or an error and none. To be called once.

        Raises: ValueError for a wrong count; NetworkError naming the agent that does not come up, and why.
        """

    def discover(self) -> list[str]:
        """List a line `host:port [slots=n]` for every agent that there is now: a discovery for elastic jobs.

        Raises: NetworkError when that cannot be found out.
        """

    def close(self) -> None:
        """Let go of everything, and end the agents unless they are `lasting`; idempotent."""
        return

    def __enter__(self: L) -> L:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Offer(NamedTuple):
    """Launcher for a text, and how many agents it has.

    Args:
        launcher: starts the agents.
        agents: their number by default; None where the user must give it.
    """

    launcher: Launcher
    agents: int | None = None


def checked_count(launcher: str, count: object, what: str = "count") -> int:
    """Return the count itself; `launcher` and `what` name it in the error.

    Raises: ValueError unless it is a positive integer.
    """
    # True is an int, and no count
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"{launcher} '{what}' must be a positive integer, got {count!r}.")
    return count


def checked_limit(launcher: str, limit: float) -> float:
    """Return the limit itself, in seconds.

    Raises: ValueError unless it is above 0.
    """
    # not `<=`, which lets NaN pass
    if not limit > 0:
        raise ValueError(f"{launcher} 'limit' must be a number of seconds > 0, got {limit!r}.")
    return limit


def await_agents(
    look: Callable[[], Found], enough: Callable[[Found], bool], late: Callable[[Found], str], limit: float, pause: float
) -> Found:
    """Return the findings of `look`, once they are enough; it is called again and again, with a pause in between.

    Args:
        look: finds agents.
        enough: tells if the findings are enough.
        late: describes the findings at the limit.
        limit: seconds.
        pause: seconds between two looks.

    Raises: TimedOut after `limit` seconds, with the description; the errors of `look`.
    """
    deadline = time.monotonic() + limit
    # looked at once before the limit counts, so that what is there needs no waiting
    while not enough(found := look()):
        if time.monotonic() >= deadline:
            raise TimedOut(late(found), limit)
        time.sleep(pause)
    return found


def agent_options(listen: str, slots: int, log_level: str, *more: str) -> list[str]:
    """Return options of `psgd worker` for an agent on a free port of `listen`, which ends with the program that started it."""
    return ["--listen", listen, "--port", "0", "--end-with-parent", "--slots", str(slots), "--log-level", log_level, *more]


def start_agent(options: Sequence[str], folder: Path, stderr: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    """Start an agent beside this process, which works in `folder`; the end of its standard input tells it that we are gone.

    Its jobs have the BLAS kernels that this process has, so that results here and there have equal bits.

    Args:
        options: options of `psgd worker`.
        folder: see above.
        stderr: takes the agent's standard error; default: that of this process.

    Raises: OSError.
    """
    agent = subprocess.Popen(
        # the same interpreter: code of another Python could not travel
        [sys.executable, "-m", "rpc.agent.cli", "--own-kernels", *options],
        cwd=folder,
        env=agent_environment(),
        stdin=subprocess.PIPE,
        # standard output belongs to the program that starts agents
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        start_new_session=True,  # Ctrl-C at the terminal is for the program, which then ends its agents
    )
    # a fork of the user's that holds the pipe would keep the agent alive behind us
    if agent.stdin is not None:
        close_in_children(agent.stdin)
    return agent


def agent_environment() -> dict[str, str]:
    """Return our environment without settings meant for other agents; this project can be imported from its place."""
    # variables for an agent of the user's own, such as its port, would lead all of these to one place
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PSGD_") or name == "PSGD_DATA"}
    root = Path(network.__file__).resolve().parent.parent
    # absolute, as the agent works in another folder
    paths = [os.path.abspath(path) for path in kept.get("PYTHONPATH", "").split(os.pathsep) if path]
    kept["PYTHONPATH"] = os.pathsep.join([str(root), *paths])
    return kept


def end_agents(agents: Sequence[subprocess.Popen[bytes]], seconds: float) -> None:
    """Ask all agents to leave, and kill those that have not after `seconds`; a job process ends with its agent.

    Raises: KeyboardInterrupt after Ctrl-C, which kills them at once; a plain program then ends without a traceback.
    """
    with Interrupts() as interrupts:
        try:
            # all at once, so that they leave at the same time
            for agent in agents:
                agent.terminate()
            deadline = time.monotonic() + seconds
            while not interrupts.noted and any(agent.poll() is None for agent in agents) and time.monotonic() < deadline:
                time.sleep(_END_LOOK_SECONDS)
        finally:  # a program with a handler of its own may raise here
            for agent in agents:
                agent.kill()  # does nothing to one that has ended
                agent.wait()
                if agent.stdin is not None:
                    agent.stdin.close()
    if interrupts.noted:
        raise interrupted()


def _offered(module: str, function: str, where: str, key_file: KeyFile, wait: float | None) -> Offer:
    """Call the function of a launcher's module, which is imported then: most programs use one."""
    offer: Callable[[str, KeyFile, float | None], Offer] = getattr(import_module(f".{module}", __package__), function)
    return offer(where, key_file, wait)


LAUNCHERS: Mapping[str, Callable[[str, KeyFile, float | None], Offer]] = MappingProxyType(
    {
        "local": partial(_offered, "local", "offer"),
        "ssh": partial(_offered, "ssh", "offer"),
        "slurm": partial(_offered, "batch", "on_slurm"),
        "mpi": partial(_offered, "batch", "on_mpi"),
        "kubernetes": partial(_offered, "kubernetes", "offer"),
        "dask": partial(_offered, "dask", "offer"),
    }
)
"""Makers of launchers by name: each takes the text behind it."""


def launcher_of(text: str, key_file: KeyFile = None, wait: float | None = None) -> Offer:
    """Make the launcher for a text.

    Args:
        text: `name[:where]`.
        key_file: the key of agents that another program starts.
        wait: how many seconds they may take to come up.

    Raises: ValueError naming the text and the expectation; NetworkError.
    """
    name, _, where = text.partition(":")
    if name not in LAUNCHERS:
        near = did_you_mean(name, LAUNCHERS).rstrip("?")
        raise ValueError(f"A launcher is written name[:where], with the name {', '.join(LAUNCHERS)}, got {text!r}{near}.")
    return LAUNCHERS[name](where, key_file, wait)
