"""Certificate of a run: comparisons of the claims of its folder with each other, and with a new computation."""

from __future__ import annotations

import csv
import json
import math
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any, Final

from nn.tensor_files import MAX_FILE, ModelFileError, parse
from rpc.job import PORTABLE
from rpc.submit import AGAIN, REDUNDANT, SHRINK, Run

from ..batch_sync.sync import SynchronizedSGD
from ..checkpoint.snapshot import CheckpointError, Header, Snapshot
from ..checkpoint.store import position_of
from ..engine.accounts import BATCH_COLUMNS, Times
from ..engine.progress import NOBODY, START, Position
from ..options.job_options import options
from .bounds import MOST_EPOCHS, MOST_WORKERS
from .claims import ELSEWHERE, computed_table, depend_on_hosts, further_packets, other_problems, other_words, wrong_packets
from .contents import checkpoints_of, has_common_tables, is_hurt, is_left, lost_nodes, node_of
from .door import MOST_TABLE, Door, RecordError
from .files import IDENTITIES, JOB_FILE, OUTCOME
from .identity import Identities, differences, environment_of
from .job_file import JobFile
from .job_record import MODEL_FILE
from .outcome import read_outcome
from .report import BLOCKS, DEALT
from .run import RunManifest
from .settings import text_of
from .tables import FURTHER, read_hashes, read_identities, read_parts, read_table, told_at_the_start, told_by_tables
from .tables import node_of as number_of
from .verification import changed_settings
from .weight_hashes import HASH_COLUMNS, Epochs, chain_of, hash_of

_MOST_NAMED: Final = 4  # variables or nodes in a sentence
#: Kinds of tables of steps that are compared, and their columns that no computation has again, which are times.
_STEPS: Final[Mapping[str, tuple[str, ...]]] = {
    "TR": ("Time",),
    "CL": ("Seconds",),
    "CT": (),
    "PO": (),
    "RO": (),
    "LEDGER": (),
    BLOCKS: (),
}
#: Likewise of tables of times: which rows there are is known, what they tell is not. `CO` lacks codecs that took no time.
_TIMES: Final[Mapping[str, tuple[str, ...]]] = {
    "BA": tuple(name for name in BATCH_COLUMNS if name not in ("Epochs", "Batches")),
    "TI": ("Total", *(name.capitalize() for name in Times._fields)),
}
#: Options of which a run tells another value than that which was asked for: the one that this became, or another path.
_RESOLVED: Final = ("checkpoint_every", "commit_every", "discovery", "resume")
#: Options that stand for others.
_OTHER_NAMES: Final = ("epochs", "job_title")
#: Fields of a checkpoint's header that the settings of a run decide on.
_OF_THE_SETTINGS: Final = ("seed", "batch_size", "batches", "samples", "order", "optimizer", "rule", "clients")


# ---- the folder by itself


def contradictions(run: Path, manifest: RunManifest) -> Iterator[str]:
    """Yield where files of the folder contradict each other: weights and their hashes, identities, jobs, how the run ended."""
    file = JobFile.read(run)
    told = {str(node): texts for node, texts in read_identities(run).items()}
    recorded = {str(node): texts for node, texts in file.nodes.items()}
    # three witnesses of one fact: to change it, all must be changed
    if not told == recorded == manifest.nodes:
        yield "the identities of the nodes differ between their tables (ID-*.csv), job.toml and the manifest"
    outcome, begun = read_outcome(Door(run)), Run.read(run)
    # in one attempt; a fetched run does not tell how many it had
    hurt = is_hurt(outcome, file.options, fetched=file.fetched or is_left(run))
    once = not (hurt or file.fetched or "resume" in file.options or _has_discovery(file))
    if once:
        yield from _other_witnesses(run)
    yield from _other_environment(run, outcome)
    if changed := changed_settings(run / JOB_FILE, manifest):
        yield f"job.toml and the manifest differ: {'; '.join(changed)}"
    jobs = {"job.toml": file.job, "the manifest": manifest.job, "job.json": "none" if begun is None else begun.job}
    if len(set(jobs.values())) > 1:
        yield f"the job differs between files: {_pairs(jobs)}"
    title = str(file.options.get("mission_title", ""))
    if begun is not None and begun.title != title:
        yield f"the title differs between files: job.toml {title!r}, job.json {begun.title!r}"
    if outcome.get("state") != "done":
        yield f"{OUTCOME} says that the run is {outcome.get('state', 'none')!r}, and only one that is done has a manifest"
    yield from _excuses(file, outcome)
    yield from _other_settings(file, outcome)
    # later comparisons believe the hashes
    yield from _other_start(run, manifest)
    # told, and then left out of what is computed from these tables
    damaged = list(_damaged_tables(run, lost_nodes(outcome)))
    yield from damaged
    epochs = read_hashes(run)
    chain, found = [list(link) for link in manifest.chain], chain_of(epochs)
    for place, (expected, other) in enumerate(zip(chain, found, strict=False)):
        if expected != other:
            yield f"the tables of the weights (WH-*.csv) were changed in epoch {found[place][0]}"
            # the first broken link names the epoch; all later ones differ because of it
            return
    if len(chain) != len(found):
        yield f"the tables of the weights (WH-*.csv) have {len(found)} epochs, the manifest has {len(chain)}"
        return
    # after a failure a worker that takes what has arrived may begin in a later epoch than it was in
    in_turn = not hurt or file.options.get("sync_type") in (None, SynchronizedSGD.__name__)
    yield from _gaps(epochs, {} if once else _begins(run), in_turn=in_turn)
    yield from _other_parts(run, file, outcome, once=once)
    if not once:
        yield from _unfinished(run, epochs, lost_nodes(outcome))
    if once:
        yield from _begun_late(run, epochs)
    if not epochs or damaged:
        return
    # a callback may have given the model the weights of an earlier epoch back, which only the computation can tell
    possible = sorted(epochs, reverse=True) if file.options.get("callbacks") else [max(epochs)]
    for path in sorted(run.glob("Node-[0-9]*-Retrieve/MODEL-*.model")):
        name = path.relative_to(run).as_posix()
        # lazily: a model is read again for each epoch only where the last one did not fit
        findings = (list(_other_weights(name, path, epochs[epoch], epoch, node_of(path))) for epoch in possible)
        first = next(findings)
        if first and all(findings):
            yield from first
    for path in checkpoints_of(run):
        position = position_of(path.name)
        if position is not None and position.epoch > max(epochs):
            name = path.relative_to(run).as_posix()
            yield f"{name} is named after epoch {position.epoch}, and the run has {max(epochs)}"


