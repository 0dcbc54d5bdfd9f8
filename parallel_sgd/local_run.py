"""A whole job inside this process: what agents would do, on memory channels, one node after the other."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path

from nn.blas import limited_to_one_thread
from nn.model import Model
from rpc.shipping import pack

from .memory_channel import MemoryChannel
from .node_ids import Parameter_Server
from .parameter_server import Server, build_server
from .report import TrainingReport
from .result import JobResult
from .spec import JobSpec
from .training import Samples
from .turns import Build, Participant, SkippingClock, run_in_process
from .worker import Worker, build_worker

START_SECONDS = 1.0  # for nodes that are here already


def run_here(spec: JobSpec, arrays: Samples, job_id: str, directory: Path, has_server: bool = False) -> JobResult:
    """Run the job on `in_process` nodes; the same results, reports and bits as on agents."""
    shipped = spec.shipped()
    classes = pack({"objects": shipped}).classes  # and a job that could not travel is refused here too
    samples = arrays if spec.transform is None else spec.transform(*arrays, seed=spec.plan.seed)
    content = spec.model.to_bytes()
    clock = SkippingClock()
    workers: dict[int, Worker] = {}
    participants: dict[int, Participant] = {}
    folders: dict[int, Path] = {}
    reports: dict[int, TrainingReport] = {}

    def build(node: int, channel: MemoryChannel) -> Worker:
        model = Model.from_bytes(content, shipped["custom_objects"])
        folders[node] = folder = directory / f"Node-{node}-Retrieve"
        folder.mkdir(parents=True, exist_ok=True)
        report = reports[node] = TrainingReport(folder, spec.title, node, [metric.name for metric in model.metrics])
        participants[node] = workers[node] = build_worker(spec.plan, model, samples, channel, clock.monotonic, report=report)
        return workers[node]

    def build_ps(channel: MemoryChannel) -> Server:
        server = build_server(
            spec.plan,
            spec.server_codec,
            len(spec.model.trainable_variables()),
            channel,
            clock.monotonic,
            start_limit=START_SECONDS,
            has_buffers=bool(spec.model.store.buffers),
        )
        participants[Parameter_Server] = server
        return server

    builds: dict[int, Build] = {node: partial(build, node) for node in spec.plan.assignment.nodes}
    if has_server:
        builds[Parameter_Server] = build_ps
    # the nodes take turns, each with as many threads as a worker would have; with more than one the machine's setting stays
    with limited_to_one_thread() if spec.blas_threads == 1 else nullcontext():
        results = run_in_process(builds, clock, classes=classes)
    figures = {node: results[node] for node in workers}
    accounts = {
        node: participant.exchange.accounts.close(participant.exchange.staleness) for node, participant in participants.items()
    }
    files: dict[int, list[Path]] = {node: [] for node in builds}
    for node, worker in workers.items():
        path = folders[node] / f"MODEL-{spec.title}-N({node}).model"
        worker.model.save(path)
        reports[node].accounts(accounts[node], worker.exchange.sync.names)
        files[node] = [*reports[node].paths, path]
    models = {node: worker.model for node, worker in workers.items()}
    return JobResult(figures, models, files, accounts, job_id)
