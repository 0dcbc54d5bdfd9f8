"""Run of a whole job inside this process: the work of agents, on memory channels, one node after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from nn.dataset.interface import Arrays
from nn.model import Model
from nn.threads import limited_to_one_thread
from rpc import new_job_id
from rpc.liveness.limits import LEAST_STEP_SECONDS
from rpc.monitor import Monitor
from rpc.shipping import pack
from rpc.submit import AGAIN, RunFolder, node_folder, uninterrupted
from rpc.support.logs import PLAIN, SUBMIT_LOGGER, get_logger
from rpc.user_code import hidden_notes

from ..checkpoint import CheckpointError, Keeper, Resumption, Store
from ..checkpoint.keeper import Checkpointing
from ..checkpoint.locate import FOLDER
from ..checkpoint.resume import IN_PROCESS
from ..checkpoint.state import ModelFile
from ..codec.parameters import warn_of_unread
from ..engine.accounts import NO_ACCOUNTS, AccountsOfNodes, NodeAccounts
from ..engine.callbacks import files_in
from ..engine.channel import Parameter_Server
from ..engine.exchange import Participant
from ..engine.parameter_server import Server, build_server
from ..engine.plan import likes_of
from ..engine.progress import START
from ..engine.training import Hooks, prepared
from ..engine.worker import Worker, build_worker
from ..errors import JobFailed
from ..options.spec import JobSpec
from ..record.identity import Told, own_identity
from ..record.job_record import keep_identities
from ..record.ledger import collect
from ..record.report import FIGURES, CommonTables, ServerTraffic, TrainingReport, model_name
from ..record.run import JobResult, new_run, unwritable
from ..record.spared import spared
from ..record.table import Earlier
from ..run_page.outcome import reported
from ..simulation.execution import MANY, SimulatedExecution, execution_of
from ..simulation.failures import Nodes
from ..simulation.keepers import SharedKeeper, SimulatedKeeper
from ..simulation.kernel import SAMPLE, Build, MemoryChannel, rare_collections
from ..simulation.nodes import SimulatedNodes
from ..simulation.shared import SharedContainer
from .simulated_run import SimulatedLoop, resumptions_of
from .standstill import StandstillWatch

START_SECONDS = 1.0  # for nodes that are here already
#: Begins of the names of the tables that a worker which was lost has left.
_LEFT: Final = tuple(f"{kind}-" for kind in (*FIGURES, "TI", "BA"))

if TYPE_CHECKING:
    from ..nodes import InProcessNodes
    from ..writers.live import Followers

_log = get_logger(SUBMIT_LOGGER)


def run_here(spec: JobSpec, arrays: Arrays, followers: Followers | None = None) -> JobResult:
    """Run a job inside this process, and keep the record of its run.

    Args:
        spec: the job.
        arrays: the four arrays that its data set has loaded.
        followers: console and writers that follow the job, or None.
    """
    job_id = new_job_id()
    run, _ = new_run(spec, arrays, job_id, IN_PROCESS)
    try:
        # also until the page is written: it is made of as many rows as the nodes have left
        with rare_collections(len(spec.options.nodes)):
            return _reported(run, spec, arrays, job_id, followers)
    finally:
        with spared("The folder of the run"):
            run.close()


def _patience(spec: JobSpec) -> float:
    """Return the seconds after which a call of the user's code that does not return is told."""
    # seconds of simulated workers are those of their virtual clock
    stall = None if isinstance(spec.options.nodes, SimulatedNodes) else spec.options.stall_timeout
    return stall or LEAST_STEP_SECONDS


