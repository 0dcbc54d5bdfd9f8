"""The executor of the parameter server: asks for settings and codecs, serves until the workers have left, leaves only logs."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from network.clock import SystemClock
from rpc import Communication
from rpc.monitor import job_monitor

from .checkpoint.keeper import Checkpointing
from .checkpoint.state import Resumption
from .fault_injection import FaultInjector
from .job_executor import EXTRA, MISC, SETTING, TRANSFER, JobExecutor
from .parameter_server import build_server
from .plan import WorkerPlan
from .record.spared import spared
from .socket_channel import SocketChannel
from .unusable import Like


class ServerExecutor(JobExecutor):
    """Runs on the parameter server of a P-SGD job; it starts by itself."""

    first_requests: ClassVar[tuple[str, ...]] = (SETTING, MISC, EXTRA)

    def _take_part(
        self, com: Communication, plan: WorkerPlan, resumption: Resumption | None, faults: FaultInjector | None
    ) -> None:
        server = build_server(
            plan,
            [Like(tuple(shape), np.dtype(code)) for *shape, code in self._parts[SETTING]["variables"]],
            SocketChannel(com.controller, self._suspects(com)),
            SystemClock().monotonic,
            self._parts[MISC]["start_seconds"],
            has_buffers=self._parts[SETTING]["has_buffers"],
            checkpointing=Checkpointing(resumption, self._keeper(com, plan) if self._server_keeps else None),
            faults=faults,
        )
        workers = list(plan.assignment.nodes)
        self.logger.info("Serving begins: workers %s, codec %s.", workers, self._parts[TRANSFER]["codec"])
        job_monitor.batch_begin()  # one long batch: a server is stuck when it neither serves nor waits
        self._run(com, plan, server)
        with spared("The signals of the end", self._remarks):
            job_monitor.train_end()
            self.logger.info("Serving has ended: all workers have left.")
        self._log_accounts(com)