def _excuses(file: JobFile, outcome: Mapping[str, Any]) -> Iterator[str]:
    """Yield the failures that outcome.json tells of, and that would have ended the run, by its options."""
    policy, copies = file.options.get("on_failure"), file.options.get("redundancy", 1)
    lost = sorted(lost_nodes(outcome))
    if lost and not (policy == REDUNDANT or (policy is None and copies > 1)):
        yield f"{OUTCOME} says that node {_few([*map(str, lost)])} was lost, and this run could not do without it"
    # of a run that was fetched the discovery of nodes, which restarts it, too, is not told
    if outcome.get("incidents") and policy not in AGAIN and not (_has_discovery(file) or file.fetched):
        yield f"{OUTCOME} says that an attempt failed, and this run was not to start again"


def _has_discovery(file: JobFile) -> bool:
    """Tell if hosts may have come and gone; a function that finds them has no text in the file."""
    return "discovery" in {*file.options, *file.unnamed}


def _other_witnesses(run: Path) -> Iterator[str]:
    """Yield the nodes of a run of one attempt that told the submitter something else at the start than their tables tell."""
    at_the_start, own = list(told_at_the_start(run)), list(told_by_tables(run))
    if late := sorted({node for node, epoch, _ in own if epoch != 1}):
        yield f"the tables of identities (ID-*.csv) of node {_few([*map(str, late)])} begin after epoch 1"
    tables = {node_of(path) for path in run.glob("Node-[0-9]*-Retrieve/ID-*.csv")}
    if without := sorted(tables - {node for node, *_ in own}):
        yield f"the tables of identities (ID-*.csv) of node {_few([*map(str, without)])} have no row"
    if again := sorted(node for node, rows in Counter(node for node, *_ in own).items() if rows > 1):
        yield f"the tables of identities (ID-*.csv) of node {_few([*map(str, again)])} tell several processes"
    # none where the disk was full
    told = Counter((node, text) for node, _, text in at_the_start)
    if wrong := sorted({node for node, _, text in own if told and told[node, text] != 1}):
        yield f"the identities of node {_few([*map(str, wrong)])} differ between {IDENTITIES} and ID-*.csv"
    if later := sorted({attempt for _, attempt, _ in at_the_start if attempt != 1}):
        yield f"{IDENTITIES} tells of attempt {later[0]}, and no attempt of this run failed"


def _other_settings(file: JobFile, outcome: Mapping[str, Any]) -> Iterator[str]:
    """Yield the settings that outcome.json, and so the page of the run, tells otherwise than job.toml."""
    # the page shows these, so a changed outcome.json would show a run that was not
    told, known = outcome.get("settings", {}), dict(options())
    # of a run that was fetched the page has the words of its record
    beside = {"data", "transform", *(["workers"] if file.fetched else [])}
    for name, value in told.items():
        # the names of earlier releases stand for others, which have the value
        if (name not in known and name not in beside) or (name in _OTHER_NAMES and value != "None"):
            yield f"{OUTCOME} says {name!r} {value}, and no run has that"
    for name, about in known.items():
        if name not in told or about.flag is None or name in (*_RESOLVED, *file.unnamed):
            continue
        # what decides is compared with the computation, which has some of its own
        compared = not about.flag.decides or name in ELSEWHERE
        value = file.options.get(name)
        if value is None:
            policies = ("fail", REDUNDANT, *([SHRINK] if _has_discovery(file) else []))
            unsaid = policies if name == "on_failure" else ("None",)
            # by default it depends on the policy
            wrong = compared and told[name] not in unsaid and name != "min_workers"
        elif isinstance(value, (bool, str)):
            # a long text is cut off
            short = told[name].endswith("...") and str(value).startswith(told[name][:-3])
            wrong = compared and told[name] not in (str(value), text_of(value)) and not short
        else:
            wrong = isinstance(value, (int, float)) and not _is_number(told[name], value)
        if wrong:
            yield f"{OUTCOME} says '{name}' {told[name]}, job.toml {'none' if value is None else value}"
    if outcome.get("fault", "") not in ("", told.get("fault", "")):
        yield f"{OUTCOME} says that the faults {outcome['fault']!r} were injected, its settings say {told.get('fault', '')!r}"


