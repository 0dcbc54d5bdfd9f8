"""The executor of a worker: asks for the parts of the job, prepares data and model, trains, leaves reports and the model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from network.clock import SystemClock
from nn.data.store import load_arrays, save_arrays
from nn.dataset import checksum_of
from nn.model import Model
from rpc import AbsExecutable, Communication, ReplyPackage

from .batches import Batches
from .driver import SocketChannel, covers_all_blocks, deliverer, drive
from .report import TrainingReport
from .training import Samples
from .worker import Worker, WorkerPlan, build_worker

SETTING, MODEL, OPTIMIZER = "net_setting", "net_model", "net_optimizer"
DATA, MISC, EXTRA = "data_package", "misc_package", "extra_package"
SAMPLES, TRANSFER = "data_samples", "net_transfer"
FIRST_REQUESTS = (SETTING, MODEL, OPTIMIZER, DATA, MISC, EXTRA)


class WorkerExecutor(AbsExecutable):
    """Runs on every worker of a P-SGD job."""

    def __init__(self, node_id: int, working_group: Sequence[int], initializer_id: int) -> None:
        super().__init__(node_id, working_group, initializer_id)
        self._parts: dict[str, Any] = {}
        self._asked: list[str] = []
        self._samples: Samples | None = None
        self._files: list[str] = []
        self._result: dict[str, Any] = {}

    def requests(self) -> Sequence[str]:
        """Setting, model, optimizer, data, miscellaneous, codec parameters."""
        self._asked = list(FIRST_REQUESTS)
        return self._asked

    def satisfy(self, replies: Sequence[Any]) -> Sequence[str]:
        """Take what came; then ask for the samples if they are not here already, and last for the codecs."""
        self._parts.update(zip(self._asked, replies, strict=True))
        if TRANSFER in self._parts:
            self._asked = []
        elif self._find_samples() or SAMPLES in self._parts:
            self._asked = [TRANSFER]
        else:
            self._asked = [SAMPLES, TRANSFER]
        return self._asked

    def _find_samples(self) -> bool:
        """Look for the data set in the cache and, if a built-in one was named, where it usually lies."""
        package = self._parts[DATA]
        checksum = package["checksum"]
        self._samples = load_arrays(self.cache_directory, checksum)
        recipe = self.shipped["dataset"]
        if self._samples is None and recipe is not None:
            kind, config = recipe
            try:
                arrays = kind(**config).load(download=False)
            except (OSError, ValueError) as error:
                self.logger.info("The data set %s is not on this node (%s), so it is asked for.", package["name"], error)
            else:
                self._samples = arrays if checksum_of(arrays) == checksum else None
        if self._samples is not None:
            self.logger.info("The data set %s is on this node already.", package["name"])
        return self._samples is not None

    def ready(self) -> bool:
        """Whether everything has come."""
        return TRANSFER in self._parts

    def prepare(self) -> None:
        """Keep the samples for next time, transform them, and rebuild the model."""
        if self._samples is None:
            arrays: Samples = tuple(self._parts[SAMPLES])
            if checksum_of(arrays) != self._parts[DATA]["checksum"]:
                raise ValueError(f"The samples of data set {self._parts[DATA]['name']} arrived with a wrong checksum.")
            save_arrays(self.cache_directory, arrays)
            self._samples = arrays
        transform = self.shipped["transform"]
        if transform is not None:
            self._samples = transform(*self._samples, seed=self._parts[SETTING]["seed"])
        self._model = Model.from_bytes(self._parts[MODEL].tobytes(), self.shipped["custom_objects"])

    def start(self, com: Communication) -> None:
        """Train with the other workers."""
        clock = SystemClock()
        plan = self._plan()
        title = self._parts[MISC]["title"]
        report = TrainingReport(com.output_directory, title, self.node_id, [metric.name for metric in self._model.metrics])
        self._files = [report.steps_path.name, report.evaluations_path.name]
        channel = SocketChannel(com.controller)
        if self._samples is None:
            raise RuntimeError("start() was called before prepare().")
        worker = build_worker(
            plan,
            self._model,
            self._samples,
            channel,
            clock.monotonic,
            report=report,
            progress=com.report_progress,
        )
        com.on_block = deliverer(worker.exchange.deliver)
        batches = Batches(len(self._samples[0]), plan.block_size, plan.assignment.block_count)
        if batches.tail:
            self.logger.info("%s samples do not fill a batch of %s and are left out.", batches.tail, batches.batch_size)
        self.logger.info("Training begins: %s epochs, %s.", plan.epochs, self._describe(plan))
        result = drive(worker.process, com.controller, clock, self._survivor(plan, worker))
        model_name = f"MODEL-{title}-N({self.node_id}).model"
        self._model.save(com.output_directory / model_name)
        self._files.append(model_name)
        self._result = {"result": result, "accounts": [list(entry) for entry in worker.exchange.accounts.entries()]}
        self.logger.info("Training has ended: %s", json.dumps(result))
        self.logger.info("Bytes sent: %s, bytes read: %s.", com.bytes_sent, com.bytes_read)

    def _plan(self) -> WorkerPlan:
        setting, misc, shipped = self._parts[SETTING], self._parts[MISC], self.shipped
        return WorkerPlan(
            shipped["assignment"],
            setting["block_size"],
            misc["epochs"],
            setting["seed"],
            shipped["optimizer"],
            shipped["codec"],
            shipped["default_codec"],
            self._parts[EXTRA],
            shipped["sync_type"],
            misc["timeout_ms"],
            setting["attempt"],
        )

    def _describe(self, plan: WorkerPlan) -> str:
        optimizer, transfer = self._parts[OPTIMIZER], self._parts[TRANSFER]
        samples = self._samples or (np.empty(0),)
        return (
            f"{len(samples[0])} samples, blocks {plan.assignment.node_2_block[self.node_id]} of {plan.assignment.block_count}, "
            f"{optimizer['op_type']} with {optimizer['gd_type']}, {transfer['sync_type']}, codec {transfer['codec']}"
        )

    @staticmethod
    def _survivor(plan: WorkerPlan, worker: Worker) -> Any:
        """Without a node the job can go on if others hold its blocks and every codec takes the first copy of a block."""
        patient = worker.exchange.takes_first_copy
        return lambda lost: patient and covers_all_blocks(plan.assignment, lost)

    def trace_files(self) -> Sequence[str]:
        """The two tables and the trained model."""
        return self._files

    def done(self) -> ReplyPackage:
        """The last evaluation and the accounts."""
        return ReplyPackage(self._result)