def _reported(run: RunFolder, spec: JobSpec, arrays: Arrays, job_id: str, followers: Followers | None) -> JobResult:
    """Run the job in the folder of its run, with its outcome and its page."""
    with reported(run, spec, (len(arrays[0]), len(arrays[2])), job_id) as outcome:
        watch = StandstillWatch(_patience(spec))
        watch.begin()
        try:
            result = _run_in(run, spec, arrays, job_id, followers, outcome.attempt_failed, watch)
        except KeyboardInterrupt as error:
            # here, since what is reported of it has no frames of the user's
            watch.tell_of_interrupt(error.__traceback__)
            raise
        except Exception as error:
            for each in hidden_notes(error):
                _log.error("%s", each, extra=PLAIN)
            raise
        else:
            # the job has its results here, also for a Ctrl-C that comes now
            with uninterrupted(), spared("What the page says of the end"):
                outcome.done(result, result.failures, result.ledger.problems if result.ledger else (), result.simulated)
        finally:
            with spared("The end of the watch"):
                watch.end()
    result.report = outcome.page
    # the page has read the tables: not once more, where they are those of the same nodes
    with spared("The history of the run"):
        if outcome.records is not None and outcome.records.tables.keys() == result.files.keys():
            result.history = outcome.records.history
    return result


def _run_in(
    run: RunFolder,
    spec: JobSpec,
    arrays: Arrays,
    job_id: str,
    followers: Followers | None,
    on_failure: Callable[[int, JobFailed], None],
    watch: StandstillWatch,
) -> JobResult:
    shipped = spec.shipped()
    # the table of classes that packets may have, as agents would make it from the code that they get
    classes = pack({"objects": shipped}).classes  # and a job that could not travel is refused here too
    nodes = _NodesHere(run, spec, arrays, job_id, followers)
    execution = nodes.execution
    watch.progress = nodes.progress
    # the nodes take turns, each with as many threads as a worker would have; with more than one the machine's setting stays
    threads = contextlib.ExitStack()
    try:
        if spec.options.blas_threads == 1:
            threads.enter_context(limited_to_one_thread())
        identity = own_identity()  # here, with the threads that train
        # without faults and restarts one run is all: no loop, and no agents
        if isinstance(execution, SimulatedExecution) and (execution.faults.faults or spec.policy in AGAIN):
            loop = SimulatedLoop(spec, arrays, job_id, execution, nodes.builds)
            loop.on_failure = on_failure
            with execution.watched():
                results = loop.run()
            restarts, lost = loop.recovery.restarts, loop.lost
        else:
            results, restarts, lost = execution.run(nodes.builds(0), classes, spared), 0, {}
    finally:
        with spared("The end of the nodes"):
            nodes.close()
        with spared("The setting of threads"):
            threads.close()
    # the job has its figures: from here on an error is a warning
    with spared("The identities of the nodes"):
        keep_identities(run.path, [Told(1, node, identity) for node in nodes.told])
    for node in lost:
        # RUN-8: figures of the others count
        nodes.workers.pop(node, None)
        nodes.participants.pop(node, None)
    workers, participants = nodes.workers, nodes.participants
    accounts: Mapping[int, NodeAccounts] = dict.fromkeys(participants, NO_ACCOUNTS)
    with spared("The accounts of the nodes"):
        accounts = _accounts_of(participants)
    with spared("The look for parameters that no codec read"):
        unread = [participant.exchange.bank.unread_parameters for participant in participants.values()]
        warn_of_unread(spec.plan.codec_parameters, unread, spec.codecs())
    files: dict[int, list[Path]] = {node: [] for node in participants}
    with spared("The files of the nodes"):
        files = nodes.files(accounts)
    ledger = None
    with spared("The ledger"):
        batches = spec.plan.batches(len(nodes.samples[0]))
        # where only a few have tables, rows would be lacking that no worker has lost
        if nodes.all_told:
            first = workers[min(workers)]
            ledger = collect(spec.options.mission_title, files, spec.grid(batches.count, first.epochs, first.sizes))
    figures = {node: results[node] for node in workers}
    models = {node: worker.model for node, worker in workers.items()}
    return JobResult(figures, models, files, accounts, job_id, lost, restarts, ledger, execution.simulated)


def _accounts_of(participants: Mapping[int, Participant]) -> Mapping[int, NodeAccounts]:
    """Return the accounts of the nodes, each made when it is asked for."""
    made: dict[int, Callable[[], NodeAccounts]] = {node: lambda: NO_ACCOUNTS for node in participants}
    for node, participant in participants.items():
        with spared(f"The accounts of node({node})"):
            made[node] = participant.exchange.bank.accounts.close_later(participant.exchange.bank.staleness)
    return AccountsOfNodes(made)


