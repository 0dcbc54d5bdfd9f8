"""Places of checkpoints.

<jobs>/<job>.<node>/checkpoints/             of a job, on the node's agent; beside it `out/` with the tables
<run>/agent-<k>/<job>.<node>/checkpoints/    of a job on local workers until it has ended well; beside it `out/`, too
<run>/Node-<i>-Retrieve/checkpoints/         of one that has, and of a job within one process; beside it the tables
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rpc.support.files import parsed, read_below

from ..engine.progress import Position
from .choose import CheckpointOffer
from .snapshot import CheckpointError, Snapshot
from .store import Store, file_name, position_of, read_checkpoint

if TYPE_CHECKING:  # a worker, which needs the rest, has nothing to do with runs
    from rpc.submit import Run

FOLDER: Final = "checkpoints"
WORK: Final = "work"
"""Key, in the record of a run, of the folders in which the nodes of local workers have theirs."""
_RECORD: Final = "job.json"
"""File of an agent in the folder of a node."""
_LOCAL: Final = re.compile(r"agent-\d+")
_NODE = re.compile(r"(?:ps(\d+)|(\d+))")
_RETRIEVED = re.compile(r"Node-(-?\d+)-Retrieve")


class HeldCheckpoints:
    """All valid checkpoints in some stores, and single ones in memory, by owner and position; the first one of each counts."""

    def __init__(self, stores: Iterable[Store] = (), snapshots: Iterable[Snapshot] = ()) -> None:
        self._places: dict[tuple[int, Position], Store | Snapshot] = {}
        self._folders: dict[int, Path] = {}
        self.offers: list[CheckpointOffer] = []
        for snapshot in snapshots:
            self._add(snapshot, snapshot)
        # a folder of another name is no node's, but its checkpoints count all the same
        for store in stores:
            folder = store.folder.parent
            node = _node_of(folder)
            if node is not None:
                self._folders.setdefault(node, folder)
            for snapshot in store.snapshots():
                self._add(snapshot, store)

    def _add(self, snapshot: Snapshot, place: Store | Snapshot) -> None:
        key = (snapshot.header.node, snapshot.header.position)
        # the first of each counts: stores are given in the order in which they are to be believed
        if key not in self._places:
            self._places[key] = place
            self.offers.append(CheckpointOffer.of(snapshot))

    def load(self, owner: int, position: Position) -> Snapshot:
        """Return the snapshot of an offer, by its owner and position.

        Raises: CheckpointError when it has changed meanwhile.
        """
        place = self._places[owner, position]
        return place if isinstance(place, Snapshot) else place.load(position)

    def file(self, owner: int, position: Position) -> Path | None:
        """Return the file of an offer, by its owner and position; None: it is in memory."""
        place = self._places[owner, position]
        return None if isinstance(place, Snapshot) else place.folder / file_name(position)

    def tables(self, node: int) -> Path | None:
        """Return the folder with the tables that `node` has left, with or without a checkpoint; None: it is not here."""
        folder = self._folders.get(node)
        if folder is None:
            return None
        return _tables_in(folder)

    def others(self, nodes: Collection[int], since: int) -> list[Path]:
        """Return the folders with the tables of workers that are none of these `nodes`.

        Args:
            nodes: those that continue their own tables.
            since: attempt of the checkpoint from which training goes on; rows of attempts before it that count were carried on
                by that one.
        """
        return left_behind((self._folders[node] for node in sorted(self._folders.keys() - {*nodes})), since)


def left_behind(folders: Iterable[Path], since: int) -> list[Path]:
    """Return where the tables of workers are that took part in an attempt from `since` on, of these folders of nodes."""
    workers = (folder for folder in folders if (_node_of(folder) or 0) >= 0)
    return [_tables_in(folder) for folder in workers if (number := attempt_of(folder)) is None or number >= since]


def attempt_of(folder: Path) -> int | None:
    """Return the attempt for which an agent has started the node of a folder last; None where that is not told."""
    try:
        attempt = parsed(json.loads, read_below(folder, [_RECORD])).get("attempt")
    except (OSError, ValueError, AttributeError):
        return None
    return attempt if isinstance(attempt, int) else None


def neighbours(jobs: Path) -> list[Path]:
    """Return the folders of all local workers of a run, of which `jobs` is one; none where it is no such folder."""
    return sorted(jobs.parent.glob("agent-*")) if _LOCAL.fullmatch(jobs.name) else []


def _tables_in(folder: Path) -> Path:
    return folder / "out" if (folder / "out").is_dir() else folder


def _node_of(folder: Path) -> int | None:
    match = _RETRIEVED.fullmatch(folder.name)
    if match:
        return int(match[1])
    match = _NODE.fullmatch(folder.name.rpartition(".")[2])
    if not match:
        return None
    return -int(match[1]) if match[1] else int(match[2])


def stores_of(jobs: Path, job: str) -> list[Store]:
    """Return the stores of all nodes of a job below the folder of all jobs of an agent."""
    found = []
    for folder in sorted(jobs.glob(f"{job}.*")):
        if _NODE.fullmatch(folder.name[len(job) + 1 :]):
            found.append(Store(folder / FOLDER, job))
    return found


def stores_below(directory: Path, job: str | None = None) -> list[Store]:
    """Return the stores of a job within one process that left its files in `directory`: of `job`, else of the last one."""
    folders = sorted(
        f for f in directory.glob("Node-*-Retrieve") if _RETRIEVED.fullmatch(f.name) and f.is_dir() and not f.is_symlink()
    )
    # the newest checkpoint of the first folder tells the job: an older run may have left others in the same place
    for folder in folders:
        newest = None if job is not None else Store(folder / FOLDER).newest()
        job = newest.header.job if newest is not None else job
    return [] if job is None else [Store(folder / FOLDER, job) for folder in folders]


def stores_of_run(run: Run) -> list[Store]:
    """Return a run's stores on this machine: in its folder, or in the work directories of its local workers."""
    found = [store for work in works_of(run) for store in stores_of(work, run.job)]
    return [*found, *stores_below(run.path, run.job)]


