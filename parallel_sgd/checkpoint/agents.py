"""Where a node of a job on agents goes on: what all nodes agree on, or what the submitter has sent."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from network.frames import Message
from rpc import Communication

from .places import FOLDER, Holdings, stores_of
from .resumption import Resumption
from .snapshot import CheckpointError, Snapshot
from .store import Store
from .talk import Talk


@dataclass(frozen=True)
class Begin:
    """How a node begins: at the beginning, or with `resumption`; `said` in words, "" for a job that was never interrupted.

    `early` are messages for the exchange that came while the nodes agreed.
    """

    resumption: Resumption | None = None
    said: str = ""
    early: Sequence[tuple[int, Message]] = field(default_factory=tuple)


def own_store(com: Communication) -> Store:
    """The checkpoints of this node, in the folder of its job."""
    return Store(com.output_directory.parent / FOLDER, com.job)


def begin(
    com: Communication,
    workers: Sequence[int],
    server: int | None,
    earlier: Sequence[str],
    given: Mapping[str, Any] | None,
    start_limit: float,
    logger: logging.Logger,
) -> Begin:
    """Find out, together with the other nodes, where this one begins.

    A later attempt goes on from the checkpoints of its job, a job that continues the ended jobs `earlier` from those, else from
    what the submitter has sent, `given`. `server` is the parameter server, if it remembers anything; one that does not has no
    part in this. `start_limit` seconds are given to the others to appear.

    Raises: CheckpointError when `earlier` is to be continued, but no node has a checkpoint of it; PeerLost, TimedOut.
    """
    if com.node_id not in (*workers, server):
        return Begin()
    jobs = [*([com.job] if com.attempt else []), *earlier]
    early: Sequence[tuple[int, Message]] = ()
    if jobs:
        holdings = Holdings([store for job in jobs for store in stores_of(_jobs_folder(com), job)])
        peers = {*workers, *([] if server is None else [server])} - {com.node_id}
        talk = Talk(com, sorted(peers), start_limit)
        found = talk.agree(holdings, workers, server)
        early = talk.early
        if found is not None:
            choice, snapshot = found
            own_store(com).cut(choice.position)
            logger.info("%s", choice.said)
            sent = None if snapshot is None else Resumption(snapshot, choice.whole, holdings.tables(com.node_id))
            return Begin(sent, choice.said, early)
    if given is not None:
        logger.info("%s", given["said"])
        content = given["content"]
        tables = Path(given["tables"]) if given["tables"] else None
        sent = None if content is None else Resumption(Snapshot.read(memoryview(content)), given["whole"], tables)
        return Begin(sent, given["said"], early)
    if earlier and not com.attempt:
        raise CheckpointError(
            f"'resume' names job {earlier[0]}, of which no node of this job has a checkpoint: it has ended before the first "
            f"one, or 'checkpoint_every' was None"
        )
    said = "There is no checkpoint yet: training starts again from epoch 1." if com.attempt else ""
    if said:
        logger.info("%s", said)
    return Begin(None, said, early)


def _jobs_folder(com: Communication) -> Path:
    """Where the agent keeps the folders of all jobs."""
    return com.output_directory.parent.parent