class _NodesHere:
    """Nodes of a job in this process: their folders, tables and checkpoints outlive the attempts that build them.

    Args:
        run: the folder of the run.
        spec: the job.
        arrays: the four arrays that its data set has loaded.
        job_id: id of the job.
        followers: console and writers that follow the job, or None.

    Attributes:
        samples: the samples, prepared.
        execution: that of the job.
        workers: the workers of the newest attempt, by node.
        participants: these, and the parameter server.

    Raises: CheckpointError for a job that is to go on from checkpoints that are not here.
    """

    def __init__(self, run: RunFolder, spec: JobSpec, arrays: Arrays, job_id: str, followers: Followers | None) -> None:
        self._run, self._spec, self._job_id = run, spec, job_id
        self._content, self._classes = spec.model_file, spec.shipped()["custom_objects"]
        self._whole = Model.from_bytes(self._content, self._classes)
        # once for all nodes: the seed keys the draws of a transform, so each would make the same samples
        self.samples = prepared(self._whole, spec.transform, arrays, spec.options.seed, keeps_plan=spec.inputs is not None)
        self.execution = execution_of(cast("InProcessNodes", spec.options.nodes), spec.plan, self._whole, self.samples)
        self._plan = self.execution.plan(spec.plan)
        self._together: Model | None = None  # of all workers in equal states
        self._agents: Nodes | None = None
        self.workers: dict[int, Worker] = {}
        self.participants: dict[int, Participant] = {}
        self._folders: dict[int, Path] = {}
        self._stores: dict[int, Store] = {}
        self._common: SimulatedKeeper | None = None
        self._reports: dict[int, TrainingReport] = {}
        self._tabled: Collection[int] = ()
        self._common_tables: CommonTables | None = None
        self._server_files: list[Path] = []
        # before any worker is built, so that a job without its checkpoints is refused at once
        self._resumptions = _resumptions(spec)
        self._followed = None if followers is None else followers.tables(run, job_id)
        if self._followed is not None:
            self._followed.begin(spec.plan.assignment.nodes)

    @property
    def all_told(self) -> bool:
        """Whether the block steps of all workers are in tables."""
        return self.workers.keys() <= self._reports.keys() or self._common_tables is not None

    @property
    def told(self) -> list[int]:
        """Nodes that the record names one by one: those with tables, and the parameter server."""
        return sorted(node for node in self._spec.options.nodes if node < 0 or node in self._tabled)

    def progress(self) -> object:
        """Return batch and seconds of each node, which change as calls of the user's return."""
        accounts = [participant.exchange.bank.accounts for participant in [*self.participants.values()]]
        watches = [each.watch for each in accounts]
        return [each.step for each in accounts], [(each.encode, each.send, each.merge, each.wait) for each in watches]

    def builds(self, attempt: int, watched_by: Nodes | None = None) -> dict[int, Build]:
        """Return the builds of an attempt, which goes on from the newest state of those before it.

        Args:
            attempt: its number, from 0.
            watched_by: the agents of its nodes, where there are some.
        """
        spec, self._agents = self._spec, watched_by
        # the attempt is part of the key of every packet (FD-14)
        plan = self._plan = self.execution.plan(replace(spec.plan, attempt=attempt))
        self._together = Model.from_bytes(self._content, self._classes) if self.execution.shared else None
        nodes = plan.assignment.nodes
        self._tabled = _tabled(nodes, self.execution.shared, watched_by is not None)
        if watched_by is None and len(self._tabled) < len(nodes):
            first = min(nodes)
            earlier = self._resumptions[first].earlier() if first in self._resumptions else None
            place, names = self._run.path / node_folder(first), self._whole.result_names[1:]
            self._common_tables = CommonTables(place, spec.options.mission_title, names, earlier)
        if attempt:
            # closed first, so that the newest checkpoint is on the disk when the next attempt looks
            self._close_common()
            server = Parameter_Server if spec.server_keeps else None
            self._resumptions.update(resumptions_of(self._stores, nodes, server, self._folders))
        builds: dict[int, Build] = {node: partial(self._build, node) for node in nodes}
        if spec.options.nodes.has_parameter_server:
            builds[Parameter_Server] = self._build_server
        return builds

    def close(self) -> None:
        """Write the files that all nodes have in common; an error is a warning."""
        with spared("The keeper of the checkpoints"):
            self._close_common()
        with spared("The common tables of the workers"):
            if self._common_tables is not None:
                for node in self.workers.keys() - self._reports.keys():
                    self._common_tables.traffic(node, self.workers[node].exchange.accounts.traffic)
                self._common_tables.write()

    def files(self, accounts: Mapping[int, NodeAccounts]) -> dict[int, list[Path]]:
        """Write the files that workers leave at the end, and return the files of each node that are there.

        Args:
            accounts: those of the nodes.
        """
        files: dict[int, list[Path]] = {node: [] if node in self.workers else self._server_files for node in self.participants}
        for node, report in self._reports.items():
            if node in self.workers:
                model = self._folders[node] / model_name(self._spec.options.mission_title, node)
                with spared(f"The files of node({node})"):
                    files[node] = _files_of(node, self.workers[node], report, accounts[node], model)
            else:
                # a worker without which the others went on has left its figures until then, as on agents
                with spared(f"The tables of node({node})"):
                    report.save()
                    files[node] = [path for path in report.paths if path.name.startswith(_LEFT) and path.is_file()]
        if self._common_tables is not None:
            files[min(self.workers)] += [path for path in self._common_tables.paths.values() if path.is_file()]
        return files

    def _build(self, node: int, channel: MemoryChannel) -> Worker:
        # shared by all workers in equal states, else one for each
        model = self._together or Model.from_bytes(self._content, self._classes)
        model.inputs = self._whole.inputs
        folder, execution, agents, followed = self._folder(node), self.execution, self._agents, self._followed
        report = steps = None
        if node in self._tabled:
            title = self._spec.options.mission_title
            report = self._reports[node] = TrainingReport(folder, title, node, model.result_names[1:], self._earlier(node))
        elif self._common_tables is not None and agents is None:
            steps = self._common_tables.steps(node)
        worker = self.participants[node] = self.workers[node] = build_worker(
            self._plan,
            model,
            self.samples,
            channel,
            execution.monotonic,
            Hooks(
                report,
                progress=None if followed is None or report is None else lambda *_: followed.read(node, report.paths),
                monitor=self._monitor(node),
                faults=None if agents is None else agents.inject(node),
                folder=folder,
                block=execution.block(node),
                evaluation=execution.evaluation(node, self._plan),
                steps=steps,
                feeder=execution.feeder,
            ),
            Checkpointing(self._resumptions.get(node), self._keeper(node, folder), self._spec.server_keeps, self._job_id),
        )
        return worker

    def _build_server(self, channel: MemoryChannel) -> Server:
        spec, node = self._spec, Parameter_Server
        folder = self._folder(node)
        server = build_server(
            self._plan,
            likes_of(spec.model.store),
            channel,
            self.execution.monotonic,
            START_SECONDS,
            has_buffers=bool(spec.model.store.buffers),
            checkpointing=Checkpointing(self._resumptions.get(node), self._keeper(node, folder) if spec.server_keeps else None),
            faults=None if self._agents is None else self._agents.inject(node),
        )
        # one that remembers nothing has no state, and yet a table
        known = None if spec.resume is None or spec.resume.local is None else spec.resume.local.held.tables(node)
        before = folder if self._plan.attempt else known
        earlier = self._resumptions[node].earlier() if node in self._resumptions else None
        table = ServerTraffic(folder, spec.options.mission_title, node, earlier, before)
        server.exchange.counted = table.add
        self._server_files[:] = [table.path]
        self.participants[node] = server
        return server

    def _earlier(self, node: int) -> Earlier | None:
        """Return the part of the tables of a node that is over, None where it begins."""
        if (resumption := self._resumptions.get(node)) is not None:
            if self._common_tables is None:
                return resumption.earlier()
            if node == min(self._tabled):
                # workers that had tables of their own, and have none here
                folders = (self._resumptions[other].tables for other in sorted(self._resumptions.keys() - {*self._tabled}))
                left = [folder for folder in folders if folder is not None and any(folder.glob("TR-*.csv"))]
                resumption = replace(resumption, others=[*resumption.others, *left])
            # the common table carries the rows of such a one on
            return replace(earlier, splits=False) if (earlier := resumption.earlier()) is not None else None
        # rows of earlier attempts that no checkpoint covers stay in the ledger as undone
        return Earlier(self._folders[node], START) if self._plan.attempt else None

    def _folder(self, node: int) -> Path:
        # once for all attempts: each goes on in the folder of the one before
        if node not in self._folders:
            folder = self._folders[node] = self._run.path / node_folder(node)
            if node < 0 or node in self._tabled or self._spec.options.checkpoint_every is not None:
                try:
                    folder.mkdir()
                    self._run.has(node)
                except OSError as error:
                    raise unwritable(self._spec.options.directory, error) from error
        return self._folders[node]

    def _monitor(self, node: int) -> Monitor:
        made = Monitor()
        if self._agents is not None:
            made.attach(self._agents.signals(node))
        return made

    def _keeper(self, node: int, folder: Path) -> Keeper | None:
        options, agents = self._spec.options, self._agents
        if options.checkpoint_every is None:
            return None
        path = folder / model_name(options.mission_title, node)
        # a parameter server has no model
        model = ModelFile(self._content, self._classes, path, self._whole.inputs) if node >= 0 else None
        store = Store(folder / FOLDER, self._job_id, keep_every=options.keep_every)
        # without attempts that fail, checkpoints are written beside training, as on agents
        if agents is None:
            return Keeper(store, self._spec.plan.header(self._job_id, node), model)
        header = self._plan.header(self._job_id, node)
        container = self._plan.optimizer
        if node < 0 or not isinstance(container, SharedContainer) or container.state is None:
            self._stores[node] = store
            own = agents.keepers[node] = SimulatedKeeper(store, header, model)
            return own
        # one keeper writes for all workers that share the state
        if self._common is None:
            self._stores[node], self._common = store, SimulatedKeeper(store, header, model)
        begin = self._resumptions[node].position if node in self._resumptions else START
        shared = agents.keepers[node] = SharedKeeper(self._common, container.state, begin)
        return shared

    def _close_common(self) -> None:
        if self._common is not None:
            self._common.close()
        self._common = None


