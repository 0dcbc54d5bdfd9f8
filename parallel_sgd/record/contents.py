"""Files of a run by their kinds: those that a run of its kind leaves, those of callbacks and writers, and strangers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from nn.tensor_files import TEMPORARY_SUFFIX
from rpc.submit import AGAIN, node_folder
from rpc.support.files import RESULT_FILE

from ..checkpoint.locate import FOLDER
from ..checkpoint.store import position_of
from .door import Door
from .files import IDENTITIES, JOB_FILE, MANIFEST, OUTCOME, TIMELINE
from .job_record import FETCHED, MODEL_FILE
from .kept_data import DATA_FILE
from .outcome import read_outcome
from .report import BLOCKS, CLIENT_TESTS, CLIENTS, DEALT, FIGURES, KINDS, POPULATION, ROUNDS, model_name
from .run import RunManifest, files_of

_OF_A_RUN: Final = (JOB_FILE, MODEL_FILE, "job.json", OUTCOME, TIMELINE)
_FOLDER: Final = re.compile(r"Node-(-?[0-9]{1,9})-Retrieve")
#: Names of logs and of copies of code, which have a part in no figure.
_LOG: Final = re.compile(r"(Fit|Worker|Drive)-[^/]*\.log|SOURCE-[^/]*\.py")
#: Options with words that name files that a run writes, or none.
_NO_INPUTS: Final = ("callbacks", "mission_title", "writers")
#: Name of a checkpoint that a killed process was writing.
_DRAFT: Final = re.compile(r"\.[0-9a-f]{16}" + re.escape(TEMPORARY_SUFFIX))


def unlisted(manifest: RunManifest) -> Iterator[str]:
    """Yield the files that every run leaves and that the manifest of this one lacks."""
    yield from _lacking(manifest, _OF_A_RUN)


def misplaced(run: Path, manifest: RunManifest) -> Iterator[str]:
    """Yield the files of nodes that a run of this kind leaves and the manifest lacks, those of the folder that it does not
    list, and those that neither nodes nor callbacks nor writers of this run can have left."""
    outcome = read_outcome(Door(run))
    settings = manifest.settings
    workers = settings.get("run", {}).get("workers", 0)
    # below 0 is the server, which leaves other files
    named = {node for node in _nodes(manifest.files) if node >= 0}
    # after a restart fewer workers may have gone on, and a lost one may have left nothing
    hurt = is_hurt(outcome, settings.get("options", {}), fetched=bool(settings.get(FETCHED)) or is_left(run))
    nodes = named or {0} if hurt else named | set(range(workers))
    if has_common_tables(run, _title(manifest)):
        # of the others there may be models, where an earlier part of the training had fewer workers
        nodes = _nodes(name for name in manifest.files if name.rpartition("/")[2].startswith("WH-")) or {0}
    failed = lost_nodes(outcome)
    for node in sorted(nodes - failed):
        yield from _lacking(manifest, [f"{node_folder(node)}/{name}" for name in _of_worker(manifest, node)])
    # files of data and code that a user has put beside the run to repeat it
    needed = _inputs(settings)
    for name in [*files_of(run), *_strays(run)]:
        if name not in manifest.files and name not in needed:
            yield f"{name} lies in the folder, but is not listed in {MANIFEST}"
    options = settings.get("options", {})
    writes = options.get("writers") or settings.get("run", {}).get("writers")
    # files in folders of nodes may be a callback's, others a writer's
    for name in left_by_others(manifest):
        calls = options.get("callbacks") and _FOLDER.fullmatch(name.partition("/")[0])
        if name not in needed and not writes and not calls:
            yield f"{name} is a file that this run cannot have left: it had no callback and no writer"


def _lacking(manifest: RunManifest, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if name not in manifest.files:
            yield f"{name} is not listed in {MANIFEST}, though a run of this kind always leaves it"


def has_common_tables(run: Path, title: str) -> bool:
    """Tell if the workers of a run shared one state, so that the first few alone have tables of their own.

    Args:
        run: the folder of the run.
        title: that of its job.
    """
    return any((folder / name).is_file() for folder in run.glob("Node-[0-9]*-Retrieve") for name in _common(title))


def left_by_others(manifest: RunManifest) -> list[str]:
    """Return the files that callbacks and writers have left: the manifest names them, and no computation bears them out."""
    own = {*_OF_A_RUN, IDENTITIES, *([DATA_FILE] if manifest.settings.get("data", {}).get("file") == DATA_FILE else [])}
    return [name for name in manifest.files if name not in own and not _is_of_node(name, manifest)]


def is_hurt(outcome: Mapping[str, Any], options: Mapping[str, Any], *, fetched: bool) -> bool:
    """Tell if a run had a failure by which fewer workers may have gone on, or one has left nothing, or may have had one.

    Args:
        outcome: the content of its outcome.json.
        options: those of its job.
        fetched: whether its nodes have ended it, which do not tell of attempts that failed.
    """
    return bool(outcome.get("incidents") or outcome.get("failures")) or (fetched and options.get("on_failure") in AGAIN)


def is_left(run: Path) -> bool:
    """Tell if a node has driven the job of a run, which its submitter had left."""
    return any(run.glob("Node-[0-9]*-Retrieve/Drive-*.log"))


def lost_nodes(outcome: Mapping[str, Any]) -> set[int]:
    """Return the nodes that the run lost and could do without."""
    # outcome.json was checked on reading: numbers are numbers
    return {int(node) for node, *_ in outcome.get("failures") or ()}


def failures_of(run: Path) -> list[str]:
    """Return the failures that the record of a run tells of, in short: no new computation shows these again."""
    outcome = read_outcome(Door(run))
    attempts = [f"attempt {incident['attempt'] + 1} failed" for incident in outcome.get("incidents", ())]
    return [*attempts, *(f"node {node} was {state}" for node, state, _ in outcome.get("failures", ()))]


def checkpoints_of(run: Path) -> list[Path]:
    """Return the checkpoints that a run has kept, those of a parameter server, too."""
    found = (path for path in run.glob(f"Node-*-Retrieve/{FOLDER}/*") if position_of(path.name) is not None)
    return sorted(path for path in found if _FOLDER.fullmatch(path.parent.parent.name))


def node_of(path: Path) -> int:
    """Return the node of the folder `Node-<i>-Retrieve` in which a file of a run lies.

    Args:
        path: the file.

    Raises: ValueError for one in no such folder.
    """
    match = _FOLDER.fullmatch(path.parent.name) or _FOLDER.fullmatch(path.parent.parent.name)
    if match is None:
        raise ValueError(f"{path} lies in the folder of no node.")
    return int(match[1])


def _title(manifest: RunManifest) -> str:
    return str(manifest.settings.get("options", {}).get("mission_title", ""))


def _of_worker(manifest: RunManifest, node: int) -> list[str]:
    title = _title(manifest)
    clients = str(manifest.settings.get("run", {}).get("clients", ""))
    further = {CLIENTS: clients, CLIENT_TESTS: " held out" in clients, ROUNDS: "ClientClock(" in clients}
    kinds = (*KINDS, *(kind for kind, begun in further.items() if begun))
    return [*(f"{kind}-{title}-N({node}).csv" for kind in kinds), model_name(title, node)]


def _common(title: str) -> list[str]:
    """Return the names of tables that the first worker of a process has for those that have none."""
    return [f"{kind}-{title}.csv" for kind in ("TR", "BY")]


def _is_of_node(name: str, manifest: RunManifest) -> bool:
    """Tell if the product itself leaves a file of this name in the folder of a node."""
    place, _, file = name.partition("/")
    match = _FOLDER.fullmatch(place)
    if match is None:
        return False
    node, title = int(match[1]), _title(manifest)
    # the first worker of an attempt alone has it
    population = f"{POPULATION}-{title}-N({node}).csv"
    ledgers = f"LEDGER-{title}-N({node}).csv", f"LEDGER-{title}.csv"
    known = (RESULT_FILE, *_of_worker(manifest, node), population, *ledgers, *_common(title))
    # of a training that went on, or whose epochs end with a shorter batch
    carried = re.compile(rf"(?:{'|'.join((*FIGURES, DEALT, BLOCKS))})-{re.escape(title)}-N\([0-9]{{1,9}}\)\.csv")
    return file in known or _LOG.fullmatch(file) is not None or carried.fullmatch(file) is not None


def _strays(run: Path) -> list[str]:
    """Return the files in the folders of checkpoints that are no checkpoints."""
    found = []
    for folder, _, names in os.walk(run):
        way = Path(folder).relative_to(run).parts
        if len(way) >= 2 and way[1] == FOLDER and _FOLDER.fullmatch(way[0]):
            # drafts of a checkpoint lie beside it after a kill, and are no strangers
            known = (position_of, _DRAFT.fullmatch) if len(way) == 2 else ()
            strange = (name for name in names if not any(is_known(name) for is_known in known))
            found += ["/".join((*way, name)) for name in strange if not Path(folder, name).is_symlink()]
    return sorted(found)


def _inputs(settings: Mapping[str, Any]) -> set[str]:
    """Return the names of the files of data and code of a job: to repeat a moved run, a user puts them beside it."""
    options = (value for name, value in settings.get("options", {}).items() if name not in _NO_INPUTS)
    texts = [*map(str, settings.get("data", {}).values()), *map(str, options)]
    # words with a dot in texts of options: generous, since these only excuse a file
    return {name.rpartition("/")[2] for text in texts for name in re.findall(r"[^\s'\",:=()]+\.\w+", text)}


def _nodes(names: Iterable[str]) -> set[int]:
    return {int(match[1]) for name in names if (match := _FOLDER.fullmatch(name.partition("/")[0]))}
