"""An elastic job at its driver: decisions of the machine of `rpc.elastic` become processes, messages and results."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from network.errors import ProtocolError
from network.wire import Kind, pack
from nn.tensor_files import read_file
from rpc import LIVENESS_MESSAGES, ClusterMonitor, Tick, limits
from rpc.elastic import (
    CheckpointSeen,
    ElasticDriver,
    Notified,
    NotifyRankZero,
    RemoveWorker,
    Stage,
    StartRound,
    StopWorker,
    Worker,
    WorkerEnded,
    WorkerReady,
    WorkerStuck,
)
from rpc.liveness.heartbeat import AgentStates
from rpc.messages import Operation, State, Verdict
from rpc.support.files import read_one
from rpc.support.logs import BRIEF, SUBMIT_LOGGER, clean, get_logger

from ..checkpoint.store import Disk
from ..driver.membership import ElasticMembership, failure_of, last_line
from ..errors import JobFailed
from .messages import Broken, Got, Here, HostsChanged, Kept, Noted, Printed, Ready, Removed, Returned, Round, Void, Waits
from .stragglers import StragglerDetector
from .worker_handle import NotStarted, Running, Task, Unreachable, WorkerHandle, WorkerPool

_log = get_logger(SUBMIT_LOGGER)


class ElasticJob:
    """One elastic job from its first round to its end. `members` is told of hosts, `state_file` keeps the state, `on_print`
    is called with the rank and the text that functions print.

    `run` belongs to one thread.
    """

    def __init__(
        self,
        task: Task,
        driver: ElasticDriver,
        stragglers: StragglerDetector,
        state_file: StateFile | None = None,
        on_print: Callable[[int, str], None] | None = None,
    ) -> None:
        self._on_print = on_print
        self._task, self._stragglers, self._state_file = task, stragglers, state_file
        self.members = ElasticMembership(driver, self._act)
        # set by what workers say of themselves: the first that holds the state makes it False
        self._nobody_holds = True  # the state, so that the next round begins with the content that was kept
        self._monitor = ClusterMonitor(task.job, 0, _log, state=AgentStates())
        self._pool = WorkerPool(task, self.members)
        self._opening: StartRound | None = None  # some of its workers have not started yet
        self._round = StartRound(-1, (), 0)  # that was opened last
        self._results: dict[Worker, Any] = {}
        self._failures: dict[int, tuple[str, str]] = {}
        self._cut_off: dict[Worker, int] = {}  # the number of its agent's heartbeats until which the line may heal
        self._awaited: dict[Worker, float] = {}  # workers that have started and not said anything, since when
        self._silent: set[Worker] = set()

    def run(self) -> dict[int, Any]:
        """Run the job; return the results of the workers of the last round, by rank. Raises: JobFailed."""
        members = self.members
        try:
            if self._state_file is not None and self._state_file.content is not None:
                # the driver of rounds may begin without survivors then (EL-12)
                members.tell(CheckpointSeen(self._state_file.digest))
            while members.failure is None:
                members.wait(self._pool.sessions())
                self._step()
        finally:
            self._pool.dismiss(self._results, self._silent)
        if members.failure:
            # causes first, as the error names the first failing process by time (EL-21)
            raise JobFailed(self._failures, {}, self._task.job, self._monitor.causes, members.failure)
        # a worker that was removed has no place in the last round, nor has its result
        return {rank: self._results[worker] for rank, worker in enumerate(self._round.workers) if worker in self._results}

    def _step(self) -> None:
        for item in self.members.take():
            self._on_start(item)
        for handle in self._pool:
            for heard in handle.hear():
                self._on_heard(handle, heard)
        # after the messages: one that has just come may show that its worker lives
        self._find_lost(time.monotonic())
        self.members.tell(Tick())
        # last, since each of the steps before may complete or end a worker of the round
        if self._opening is not None:
            self._try_open(self._opening)

    # ---- what is heard

    def _on_start(self, item: Running | NotStarted) -> None:
        handle = self._pool[item.worker]
        if isinstance(item, NotStarted):
            handle.ended = True
            # one that was given up meanwhile has been told of already
            if not handle.fenced:
                _log.warning("%s cannot be started: %s", item.worker, clean(item.reason))
            # a worker that never started blames the slot, or with its agent the host (EL-19)
            self._fail(handle, "lost", item.reason, started=False, agent_lost=item.agent_lost)
            return
        self._awaited[item.worker] = time.monotonic()
        if handle.fenced:
            handle.stop("It was given up before it had started.")

    def _on_heard(self, handle: WorkerHandle, heard: Operation | Unreachable) -> None:
        worker = handle.worker
        if isinstance(heard, State):
            self._on_ended(handle, heard)
        elif isinstance(heard, Unreachable):
            self._give_up(worker, self._monitor.explain(handle.node, heard.reason, time.monotonic()), agent_lost=True)
        elif isinstance(heard, LIVENESS_MESSAGES):
            self._monitor.take(handle.node, heard, time.monotonic())
        # EL-27: a fenced worker that lives on may say anything
        elif handle.fenced:
            pass  # nothing that it says counts any more
        elif isinstance(heard, Here):
            handle.place = heard.place
            self._awaited.pop(worker, None)
        elif isinstance(heard, Ready):
            # `Ready` tells which workers can give the state to the others
            self._nobody_holds = self._nobody_holds and not heard.holds
            self._stragglers.asks_for_next(heard.attempt, worker)
            self.members.tell(WorkerReady(worker, heard.attempt, heard.holds))
        elif isinstance(heard, Noted):
            self.members.tell(Notified(heard.sequence))
        elif isinstance(heard, Waits):
            self._stragglers.waits(heard.attempt, worker, heard.operation)
        elif isinstance(heard, Got):
            self._stragglers.got(heard.attempt, heard.operation)
        elif isinstance(heard, Kept):
            self._keep(heard.content)
        elif isinstance(heard, Printed):
            # a worker of an earlier round may still print; its rank is another's by now
            if self._on_print is not None and worker in self._round.workers:
                self._on_print(self._round.workers.index(worker), heard.text)
        elif isinstance(heard, Returned):
            self._results[worker] = heard.value
            # it will ask for no round: others must not wait for it in vain
            self._stragglers.asks_for_next(self._round.attempt, worker)
            self._monitor.ended(handle.node, True, time.monotonic())
            self.members.tell(WorkerEnded(worker, True, 0, returned=True))

    def _keep(self, content: Any) -> None:
        self._nobody_holds = False
        if self._state_file is not None and self._state_file.keep(content):
            self.members.tell(CheckpointSeen(self._state_file.digest))

    def _on_ended(self, handle: WorkerHandle, ended: State) -> None:
        worker, well = handle.worker, ended.state in ("done", "left")
        self._monitor.ended(handle.node, well, time.monotonic())
        # its result is here: the way in which its process ends changes nothing
        if worker in self._results:
            return
        if well:  # it has said BYE, or its host is to go
            # EL-20: an exit with 0 after a removal is no success of the job
            self.members.tell(WorkerEnded(worker, True, 0, ended.detail, returned=False, place=None))
            return
        if ended.state == "stopped" and not handle.fenced:  # not by us
            self._failures[handle.node] = (ended.state, ended.detail)
            self.members.failure = f"The job was stopped: {clean(ended.detail.strip())}"
            return
        # the agent's verdict tells more than the end of a process
        verdict = next((verdict for verdict in self._monitor.verdicts if verdict.node == handle.node), None)
        if not handle.fenced:
            _log.error("%s %s:\n%s", worker, ended.state, ended.detail.rstrip())
        self._fail(handle, ended.state, ended.detail, verdict)

    def _fail(self, handle: WorkerHandle, state: str, detail: str, verdict: Verdict | None = None, **start: bool) -> None:
        worker = handle.worker
        if not handle.fenced:  # else it is a consequence
            self._failures.setdefault(handle.node, (state, detail))
        # at once: others may wait for it in an operation with connections that stand
        self._break(worker, f"{worker} has failed: {last_line(detail)}")
        self._stragglers.asks_for_next(self._round.attempt, worker)
        self.members.tell(failure_of(worker, state, detail, verdict, **start))

    def _give_up(self, worker: Worker, reason: str, *, agent_lost: bool = False) -> None:
        """Expect nothing more of a worker, though its process may exist."""
        # said once; a result that is here is not lost with its worker
        handle = self._pool[worker]
        if handle.fenced or handle.ended or worker in self._results:
            return
        _log.error("%s is given up: %s", worker, clean(reason))
        self._failures.setdefault(handle.node, ("lost", reason))
        self._stragglers.asks_for_next(self._round.attempt, worker)
        self.members.tell(WorkerStuck(worker, reason, agent_lost))

    def _find_lost(self, now: float) -> None:
        """Give up the workers that are silent, cut off, or missing where others wait."""
        for verdict in self._monitor.look(now):
            # all wait for each other, or cannot reach each other: nothing of this round will come
            if verdict.kind in ("deadlock", "cut"):
                self._break(None, verdict.headline)
                continue
            silent = next(handle.worker for handle in self._pool if handle.node == verdict.node)
            # with its agent all workers of a host are silent
            self._silent.update(handle.worker for handle in self._pool if handle.worker.address == silent.address)
            self._give_up(silent, verdict.headline, agent_lost=True)
        beats = self._monitor.heartbeats
        for handle in self._pool:
            if not handle.is_cut_off:
                self._cut_off.pop(handle.worker, None)
            # a short loss heals, or the agent tells its reason in this time
            elif beats[handle.node] >= self._cut_off.setdefault(handle.worker, beats[handle.node] + limits.VERDICT_HEARTBEATS):
                self._give_up(handle.worker, "the line to its process is lost")
        for worker, since in list(self._awaited.items()):
            if now - since > limits.HERE_SECONDS:
                del self._awaited[worker]
                self._give_up(worker, f"its process has not said anything within {limits.HERE_SECONDS:g} s")
        for worker, reason in self._stragglers.look(now):
            self._give_up(worker, reason)

    # ---- what the driver decides

    def _act(self, action: object) -> None:
        if isinstance(action, StartRound):
            self._opening = action
            # a round that begins with the file has no worker that holds the state
            self._nobody_holds = self._nobody_holds or action.resume
            # late workers of the old round are none of the new one
            self._stragglers.end()
            for worker in action.workers:
                self._pool.start(worker)
        elif isinstance(action, StopWorker):
            self._stop(self._pool[action.worker], action.reason)
        elif isinstance(action, RemoveWorker):
            self._pool[action.worker].say(Removed(action.message))
            self._pool[action.worker].fenced = True
        elif isinstance(action, NotifyRankZero):
            self._pool[action.worker].say(HostsChanged(action.sequence, int(action.result)))

    def _stop(self, handle: WorkerHandle, reason: str) -> None:
        # at the end of the job all are stopped, which is no failure to be told
        if self.members.driver.stage is not Stage.OVER:
            _log.warning("%s", reason)
            handle.say(Removed(f"{handle.worker} has been removed from elastic job"))
            self._break(handle.worker, reason)
        handle.fenced = True
        handle.stop(reason)

    def _break(self, worker: Worker | None, reason: str) -> None:
        """Tell all other workers of the round that it gives no more results, if `worker` is in it, or None."""
        for other in self._round.workers if worker is None or worker in self._round.workers else ():
            if other != worker:
                self._pool[other].say(Broken(self._round.attempt, reason))

    def _try_open(self, order: StartRound) -> None:
        """Let the round begin when all of its workers have started; if one of them is lost already, the round is void."""
        handles = [self._pool[worker] for worker in order.workers]
        # some have neither come nor failed yet
        if any(handle.place is None and not (handle.ended or handle.fenced) for handle in handles):
            return
        self._opening, self._round = None, order
        whole = not any(handle.ended or handle.fenced for handle in handles)
        self._stragglers.begin(order.attempt, order.workers)
        if whole:
            # names of members stand in the log of the driver in the order of their ranks
            names = ", ".join(map(str, order.workers))
            _log.info("Round %d of job %s: %d workers, %s.", order.attempt + 1, self._task.job, len(handles), names)
            if order.attempt:  # the first one is no news
                _log.info("Round %d begins with %d workers.", order.attempt + 1, len(handles), extra=BRIEF)
            self._monitor.begin([handle.node for handle in handles], time.monotonic(), anew=True)
            places = [list(handle.place or ()) for handle in handles]
            kept = self._state_file.content if self._state_file is not None and self._nobody_holds else None
            message: Operation = Round(order.attempt, order.sequence, [handle.node for handle in handles], places, kept)
        else:
            message = Void(order.attempt)
        for handle in handles:
            # a lost member of a void round asks for nothing: counted, so that others do not wait for it
            if handle.ended or handle.fenced:
                self._stragglers.asks_for_next(order.attempt, handle.worker)
            else:
                handle.say(message)


KEEP_SECONDS = 30.0  # from one writing to the next
_MAGIC = b"PSGD elastic state 1\n"
_DIGEST = 32  # bytes of SHA-256 over what follows


class StateFile:
    """File with the state of an elastic job, at its driver.

    `content` is the content of the file, or the content kept since, None for nothing; `digest` tells one content from another.

    Raises: ValueError for a file that is no such state, or a damaged one; OSError when it cannot be read.
    """

    def __init__(self, path: str | Path, disk: Disk | None = None) -> None:
        self._path, self._disk = Path(path).absolute(), disk or Disk()
        self.digest = ""
        self.content: Any = self._read() if self._path.exists() else None

    def keep(self, content: Any) -> bool:
        """Write `content`; return False when the disk refuses, and the file is unchanged."""
        parts = [bytes(part) for part in pack(Kind.MESSAGE, (), content).buffers()]
        digest = hashlib.sha256(b"".join(parts)).digest()
        # beside it, so that the rename is atomic
        draft = self._path.with_name(self._path.name + ".new")
        try:
            self._disk.remove(draft)  # of a driver that was killed
            self._disk.put(self._path, [_MAGIC, digest, *parts], draft)
        except OSError as error:
            _log.warning("The state cannot be kept in %s: %s", self._path, error.strerror or error)
            return False
        self.content, self.digest = content, digest.hex()
        return True

    def _read(self) -> Any:
        data = read_file(self._path, sys.maxsize)
        begin = len(_MAGIC) + _DIGEST
        if not data.startswith(_MAGIC):
            raise ValueError(
                f"'checkpoint' must be a file that elastic.launch has written, or none yet; {self._path} is another"
            )
        digest = hashlib.sha256(data[begin:])
        # before anything of it is decoded
        if digest.digest() != data[len(_MAGIC) : begin]:
            raise ValueError(f"The checkpoint {self._path} is damaged")
        self.digest = digest.hexdigest()
        try:
            file = BytesIO(data)
            file.seek(begin)
            return read_one(file)
        except ProtocolError as error:
            raise ValueError(f"The checkpoint {self._path} cannot be read: {error}") from error