def works_of(run: Run) -> list[Path]:
    """Return the parents of the folders of the nodes of local workers: in the run's own folder, or in their `work_dir`."""
    works = run.about.get(WORK)
    return [run.path / work for work in works if isinstance(work, str)] if isinstance(works, list) else []


def held_at(path: Path) -> HeldCheckpoints:
    """Return the checkpoints that a path stands for.

    The path may be a checkpoint file; a folder of such files; the folder of a node or of a whole job, which has such a folder.

    Raises: CheckpointError naming the path and the kinds of path that are allowed.
    """
    if path.is_file():
        # a file is read as such: no folder is searched beside it
        return HeldCheckpoints(snapshots=[read_checkpoint(path.resolve())])
    if path.name == FOLDER and path.is_dir():
        path = path.resolve().parent
    path = path.resolve()
    stores: list[Store] = []
    if (path / FOLDER).is_dir():
        newest = Store(path / FOLDER).newest()
        if newest is not None:
            job = newest.header.job
            stores = stores_below(path.parent, job) if _RETRIEVED.fullmatch(path.name) else stores_of(path.parent, job)
            # a folder by itself, such as one that was copied away from its run
            stores = stores or [Store(path / FOLDER, job)]
    elif path.is_dir():
        stores = stores_below(path)
        # files that are checkpoints by their names alone: a folder that a person has made
        if not stores and any(position_of(file.name) is not None for file in path.iterdir()):
            stores = [Store(path)]
    held = HeldCheckpoints(stores)
    if not held.offers:
        raise CheckpointError(
            f"'resume' names {path}, where there is no checkpoint: give a checkpoint file, a folder with '{FOLDER}' in it, or "
            f"that of a run, as runs/latest. Those of a job on agents stay there: give its job id"
        )
    return held