def _is_number(text: str, value: float) -> bool:
    try:
        return float(text) == float(value) or text == text_of(value)
    except ValueError:
        return False


def _other_environment(run: Path, outcome: Mapping[str, Any]) -> Iterator[str]:
    """Yield the identities of nodes that outcome.json tells otherwise than their tables."""
    told, expected = outcome.get("environment", {}), environment_of(read_identities(run))
    for name, value in told.items():
        if name.endswith((" compute with", " computes with")) and expected and value != expected.get(name):
            yield f"{OUTCOME} says that {name} {value}, the tables of the nodes (ID-*.csv) say {expected.get(name, 'nothing')}"


def _other_start(run: Path, manifest: RunManifest) -> Iterator[str]:
    arrays, _ = parse(_content(run / MODEL_FILE), sealed=False)
    found = {name: hash_of(array) for name, array in arrays.items()}
    wrong = [name for name in {**manifest.start, **found} if manifest.start.get(name) != found.get(name)]
    if manifest.start and wrong:  # an older run has none
        yield f"{MODEL_FILE} and the manifest differ: at the start the variable {_few(wrong)} differs"


def _damaged_tables(run: Path, lost: set[int]) -> Iterator[str]:
    """Yield the hash tables with rows that are none, or that stand there twice; of a lost node the last one may be cut off."""
    for path in sorted(run.glob("Node-[0-9]*-Retrieve/WH-*.csv")):
        name = path.relative_to(run).as_posix()
        columns, remark = read_table(Door(run), name)
        if remark and node_of(path) not in lost:
            yield f"{name}: {remark}"
        # an honest table has each (epoch, variable) once
        rows = Counter(zip(*(columns.get(each, []) for each in HASH_COLUMNS[:2]), strict=True))
        twice = [f"{variable} after epoch {epoch:.0f}" for (epoch, variable), count in rows.items() if count > 1]
        if twice:
            yield f"{name} has several hashes of {_few(twice)}"
    # those that the workers of the last attempt have written to the end, and that no computation need have again
    there = _last_nodes(run)
    for kind in (*_STEPS, *_TIMES, "AC", "BY", "EV", DEALT):
        for path in sorted(run.glob(f"Node-[0-9]*-Retrieve/{kind}-*.csv")):
            if number_of(path.name) == node_of(path) not in lost and (there is None or node_of(path) in there):
                name = path.relative_to(run).as_posix()
                # a reader takes half a row for one that is being written, and leaves out those that are not finite
                if not _is_whole(run, name):
                    yield f"{name}: its last row is cut off"


def _last_nodes(run: Path) -> set[int] | None:
    """Return the nodes of the last attempt; None for a run that does not tell them."""
    attempts: dict[int, set[int]] = {}
    for node, attempt, _ in told_at_the_start(run):
        attempts.setdefault(attempt, set()).add(node)
    return attempts.get(max(attempts, default=0))


def _unfinished(run: Path, epochs: Epochs, lost: set[int]) -> Iterator[str]:
    """Yield the workers of the last attempt with tables of weights that lack the last epoch."""
    there, parts = _last_nodes(run), next(iter(read_parts(run).values()), [])
    last = max(epochs, default=0)
    # one without rows begins its table with the first epoch that it has trained
    if not epochs or (parts and parts[-1].epoch >= last):
        return
    for path in sorted(run.glob("Node-[0-9]*-Retrieve/WH-*.csv")):
        node = node_of(path)
        had = any(node in values for values in epochs[last].values())
        if not had and node not in lost and (there is None or node in there) and not (parts and 0 < parts[-1].workers <= node):
            yield f"the table of the weights of node {node} lacks epoch {last}"


def _is_whole(run: Path, name: str) -> bool:
    """Tell if a table ends with a row."""
    with Door(run).open(name, MOST_TABLE) as file:
        if not file.seek(0, os.SEEK_END):
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _went_on(run: Path, file: JobFile) -> bool:
    """Tell if the tables of a run show that an attempt went on with those of another one, or with fewer workers."""
    begun = sorted((node, epoch) for node, epoch, _ in told_by_tables(run) if node >= 0)
    # an attempt that begins afresh writes all tables anew
    return bool(read_parts(run)) or begun != [(node, 1) for node in range(file.workers)]


