"""Run of a whole job inside this process: the work of agents, on memory channels, one node after the other."""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from nn.model import Model
from nn.threads import limited_to_one_thread
from rpc import new_job_id
from rpc.shipping import pack
from rpc.submit import RunFolder, node_folder
from rpc.support.logs import SUBMIT_LOGGER, get_logger

from ..checkpoint import CheckpointError, Keeper, Resumption, Store
from ..checkpoint.keeper import Checkpointing
from ..checkpoint.locate import FOLDER
from ..checkpoint.resume import IN_PROCESS
from ..checkpoint.state import ModelFile
from ..codec.parameters import warn_of_unread
from ..engine.accounts import NO_ACCOUNTS, NodeAccounts
from ..engine.batches import Batches
from ..engine.callbacks import files_in
from ..engine.channel import Parameter_Server
from ..engine.exchange import Participant
from ..engine.parameter_server import Server, build_server
from ..engine.plan import likes_of
from ..engine.training import Hooks, Samples, prepared
from ..engine.worker import Worker, build_worker
from ..options.spec import JobSpec
from ..record.identity import Told, own_identity
from ..record.job_record import keep_identities
from ..record.ledger import collect
from ..record.report import ServerTraffic, TrainingReport, model_name
from ..record.run import JobResult, new_run
from ..record.spared import spared
from ..run_page.outcome import reported
from ..simulation.execution import execution_of
from ..simulation.kernel import Build, MemoryChannel

START_SECONDS = 1.0  # for nodes that are here already

if TYPE_CHECKING:
    from ..nodes import InProcessNodes
    from ..writers.live import Followers

_log = get_logger(SUBMIT_LOGGER)


def run_here(spec: JobSpec, arrays: Samples, followers: Followers | None = None) -> JobResult:
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
            result = _run_in(run, spec, arrays, job_id, followers)
            with spared("What the page says of the end"):
                outcome.done(result, {}, result.ledger.problems if result.ledger else (), result.simulated)
        result.report = outcome.page
        return result
    finally:
        with spared("The folder of the run"):
            run.close()


def _run_in(run: RunFolder, spec: JobSpec, arrays: Samples, job_id: str, followers: Followers | None) -> JobResult:
    shipped = spec.shipped()
    classes = pack({"objects": shipped}).classes  # and a job that could not travel is refused here too
    content, title = spec.model_file(), spec.options.mission_title
    whole = Model.from_bytes(content, shipped["custom_objects"])
    # once for all nodes: the seed keys the draws of a transform, so each would make the same samples
    samples = prepared(whole, spec.transform, arrays, spec.options.seed, keeps_plan=spec.inputs is not None)
    execution = execution_of(cast("InProcessNodes", spec.options.nodes), spec.plan, whole, samples)
    plan = execution.plan(spec.plan)
    together = Model.from_bytes(content, shipped["custom_objects"]) if execution.shared else None
    workers: dict[int, Worker] = {}
    participants: dict[int, Participant] = {}
    folders: dict[int, Path] = {}
    server_keeps = spec.server_keeps
    reports: dict[int, TrainingReport] = {}
    server_files: list[Path] = []
    # before any worker is built, so that a job without its checkpoints is refused at once
    resumptions = _resumptions(spec)
    tables = None if followers is None else followers.tables(run, job_id)

    def build(node: int, channel: MemoryChannel) -> Worker:
        model = together or Model.from_bytes(content, shipped["custom_objects"])
        model.inputs = whole.inputs
        folder = make_folder(node)
        resumption = resumptions.get(node)
        earlier = None if resumption is None else resumption.earlier()
        report = reports[node] = TrainingReport(folder, title, node, [metric.name for metric in model.metrics], earlier)
        participants[node] = workers[node] = build_worker(
            plan,
            model,
            samples,
            channel,
            execution.monotonic,
            Hooks(
                report,
                progress=None if tables is None else lambda *_: tables.read(node, report.paths),
                folder=folder,
                block=execution.block(node),
                evaluation=execution.evaluation(node, plan),
            ),
            Checkpointing(resumption, keeper(node, folder), server_keeps, job_id),
        )
        return workers[node]

    def make_folder(node: int) -> Path:
        folders[node] = folder = run.path / node_folder(node)
        folder.mkdir()
        run.has(node)
        return folder

    def keeper(node: int, folder: Path) -> Keeper | None:
        if spec.options.checkpoint_every is None:
            return None
        path = folder / model_name(title, node)
        model = ModelFile(content, shipped["custom_objects"], path, whole.inputs) if node >= 0 else None
        store = Store(folder / FOLDER, job_id, keep_every=spec.options.keep_every)
        return Keeper(store, spec.plan.header(job_id, node), model)

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
        )
        earlier = None if resumption is None else resumption.earlier()
        table = ServerTraffic(folder, title, Parameter_Server, earlier)
        server.exchange.counted = table.add
        server_files.append(table.path)
        participants[Parameter_Server] = server
        return server

    if tables is not None:
        tables.begin(spec.plan.assignment.nodes)
    builds: dict[int, Build] = {node: partial(build, node) for node in spec.plan.assignment.nodes}
    if spec.options.nodes.has_parameter_server:
        builds[Parameter_Server] = build_ps
    # the nodes take turns, each with as many threads as a worker would have; with more than one the machine's setting stays
    threads = contextlib.ExitStack()
    try:
        if spec.options.blas_threads == 1:
            threads.enter_context(limited_to_one_thread())
        identities = [Told(1, node, own_identity()) for node in sorted(builds)]
        results = execution.run(builds, classes, spared)
    finally:
        with spared("The setting of threads"):
            threads.close()
    # the job has its figures: from here on an error is a warning
    with spared("The identities of the nodes"):
        keep_identities(run.path, identities)
    figures = {node: results[node] for node in workers}
    models = {node: worker.model for node, worker in workers.items()}
    accounts = dict.fromkeys(participants, NO_ACCOUNTS)
    for node, participant in participants.items():
        with spared(f"The accounts of node({node})"):
            accounts[node] = participant.exchange.bank.accounts.close(participant.exchange.bank.staleness)
    with spared("The look for parameters that no codec read"):
        unread = [participant.exchange.bank.unread_parameters for participant in participants.values()]
        warn_of_unread(spec.plan.codec_parameters, unread, spec.codecs())
    files: dict[int, list[Path]] = {node: [] if node in workers else server_files for node in builds}
    for node, worker in workers.items():
        with spared(f"The files of node({node})"):
            files[node] = _files_of(node, worker, reports[node], accounts[node], folders[node] / model_name(title, node))
    ledger = None
    with spared("The ledger"):
        batches = Batches(len(samples[0]), spec.options.block_size, spec.plan.assignment.block_count)
        ledger = collect(title, files, spec.grid(batches.count, workers[min(workers)].epochs))
    return JobResult(figures, models, files, accounts, job_id, ledger=ledger, simulated=execution.simulated)


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
        raise CheckpointError(
            f"'resume' names job {spec.resume.jobs[0]}, of which there is no checkpoint here: give the directory of its "
            f"run, or nodes that have run it"
        )
    _log.info("%s", found.choice.said)
    nodes = [*spec.plan.assignment.nodes, Parameter_Server]
    return {node: resumption for node in nodes if (resumption := found.resumption(node)) is not None}
