"""Fetching the files of a job later, from any machine that holds the key."""

from __future__ import annotations

import logging
from pathlib import Path

from network.controller import Controller
from network.errors import NetworkError

from .download import Download
from .logs import SUBMIT_LOGGER, clean
from .messages import FROM_AGENT, Fetch, parse

FETCH_SECONDS = 60.0


class Reclaimer:
    """Brings logs and reports of a job from the nodes that `com` is connected with.

    >>> with network.Request().request(nodes) as com:  # doctest: +SKIP
    ...     rpc.Reclaimer(com).require_client_log()
    """

    def __init__(self, com: Controller, logger: logging.Logger | None = None) -> None:
        self._com = com
        self._logger = logger or logging.getLogger(SUBMIT_LOGGER)

    def require_client_log(self, job: str | None = None, directory: str | Path = ".") -> dict[int, list[Path]]:
        """Save the files of `job` (None: the newest of each node) into `directory/Node-<i>-Retrieve/`; paths per node.

        Logs can be fetched at any time, reports once the job has ended on that node.
        Raises: NetworkError when no node knows the job; TimedOut after 60 s without progress.
        """
        downloads = {node: Download(Path(directory), node) for node in self._com.available_clients}
        for node in downloads:
            self._com.send_one(node, Fetch(job or "").to_value())
        try:
            while not all(download.done for download in downloads.values()):
                received = self._com.get_one(timeout=FETCH_SECONDS)
                if received is not None and received[0] in downloads:
                    downloads[received[0]].take(parse(received[1], FROM_AGENT), job or "")
        finally:
            for download in downloads.values():
                if not download.done:
                    download.abandon()
        for node, download in sorted(downloads.items()):
            if download.problem:
                self._logger.warning("Node(%s): %s", node, clean(download.problem))
            report_saved(self._logger, node, download.files)
        if not any(download.files for download in downloads.values()):
            raise NetworkError(f"None of the nodes has files of {'job ' + job if job else 'any job'}.")
        return {node: download.files for node, download in sorted(downloads.items())}


def report_saved(logger: logging.Logger, node: int, files: list[Path]) -> None:
    """Log which files of a node were saved."""
    if files:
        lines = "".join(f"\n\t\t--> ./{path}" if not path.is_absolute() else f"\n\t\t--> {path}" for path in files)
        logger.info("Save file for %s.\n\tList:%s", node, lines)