def _begins(run: Path) -> dict[int, set[int]]:
    """Return the epochs with which a worker began again with a part of a training that went on, by worker."""
    parts = {part.epoch + 1 for parts in read_parts(run).values() for part in parts}
    found: dict[int, set[int]] = {}
    # a process of its own was there from then on: one table alone excuses nothing
    for node, epoch, _ in told_by_tables(run):
        if epoch in parts:
            found.setdefault(node, set()).add(epoch)
    return found


def _other_parts(run: Path, file: JobFile, outcome: Mapping[str, Any], *, once: bool) -> Iterator[str]:
    """Yield where tables of the parts of a training that went on differ from each other, or tell impossible parts."""
    every = {node: parts for node, parts in read_parts(run).items() if parts}
    if once and every:
        yield f"the table of the parts of the training (DE-*.csv) of node {next(iter(every))} has some, and no attempt failed"
    # those of an earlier release tell no workers
    known = {node: parts for node, parts in every.items() if all(part.workers for part in parts)}
    # of simulated nodes only the first attempt is told, and hosts that come begin an attempt without a failure
    attempts = {1 + len(outcome.get("incidents", ())), *(attempt for _, attempt, _ in told_at_the_start(run))}
    # parts of an earlier run, which may have had other blocks, count, too; a submitter that has left knows the first attempts
    whole = not (file.fetched or is_left(run) or "resume" in file.options)
    most = max(attempts) if whole else math.inf
    workers = max(file.workers, file.blocks) if "resume" not in file.options else MOST_WORKERS
    first = next(iter(known.values()), [])
    # all workers of the last attempt write the same
    there = {node_of(path) for path in run.glob("Node-[0-9]*-Retrieve/ID-*.csv")} - lost_nodes(outcome) - known.keys()
    if without := sorted(node for node in there if first and node < first[-1].workers):
        yield f"the table of the parts of the training (DE-*.csv) of node {_few([*map(str, without)])} has none, others have"
    for node, parts in known.items():
        name = f"the table of the parts of the training (DE-*.csv) of node {node}"
        # a worker that is no more has those until then
        if parts != first and node < first[-1].workers:
            yield f"{name} differs from that of node {next(iter(known))}"
        if len(parts) > most:
            yield f"{name} has {len(parts)} parts, and there were {most} attempts"
        if parts[0].position != START or any(part.position >= then.position for part, then in pairwise(parts)):
            yield f"{name} has parts that do not follow each other from the start"
        if wrong := [part for part in parts if not 1 <= part.workers <= workers]:
            yield f"{name} tells {wrong[0].workers} workers, and there can be {workers}"
        if wrong := [then for part, then in pairwise(parts) if not (then.owner == NOBODY or 0 <= then.owner < part.workers)]:
            yield f"{name} tells that training went on with the state of node {wrong[0].owner}, and there was none"


def _gaps(epochs: Epochs, begins: Mapping[int, Collection[int]], *, in_turn: bool) -> Iterator[str]:
    """Yield the rows that the hash tables lack: each worker has all variables of each epoch from its first to its last, or
    (unless `in_turn`) of each that it has at all.

    Args:
        epochs: the hashes.
        begins: epochs with which each worker began again: it may have been away in the parts of the training before.
        in_turn: whether a worker has no gaps within a part.
    """
    variables = sorted({variable for rows in epochs.values() for variable in rows})
    spans: dict[int, list[int]] = {}
    for epoch, rows in sorted(epochs.items()):
        for node in {node for values in rows.values() for node in values}:
            spans.setdefault(node, []).append(epoch)
    for node, those in sorted(spans.items()):
        if in_turn and any(each - before > 1 and each not in begins.get(node, ()) for before, each in pairwise(those)):
            yield f"the table of the weights of node {node} lacks an epoch between {those[0]} and {those[-1]}"
        for epoch in those:
            without = [variable for variable in variables if node not in epochs[epoch].get(variable, {})]
            if without:
                yield f"the table of the weights of node {node} lacks {_few(without)} after epoch {epoch}"
                break
    # one worker at least was there from the beginning to the end
    whole = [node for node, those in spans.items() if those[0] == 1 and those[-1] == max(epochs)]
    if epochs and not whole:
        yield f"no table of the weights (WH-*.csv) has all epochs from 1 to {max(epochs)}"


def _begun_late(run: Path, epochs: Epochs) -> Iterator[str]:
    """Yield the workers with tables of weights that lack the first epochs, or all, of a run of one attempt."""
    for path in sorted(run.glob("Node-[0-9]*-Retrieve/WH-*.csv")):
        node = node_of(path)
        first = min((epoch for epoch, rows in epochs.items() if any(node in values for values in rows.values())), default=None)
        if epochs and first != 1:
            since = "has no row" if first is None else f"begins with epoch {first}"
            yield f"the table of the weights of node {node} {since}"


