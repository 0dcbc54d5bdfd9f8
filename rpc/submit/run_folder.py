"""Folder of a run: each has one of its own, so that no run replaces another one's files.

<directory>/runs/<title>-<number>/job.json            its job, and when it began
                                  Node-<i>-Retrieve/  files of its nodes
            runs/.<title>-<number>                    an empty file: the highest number that was given to the title
            runs/latest                               a link to the run that began last
            Node-<i>-Retrieve                         links into the newest run with files of nodes
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ..support.files import parsed, publish, read_below, remove_drafts
from ..support.identity import is_job_id
from ..support.logs import SUBMIT_LOGGER, get_logger

RUNS: Final = "runs"
LATEST: Final = "latest"
RECORD: Final = "job.json"
"""File in the folder of a run with its job, and when it began."""
_NODE = re.compile(r"Node--?[0-9]+-Retrieve")
_OUR_LINK = re.compile(rf"(?:{RUNS}/[^/]+/{_NODE.pattern}|[^/]+-[0-9]+)")
_log = get_logger(SUBMIT_LOGGER)
_looked: set[str] = set()


def node_folder(node: int) -> str:
    return f"Node-{node}-Retrieve"


def run_name(title: str, number: int = 1) -> str:
    return f"{title}-{number}"


@dataclass(frozen=True)
class Run:
    """Run that has begun; `began` in nanoseconds since 1970, later than that of all before it here.

    `about` are facts that its submitter keeps for later.
    """

    path: Path
    job: str
    title: str
    began: int
    about: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Run | None:
        """Read the run in the folder `path`; None where there is none, or it has not begun."""
        try:
            content: Any = parsed(json.loads, read_below(path, [RECORD]))
            run = cls(path, content["job"], content["title"], content["began"], content.get("about", {}))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None
        right = type(run.job) is str and is_job_id(run.job) and type(run.title) is str and type(run.began) is int
        return run if right and isinstance(run.about, dict) else None


def runs_in(directory: Path, known: dict[Path, Run] | None = None) -> list[Run]:
    """List the runs in `directory` that have begun, the newest first. Records read before may be `known`; new ones are
    added.
    """
    known = {} if known is None else known
    try:
        with os.scandir(_root_of(directory)) as entries:
            # links are left out: `latest` would show a run twice
            folders = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    for folder in folders:
        # a run never changes its record, so each is read once
        if folder not in known and (run := Run.read(folder)) is not None:
            known[folder] = run
    return sorted(
        (known[folder] for folder in folders if folder in known), key=lambda run: (run.began, run.path.name), reverse=True
    )


def _root_of(directory: Path) -> Path:
    """Return the folder of the runs in `directory`: `runs/` in it, or itself where it is such a folder, under any name."""
    root = directory / RUNS
    if not os.path.lexists(root):
        with contextlib.suppress(OSError), os.scandir(directory) as entries:
            if any(
                os.path.isfile(os.path.join(entry.path, RECORD)) for entry in entries if entry.is_dir(follow_symlinks=False)
            ):
                return directory
    return root


def unreadable_in(directory: Path) -> dict[str, str]:
    """Return, by name, why the folders in `directory` that this user may not read cannot be read: `runs_in` lists none of
    them.
    """
    found: dict[str, str] = {}
    with contextlib.suppress(OSError), os.scandir(_root_of(directory)) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                try:
                    os.close(os.open(os.path.join(entry.path, RECORD), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
                except PermissionError as error:
                    found[entry.name] = f"{shown(Path(error.filename))} cannot be read: {error.strerror}"
                except OSError:  # no run, or one that has not begun
                    pass
    return dict(sorted(found.items()))


def find_run(directory: Path, job: str) -> Run | None:
    return next((run for run in runs_in(directory) if run.job == job), None)


class RunFolder:
    """Folder in `directory` of the run of `job`; that of an earlier process if it has begun there, else a new one. It is made
    when it is first needed.

    Args:
        directory: see above.
        job: id of the job.
        title: must be able to stand in a file name (`files.is_safe_name`).
        about: further facts for the record, plain data.
    """

    def __init__(self, directory: Path, job: str, title: str, about: Mapping[str, Any] | None = None) -> None:
        self.directory = directory
        self.about = dict(about or {})
        self._job, self._title = job, title
        self._path: Path | None = None
        self._begun = False
        self._leads = False
        self._warned: set[str] = set()
        self._known: dict[Path, Run] = {}  # there may be many, and each of many nodes asks again

    @property
    def path(self) -> Path:
        """Path of the folder, which is made if need be. Raises: OSError."""
        return self._path or self.make()

    @property
    def has_begun(self) -> bool:
        """Whether the run is known: before, nothing stays of it."""
        return self._begun

    def make(self) -> Path:
        """Make the folder, or find that of an earlier process; idempotent. Raises: OSError."""
        if self._path is None:
            # a driver that comes back goes on in the folder of the one before
            known = find_run(self.directory, self._job)
            self._begun = known is not None
            self._path = self._make() if known is None else known.path
        return self._path

    def _make(self) -> Path:
        """Make a new folder: the program that makes it has its number, which no run has had before."""
        root = self.directory / RUNS
        root.mkdir(parents=True, exist_ok=True)
        if (known := str(root.absolute())) not in _looked:
            _looked.add(known)  # once in a process: there may be many runs
            _remove_drafts_in(root)
        mine = _numbered(self._title)
        # marks of deleted runs count, too: a number is never given twice
        taken = [int(match[1]) for name in os.listdir(root) if (match := mine.fullmatch(name))]
        number = max(taken, default=0) + 1
        while True:
            path = root / run_name(self._title, number)
            try:
                # without exist_ok: of two programs at the same moment one gets the number
                path.mkdir()
            except FileExistsError:
                number += 1
            else:
                return path

    def begin(self) -> None:
        """Begin the run: from now on it is known, with the present content of `about`. Idempotent. Raises: OSError."""
        path = self.path
        if self._begun:
            return
        newest = next(iter(runs_in(self.directory, self._known)), None)
        began = max(time.time_ns(), 0 if newest is None else newest.began + 1)  # the clock may have been set back
        record = {"job": self._job, "title": self._title, "began": began, "about": self.about}
        publish(path / RECORD, json.dumps(record), 0o644)  # with this file the run is known to other programs
        self._begun = True
        _keep_number(path, self._title)
        _log.info("The files of this run are in %s.", shown(path))
        self._lead(LATEST)

    def has(self, node: int) -> None:
        """Note that there are files of `node`: the links of all nodes lead into this run, if it is the newest that has any, and
        those of nodes that it does not have go.
        """
        self.begin()
        self._lead(node_folder(node))
        if not self._leads:
            self._leads = True  # whoever comes later for an older run sets none that leads there
            for name in _links_of_nodes(self.directory):
                self._lead(name)

    def close(self) -> None:
        # a run that has not begun leaves nothing behind
        if self._path is not None and not self._begun:
            shutil.rmtree(self._path, ignore_errors=True)
            self._path = None

    def _lead(self, name: str) -> None:
        """Set a link, and again if another run has begun meanwhile: the last program to come finds the newest, without a
        lock.
        """
        root = self.directory / RUNS
        link = root / name if name == LATEST else self.directory / name
        done: str | None = None
        # another run may have begun since it was chosen, so look again
        while (target := _target(runs_in(self.directory, self._known), name)) != done:
            try:
                _set_link(link, target)
            except OSError as error:
                if target and name not in self._warned:
                    self._warned.add(name)
                    _log.warning("%s does not lead to %s: %s.", shown(link), shown(link.parent / target), error.strerror)
                return
            done = target


def _remove_drafts_in(root: Path) -> None:
    """Remove what killed submitters have left of single files in the folders of runs."""
    with contextlib.suppress(OSError), os.scandir(root) as entries:
        for folder in [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]:
            remove_drafts(folder)


def delete_run(run: Run) -> None:
    """Delete the folder of a run, and have the links lead to the newest run that is left, or go.

    Raises: OSError; ValueError for a folder that is not in a directory of runs.
    """
    root = run.path.absolute().parent
    # a wrong argument must not delete another folder of the user's
    if root.name != RUNS or run.path.is_symlink():
        raise ValueError(f"{run.path} is no folder in a directory {RUNS}, so it is not deleted")
    # before it goes, or the next run would get its number
    _keep_number(run.path, run.title)
    try:
        shutil.rmtree(run.path)
    except OSError as error:  # its file name is one within the folder
        raise OSError(error.errno, error.strerror, str(run.path)) from error
    directory = root.parent
    left = runs_in(directory)
    nodes = {*_links_of_nodes(directory), *next(filter(None, (_nodes_in(found.path) for found in left)), [])}
    for link in (root / LATEST, *(directory / name for name in sorted(nodes))):
        with contextlib.suppress(FileExistsError):  # it is none of ours
            _set_link(link, _target(left, link.name))


def _numbered(title: str) -> re.Pattern[str]:
    """Match the name of a folder of a run, or of the mark that keeps the highest number that was given to a title."""
    return re.compile(rf"\.?{re.escape(title)}-([0-9]{{1,15}})")


def _keep_number(path: Path, title: str) -> None:
    """Keep the number of a run as an empty file beside its folder, which stays when the folder goes; marks below it go."""
    number = _numbered(title).fullmatch(path.name)
    if number is None:
        return
    with contextlib.suppress(OSError):  # then the number may be given again, which harms no run
        os.close(os.open(path.with_name(f".{path.name}"), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644))
        for name in os.listdir(path.parent):
            mark = _numbered(title).fullmatch(name)
            if mark is not None and name.startswith(".") and int(mark[1]) < int(number[1]):
                path.with_name(name).unlink(missing_ok=True)


def _nodes_in(folder: Path) -> list[str]:
    """List the names of the folders of nodes in the folder of a run."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return [entry.name for entry in entries if _NODE.fullmatch(entry.name) and entry.is_dir()]
    return []


