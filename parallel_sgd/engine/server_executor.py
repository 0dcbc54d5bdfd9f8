"""Executor of the parameter server: asks for settings and codecs, serves until the workers have left, leaves logs and the
identity of its process.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from network.clock import SystemClock
from rpc import Communication
from rpc.monitor import job_monitor

from ..checkpoint.keeper import Checkpointing
from ..checkpoint.state import Resumption
from ..record.identity import IDENTITY_COLUMNS, own_identity
from ..record.report import ServerTraffic
from ..record.spared import spared
from ..record.table import Table
from .fault_injection import FaultInjector
from .job_executor import CHECKPOINT, EXTRA, MISC, SETTING, TRANSFER, JobExecutor
from .parameter_server import build_server
from .plan import WorkerPlan
from .socket_channel import SocketChannel
from .unusable import Like


class ServerExecutor(JobExecutor):
    """Executor on the parameter server of a P-SGD job; it starts by itself."""

    first_requests: ClassVar[tuple[str, ...]] = (SETTING, MISC, EXTRA)

    def __init__(self, node_id: int, working_group: Sequence[int], initializer_id: int) -> None:
        super().__init__(node_id, working_group, initializer_id)
        self._tables: list[Path] = []

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
        identity = com.output_directory / f"ID-{plan.options.mission_title}-N({self.node_id}).csv"
        earlier = None if resumption is None else resumption.earlier()
        table = ServerTraffic(com.output_directory, plan.options.mission_title, self.node_id, earlier, self._before(com))
        server.exchange.counted, self._tables = table.add, [identity, table.path]
        # from which epoch on this process has served: the part before had another one
        begun = 1 if resumption is None else resumption.position.epoch + 1
        Table(identity, [IDENTITY_COLUMNS, (begun, own_identity())])
        workers = list(plan.assignment.nodes)
        self.logger.info("Serving begins: workers %s, codec %s.", workers, self._parts[TRANSFER]["codec"])
        job_monitor.batch_begin()  # one long batch: a server is stuck when it neither serves nor waits
        self._run(com, plan, server)
        with spared("The table of the packets of the server", self._remarks):
            # packets that came during the farewell
            table.add(server.exchange.bank.accounts.traffic())
        with spared("The signals of the end", self._remarks):
            job_monitor.train_end()
            self.logger.info("Serving has ended: all workers have left.")
        self._log_accounts(com)

    def _before(self, com: Communication) -> Path | None:
        """Return the folder of the table of the part before this one; None where there is none here."""
        if com.attempt:
            return com.output_directory
        own, *_ = (self._parts.get(CHECKPOINT) or {}).get("tables") or [""]
        return Path(own) if own else None

    def trace_files(self) -> Sequence[str]:
        """Return the names of the tables with the identity of its process, and with the packets of each batch."""
        return [path.name for path in self._tables]
