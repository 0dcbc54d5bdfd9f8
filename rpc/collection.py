"""Bringing the files of a job home from several nodes at once; what goes wrong with one node does not touch the others."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from network.clock import Clock
from network.errors import ProtocolError

from .download import Download
from .files import PAUSE_SECONDS, ROOM_SECONDS, is_full
from .logs import clean
from .messages import FetchEnd, FileBegin, FileChunk, FileEnd, Operation
from .run_folder import RUNS, RunFolder, shown

STALL_SECONDS = 60.0
"""A node that sends nothing of its files for so long is given up."""

FILE_OPERATIONS = (FileBegin, FileChunk, FileEnd, FetchEnd)


class Collection:
    """Downloads by node, into the folder of the run that `run_of` gives for what an agent tells of the job.

    They wait in `directory` until they are complete; it is made where it does not exist. Raises: OSError when that fails.
    `ask` requests the files of a node; while the disk is full they are requested again, for up to `ROOM_SECONDS`.

    Attributes: `files`, the saved paths of each node; `missing`, the nodes whose files will not come, and why;
    `problems`, what a node says of files that it could not send.
    """

    def __init__(
        self,
        directory: Path,
        run_of: Callable[[FetchEnd], RunFolder],
        ask: Callable[[int], None],
        logger: logging.Logger,
        clock: Clock,
    ) -> None:
        self.files: dict[int, list[Path]] = {}
        self.missing: dict[int, str] = {}
        self.problems: dict[int, str] = {}
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._run_of, self._ask = directory, run_of, ask
        self._logger, self._clock = logger, clock
        self._downloads: dict[int, Download] = {}
        self._heard: dict[int, float] = {}
        self._full_since: dict[int, float] = {}
        self._spoiled: set[int] = set()  # what is on its way is of no use
        self._again: dict[int, float] = {}  # when to request it once more

    def expect(self, node: int) -> None:
        """Request the files of `node`."""
        self._downloads[node] = Download(self._directory / RUNS, node, lambda end: self._run_of(end).path)
        self._heard[node] = self._clock.monotonic()
        self._ask(node)

    @property
    def open(self) -> list[int]:
        """The nodes whose files are still on their way."""
        return list(self._downloads)

    @property
    def deadline(self) -> float | None:
        """When `check` must be called (monotonic), or None."""
        silent = [heard + STALL_SECONDS for heard in self._heard.values()]
        return min([*silent, *self._again.values()], default=None)

    def take(self, node: int, operation: Operation) -> bool:
        """Take in the next operation of `node`; True when its files are complete.

        Raises: ProtocolError for a peer that breaks the rules; its download is then given up.
        """
        download = self._downloads.get(node)
        if download is None:
            return False
        self._heard[node] = self._clock.monotonic()
        if node in self._spoiled:
            self._end_spoiled(node, operation)
            return False
        try:
            download.take(operation)
            if isinstance(operation, FetchEnd) and download.files:
                self._run_of(operation).has(node)
        except ProtocolError as error:
            self.give_up(node, str(error))
            raise
        except OSError as error:
            self._refuse(node, operation, error)
            return False
        if not download.done:
            return False
        if download.problem:
            self.problems[node] = clean(download.problem)
            self._logger.warning("Node(%s): %s", node, self.problems[node])
        if download.state in ("starting", "running"):
            self._logger.info("Node(%s): the job is still running, so only its logs are here yet.", node)
        self.files[node] = download.files
        self._forget(node)
        return True

    def _refuse(self, node: int, operation: Operation, error: OSError) -> None:
        """The disk does not take what has come: a full one may have room in a moment."""
        now = self._clock.monotonic()
        if not is_full(error) or now >= self._full_since.setdefault(node, now) + ROOM_SECONDS:
            self.give_up(node, f"its files cannot be saved: {error.strerror}")
            return
        if self._full_since[node] == now:
            words = "Node(%s): its files cannot be saved: %s. Trying again for up to %g s."
            self._logger.warning(words, node, error.strerror, ROOM_SECONDS)
        self._spoiled.add(node)
        self._end_spoiled(node, operation)

    def _end_spoiled(self, node: int, operation: Operation) -> None:
        if isinstance(operation, FetchEnd):
            self._spoiled.discard(node)
            self._again[node] = self._clock.monotonic() + PAUSE_SECONDS

    def give_up(self, node: int, reason: str) -> None:
        """The files of `node` will not come, if they have not come already."""
        if node in self._downloads:
            self._downloads[node].abandon()
            self.missing[node] = clean(reason)
            self._logger.warning("Node(%s): its files have not come: %s", node, self.missing[node])
            self._forget(node)

    def _forget(self, node: int) -> None:
        del self._downloads[node], self._heard[node]
        self._spoiled.discard(node)
        self._again.pop(node, None)

    def check(self) -> None:
        """Give up the nodes that have sent nothing for a minute, request again what the disk had no room for."""
        now = self._clock.monotonic()
        for node in [node for node, due in self._again.items() if now >= due]:
            del self._again[node]
            self.expect(node)
        for node in [node for node, heard in self._heard.items() if now >= heard + STALL_SECONDS]:
            self.give_up(node, f"it has sent nothing for {STALL_SECONDS:g} s")

    def close(self) -> None:
        """Give up what is still on its way."""
        for node in self.open:
            self.give_up(node, "the program does not wait for them")

    def report(self, node: int) -> None:
        """Log which files of `node` were saved."""
        files = self.files.get(node, [])
        if files:
            lines = "".join(f"\n\t\t--> {shown(path)}" for path in files)
            self._logger.info("Save file for %s.\n\tList:%s", node, lines)
