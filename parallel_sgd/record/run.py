"""Run of a job at its submitter: its result, its folder, its manifest, and the files that are kept there of a job on local
workers.

Such a job has the work directories of its nodes in the folder of its run, so that they outlive the agents. Of one that has
ended well all files are at home; only the checkpoints that it takes to go on from its end stay. Nothing is deleted that is not
known to be needless.

The manifest stands beside `job.toml` when a run has ended, and `psgd verify` compares with it: the hash of each file that the
run has left, its settings, the identities of the processes that trained, and the chain of its epochs.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic
from urllib.parse import quote

from network.names import missing
from nn import arguments
from nn.arrays import MaybeNone
from nn.dataset.interface import Arrays
from nn.extension import listed
from nn.model import Model
from nn.model.history import VALIDATION, Results, in_notebook, show
from nn.tensor_files import parse, read_file
from rpc.launch import LocalAgents
from rpc.submit import Run, RunFolder, node_folder
from rpc.support.files import is_full, publish
from rpc.support.logs import SUBMIT_LOGGER, clean, get_logger

from ..checkpoint.choose import choose
from ..checkpoint.locate import FOLDER, WORK, HeldCheckpoints, stores_of_run, works_of
from ..checkpoint.resume import NODES, RESUMES
from ..checkpoint.schedule import Kept, keeps
from ..engine.accounts import AccountsOfNodes, NodeAccounts
from ..engine.progress import Position
from ..nodes import machine_of
from ..options.spec import JobSpec
from .bounds import MOST_EPOCHS
from .door import CutOff, Door, RecordError, is_plain
from .files import JOB_FILE, MANIFEST, PAGE
from .forms import Misfit, anything, list_of, map_of, record, text, whole
from .hashes import sha256_of
from .history import JobHistory
from .job_record import MODEL_FILE, add_identities, write_job_file
from .ledger import Ledger
from .machine import MACHINE
from .paths import as_seen, meant_instead
from .simulated import Simulated
from .tables import read_hashes, read_identities
from .weight_hashes import chain_of, hash_of

LOCK: Final = ".lock"
_WORK: Final = re.compile(r"agent-[0-9]+")
_NODE: Final = re.compile(r"Node-(-?[0-9]{1,9})-Retrieve")
# the page, a signature and its key may appear or change after the manifest was written
_LATER: Final = (PAGE, "model.sig", "model.pub")
FORMAT: Final = "psgd.manifest/2"
if TYPE_CHECKING:
    from typing_extensions import TypeVar  # with it `JobResult` alone is that of a `Model`, as in Python 3.13

    Trained = TypeVar("Trained", bound=Model, default=Model, covariant=True)
else:
    from typing import TypeVar

    Trained = TypeVar("Trained", bound=Model)
"""The class of the model of a job, which the trained ones have, too."""
_MOST: Final = 64 << 20  # bytes of a manifest
_log = get_logger(SUBMIT_LOGGER)


_CHANGES: Final = frozenset({"clear", "fromkeys", "pop", "popitem", "setdefault", "update"})
#: Attributes of models and histories of Keras.
_MEANT: Final = {
    **dict.fromkeys(("model", "module"), "models[0]"),
    **{f"{name}": f"models[0].{name}()" for name in ("evaluate", "get_weights", "predict", "save", "summary")},
    **dict.fromkeys(("loss", "metrics"), "the items of this dict, result['Loss']"),
    "plot": "history.plot()",
}


class JobResult(Results, Generic[Trained]):
    """Mean of every figure over the workers, rounded once, as a dict of floats that prints as one, with `loss` for `Loss`.

    Args:
        figures: the figures of each worker.
        models: the trained model of each worker.
        files: the saved files of each node.
        accounts: for each node that ended well, the parameter server too, a list of `accounts.Entry` rows with `times` and
            `staleness` (`accounts.NodeAccounts`).
        job_id: id of the job.
        failures: {node: (state, detail)} of nodes that were lost and could be done without.
        restarts: how often the job was started again after a failure.
        ledger: the node of the copy of each block of each batch that went into the weights (`ledger.Ledger`), None where each
            worker trains a model of its own.
        simulated: the times of a job on simulated nodes (`record.simulated.Simulated`), else None.

    Attributes: as the arguments after `figures`; `history`, per epoch and step, of each worker and the mean
    (`history.JobHistory`), which is read from `files` when it is first asked for; `report`, the page of the run (`run_page`),
    None where it could not be written; `signature`, that of the run, None where it is not signed.
    """

    def __init__(
        self,
        figures: Mapping[int, Mapping[str, float]],
        models: Mapping[int, Trained],
        files: Mapping[int, list[Path]],
        accounts: Mapping[int, NodeAccounts],
        job_id: str,
        failures: Mapping[int, tuple[str, str]] | None = None,
        restarts: int = 0,
        ledger: Ledger | None = None,
        simulated: Simulated | None = None,
    ) -> None:
        super().__init__(_means(figures))
        self.models: dict[int, Trained] = dict(models)
        self.files = dict(files)
        self.accounts: Mapping[int, NodeAccounts] = accounts if isinstance(accounts, AccountsOfNodes) else dict(accounts)
        self.job_id = job_id
        self.failures = dict(failures or {})
        self.restarts = restarts
        self.ledger = ledger
        self.simulated: Simulated | MaybeNone = simulated
        self.report: Path | None = None
        self.signature: Path | None = None

    if not TYPE_CHECKING:  # else a type checker would take every name

        def __getattr__(self, name: str) -> Any:
            """Raise the error for an attribute that is not there, with the name here for one of a model or history of Keras."""
            return missing(self, name, _MEANT)

    def __dir__(self) -> list[str]:
        """List attributes and the reading methods of a dict, for completion, not those that change one."""
        return listed(type(self), super().__dir__(), _CHANGES)

    @property
    def folder(self) -> Path | None:
        """Folder of the run, None where it has left no files."""
        return next((path.parent.parent for paths in self.files.values() for path in paths), None)

    @cached_property
    def history(self) -> JobHistory:
        """Figures of training and evaluation, epoch by epoch and step by step."""
        return JobHistory.read(self.files)

    def _repr_html_(self) -> str:
        """Show the figures, of each worker and the mean, as an HTML table, for notebooks."""
        from nn.html import table  # noqa: PLC0415 - for notebooks alone

        last = {node: history.rows[-1] for node, history in self.history.workers.items() if history.rows}
        rows = [[name, value, *(row.get(VALIDATION + name, math.nan) for row in last.values())] for name, value in self.items()]
        restarts = f", {self.restarts} restart{'s' * (self.restarts != 1)}" if self.restarts else ""
        shown = table(f"Job {self.job_id}{restarts}", ["", "mean", *(f"worker {node}" for node in last)], rows)
        if self.report is None:
            return shown
        path = _from_here(self.report)
        return f'{shown}report: <a href="{quote(path)}" target="_blank">{escape(path)}</a>'

    def show_report(self, height: int = 600) -> None:
        """Show the report of the run in a frame below the cell of a notebook.

        Args:
            height: that of the frame, in pixels.

        Raises:
            ValueError: outside a notebook, where a browser opens `report`; and where the run has no report.
        """
        if self.report is None:
            raise ValueError("JobResult.show_report() needs the report of the run, and it could not be written")
        if not in_notebook():
            raise ValueError(f"JobResult.show_report() shows it in a notebook; elsewhere open {self.report} in a browser")
        arguments.integer("JobResult.show_report()", "height", height, 1)
        path = _from_here(self.report)
        frame = f'<iframe src="{quote(path)}" width="100%" height="{height}" style="border:1px solid #ccc"></iframe>'
        show("JobResult.show_report()", {"text/html": frame, "text/plain": path}, path)


def _from_here(path: Path) -> str:
    """Return a path as the address of a page that a notebook in the working directory can open."""
    return Path(os.path.relpath(path)).as_posix()


def _means(figures: Mapping[int, Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each figure over the workers; one that is no finite number is left out, and its worker named."""
    found: dict[str, list[float]] = {}
    strange: dict[str, dict[int, str]] = {}
    for node, own in sorted(figures.items()):
        for name, value in own.items() if isinstance(own, Mapping) else ():
            values = found.setdefault(str(name), [])
            # a figure from a node: anything may stand there (RUN-8)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
                values.append(value)
            else:
                strange.setdefault(str(name), {})[node] = clean(repr(value), 60)
    for name, by_node in strange.items():
        # all alike evaluate the same samples: no node is to blame
        if set(by_node.values()) == {"nan"} and not found[name] and name != "Loss":
            why = "some metrics need test samples of both classes, or labels that differ"
            _log.warning("The test figure %s is nan, as it is not defined for these samples: %s.", clean(name), why)
            continue
        for node, told in by_node.items():
            _log.warning("Node(%s): its figure %s is %s, and is left out.", node, clean(name), told)
    # where no worker has a figure it is NaN, and its name stays
    return {name: float(statistics.mean(values)) if values else math.nan for name, values in found.items()}