def _other_weights(name: str, path: Path, rows: Mapping[str, Mapping[int, str]], epoch: int, node: int) -> Iterator[str]:
    try:
        arrays, _ = parse(_content(path))
    except (ModelFileError, RecordError, OSError) as error:
        yield f"{name}: {error}"
        return
    wrong = []
    for variable, values in rows.items():
        # of the node's own if it told any; else of any worker, as all are equal
        known = {values[node]} if node in values else set(values.values())
        if variable not in arrays or hash_of(arrays[variable]) not in known:
            wrong.append(variable)
    if wrong:
        yield f"{name}: after epoch {epoch} the variable {_few(wrong)} differs from the tables of the weights"


# ---- the folder and a computation


@dataclass(frozen=True)
class Computed:
    """New computation of epochs of a run.

    Attributes:
        run: the folder of the run in question.
        again: the folder of the computation.
        figures: the figures of its end, as a job returns them.
        start: the number of epochs that were completed where it began.
        until: the last epoch that it was asked for.
        workers: the number of workers that computed.
        unseen: the job with which the run, or one that it went on with, went on, and which is not at hand.
        last: whether it ends as the run does; else all workers went on behind it with the state of one of them.
        begun: position with which it began.
        end: position behind which all workers went on with another state; None for the end of the last epoch.
    """

    run: Path
    again: Path
    figures: Mapping[str, float]
    start: int
    until: int
    workers: int
    unseen: str = ""
    last: bool = True
    begun: Position = START
    end: Position | None = None

    def differences(self, file: JobFile, epochs: Epochs) -> Iterator[str]:
        """Yield the claims of the run that the computation does not bear out: weights, evaluations, models, figures.

        Claims about the end of the run (models, figures) are compared where its last epoch was computed.
        """
        # Rows behind the start alone: those before were taken from the checkpoint. An epoch within which the run went on with
        # another state was computed to its end, too.
        most = math.inf if self.last else self.until
        computed = {epoch: rows for epoch, rows in read_hashes(self.again).items() if self.start < epoch <= most}
        last = max(computed, default=0)
        # where nothing was left to train there is nothing but the end
        if last != self.until and self.start < self.until:
            yield f"training ends after epoch {last} when it is computed again, the run's tables end after epoch {self.until}"
            return
        if (clients := JobFile.read(self.again).population) != file.population:
            yield f"its clients are {file.population or 'none'}, computed are {clients or 'none'}"
            return
        # with other nodes only sets of values can be compared
        same_nodes = len(_node_numbers(self._within(epochs))) == len(_node_numbers(computed))
        # all workers have the state of one of them where they went on with it
        joint = 0 if self.last else self.until
        # one sentence is enough: from the first difference on all epochs differ
        weights = next(_weights(epochs, computed, same_nodes, joint), "")
        if weights:
            yield weights
        yield from self._evaluations(epochs, same_nodes)
        if self.last and self.until == max(epochs):
            yield from self._models(same_nodes)
            yield from self._figures()
        yield from self._checkpoints(same_nodes)
        if not self.last:
            yield from self._steps_of_parts(file)
            return
        dealt = () if self.workers == file.workers else ("assignment_type", "redundancy")
        yield from other_words(self.run, self.again, file, dealt)
        if not self._has_same_steps(file):
            yield from self._steps_of_parts(file)
        else:
            for kind, skipped in {**_STEPS, **_TIMES}.items():
                yield from self._steps(kind, skipped, whole=self.until == max(epochs))
            if self.until == max(epochs):
                yield from other_problems(self.run, self.again)
            if not depend_on_hosts(self.run, self.again, file):
                yield from wrong_packets(self.run, self.again, self.until, whole=self.until == max(epochs))

    def _within(self, epochs: Epochs) -> Epochs:
        """Return the rows of the epochs that were computed."""
        return {epoch: rows for epoch, rows in epochs.items() if self.start < epoch <= self.until}

    def is_untold(self) -> bool:
        """Tell if the run may have gone on without the memory of single workers, and its tables are of a release that did not
        tell it.
        """
        untold = any(not part.workers for parts in read_parts(self.run).values() for part in parts)
        # of the computation, since those of the run may be deleted
        return untold and any(
            Snapshot.read(_content(path)).header.personal for path in checkpoints_of(self.again) if node_of(path) >= 0
        )

    def unproven_times(self) -> list[str]:
        """Return the claims of a simulation about time: the new computation has no virtual clock."""
        told = read_outcome(Door(self.run)).get("simulated")
        return [] if told is None else ["its seconds, its events and the load of its links"]

    def unproven_tables(self, file: JobFile, epochs: Epochs) -> list[str]:
        """Return the tables of steps and packets that the computation neither bears out nor refutes: after a failure or a
        resumption, and of other workers, all; else those with further packets, which late blocks are asked for with.
        """
        if not self._has_same_steps(file):
            return [
                f"{kind}-*.csv" for kind in (*_STEPS, "AC", "BY") if any(self.run.glob(f"Node-[0-9]*-Retrieve/{kind}-*.csv"))
            ]
        if depend_on_hosts(self.run, self.again, file):
            return ["AC-*.csv", "BY-*.csv"]
        return further_packets(self.run, self.again, self.until, whole=self.until == max(epochs))

    def _has_same_steps(self, file: JobFile) -> bool:
        """Tell if each worker did the same in each batch: only then do the tables of steps have the same rows."""
        # a failure, a resumption or another number of workers makes other rows of steps, with the same weights
        untold = (file.fetched or is_left(self.run)) and _went_on(self.run, file)
        hurt = is_hurt(read_outcome(Door(self.run)), file.options, fetched=untold)
        calm = not hurt and "resume" not in file.options and self.start == 0
        # in this process many workers may share a state and tables, as processes never do
        shared = {
            has_common_tables(each.path.parent, str(each.options.get("mission_title", "")))
            for each in (file, JobFile.read(self.again))
        }
        return calm and self.workers == file.workers and file.options.get("redundancy", 1) == 1 and len(shared) == 1

    def _steps_of_parts(self, file: JobFile) -> Iterator[str]:
        """Compare the rows of block steps of a training that went on with those of the computation: each that is there must be
        one of these. A killed worker may have taken some along.
        """
        parts = next(iter(read_parts(self.run).values()), [])
        end = self.end or Position(self.until, 0)
        ends = [*(part.position for part in parts[1:]), end]
        workers = {part.workers for part, over in zip(parts, ends, strict=False) if over > self.begun and part.position < end}
        # other workers have other steps, and so have copies of blocks; rounds of clients may have been broken off
        if workers != {self.workers} or file.options.get("redundancy", 1) != 1 or file.population:
            return
        computed = {number_of(path.name): _steps_in(path) for path in self.again.glob("Node-[0-9]*-Retrieve/TR-*.csv")}
        for path in sorted(self.run.glob("Node-[0-9]*-Retrieve/TR-*.csv")):
            number = number_of(path.name)
            # a table of all workers of a process has no number
            left = Counter(computed.get(number, ()))
            for place, row in enumerate(_steps_in(path), 2) if number in computed and number is not None else ():
                if self.begun <= _position_in(row) < end:
                    left[row] -= 1
                    if left[row] < 0:
                        yield f"{path.relative_to(self.run).as_posix()}: row {place} is .. {_row([*row])}, and was not computed"
                        break

    def _steps(self, kind: str, skipped: Collection[str], *, whole: bool) -> Iterator[str]:
        """Compare the rows of tables of steps, but for some columns; where not all was computed, as far as that goes."""
        for path in sorted(self.run.glob(f"Node-[0-9]*-Retrieve/{kind}-*.csv")):
            other = computed_table(path, self.again)
            mine, theirs = _rows(path), iter(()) if other is None else _rows(other)
            name, (head, computed) = path.relative_to(self.run).as_posix(), (next(mine, []), next(theirs, []))
            # tables of earlier releases lack some columns at the end
            if head == computed[: len(head)] and {*computed[len(head) :]} <= FURTHER.get(kind, {}).keys():
                computed, theirs = head, (row[: len(head)] for row in theirs)
            if head != computed:
                yield f"{name}: row 1 is {_row(head)}, computed is {_row(computed)}"
                continue
            places = [place for place, column in enumerate(head) if column not in skipped]
            for number, (row, again) in enumerate(zip_longest(mine, theirs), 2):
                if (whole or (row and again)) and not _alike(row, again, len(head), places):
                    yield f"{name}: row {number} is {_row(row)}, computed is {_row(again)}"
                    break
        for path in sorted(self.again.glob(f"Node-[0-9]*-Retrieve/{kind}-*.csv")):
            # runs of earlier releases have no table of blocks
            if computed_table(path, self.run) is None and not (kind == BLOCKS and not any(self.run.glob(f"*/{kind}-*.csv"))):
                yield f"{path.parent.name} has no table {kind}-*.csv, though a run of this kind always leaves it"

    def _evaluations(self, epochs: Epochs, same_nodes: bool) -> Iterator[str]:
        lost = lost_nodes(read_outcome(Door(self.run)))
        theirs = {node_of(path): _evaluations(path) for path in self.again.glob("Node-[0-9]*-Retrieve/EV-*.csv")}
        last = max(epochs)
        for path in sorted(self.run.glob("Node-[0-9]*-Retrieve/EV-*.csv")):
            node, rows = node_of(path), _evaluations(path)
            # rows of a worker that is no more lie in the folder of another one
            own = number_of(path.name) if number_of(path.name) in theirs else None
            # other nodes than the run had: any node of the computation stands for all
            other = theirs.get(node if same_nodes else min(theirs, default=0), {}) if own is None else theirs[own]
            known = {str(epoch) for epoch in range(1, last + 1)}
            numbers = [int(epoch) for epoch in rows if epoch in known]
            # curves follow the table
            if numbers != sorted(numbers):
                yield f"node {node}: the evaluations in its table are not in the order of epochs"
            # in the order of the table: the first row that is wrong is told
            for epoch, told in rows.items():
                if epoch not in known:
                    yield f"node {node}: its table has an evaluation after epoch {epoch!r}, and the run has {last}"
                elif not self.last and int(epoch) == self.until and told in [each.get(epoch) for each in theirs.values()]:
                    continue  # that of the state with which it went on
                elif self.start < int(epoch) <= self.until and told != other.get(epoch):
                    found = _told(other.get(epoch, []))
                    yield f"node {node}: the evaluation after epoch {epoch} is {found}, its table says {_told(told)}"
                    break
            hashed = [epoch for epoch in sorted(epochs) if any(node in values for values in epochs[epoch].values())]
            lacks = [epoch for epoch in hashed if self.start < epoch <= self.until and str(epoch) not in rows]
            # of a worker that is no more, whose rows another one has carried on, there are those until then
            if lacks and node not in lost and path.name.endswith(f"-N({node}).csv"):
                yield f"node {node}: its table has no evaluation after epoch {lacks[0]}"

    def _models(self, same_nodes: bool) -> Iterator[str]:
        theirs = {node_of(path): path for path in sorted(self.again.glob("Node-[0-9]*-Retrieve/MODEL-*.model"))}
        for path in sorted(self.run.glob("Node-[0-9]*-Retrieve/MODEL-*.model")):
            other = theirs.get(node_of(path)) if same_nodes else theirs.get(min(theirs, default=0))
            if other is None or _content(path) == _content(other):
                continue
            (arrays, about), (others, expected) = parse(_content(path)), parse(_content(other))
            # from the most to the least telling: variables, configuration, other metadata
            name = path.relative_to(self.run).as_posix()
            wrong = [each for each in {**arrays, **others} if not _equal(arrays.get(each), others.get(each))]
            if wrong:
                yield f"{name}: after epoch {self.until} {_few(wrong)} differs from what was computed"
            elif _config(about) != _config(expected):
                now, then = _config(about), _config(expected)
                keys = [key for key in {**now, **then} if now.get(key) != then.get(key)]
                yield f"{name}: its {_few(keys)} differs from what was computed"
            elif _further(about) != _further(expected):
                yield f"{name}: its metadata are {_pairs(_further(about))}, computed are {_pairs(_further(expected))}"

    def _figures(self) -> Iterator[str]:
        claimed = read_outcome(Door(self.run)).get("figures")
        if not isinstance(claimed, dict) or not claimed:
            yield f"{OUTCOME} has no figures"
        elif claimed.keys() != self.figures.keys() or not all(_same(claimed[name], self.figures[name]) for name in claimed):
            yield f"{OUTCOME}: the figures are {_pairs(self.figures)}, it says {_pairs(claimed)}"

    def _checkpoints(self, same_nodes: bool) -> Iterator[str]:
        """Compare kept checkpoints with those of the computation at the same position, where it has one."""
        for path in checkpoints_of(self.run):
            other = self._same_checkpoint(path, same_nodes=same_nodes)
            if other is None:
                continue
            name = path.relative_to(self.run).as_posix()
            try:
                mine, theirs = Snapshot.read(_content(path)), Snapshot.read(_content(other))
            except (CheckpointError, RecordError, OSError) as error:
                yield f"{name}: {error}"
                continue
            wrong = [
                each for each in {**theirs.arrays, **mine.arrays} if not _equal(mine.arrays.get(each), theirs.arrays.get(each))
            ]
            numbers, expected = mine.numbers, theirs.numbers
            # by repr, in which NaN equals itself and 1 differs from 1.0
            wrong += [each for each in {**expected, **numbers} if repr(numbers.get(each)) != repr(expected.get(each))]
            if not wrong:
                wrong = list(_other_header(mine.header, theirs.header, path.name))
            if wrong:
                yield f"{name}: {_few(wrong)} differs from what was computed"

    def not_computed(self, epochs: Epochs) -> list[str]:
        """Return the checkpoints that the computation has nothing to compare with: a node saved them within an epoch, or their
        state is that of one worker of an attempt that failed."""
        same_nodes = len(_node_numbers(self._within(epochs))) == len(_node_numbers(read_hashes(self.again)))
        within = [path for path in checkpoints_of(self.run) if self.start < _epoch_of(path) <= self.until]
        return [
            path.relative_to(self.run).as_posix()
            for path in within
            if self._same_checkpoint(path, same_nodes=same_nodes) is None
        ]

    def _same_checkpoint(self, path: Path, *, same_nodes: bool) -> Path | None:
        """Return the checkpoint of the computation that one of the run must be equal to; None where it has none."""
        # where all went on with the state of one worker, there may be that, or the own one
        joint = not self.last and position_of(path.name) == Position(self.until, 0)
        if joint or not self.start < _epoch_of(path) <= self.until:
            return None
        theirs = [each for each in checkpoints_of(self.again) if each.name == path.name]
        own = next((each for each in theirs if node_of(each) == node_of(path)), None) if same_nodes else None
        # a state that is common may be compared with that of any worker
        if own is None and node_of(path) >= 0:
            workers = (each for each in theirs if node_of(each) >= 0)
            return next((each for each in workers if not Snapshot.read(_content(each)).header.personal), None)
        return own


