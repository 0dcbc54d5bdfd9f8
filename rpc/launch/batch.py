"""Agents that a batch system starts (`psgd worker --from slurm --rendezvous DIR`), in the folder where they register."""

from __future__ import annotations

import os
from pathlib import Path

from network.errors import NetworkError
from network.nodes import Address

from ..agent.registration import Registration, shared_folder
from ..elastic.discovery import DiscoveryError
from ..elastic.discovery_sources import FolderDiscovery
from ..support.logs import HEADLINE, SUBMIT_LOGGER, clean, get_logger
from .launcher import KeyFile, Launcher, Offer, await_agents, checked_count, checked_limit

START_SECONDS = 300.0  # a scheduler starts the machines of a job one after the other
_LOOK_SECONDS = 0.1
_NAMED = 5  # registrations that do not answer, in an error

_log = get_logger(SUBMIT_LOGGER)


class BatchLauncher(Launcher):
    """Launcher that waits for agents in a folder; registered ones that do not answer are left out.

    Args:
        folder: where they register.
        key_file: the key that they were started with.
        limit: how many seconds they may take to come.
    """

    lasting = True

    def __init__(self, folder: str | os.PathLike[str], *, key_file: KeyFile = None, limit: float = START_SECONDS) -> None:
        self._limit = checked_limit("BatchLauncher", limit)
        self.key_file = key_file
        self._folder = FolderDiscovery(folder, key_file)

    def start(self, count: int) -> list[Address]:
        """Wait until `count` agents are there; return those of the lowest ranks.

        Raises: TimedOut with how many there are, and which do not answer; NetworkError when the key cannot be used.
        """
        checked_count("batch launcher", count)
        there = len(self._look())
        if there < count:
            _log.info("Waiting for %s workers in %s; %s are there.", count, self._folder.folder, there, extra=HEADLINE)

        def late(living: list[Registration]) -> str:
            return f"{count} workers in {self._folder.folder}; {self._described(len(living))}"

        living = await_agents(self._look, lambda living: len(living) >= count, late, self._limit, _LOOK_SECONDS)
        return [Address.parse(one.address) for one in living[:count]]

    def discover(self) -> list[str]:
        """List the agents that are registered now and answer.

        Raises: NetworkError when the folder cannot be read.
        """
        return [one.line for one in self._look()]

    def _look(self) -> list[Registration]:
        try:
            return self._folder.living()
        except DiscoveryError as error:
            raise NetworkError(str(error)) from error

    def _described(self, living: int) -> str:
        silent = self._folder.silent
        named = "".join(f" {name}: {clean(reason)}" for name, reason in list(silent.items())[:_NAMED])
        return f"{living} are there" + (f", {len(silent)} are registered and left out:{named}" if silent else "")


def on_slurm(where: str, key_file: KeyFile, wait: float | None) -> Offer:
    """Offer `slurm:DIR`; inside a job of Slurm also `slurm`, and as many workers as the job has tasks."""
    tasks = os.environ.get("SLURM_NTASKS", "")
    count = int(tasks) if tasks.isascii() and tasks.isdigit() and int(tasks) > 0 else None
    return Offer(_batch("slurm", where, key_file, wait), count)


def on_mpi(where: str, key_file: KeyFile, wait: float | None) -> Offer:
    return Offer(_batch("mpi", where, key_file, wait))


def _batch(system: str, where: str, key_file: KeyFile, wait: float | None) -> BatchLauncher:
    folder = Path(where) if where else shared_folder(system, os.environ, Path.home())
    if folder is None:
        raise ValueError(f"The launcher {system!r} needs the folder in which the workers register, as in {system}:DIR, got ''.")
    if os.path.isfile(folder):
        raise ValueError(f"The launcher {system!r} needs the folder in which the workers register, got a file, {where!r}.")
    return BatchLauncher(folder, key_file=key_file, limit=START_SECONDS if wait is None else wait)