def _tabled(nodes: Sequence[int], shared: bool, again: bool) -> Collection[int]:
    """Return the workers that have tables of their own.

    Args:
        nodes: the workers.
        shared: whether they share a state: then all apply the same, and a few tell of it.
        again: whether they are started again after failures.
    """
    if not shared or (len(nodes) <= MANY and not again):
        return frozenset(nodes)
    return frozenset(sorted(nodes)[: 1 if again else SAMPLE])


def _files_of(node: int, worker: Worker, report: TrainingReport, accounts: NodeAccounts, model: Path) -> list[Path]:
    """Write the files that a worker leaves at its end, the model at `model`; return those that are there."""
    with spared(f"The model of node({node})"):
        worker.model.save(model)
    with spared(f"The table of the accounts of node({node})"):
        report.accounts(accounts, worker.exchange.names)
    with spared(f"The table of the costs of node({node})"):
        report.costs(worker.exchange.accounts.costs(), worker.exchange.names)
    with spared(f"The tables of node({node})"):
        report.close()
    files = [path for path in (*report.paths, model) if path.is_file()]
    with spared(f"The files of the callbacks of node({node})"):
        if worker.callbacks is not None:
            files += [found for found in files_in(model.parent) if found not in files]
    return files


def _resumptions(spec: JobSpec) -> dict[int, Resumption]:
    """Return the state at which each node goes on.

    Raises: CheckpointError for a job with checkpoints that are with agents, or nowhere.
    """
    if spec.resume is None:
        return {}
    found = spec.resume.local
    if found is None:
        # checkpoints that are with agents cannot be reached from this process
        raise CheckpointError(
            f"'resume' names job {spec.resume.jobs[0]}, of which there is no checkpoint here: give the directory of its "
            f"run, or nodes that have run it"
        )
    _log.info("%s", found.choice.said)
    nodes = [*spec.plan.assignment.nodes, Parameter_Server]
    return {node: resumption for node in nodes if (resumption := found.resumption(node)) is not None}