def other_identities(file: JobFile, now: Identities) -> list[str]:
    """Return the parts in which the processes that trained a run differ from those that computed it again, in words."""
    was = [text for texts in file.nodes.values() for text in texts]
    if not was:
        return ["processes that it does not tell"]
    portable = file.options.get("bits") == PORTABLE
    return differences(was, [text for texts in now.values() for text in texts], portable=portable)


def _weights(epochs: Epochs, computed: Epochs, same_nodes: bool, joint: int) -> Iterator[str]:
    for epoch in sorted(computed):
        for variable in dict.fromkeys([*epochs.get(epoch, {}), *computed[epoch]]):
            mine, theirs = epochs.get(epoch, {}).get(variable, {}), computed[epoch].get(variable, {})
            for node, value in sorted(mine.items()):
                own = same_nodes and node in theirs and epoch != joint
                if value not in ({theirs[node]} if own else set(theirs.values())):
                    yield f"after epoch {epoch} the variable {variable} differs from that of the run"
            if not mine:
                yield f"after epoch {epoch} the tables of the weights lack the variable {variable}"


def _rows(path: Path) -> Iterator[list[str]]:
    """Yield the rows of a table as texts, so that numbers that are not finite are compared, too."""
    return csv.reader(Door(path.parent).text(path.name, MOST_TABLE).splitlines())


