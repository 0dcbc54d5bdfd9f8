"""Sweep: every combination of a grid and of seeds is a run, trained once and known again by its identity."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import logging
import math
import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from network.errors import NetworkError
from network.key_files import find_keys_for
from network.nodes import Address, NodeAssignment
from nn import arguments
from nn.dataset.interface import Arrays, load_checked
from nn.extension import checked_call
from nn.model import Model
from nn.model.model_file import pack
from nn.registry import custom_classes
from rpc import NodeBusy
from rpc.submit import telling
from rpc.submit.run_folder import shown
from rpc.support.logs import COPIED, PLAIN, QUIET, SUBMIT_LOGGER, attach_console, clean, get_logger, verbosity
from rpc.support.processors import usable_cores
from rpc.support.temporary import TemporaryFolder

from ..codec.compose import CodecWarning
from ..codec.interfaces import Codec
from ..engine.channel import Parameter_Server
from ..job import ParallelSGD, Work, run_job, work_of
from ..nodes import InProcessNodes, LocalNodes, in_process
from ..options.compatibility import check_data
from ..options.job_options import JobOptions
from ..options.make_spec import make_spec, with_data
from ..record.bounds import check_title
from ..record.numbers import figure, seconds
from ..record.run import JobResult
from .agents import AWAY_SECONDS, SharedAgents, unreached
from .grid import PARTS, WORKERS, Combination, Grid, checked_options, checked_seeds, combinations
from .identity import identity_of, parts_of_identity
from .page import PAGE, write_page
from .pool import Ended, Pool
from .results import RESULTS, SUMMARY, TABLE, Row, SweepResult
from .runs import DONE, FAILED, IDENTITY, INTERRUPTED, MEASURED, NOT_RUN, Told, found_runs, told_of

__all__ = ["SWEEPS", "sweep"]

SWEEPS: Final = "sweeps"
"""Folder, in the directory of the runs, with a folder for each sweep."""
_LOCK: Final = ".lock"
_WORKERS: Final = 2
#: Least time between two writings of the tables, each of which has all rows and goes to the disk.
_WRITE_SECONDS: Final = 1.0
_MOST_TEXT: Final = 500
_log = get_logger(SUBMIT_LOGGER)


class _Run(NamedTuple):
    """Run that is planned: its combination with the checked options, its seed, and its identity."""

    combination: Combination
    work: Work
    options: JobOptions
    seed: int
    identity: str

    @property
    def nodes(self) -> int:
        """Number of nodes that it needs."""
        return len(self.options.nodes)

    @property
    def told(self) -> str:
        return f"{self.combination.told}, seed={self.seed}"


@dataclass(frozen=True)
class _Order:
    """Order to a process of the pool: the number of a run, the agents that it takes, and whether a connection to them has
    broken before, though all could be reached."""

    number: int
    agents: tuple[Address, ...] = ()
    again: bool = False


@dataclass(frozen=True)
class _Unreached:
    """Answer about a run that has not begun: why agents cannot be reached, by address."""

    reasons: Mapping[Address, str]


_Answer = Told | _Unreached | None  # None: an agent was busy
_FIRST: Final = "is_first"  # of a record, whether no process has told its text before


class _Once(logging.Filter):
    """Filter that lets a warning through in the first process alone that has it.

    Args:
        folder: gets a file for each text, by which processes know that another one has told it.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING:
            return True
        # once for all handlers
        if (first := getattr(record, _FIRST, None)) is None:
            first = vars(record)[_FIRST] = self._is_first(record.getMessage())
        return bool(first)

    def _is_first(self, text: str) -> bool:
        name = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
        try:
            os.close(os.open(os.path.join(self._folder, name), os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return False
        except OSError:
            # rather twice than never
            return True
        return True


@checked_call
def sweep(
    job: ParallelSGD,
    grid: Grid,
    seeds: int | Sequence[int] = 1,
    *,
    nodes: NodeAssignment | None = None,
    title: str = "sweep",
    directory: str | Path = ".",
    processes: int | None = None,
    new_weights: bool = True,
    retry: bool = False,
    verbose: int = 1,
    **options: Any,
) -> SweepResult:
    """Train every combination of a grid with every seed, each once: runs that are done are known again and not trained again.

    A run has an identity: a hash of the options that decide about its result, of its first weights, its data, blocks, seed,
    and of the versions. It stands in the record of the run in `directory/runs`, so a sweep that was interrupted, or has a
    larger grid, goes on with the missing runs. Runs that were interrupted are trained again, runs that failed with `retry`.

    Args:
        job: model, data set and transform.
        grid: by setting, the values that it takes. A setting is an option of `ParallelSGD.parallel`, `workers`, or `model`,
            `dataset` and `transform` in place of those of the job. The values are a list, or a dict of them by label. Of
            `gd_params` and `codec_extra_parameters` a dict gives the values of single parameters. Several grids in a list
            are run one after the other.
        seeds: number of seeds, from 0, or the seeds. Each is the seed of the first weights and of every draw of training.
        nodes: where runs are trained. Those of `in_process` and `simulated` compute in a pool of processes of this machine,
            one run in each; agents are shared out, `workers` of them to each run, as they are free. Default: 2 workers in
            process.
        title: name of the sweep and its runs, `runs/<title>-<number>`.
        directory: with the folder `runs`, and `sweeps/<title>` for the tables and the page.
        processes: most runs at once; default: as many as there are cores, or as agents suffice for.
        new_weights: False begins every run with the weights of the model.
        retry: train runs that have failed again.
        verbose: 0 shows warnings and errors only, 1 a line for each run.
        options: options of `ParallelSGD.parallel` that all runs have.

    Returns: the result, of which the tables and the page are in `directory/sweeps/<title>`.

    Raises: ValueError or TypeError naming the setting, the expectation and the value, and KeyFileError, before anything runs;
    KeyboardInterrupt, and NetworkError where too few agents can be reached for the runs that are left; those that are done
    stay.

    >>> result = parallel_sgd.sweep(job, {"codec": ["plain", "topk"]}, seeds=5, epoch=3)  # doctest: +SKIP
    >>> result.mean()  # doctest: +SKIP
    """
    arguments.instance("sweep()", "job", job, ParallelSGD)
    check_title(title, "title")
    for name, value in (("new_weights", new_weights), ("retry", retry)):
        if not isinstance(value, bool):
            raise TypeError(f"sweep() {name!r} must be True or False, got {value!r}")
    if processes is not None:
        arguments.integer("sweep()", "processes", processes, 1)
    numbers = checked_seeds(seeds)
    common = checked_options(options)
    every = combinations(grid, common)
    attach_console()
    with verbosity(verbose, short=True), telling(f"Sweep {title}", _log):
        place = _Place(nodes)
        common |= {"mission_title": title, "directory": directory, "verbose": QUIET}
        planner = _Planner(work_of(job), place, common, new_weights)
        runs = planner.runs(every, numbers)
        folder = Path(directory) / SWEEPS / title
        with _locked(folder, title):
            progress = _Progress(runs, planner, Path(directory), SweepResult(title, folder, ()))
            progress.train(place, processes, retry)
            return progress.result


class _Place:
    """Place where runs are trained: this machine's processes, or agents that are shared out.

    Args:
        nodes: as `sweep` takes them.

    Attributes:
        agents: the addresses of all agents; none for runs in processes of this machine.
    """

    def __init__(self, nodes: NodeAssignment | None) -> None:
        if nodes is not None:
            arguments.instance("sweep()", "nodes", nodes, NodeAssignment)
            nodes.check_open()
        self._given = in_process(_WORKERS) if nodes is None else nodes
        inside = isinstance(self._given, InProcessNodes)
        self.agents = () if inside else tuple(address for _, address in sorted(self._given.items(), key=_workers_first))

    def nodes(self, workers: object, codec: Any = None) -> NodeAssignment:
        """Return nodes for a run, with a parameter server where its codec needs one.

        Args:
            workers: number of workers, None for that of the given nodes.
            codec: its codec, a class or classes by variable; None where it follows from the nodes.

        Raises: ValueError, TypeError for a number that does not do.
        """
        given = self._given
        count = len(given.worker_ids) if workers is None else arguments.integer("sweep()", WORKERS, workers, 1)
        # without a codec for all variables the given nodes decide
        server = _needs_server(codec) or (given.has_parameter_server and not isinstance(codec, type))
        if isinstance(given, InProcessNodes):
            return given.resized(count, server)
        if server and not given.has_parameter_server:
            # the job says so, with the remedy
            server = False
        if count + server > len(self.agents):
            most = len(self.agents) - server
            raise ValueError(f"sweep() 'workers' must be at most {most}, for which there are agents, got {count}")
        return self._assigned(self.agents[: count + server], server)

    def check_key(self) -> None:
        """Raises: KeyFileError where there is no key for the agents."""
        given = self._given.key_file
        find_keys_for(self.agents, Path(given) if given else None, os.environ)

    def taken(self, like: NodeAssignment, agents: Sequence[Address]) -> NodeAssignment:
        """Return the nodes of a run on these agents; without agents those that it was planned with."""
        return self._assigned(agents, like.has_parameter_server) if agents else like

    def _assigned(self, agents: Sequence[Address], server: bool) -> NodeAssignment:
        # nodes of this program: its jobs end with it, and Ctrl-C stops them, but agents that it has not started stay
        lasting = not isinstance(self._given, LocalNodes) or self._given.lasting
        nodes = LocalNodes(self._given.key_file, lasting=lasting)
        nodes.lives = self._given.lives
        ids = [*range(len(agents) - server), *([Parameter_Server] if server else [])]
        for node, address in zip(ids, agents, strict=True):
            nodes.add(node, address)
        return nodes


def _workers_first(item: tuple[int, Address]) -> tuple[bool, int]:
    return item[0] < 0, item[0]


class _Planner:
    """Planner of the runs of a sweep, each of which is checked as its job would be.

    Args:
        work: model, data set and transform of the job.
        place: where runs are trained.
        common: options of all runs.
        new_weights: whether each seed has weights of its own.
    """

    def __init__(self, work: Work, place: _Place, common: Mapping[str, Any], new_weights: bool) -> None:
        self._work, self._place, self._common, self._new_weights = work, place, common, new_weights
        # by object: a data set is loaded once for all runs
        self._arrays: dict[int, Arrays] = {}
        self._starts: dict[tuple[int, int], str] = {}
        self._warned: set[str] = set()
        # one copy is begun anew for each seed: to build a model takes longer than to draw its weights
        self._copies: dict[int, Model] = {}

    def _warn_once(self, message: str) -> None:
        """Warn of the data that all combinations share; each of them finds it."""
        if message not in self._warned:
            self._warned.add(message)
            _log.warning("%s", message)

    def runs(self, every: Sequence[Combination], seeds: Sequence[int]) -> list[_Run]:
        """Return all runs. Raises: ValueError, TypeError naming the combination."""
        found: list[_Run] = []
        for combination in every:
            try:
                found += self._of(combination, seeds)
            except (ValueError, TypeError) as error:
                # a subclass may want other arguments than a message
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"sweep(), {combination.told}: {error}") from error
        return found

    def train(self, run: _Run, nodes: NodeAssignment) -> JobResult:
        """Train a run on nodes. Raises: as `ParallelSGD.parallel`."""
        model = _begun(_copied(run.work.model), run.seed, self._new_weights)  # a copy: the model of the program stays as it is
        options = replace(run.options, nodes=nodes, seed=run.seed)
        arrays = self._arrays[id(run.work.data)]
        # what the plan of the runs has warned of is known here, also in a child, which is forked after it
        return run_job(run.work._replace(model=model), options, {IDENTITY: run.identity}, arrays, self._warn_once)

    def _of(self, combination: Combination, seeds: Sequence[int]) -> Iterator[_Run]:
        given = {**self._common, **combination.values}
        parts = {("data" if name == "dataset" else name): given.pop(name) for name in PARTS if name in given}
        work = self._work._replace(**parts)
        if not work.model.built:
            raise ValueError("'model' must have its variables: give it an input_shape and call setup()")
        workers = given.pop(WORKERS, None)
        options = JobOptions(self._place.nodes(workers), **given).without_words()
        # again: the codec is known now, and some need a server
        options = replace(options, nodes=self._place.nodes(workers, options.codec))
        spec = make_spec(work.model, work.data, work.transform, options)
        if id(work.data) not in self._arrays:
            self._arrays[id(work.data)] = load_checked(work.data)
        arrays = self._arrays[id(work.data)]
        check_data(work.model, arrays, work.transform, with_data(spec, arrays).plan, work.data, self._warn_once)
        told = parts_of_identity(spec)
        if id(work.model) not in self._copies:
            self._copies[id(work.model)] = _copied(work.model)
        for seed in seeds:
            key = id(work.model), seed
            if key not in self._starts:
                self._starts[key] = hashlib.sha256(
                    pack(_begun(self._copies[id(work.model)], seed, self._new_weights))
                ).hexdigest()
            yield _Run(combination, work, options, seed, identity_of(told, self._starts[key], seed))


def _needs_server(codec: Any) -> bool:
    kinds = codec.values() if isinstance(codec, Mapping) else [codec]
    return any(kind.traits.needs_server for kind in kinds if isinstance(kind, type) and issubclass(kind, Codec))


def _copied(model: Model) -> Model:
    classes = custom_classes(model, *model._aim.losses, *model.metrics, model.rule, model.op_type)
    return Model.from_bytes(pack(model), classes)


def _begun(model: Model, seed: int, new_weights: bool) -> Model:
    """Begin a copy of a model as the run of a seed does, and return it."""
    if new_weights:
        model.seed = seed
        model.store.initialize(seed)
    return model


class _Progress:
    """Progress of a sweep: trains the missing runs, and keeps the tables up to date.

    Args:
        runs: all runs.
        planner: the planner that has made them.
        directory: with the folder `runs`.
        result: gets the rows.
    """

    def __init__(self, runs: Sequence[_Run], planner: _Planner, directory: Path, result: SweepResult) -> None:
        self._runs, self._planner, self._directory, self.result = runs, planner, directory, result
        self._told = found_runs(directory, (run.identity for run in runs))
        self._trained = self._missing = 0
        self._busy: set[Address] = set()
        self._written = -math.inf
        self._is_refused = False
        self._enter()

    def train(self, place: _Place, processes: int | None, retry: bool) -> None:
        """Train all runs that are missing, and write tables and page; after Ctrl-C, too.

        Args:
            place: where runs are trained.
            processes: most runs at once, None for as many as fit.
            retry: whether to train runs that have failed again.
        """
        again = (NOT_RUN, INTERRUPTED, *((FAILED,) if retry else ()))
        # each identity once: combinations may be the same job by two names
        missing = {run.identity: number for number, run in enumerate(self._runs) if self._state(run) in again}
        self._begin(len(missing))
        if place.agents and missing:
            place.check_key()
        most = processes or (len(place.agents) if place.agents else usable_cores())
        try:
            # its runs, in the children, leave the line on Ctrl-C to it
            told = telling(f"Sweep {self.result.title}", _log, whole=True)
            most_at_once = min(most, max(1, len(missing)))
            with (
                TemporaryFolder("sweep") as warned,
                Pool[_Order, _Answer](most_at_once, partial(self._carry_out, place, str(warned))) as pool,
                told,
            ):
                self._share_out(pool, place, list(missing.values()))
        finally:
            if self._trained < len(missing):
                # those under way have left folders, which tell how they ended
                self._told |= found_runs(self._directory, (self._runs[number].identity for number in missing.values()))
                self._enter()
                done = self.result.count(DONE)
                _log.warning(
                    "Sweep %s has ended early: %s of %s runs are done. The same sweep, started again, trains the others alone.",
                    self.result.title,
                    done,
                    len(self._runs),
                )
            self._write_all()

    def _write_all(self) -> None:
        """Write tables and page, and say where they are; one that the disk refuses is a warning."""
        result = self.result
        try:
            result.write()
            page = write_page(result)
        except OSError as error:
            # the result, and how the sweep has ended, do not give way to a file
            result.problem = f"{error.filename}: {error.strerror}"
            words = "Tables and page of the sweep %s are not all written: %s. The same sweep, started again, writes them."
            _log.warning(words, result.title, result.problem)
            return
        _log.info("tables   %s", shown(result.folder / RESULTS), extra=COPIED)
        _log.info("page     %s", shown(page), extra=COPIED)

    def _write_rows(self) -> None:
        """Write the rows while runs go on; of errors the first is a warning, for the last writing comes at the end."""
        try:
            # runs are known by their folders: a sweep that is killed loses none that the table lacks
            self.result.write(whole=False)
        except OSError as error:
            if not self._is_refused:
                self._is_refused = True
                _log.warning("%s cannot be written, the sweep goes on: %s.", error.filename, error.strerror)

    def _share_out(self, pool: Pool[_Order, _Answer], place: _Place, todo: list[int]) -> None:
        agents, ended = SharedAgents(place.agents), list[tuple[_Run, Told | Ended]]()
        again: set[int] = set()

        def needed(number: int) -> int:
            return self._runs[number].nodes if place.agents else 0

        while todo or pool.under_way or ended:
            now = time.monotonic()
            agents.wake(now)
            while todo and pool.has_room and (taken := agents.take(needed(todo[0]))) is not None:
                pool.give(_Order(number := todo.pop(0), taken, number in again))
            # behind the orders: no process waits for one while the tables are written
            for run, told in ended:
                self._ended(run, told)
            ended.clear()
            if not pool.under_way:
                if todo and (reason := agents.lacking(needed(todo[0]), now)):
                    # runs that need fewer agents go on
                    fitting = [number for number in todo if not agents.lacking(needed(number), now)]
                    if not fitting:
                        raise NetworkError(f"Too few agents can be reached for the runs that are left. {reason}")
                    first = set(fitting)
                    todo = [*fitting, *(number for number in todo if number not in first)]
                elif todo:
                    time.sleep(max(0.0, min(agents.wakes - now, AWAY_SECONDS)))
                continue
            for order, answer in pool.answers(agents.wakes - now if todo and agents.wakes < math.inf else None):
                if answer is None:
                    # another submitter has them: others are tried first, these again after a while
                    agents.rest(order.agents, time.monotonic())
                    todo.insert(0, order.number)
                    self._tell_busy(order)
                elif isinstance(answer, _Unreached):
                    for reason in agents.miss(order.agents, answer.reasons, time.monotonic()):
                        _log.warning("%s It is left out for now.", clean(reason, _MOST_TEXT))
                    todo.insert(0, order.number)
                    if not answer.reasons:
                        again.add(order.number)
                else:
                    agents.give_back(order.agents, served=isinstance(answer, Told) and answer.state == DONE)
                    ended.append((self._runs[order.number], answer))

    def _carry_out(self, place: _Place, told: str, order: _Order) -> _Answer:
        """Train a run, in a process of the pool; return its end, or None where an agent was busy.

        Args:
            place: where runs are trained.
            told: folder of the warnings that are told already.
            order: the run.
        """
        once = _Once(told)
        handlers = [*logging.getLogger().handlers]
        for handler in handlers:
            handler.addFilter(once)
        try:
            return self._end_of(place, order)
        finally:
            for handler in handlers:
                handler.removeFilter(once)

    def _end_of(self, place: _Place, order: _Order) -> _Answer:
        """Train a run; return how it ended, or None where an agent was busy."""
        run = self._runs[order.number]
        nodes = place.taken(run.options.nodes, order.agents)
        try:
            with warnings.catch_warnings():
                # told when the run was planned
                warnings.simplefilter("ignore", CodecWarning)
                result = self._planner.train(run, nodes)
        except NodeBusy:
            return None
        except Exception as error:  # noqa: BLE001  a run may fail by any code of its user
            # that an agent is gone tells nothing about the run, nor, once, that it was for a moment
            if isinstance(error, NetworkError) and order.agents:
                reasons = unreached(nodes)
                if reasons or not order.again:
                    return _Unreached(reasons)
            _log.debug("The run %s failed.", run.told, exc_info=error)
            told = found_runs(self._directory, [run.identity]).get(run.identity, Told(FAILED))
            return replace(told, state=FAILED, message=told.message or _text_of(error))
        # a result without files tells its figures alone
        return Told(DONE, figures=dict(result)) if result.folder is None else told_of(result.folder, result.history)

    def _ended(self, run: _Run, answer: Told | Ended) -> None:
        if isinstance(answer, Ended):
            told = found_runs(self._directory, [run.identity]).get(run.identity, Told(INTERRUPTED))
            answer = replace(told, state=INTERRUPTED, message=str(answer))
        self._told[run.identity] = answer
        self._trained += 1
        self._enter()
        now = time.monotonic()
        if now - self._written >= _WRITE_SECONDS:
            self._write_rows()
            self._written = now
        said = f"[{self._trained}/{self._missing}] {run.told}: "
        if answer.state != DONE:
            _log.warning("%s%s: %s", said, answer.state, clean(answer.message, _MOST_TEXT))
            return
        _log.info("%s%s", said, self._figures(answer), extra=PLAIN)

    def _figures(self, told: Told) -> str:
        figures = [f"{name} {figure(value)}" for name, value in told.figures.items()]
        figures += [f"{told.bytes:,.0f} bytes"] if told.bytes is not None else []
        figures += (
            [f"{seconds(told.seconds, 3)}{f' ({told.clock})' * (told.clock != MEASURED)}"] if told.seconds is not None else []
        )
        return ", ".join(figures)

    def _begin(self, missing: int) -> None:
        self._missing = missing
        known = [self._state(run) for run in self._runs]
        told = ", ".join(f"{known.count(state)} {state}" for state in (DONE, FAILED, INTERRUPTED) if state in known)
        _log.info(
            "Sweep %s: %s runs%s; %s to train.",
            self.result.title,
            len(known),
            told and f", {told} before",
            missing,
            extra=PLAIN,
        )

    def _tell_busy(self, order: _Order) -> None:
        # once: they are asked again every few seconds
        if new := set(order.agents) - self._busy:
            self._busy |= new
            _log.info("Busy with another job, and asked again: one of %s.", ", ".join(map(str, order.agents)), extra=PLAIN)

    def _state(self, run: _Run) -> str:
        return self._told[run.identity].state if run.identity in self._told else NOT_RUN

    def _enter(self) -> None:
        absent = Told(NOT_RUN)
        self.result.rows = [
            Row(
                run.combination.labels,
                run.seed,
                len(run.options.nodes.worker_ids),
                run.identity,
                self._told.get(run.identity, absent),
            )
            for run in self._runs
        ]


def _text_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:_MOST_TEXT]


@contextlib.contextmanager
def _locked(folder: Path, title: str) -> Iterator[None]:
    """Keep other programs from the same sweep, for as long as the block lasts.

    Raises: ValueError where another one is at it, the folder cannot be made, or another folder is in the place of a file of it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # before hours of training: a file goes, whatever it is, but no folder
        for name in (RESULTS, SUMMARY, TABLE, PAGE):
            if (folder / name).is_dir() and not (folder / name).is_symlink():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(folder / name))
        # not through a link, which could lead to any file
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise ValueError(f"'directory' must be a folder that can be written to: {error.filename}: {error.strerror}") from error
    try:
        try:
            # the kernel lets go of it however this process ends
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"The sweep {title!r} of {shown(folder)} goes on in another program; wait for its end") from None
        yield
    finally:
        os.close(lock)
