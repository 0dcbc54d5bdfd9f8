"""A whole job inside this process: what agents would do, on memory channels, one worker after the other."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from nn.model import Model
from rpc.shipping import pack

from .memory_channel import MemoryChannel
from .report import TrainingReport
from .result import JobResult
from .spec import JobSpec
from .training import Samples
from .turns import SkippingClock, run_in_process
from .worker import Worker, build_worker


def run_here(spec: JobSpec, arrays: Samples, job_id: str, directory: Path) -> JobResult:
    """Run the job on `in_process` nodes; the same results, files and bits as on agents."""
    shipped = spec.shipped()
    classes = pack({"objects": shipped}).classes  # and a job that could not travel is refused here too
    samples = arrays if spec.transform is None else spec.transform(*arrays, seed=spec.plan.seed)
    content = spec.model.to_bytes()
    clock = SkippingClock()
    workers: dict[int, Worker] = {}
    folders: dict[int, Path] = {}

    def build(node: int, channel: MemoryChannel) -> Worker:
        model = Model.from_bytes(content, shipped["custom_objects"])
        folders[node] = folder = directory / f"Node-{node}-Retrieve"
        folder.mkdir(parents=True, exist_ok=True)
        report = TrainingReport(folder, spec.title, node, [metric.name for metric in model.metrics])
        workers[node] = build_worker(spec.plan, model, samples, channel, clock.monotonic, report=report)
        return workers[node]

    nodes = spec.plan.assignment.nodes
    figures = run_in_process({node: partial(build, node) for node in nodes}, clock, classes=classes)
    files: dict[int, list[Path]] = {}
    for node, worker in workers.items():
        path = folders[node] / f"MODEL-{spec.title}-N({node}).model"
        worker.model.save(path)
        files[node] = [folders[node] / f"{kind}-{spec.title}-N({node}).csv" for kind in ("TR", "EV")] + [path]
    models = {node: worker.model for node, worker in workers.items()}
    accounts = {node: [list(entry) for entry in worker.exchange.accounts.entries()] for node, worker in workers.items()}
    return JobResult(figures, models, files, accounts, job_id)