def new_run(spec: JobSpec, arrays: Arrays, job: str, nodes: str) -> tuple[RunFolder, str]:
    """Make the folder of a run that is about to be submitted.

    Args:
        spec: the job.
        arrays: the four arrays that its data set has loaded.
        job: id of the job.
        nodes: kind of its nodes, `checkpoint.resume.ON_AGENTS` or another of these.

    Returns: the folder, and the content of its job file.

    Raises: ValueError where it cannot be made.
    """
    resumes = {} if spec.resume is None else {RESUMES: spec.resume.name}
    about = {**spec.about, NODES: nodes, MACHINE: machine_of(spec.options.nodes), **resumes}
    run = RunFolder(Path(spec.options.directory), job, spec.options.mission_title, about)
    try:
        return run, write_job_file(run.make(), spec, arrays, job)
    except OSError as error:
        run.close()  # the part of the files that a full disk took would fill it
        raise unwritable(spec.options.directory, error) from error


def unwritable(directory: str | Path, error: OSError) -> ValueError:
    """Return the error of a run that cannot begin in `directory`, from that of its file."""
    shown, full = str(directory)[:200], str(Path(directory).absolute())[:200]
    # the default says nothing of itself
    which = repr(shown) if shown == full else f"{shown!r}, which is {full}"
    told = f"'directory' must be a folder that can be written to, got {which}: {error.strerror}"
    remedy = "Make room there, or name another one" if is_full(error) else "Start in a folder of your own, or name one"
    return ValueError(f"{told}. {remedy}.")