def _steps_in(path: Path) -> list[tuple[str, ...]]:
    """Return the rows of a table of block steps without the time, which no computation has again."""
    return [tuple(row[1:]) for row in [*_rows(path)][1:]]


def _position_in(row: Sequence[str]) -> Position:
    """Return the position before the batch of a row without its time; behind all where it tells none."""
    if not all(each.isdecimal() for each in row[:2]) or len(row) < 2:
        return Position(MOST_EPOCHS, 0)
    return Position(int(row[0]) - 1, int(row[1]) - 1)


def _evaluations(path: Path) -> dict[str, list[dict[str, str]]]:
    """Return the rows of a table of evaluations by epoch, each as texts by column; an honest table has one for each."""
    head, *rows = [*_rows(path)] or [[]]
    found: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        values = dict(zip_longest(head, row, fillvalue=""))
        found.setdefault(values.pop("Epoch", ""), []).append(values)
    return found


def _told(rows: list[dict[str, str]]) -> str:
    return " and ".join(map(_pairs, rows)) or "none"


def _alike(row: list[str] | None, other: list[str] | None, width: int, places: Collection[int]) -> bool:
    """Tell if two rows of tables with as many columns have equal values at some places."""
    if row is None or other is None or not len(row) == len(other) == width:
        return row == other
    return all(row[place] == other[place] for place in places)


