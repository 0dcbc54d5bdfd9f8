"""Run of a whole job inside this process: the work of agents, on memory channels, one node after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from nn.dataset.interface import Arrays
from nn.model import Model
from nn.threads import limited_to_one_thread
from rpc import new_job_id
from rpc.monitor import Monitor
from rpc.shipping import pack
from rpc.submit import AGAIN, RunFolder, node_folder
from rpc.support.logs import SUBMIT_LOGGER, get_logger

from ..checkpoint import CheckpointError, Keeper, Resumption, Store
from ..checkpoint.keeper import Checkpointing
from ..checkpoint.locate import FOLDER
from ..checkpoint.resume import IN_PROCESS
from ..checkpoint.state import ModelFile
from ..codec.parameters import warn_of_unread
from ..engine.accounts import NO_ACCOUNTS, AccountsOfNodes, NodeAccounts
from ..engine.batches import Batches
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
from ..record.report import CommonTables, ServerTraffic, TrainingReport, model_name
from ..record.run import JobResult, new_run
from ..record.spared import spared
from ..record.table import Earlier
from ..run_page.outcome import reported
from ..simulation.execution import MANY, SimulatedExecution, execution_of
from ..simulation.failures import Nodes
from ..simulation.keepers import SharedKeeper, SimulatedKeeper
from ..simulation.kernel import SAMPLE, Build, MemoryChannel
from ..simulation.shared import SharedContainer
from .simulated_run import SimulatedLoop, resumptions_of

START_SECONDS = 1.0  # for nodes that are here already

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
    run = new_run(spec, job_id, IN_PROCESS)
    try:
        with reported(run, spec, (len(arrays[0]), len(arrays[2])), job_id) as outcome:
            result = _run_in(run, spec, arrays, job_id, followers, outcome.attempt_failed)
            with spared("What the page says of the end"):
                outcome.done(result, {}, result.ledger.problems if result.ledger else (), result.simulated)
        result.report = outcome.page
        return result
    finally:
        with spared("The folder of the run"):
            run.close()


def _run_in(
    run: RunFolder,
    spec: JobSpec,
    arrays: Arrays,
    job_id: str,
    followers: Followers | None,
    on_failure: Callable[[int, JobFailed], None],
) -> JobResult:
    shipped = spec.shipped()
    # the table of classes that packets may have, as agents would make it from the code that they get
    classes = pack({"objects": shipped}).classes  # and a job that could not travel is refused here too
    content, title = spec.model_file(), spec.options.mission_title
    whole = Model.from_bytes(content, shipped["custom_objects"])
    # once for all nodes: the seed keys the draws of a transform, so each would make the same samples
    samples = prepared(whole, spec.transform, arrays, spec.options.seed, keeps_plan=spec.inputs is not None)
    execution = execution_of(cast("InProcessNodes", spec.options.nodes), spec.plan, whole, samples)
    plan, together = execution.plan(spec.plan), None
    agents: Nodes | None = None
    # state of several attempts is kept out here: `builds_of` is called for each, `build` for each node of it
    stores: dict[int, Store] = {}
    common: SimulatedKeeper | None = None
    workers: dict[int, Worker] = {}
    participants: dict[int, Participant] = {}
    folders: dict[int, Path] = {}
    server_keeps = spec.server_keeps
    reports: dict[int, TrainingReport] = {}
    server_files: list[Path] = []
    # before any worker is built, so that a job without its checkpoints is refused at once
    resumptions = _resumptions(spec)
    tables = None if followers is None else followers.tables(run, job_id)
    tabled: Collection[int] = ()
    common_tables: CommonTables | None = None

    def build(node: int, channel: MemoryChannel) -> Worker:
        # shared by all workers in equal states, else one for each
        model = together or Model.from_bytes(content, shipped["custom_objects"])
        model.inputs = whole.inputs
        folder = make_folder(node)
        resumption = resumptions.get(node)
        # rows of earlier attempts that no checkpoint covers stay in the ledger as undone
        earlier = Earlier(folder, START) if resumption is None and plan.attempt else None
        if resumption is not None:
            earlier = resumption.earlier()
        report = steps = None
        if node in tabled:
            report = TrainingReport(folder, title, node, model.result_names[1:], earlier)
            reports[node] = report
        elif common_tables is not None and agents is None:
            steps = common_tables.steps(node)
        participants[node] = workers[node] = build_worker(
            plan,
            model,
            samples,
            channel,
            execution.monotonic,
            Hooks(
                report,
                progress=None if tables is None or report is None else lambda *_: tables.read(node, report.paths),
                monitor=monitor(node),
                faults=None if agents is None else agents.inject(node),
                folder=folder,
                block=execution.block(node),
                evaluation=execution.evaluation(node, plan),
                steps=steps,
                feeder=execution.feeder,
            ),
            Checkpointing(resumption, keeper(node, folder), server_keeps, job_id),
        )
        return workers[node]

    # once for all attempts: each goes on in the folder of the one before
    def make_folder(node: int) -> Path:
        if node not in folders:
            folders[node] = run.path / node_folder(node)
            if node < 0 or node in tabled or spec.options.checkpoint_every is not None:
                folders[node].mkdir()
                run.has(node)
        return folders[node]

    def monitor(node: int) -> Monitor:
        made = Monitor()
        if agents is not None:
            made.attach(agents.signals(node))
        return made

    def keeper(node: int, folder: Path) -> Keeper | None:
        if spec.options.checkpoint_every is None:
            return None
        nonlocal common
        path = folder / model_name(title, node)
        # a parameter server has no model
        model = ModelFile(content, shipped["custom_objects"], path, whole.inputs) if node >= 0 else None
        store = Store(folder / FOLDER, job_id, keep_every=spec.options.keep_every)
        # without attempts that fail, checkpoints are written beside training, as on agents
        if agents is None:
            return Keeper(store, spec.plan.header(job_id, node), model)
        container = plan.optimizer
        if node < 0 or not isinstance(container, SharedContainer) or container.state is None:
            stores[node] = store
            made = agents.keepers[node] = SimulatedKeeper(store, plan.header(job_id, node), model)
            return made
        # one keeper writes for all workers that share the state
        if common is None:
            stores[node], common = store, SimulatedKeeper(store, plan.header(job_id, node), model)
        begin = resumptions[node].position if node in resumptions else START
        shared = agents.keepers[node] = SharedKeeper(common, container.state, begin)
        return shared

    def build_ps(channel: MemoryChannel) -> Server:
        folder, resumption = make_folder(Parameter_Server), resumptions.get(Parameter_Server)
        server = build_server(
            plan,
            likes_of(spec.model.store),
            channel,
            execution.monotonic,
            START_SECONDS,
            has_buffers=bool(spec.model.store.buffers),
            checkpointing=Checkpointing(resumption, keeper(Parameter_Server, folder) if server_keeps else None),
            faults=None if agents is None else agents.inject(Parameter_Server),
        )
        earlier = Earlier(folder, START) if plan.attempt else None
        if resumption is not None:
            earlier = resumption.earlier()
        table = ServerTraffic(folder, title, Parameter_Server, earlier)
        server.exchange.counted = table.add
        server_files[:] = [table.path]
        participants[Parameter_Server] = server
        return server

    if tables is not None:
        tables.begin(spec.plan.assignment.nodes)

    def builds_of(attempt: int, watched_by: Nodes | None = None) -> dict[int, Build]:
        """Return the builds of an attempt, which goes on from the newest state of those before it."""
        nonlocal plan, together, agents, tabled, common_tables
        agents = watched_by
        # the attempt is part of the key of every packet (FD-14)
        plan = execution.plan(replace(spec.plan, attempt=attempt))
        together = Model.from_bytes(content, shipped["custom_objects"]) if execution.shared else None
        tabled = _tabled(plan.assignment.nodes, execution.shared, agents is not None)
        if agents is None and len(tabled) < len(plan.assignment.nodes):
            first = min(plan.assignment.nodes)
            earlier = resumptions[first].earlier() if first in resumptions else None
            names = [metric.name for metric in whole.metrics]
            common_tables = CommonTables(run.path / node_folder(first), title, names, earlier)
        if attempt:
            # closed first, so that the newest checkpoint is on the disk when the next attempt looks
            close_common()
            server = Parameter_Server if server_keeps else None
            found = resumptions_of(stores, plan.assignment.nodes, server, folders)
            resumptions.update(found)
        builds: dict[int, Build] = {node: partial(build, node) for node in plan.assignment.nodes}
        if spec.options.nodes.has_parameter_server:
            builds[Parameter_Server] = build_ps
        return builds

    def close_common() -> None:
        nonlocal common
        if common is not None:
            common.close()
        common = None

    # the nodes take turns, each with as many threads as a worker would have; with more than one the machine's setting stays
    threads = contextlib.ExitStack()
    try:
        if spec.options.blas_threads == 1:
            threads.enter_context(limited_to_one_thread())
        identities = [Told(1, node, own_identity()) for node in sorted(spec.options.nodes)]
        # without faults and restarts one run is all: no loop, and no agents
        if isinstance(execution, SimulatedExecution) and (execution.faults.faults or spec.policy in AGAIN):
            loop = SimulatedLoop(spec, arrays, job_id, execution, builds_of)
            loop.on_failure = on_failure
            with execution.watched():
                results = loop.run()
            restarts, lost = loop.recovery.restarts, loop.lost
        else:
            results, restarts, lost = execution.run(builds_of(0), classes, spared), 0, {}
    finally:
        with spared("The keeper of the checkpoints"):
            close_common()
        with spared("The common tables of the workers"):
            if common_tables is not None:
                for node in workers.keys() - reports.keys():
                    common_tables.traffic(node, workers[node].exchange.accounts.traffic)
                common_tables.write()
        with spared("The setting of threads"):
            threads.close()
    # the job has its figures: from here on an error is a warning
    with spared("The identities of the nodes"):
        keep_identities(run.path, identities)
    for node in lost:
        # RUN-8: figures of the others count
        workers.pop(node, None)
        participants.pop(node, None)
    figures = {node: results[node] for node in workers}
    models = {node: worker.model for node, worker in workers.items()}
    made: dict[int, Callable[[], NodeAccounts]] = {node: lambda: NO_ACCOUNTS for node in participants}
    for node, participant in participants.items():
        with spared(f"The accounts of node({node})"):
            made[node] = participant.exchange.bank.accounts.close_later(participant.exchange.bank.staleness)
    accounts: Mapping[int, NodeAccounts] = dict.fromkeys(participants, NO_ACCOUNTS)
    with spared("The accounts of the nodes"):
        accounts = AccountsOfNodes(made)
    with spared("The look for parameters that no codec read"):
        unread = [participant.exchange.bank.unread_parameters for participant in participants.values()]
        warn_of_unread(spec.plan.codec_parameters, unread, spec.codecs())
    files: dict[int, list[Path]] = {node: [] if node in workers else server_files for node in participants}
    for node, worker in workers.items():
        if node not in reports:
            continue
        with spared(f"The files of node({node})"):
            files[node] = _files_of(node, worker, reports[node], accounts[node], folders[node] / model_name(title, node))
    if common_tables is not None:
        files[min(workers)] += [path for path in common_tables.paths.values() if path.is_file()]
    ledger = None
    with spared("The ledger"):
        batches = Batches(len(samples[0]), spec.options.block_size, spec.plan.assignment.block_count)
        if len(reports) == len(workers) or common_tables is not None:
            ledger = collect(title, files, spec.grid(batches.count, workers[min(workers)].epochs))
    return JobResult(figures, models, files, accounts, job_id, lost, restarts, ledger, execution.simulated)


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
