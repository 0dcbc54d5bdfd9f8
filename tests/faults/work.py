"""The work of a job process in a simulation: the real training process or parameter server, its exchange and checkpoints."""

from __future__ import annotations

import traceback
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from nn.model import Model
from parallel_sgd.checkpoint import Keeper, Resumption
from parallel_sgd.checkpoint.keeper import Checkpointing
from parallel_sgd.codec import Plain, SyncPS
from parallel_sgd.engine.channel import Wait
from parallel_sgd.engine.exchange import Participant
from parallel_sgd.engine.parameter_server import build_server
from parallel_sgd.engine.plan import WorkerPlan, likes_of
from parallel_sgd.engine.training import Hooks
from parallel_sgd.engine.worker import build_worker
from parallel_sgd.profiles import FixedBlockAssignment
from rpc.liveness.recorder import Recorder
from rpc.messages import Progress
from rpc.monitor import Monitor
from tests.parallel_sgd.digits_job import plan_of
from tests.processes.training.jobs import line_data, line_model

from .channel import MARKED_STEP, SimChannel, read_frames

if TYPE_CHECKING:
    from .processes import SimProcess

EPOCHS, BLOCKS, BLOCK_SIZE = 2, 4, 2
_LONG_MILLISECONDS = 1e6  # the failure detector is faster than any time-out of the exchange
_SIGN_SECONDS = 0.25
DONE = "done"


class SimWork:
    """Made when the process knows where to begin. `turn` lets it compute; in between it waits for messages or `deadline`."""

    def __init__(self, process: SimProcess, recorder: Recorder, resumption: Resumption | None) -> None:
        self._process, self._life, self._recorder = process, process.life, recorder
        self._monitor = Monitor()
        self._monitor.attach(recorder)
        self._context = copy_context()
        self._wait: Wait | None = None
        self._next_sign = self._life.now
        self._keeper: Keeper | None = None
        self.model: Model = line_model()
        self._participant: Participant = self._context.run(self._serve if process.node < 0 else self._train, resumption)

    @property
    def _plan(self) -> WorkerPlan:
        server = -2 in self._life.nodes
        return plan_of(
            FixedBlockAssignment(len(self._process.workers), 1, BLOCKS),
            block_size=BLOCK_SIZE,
            epoch=EPOCHS,
            default_codec=SyncPS if server else Plain,
            ssgd_timeout_limit=_LONG_MILLISECONDS,
            attempt=self._process.order.attempt,
            checkpoint_every="epoch",
        )

    def _serve(self, _resumption: Resumption | None) -> Participant:
        variables, channel, clock = likes_of(self.model.store), SimChannel(self._process), self._life.clock.monotonic
        made = build_server(self._plan, variables, channel, clock, start_limit=60.0)
        self._monitor.batch_begin()  # one long batch, as its executor does
        return made

    def _train(self, resumption: Resumption | None) -> Participant:
        process, order = self._process, self._process.order
        self._keeper = Keeper(process.store(), self._plan.header(order.job, order.node))
        return build_worker(
            self._plan,
            self.model,
            line_data().load(),
            SimChannel(process),
            self._life.clock.monotonic,
            Hooks(
                progress=lambda percent, _: self._life.send(
                    process.name, process.agent, Progress(order.job, order.node, percent)
                ),
                monitor=self._monitor,
            ),
            Checkpointing(resumption, self._keeper),
        )

    def deliver(self, peer: int, frames: bytes) -> None:
        """A packet has arrived."""
        message = read_frames(frames)
        if message.head[1:3] == MARKED_STEP:
            self._life.note("step-reduce", self._process.name)
        self._recorder.resumes(True)
        self._run(self._participant.exchange.deliver, peer, message)

    def turn(self) -> str:
        """Compute until it waits for others; returns "", DONE, or the traceback of what ended it."""
        while not self._life.is_struck(self._process.name):
            wait = self._wait
            try:
                if wait is not None and not self._overdue(wait) and not self._run(wait.ready):
                    self._recorder.waits()
                    self._next_sign = self._life.now + _SIGN_SECONDS
                    return ""
                self._wait = self._run(next, self._participant.process)
            except StopIteration:
                if self._process.node < 0:
                    self._monitor.train_end()
                return DONE
            except Exception as error:
                return "".join(traceback.format_exception(error))
            if self._keeper is not None:
                self._keeper.writer.flush()  # it writes in a thread of its own; here everything has its order
        return ""

    def show(self) -> None:
        """Whoever waits shows that it lives."""
        self._recorder.resumes(False)
        self._recorder.waits()
        self._next_sign = self._life.now + _SIGN_SECONDS

    @property
    def deadline(self) -> float:
        wait = self._wait.deadline if self._wait is not None else None
        return self._next_sign if wait is None else min(wait, self._next_sign)

    def _overdue(self, wait: Wait) -> bool:
        return wait.deadline is not None and self._life.now >= wait.deadline

    def _run(self, function: Any, *arguments: Any) -> Any:
        return self._context.run(function, *arguments)

    def close(self) -> None:
        """Training ends, and saves what can be saved; idempotent."""
        self._run(self._participant.process.close)
        if self._keeper is not None:
            self._keeper.close()