def _row(row: list[str] | None) -> str:
    return "none" if row is None else ",".join(row)


def _other_header(mine: Header, other: Header, name: str) -> Iterator[str]:
    """Yield the fields of the header of a checkpoint that differ from those of the computation, or from its name."""
    if mine.position != position_of(name):
        yield "position"
    for field in _OF_THE_SETTINGS:
        if getattr(mine, field) != getattr(other, field):
            yield field
    # by repr, in which NaN equals itself
    if repr(sorted(mine.progress.evaluation.items())) != repr(sorted(other.progress.evaluation.items())):
        yield "evaluation"


def _epoch_of(path: Path) -> int:
    position = position_of(path.name)
    return 0 if position is None else position.epoch


def _content(path: Path) -> bytes:
    """Return the content of a model or checkpoint, a regular file below its folder. Raises: RecordError; FileNotFoundError."""
    # through the door: a model in a strange folder may be a link or a pipe (RUN-7)
    return Door(path.parent).read(path.name, MAX_FILE)


def _same(claimed: object, value: float) -> bool:
    # a figure may be NaN in an honest run, and NaN differs from itself
    return isinstance(claimed, (int, float)) and (claimed == value or (math.isnan(claimed) and math.isnan(value)))


def _equal(one: Any, other: Any) -> bool:
    return one is not None and other is not None and hash_of(one) == hash_of(other)


def _further(metadata: Mapping[str, str]) -> dict[str, str]:
    # these are compared by themselves
    return {name: value for name, value in metadata.items() if name not in ("config", "sha256")}


def _config(metadata: Mapping[str, str]) -> dict[str, Any]:
    content = json.loads(metadata.get("config", "{}"))
    return content if isinstance(content, dict) else {}


def _node_numbers(epochs: Epochs) -> set[int]:
    return {node for rows in epochs.values() for values in rows.values() for node in values}


def _few(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items()) or "none"