def _links_of_nodes(directory: Path) -> list[str]:
    """List the names of the links to folders of nodes in `directory`."""
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        return [entry.name for entry in entries if _NODE.fullmatch(entry.name) and entry.is_symlink()]
    return []


def _target(runs: list[Run], name: str) -> str:
    """Return where a link of this name leads, with these runs, the newest first; "" for nowhere."""
    for run in runs:
        if name == LATEST:
            return run.path.name
        if (run.path / name).is_dir():
            return f"{RUNS}/{run.path.name}/{name}"
        # all into the same run: files of two beside each other would be taken for those of one
        if _nodes_in(run.path):
            return ""
    return ""


def _set_link(link: Path, target: str) -> None:
    """Let `link` lead to `target`, or remove it where that is "", in place of an earlier link of a run.

    Raises: OSError, also where something else is in its place, which stays.
    """
    try:
        earlier = os.readlink(link)
    except FileNotFoundError:  # nothing to replace
        earlier = ""
    except OSError as error:
        raise FileExistsError(error.errno, "there is something else in its place, which stays as it is") from error
    if earlier == target:
        return
    if earlier and not _OUR_LINK.fullmatch(earlier):
        raise FileExistsError(0, f"it is a link to {earlier}, which stays as it is")
    if not target:
        link.unlink(missing_ok=True)
        return
    # a rename replaces a link at once, so that readers find the old one or the new one, never none
    draft = link.with_name(f".{link.name}-{secrets.token_hex(4)}")
    os.symlink(target, draft)
    try:
        os.replace(draft, link)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def path_of(name: str) -> str:
    """Return the path that a user means by `name`: it, or where nothing is there the run of this name in `runs/`."""
    inside = os.path.join(RUNS, name)
    return inside if os.path.basename(name) == name and not os.path.lexists(name) and os.path.isdir(inside) else name


def none_in(directory: Path) -> str:
    """Return a sentence on a `directory` in which no job has run.

    Raises: ValueError where its runs cannot be read, of which `runs_in` lists none.
    """
    try:
        os.listdir(directory / RUNS)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise ValueError(f"The runs in {shown(directory / RUNS)} cannot be read: {error.strerror}.") from error
    here = " Each job that is started here leaves one there." if directory == Path() else ""
    return f"There are no runs in {shown(directory / RUNS)}.{here}"


def shown(path: Path) -> str:
    return str(path) if path.is_absolute() else f"./{path}"