def place_work(run: RunFolder, job: str, agents: LocalAgents) -> None:
    """Have local workers keep their work directories of the job in the folder of its run.

    Raises: OSError.
    """
    inside = run.path.absolute()
    places = agents.place(job, inside)
    # relative where it lies in the run, so that a run that is moved finds them (RUN-11)
    run.about[WORK] = [str(place.relative_to(inside) if place.is_relative_to(inside) else place) for place in places]


def keep_checkpoints(
    path: Path, workers: Sequence[int], server: int | None, unsaved: Iterable[int] = (), every: Kept = None
) -> None:
    """Keep, of the work directories in the folder of a run that has ended well, the checkpoints from which it goes on after its
    end, and those after each `every` epochs.

    These checkpoints move to the folders of the nodes; of a state that all workers have alike the file of one is enough. All
    stays where some files did not come home, and where there is no position at which every worker has the state that it needs.

    Args:
        path: folder of the run.
        workers: those of the attempt that ended, which may be fewer than the first had.
        server: id of the parameter server if it has a state, or None.
        unsaved: nodes of which files did not come home.
        every: number of epochs, or None.
    """
    run = Run.read(path)
    if run is None:  # it was deleted meanwhile
        return
    # `work_dir` elsewhere belongs to its user and is not cleared
    works = [work for work in works_of(run) if work.parent == run.path]
    if not works:
        return
    missed = ", ".join(map(str, sorted(unsaved)))
    # something is missing at home, so the only copy stays where it is
    if missed:
        _log.warning("What the workers have left stays in %s: not all files of node(s) %s were saved.", run.path, missed)
        return
    try:
        # all moved first: until then nothing is removed
        if _move_needed(run, workers, server, keeps(every)):
            for work in works:
                shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        _log.warning("The checkpoints of the run %s stay where its workers have left them: %s.", run.path, error.strerror)


def _move_needed(run: Run, workers: Sequence[int], server: int | None, stays: Callable[[Position], bool]) -> bool:
    held = HeldCheckpoints(stores_of_run(run))
    choice = choose({workers[0]: held.offers}, workers, server)
    if choice is None or not choice.whole:
        # with checkpoints of some workers only, all stay: another choice may be made by hand
        return False
    owners = {choice.position: sorted({source.owner for source in choice.sources.values()})}
    for offer in held.offers:
        if stays(offer.position) and offer.position != choice.position:
            owners[offer.position] = sorted({*owners.get(offer.position, ()), offer.owner})
    personal = {offer.position for offer in held.offers if offer.personal and offer.owner >= 0}
    for position, those in owners.items():
        first = min((owner for owner in those if owner >= 0), default=0)
        for owner in those:
            # of a state that all workers have alike the first one's is enough; the server's number is below all
            if position in personal or owner <= first:
                _move(held.file(owner, position), run.path / node_folder(owner) / FOLDER)
    return True


def _move(file: Path | None, folder: Path) -> None:
    if file is not None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # in the same folder, so the move is a rename
        os.replace(file, folder / file.name)


