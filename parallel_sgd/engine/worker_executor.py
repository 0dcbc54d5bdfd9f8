"""Executor of a worker: asks for the parts of the job, prepares data and model, trains, leaves reports and the model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from network.clock import SystemClock
from nn.data import save_arrays
from nn.dataset import checksum_of
from nn.dataset.interface import Arrays, of_leaves
from nn.model import Model
from nn.threads import describe_blas
from rpc import Communication
from rpc.monitor import job_monitor
from rpc.support.files import publish, when_there_is_room

from ..checkpoint.keeper import Checkpointing
from ..checkpoint.state import ModelFile, Resumption
from ..record.report import RECORD_FILES, TrainingReport, model_name
from ..record.spared import spared
from ..record.table import Earlier
from .callbacks import files_in
from .fault_injection import FaultInjector
from .job_executor import (
    DATA,
    EXTRA,
    MISC,
    MODEL,
    OPTIMIZER,
    RECORD,
    SAMPLES,
    SETTING,
    TRANSFER,
    JobExecutor,
    samples_at_hand,
)
from .plan import WorkerPlan
from .progress import START
from .socket_channel import SocketChannel
from .training import Hooks, prepared
from .worker import build_worker


class WorkerExecutor(JobExecutor):
    """Executor on every worker of a P-SGD job."""

    first_requests: ClassVar[tuple[str, ...]] = (SETTING, MODEL, OPTIMIZER, DATA, MISC, EXTRA)
    signals: ClassVar[bool] = True

    def __init__(self, node_id: int, working_group: Sequence[int], initializer_id: int) -> None:
        super().__init__(node_id, working_group, initializer_id)
        self._samples: Arrays | None = None
        self._tables: list[Path] = []
        self._written = Path()
        self._folder: Path | None = None
        self._record: list[Path] = []

    def _further_requests(self) -> Sequence[str]:
        # SUB-5: asked for only if this node does not have them; a second job with the same data sends none
        samples = () if self._find_samples() or SAMPLES in self._parts else (SAMPLES,)
        return *samples, *super()._further_requests()

    def _find_samples(self) -> bool:
        """Look for the data set in the cache and, if a built-in one was named, where it usually lies."""
        package = self._parts[DATA]
        try:
            self._samples = samples_at_hand(self.cache_directory, package["checksum"], self.shipped["dataset"])
        except (OSError, ValueError) as error:
            self.logger.info("The data set %s is not on this node (%s), so it is asked for.", package["name"], error)
        if self._samples is not None:
            self.logger.info("The data set %s is on this node already.", package["name"])
        return self._samples is not None

    def prepare(self) -> None:
        """Keep the samples for next time, transform them, and rebuild the model."""
        if self._samples is None:
            arrays: Arrays = of_leaves(self._parts[SAMPLES])
            # before they are kept: later jobs believe the cache
            if checksum_of(arrays) != self._parts[DATA]["checksum"]:
                raise ValueError(
                    f"The samples of data set {self._parts[DATA]['name']} arrived with a wrong checksum: its files, or arrays, "
                    "have changed since the submitter first read them. Make another data set object of what is there now."
                )
            try:
                save_arrays(self.cache_directory, arrays)
            except OSError as error:
                self.logger.warning("The data set cannot be kept for later jobs: %s.", error.strerror)
            self._samples = arrays
        # SUB-43: all nodes make their models of the same bytes, so they begin with the same weights
        self._model = Model.from_bytes(self._parts[MODEL].tobytes(), self.shipped["custom_objects"])
        self._samples = prepared(
            self._model, self.shipped["transform"], self._samples, self._options.seed, keeps_plan=self.shipped["keeps_plan"]
        )

    def _take_part(
        self, com: Communication, plan: WorkerPlan, resumption: Resumption | None, faults: FaultInjector | None
    ) -> None:
        # rows of a part that is given up must not stand beside those that replace them
        earlier = resumption.earlier() if resumption is not None else self._undone(com)
        # files beside the tables are fetched only where callbacks may have left some
        self._folder = com.output_directory if self._options.callbacks else None
        report = TrainingReport(
            com.output_directory, self._options.mission_title, self.node_id, self._model.result_names[1:], earlier
        )
        if self._samples is None:
            raise RuntimeError("start() was called before prepare().")
        worker = build_worker(
            plan,
            self._model,
            self._samples,
            SocketChannel(com.controller, self._suspects(com)),
            SystemClock().monotonic,
            Hooks(report, com.report_progress, job_monitor, faults, com.output_directory, self._remarks),
            Checkpointing(resumption, self._keeper(com, plan), self._server_keeps, com.job),
        )
        # before training: the job may fail, and a submitter elsewhere may fetch the run at any time (SUB-15)
        self._keep_record(com.output_directory)
        # before training, so that a job that fails leaves its files, too; the list itself, since training begins further tables
        self._tables, self._written = report.paths, self._model_path(com)
        batches = plan.batches(len(self._samples[0]))
        self.logger.info("Computing with %s.", describe_blas())
        self.logger.info("Training begins: %s epochs, %s.", plan.options.epoch, self._describe(plan))
        result = self._run(com, plan, worker)
        self._result |= {"batches": batches.count, "epochs": None, "before": self._parts[MISC]["before"], "remark": ""}
        # training has its result: from here on an error is a remark
        # each part in a context of its own: an error in one keeps the others
        with spared(f"What node({self.node_id}) says of its exchange", self._remarks):
            sizes = [[*each] for each in worker.sizes.items()]
            self._result |= {"epochs": worker.epochs, "remark": worker.exchange.remark, "sizes": sizes}
        with spared(f"The table of the accounts of node({self.node_id})", self._remarks):
            report.accounts(self._accounts, worker.exchange.names)
        with spared(f"The table of the costs of node({self.node_id})", self._remarks):
            report.costs(worker.exchange.accounts.costs(), worker.exchange.names)
        with spared(f"The tables of node({self.node_id})", self._remarks):
            when_there_is_room(report.close, "The tables of the job", self.logger)
        with spared(f"The model of node({self.node_id})", self._remarks):
            path = self._model_path(com)
            when_there_is_room(partial(self._model.save, path), path.name, self.logger)
        with spared("The log of the result", self._remarks):
            self.logger.info("Training has ended: %s", json.dumps(result))
        self._log_accounts(com)

    def _keep_record(self, folder: Path) -> None:
        """Keep model and options of the run for a submitter that fetches it from elsewhere. Two workers do, so that one may be
        lost.
        """
        record = self._parts[MISC][RECORD]
        if not record or self.node_id > 1:
            return
        try:
            for name, content in zip(RECORD_FILES, (record.encode(), self._parts[MODEL].tobytes()), strict=True):
                publish(folder / name, content)
                self._record.append(folder / name)
        except OSError as error:
            self.logger.warning("What the run is cannot be kept for later: %s.", error.strerror)

    def _model_path(self, com: Communication) -> Path:
        return com.output_directory / model_name(self._options.mission_title, self.node_id)

    def _model_file(self, com: Communication) -> ModelFile | None:
        content, path = self._parts[MODEL].tobytes(), self._model_path(com)
        return ModelFile(content, self.shipped["custom_objects"], path, self._model.inputs)

    def _undone(self, com: Communication) -> Earlier | None:
        """Return the tables of earlier attempts, of which nothing stays but their rows of the ledger."""
        # in a first attempt the folder is new, so there is nothing to look for
        return Earlier(com.output_directory, START) if com.attempt else None

    def _describe(self, plan: WorkerPlan) -> str:
        optimizer, transfer = self._parts[OPTIMIZER], self._parts[TRANSFER]
        samples = self._samples or (np.empty(0),)
        return (
            f"{len(samples[0])} samples, blocks {plan.assignment.node_2_block[self.node_id]} of {plan.assignment.block_count}, "
            f"{optimizer['op_type']} with {optimizer['gd_type']}, {transfer['sync_type']}, codec {transfer['codec']}"
        )

    def trace_files(self) -> Sequence[str]:
        """Return the tables, the trained model, or that of the newest checkpoint, if there is one, and the files that callbacks
        have written.
        """
        # a model that training has not come to write is not told; a checkpoint may have left one
        model = [self._written] if self._written.is_file() else []
        left = [] if self._folder is None else files_in(self._folder)
        return [path.name for path in [*self._record, *self._tables, *model, *left]]