@dataclass(frozen=True)
class RunManifest:
    """Hashes of the files that a run has left.

    Args:
        job: id of the job.
        files: hashes by the path of the file below the run's folder.
        settings: as in `job.toml`.
        chain: `chain_of` epochs.
        format: name and version of the format.
        start: hashes of the variables at the start.
        nodes: by node the identities of the processes that trained (`record.identity`).
    """

    job: str
    files: Mapping[str, str]
    settings: Mapping[str, Any]
    chain: list[list[Any]]
    format: str = FORMAT
    start: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, list[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, run: Path) -> RunManifest:
        """Read the manifest of the run in a folder.

        Raises: ValueError naming the file and its fault.
        """
        path = as_seen(run / MANIFEST)
        door = Door(run)
        try:
            content = door.json(MANIFEST)
        except FileNotFoundError:
            if not os.path.lexists(run / JOB_FILE):
                near = meant_instead(run)
                raise ValueError(
                    f"{as_seen(run)} is no folder of a run: it has neither {JOB_FILE} nor {MANIFEST}{near}."
                ) from None
            # no manifest is written for a run that failed
            raise ValueError(f"There is no {path}: the run has not ended well, or not yet.") from None
        except CutOff as error:
            raise ValueError(f"The manifest {path} is half written or damaged: {error}.") from error
        try:
            checked = _FORM("", content)
        except Misfit as error:
            raise RecordError(f"The manifest {path} {error}.") from error
        # a further claim would be compared with nothing
        if further := [name for name in checked if name not in cls.__dataclass_fields__]:
            raise RecordError(f"The manifest {path} cannot be used: {further[0][:80]!r} is no part of a manifest.")
        made = cls(**checked)
        if made.format != FORMAT:
            raise ValueError(
                f"The manifest {path} is of another version: {made.format!r}, this release reads {FORMAT!r}. The release that "
                f"wrote it can verify the run; 'psgd run' trains it again, and says if the weights are the same."
            )
        # the names are opened later, below the folder
        for name in made.files:
            if not is_plain(name):
                raise RecordError(
                    f"The manifest {path} cannot be used: 'files' must have plain paths below the folder, got {name[:80]!r}."
                )
        return made


_FORM: Final = record(
    {
        **dict.fromkeys(("job", "format"), text),
        **dict.fromkeys(("files", "start"), map_of(text)),
        "settings": map_of(anything),
        "nodes": map_of(list_of(rest=text)),
        "chain": list_of(rest=list_of(whole(1, MOST_EPOCHS), text)),
    },
    ("job", "files", "settings", "chain"),
)


def write_run_manifest(run: Path, job: str) -> None:
    """Write the manifest of a run that has its files at home.

    Raises: OSError, ModelFileError, RecordError; the run has its result, so callers make a warning of that.
    """
    nodes = read_identities(run)
    # before the hashes are taken, since it changes job.toml
    add_identities(run, nodes)
    arrays, _ = parse(read_file(run / MODEL_FILE), sealed=False)
    manifest = RunManifest(
        job,
        {name: sha256_of(run / name) for name in files_of(run)},
        Door(run).toml(JOB_FILE),
        chain_of(read_hashes(run)),
        start={name: hash_of(array) for name, array in arrays.items()},
        nodes={str(node): texts for node, texts in nodes.items()},
    )
    publish(run / MANIFEST, json.dumps(asdict(manifest), indent=1) + "\n", 0o644)


def files_of(run: Path) -> list[str]:
    """Return the files of a run that its manifest names, by their path below its folder.

    These are all but the manifest itself and the page, which may be made anew, locks, links, the checkpoints, which may be
    deleted, and the work directories of local workers, which end with them.
    """
    record = Run.read(run)
    work = set() if record is None else set(filter(_WORK.fullmatch, map(str, record.about.get(WORK, ()))))
    found = []
    for folder, folders, names in os.walk(run):
        place = Path(folder)
        # checkpoints may be deleted by their owner, so no list has them
        passed_over = work if place == run else {FOLDER} if place.parent == run and _NODE.fullmatch(place.name) else set()
        # in place: `os.walk` follows what stays in the list
        folders[:] = sorted(name for name in folders if name not in passed_over and not os.path.islink(place / name))
        for name in sorted(names):
            path = Path(folder, name)
            # locks are held while a run is written
            top = path.parent == run and (name in (MANIFEST, *_LATER) or path.suffix == LOCK)
            if not top and not path.is_symlink():
                found.append(path.relative_to(run).as_posix())
    return found
