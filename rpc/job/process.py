"""Job process from its start to its exit: load the executor, feed it, meet the peers, run it, report.

The agent starts it with a socket pair; all that it needs to know comes over that.
"""

from __future__ import annotations

import faulthandler
import gc
import io
import logging
import os
import platform
import queue
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from network import VERSION
from network.controller import Controller
from network.errors import ProtocolError, Rejected, TimedOut
from network.nodes import SUBMITTER
from network.session import Session
from network.transport import wait_sockets

from .. import monitor, shipping
from ..communication import Communication
from ..dialing import connect_seconds, dial_processes
from ..errors import ROLLED_BACK, JobAborted
from ..executable import AbsExecutable, ReplyPackage, content_of
from ..liveness.heartbeat import JOB_PROCESS
from ..liveness.limits import BEGIN_SECONDS, LINGER_SECONDS
from ..liveness.recorder import SIZE, STACK_SIGNAL, Kind, Recorder
from ..machine import Tick
from ..messages import (
    TO_JOB_PROCESS,
    Advanced,
    Answers,
    Asks,
    Begin,
    DoCommit,
    Load,
    Loaded,
    Prepared,
    Reached,
    SecurityEvent,
    Warned,
)
from ..process_channel import ProcessChannel
from ..protocol import MOST_SENTENCE
from ..support.console import open_descriptors
from ..support.files import RESULT_FILE, when_there_is_room, write_result
from ..support.forks import OwnProcess, catch, close_in_children
from ..support.logs import DISK_REFUSES, DISK_TAKES, CleanFormatter, clean, get_logger
from ..support.places import without_places
from . import rendezvous
from .acceptor import ORPHANED, JobAcceptor
from .code_session import CodeSession
from .hardening import adopt_orphans, end_descendants, name_process, set_limits, wake_when_orphaned
from .peers import PeerConnector, PendingPeers, look_if_cores_suffice, peer_target
from .report import exit_code_of, keep_sources, make_report, outcome_of, shown_to_submitter

OUTPUT = "out"
_LOOK_SECONDS = 0.2  # between looks at the submitter while the peers meet
_READY = (1,)  # head of the READY message between peers


class DiskHandler(logging.Handler):
    """Handler that tells the submitter when the disk of this node begins to refuse files, and when it takes all of them again,
    by the records that are marked `DISK_REFUSES` and `DISK_TAKES`.

    Args:
        tell: sends a sentence, and whether it is the end of the trouble.
        folder: folder that a sentence names by itself, since its place says nothing elsewhere.
    """

    def __init__(self, tell: Callable[[str, bool], None], folder: Path) -> None:
        super().__init__()
        self._tell, self._folder = tell, folder
        self._refused: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Send the sentence of the first refusal, and that of the record after which nothing is refused; others stay in the
        log of the node.
        """
        try:
            self._take(record)
        except Exception:  # noqa: BLE001  a log never costs a training (RUN-8)
            self.handleError(record)

    def _take(self, record: logging.LogRecord) -> None:
        refused, taken = getattr(record, DISK_REFUSES, None), getattr(record, DISK_TAKES, None)
        before = bool(self._refused)
        if refused is not None:
            self._refused.add(str(refused))
        elif taken is not None:
            self._refused.discard(str(taken))
        if before == bool(self._refused):
            return
        more = "" if before else " Its log tells what else is refused."
        said = clean(without_places(record.getMessage(), self._folder), MOST_SENTENCE - len(more) - 3)
        self._tell(said + more, before)


class JobProcess:
    """Run of one executor.

    Args:
        channel: socket pair with the agent.
        begin: the first message of the agent.
        recorder: memory for signals of life.
    """

    def __init__(self, channel: ProcessChannel, begin: Begin, recorder: Recorder) -> None:
        self.begin = begin
        self._recorder = recorder
        self.logger = get_logger(f"Fit-{begin.node}")
        self.output = Path(OUTPUT).absolute()  # an executor may change the current directory
        # without sessions: peers are admitted as they come
        self.controller = Controller(begin.node, {})
        self.acceptor = JobAcceptor(channel, begin, self.controller.admit, self.halt, self.controller.lose)
        self.executable: AbsExecutable | None = None
        # by the root: any package may log what the submitter is to hear
        self._teller = DiskHandler(lambda text, over: self.acceptor.tell(Warned(text, over)), self.output)
        logging.getLogger().addHandler(self._teller)
        self._process = OwnProcess()
        self._sources: list[str] = []

    def halt(self, reason: str) -> None:
        """Let the executor end with JobAborted at its next send or receive (any thread, and a signal handler)."""
        self.controller.interrupt(JobAborted(reason))

    def run(self) -> None:
        """Run the executor from first to last; the outcome goes to the agent, however it ends."""
        problem: BaseException | None = None
        try:
            # first: callers and the order to stop come by it while the code is still loading
            self.acceptor.start()
            self.output.mkdir(mode=0o700, exist_ok=True)
            self._execute()
        except BaseException as error:  # noqa: BLE001  an executor may raise anything, SystemExit included
            problem = error
        if not self._process.is_here:  # user code has forked this process, and it has come back
            raise problem or SystemExit(0)
        state, detail = outcome_of(problem)
        if problem is not None:
            self.logger.log(logging.WARNING if state == "stopped" else logging.ERROR, "%s", detail)
        detail = without_places(shown_to_submitter(state, detail, problem), self.output.parent)
        report = make_report(state, detail, self.executable, self.output, self.logger, self._sources)
        if isinstance(problem, SystemExit):
            report = replace(report, exit_code=exit_code_of(problem))
        if state == "stopped":
            self._linger()
        # a graceful end takes up to two seconds; after a failure the others shall see the loss at once
        try:
            self.controller.close(graceful=state == "done")
        except Exception:  # the report must reach the agent, whatever has become of the connections
            self.logger.exception("The connections with other nodes could not be closed")
        # before the report: once that is out the agent may send the log
        logging.shutdown()
        # last: by it the submitter may fetch all files
        self.acceptor.tell(report)

    def _linger(self) -> None:
        """Stay connected while the others are told to stop, too: before that they would take our end for a loss."""
        if self.controller.sessions:
            time.sleep(LINGER_SECONDS)

    def _execute(self) -> None:
        code = CodeSession(self._await_code_session(), self.begin.prepare_limit)
        load = code.receive(Load)
        self.executable = executable = self._load(load, code)
        gc.freeze()  # until here nothing was to be collected, and no time lost with looking for it
        gc.enable()
        code.send(Loaded(VERSION))
        self._satisfy(executable, code)
        code.send(Prepared())
        # after Prepared: all nodes prepare at the same time, and none has started
        executable.prepare()
        code.receive(DoCommit)
        self._meet(load, executable, code.check)
        # from here on the submitter may leave
        code.close()
        com = self._communication(load)
        # what the start left is collected now, so that no collection falls into a step
        gc.collect()
        gc.freeze()  # objects of now live to the end; the collector need not look at them again during training
        look_if_cores_suffice(self.controller, load.roster.values())
        self.controller.on_wait, self.controller.on_resume = self._recorder.waits, self._recorder.resumes
        self._recorder.links = self.controller.counts
        if executable.signals:
            # the detector watches the time to the first signal from here on
            self._recorder.note(Kind.STARTED, 0, 0)
        self.acceptor.tell(Reached("running", "", []))
        executable.start(com)
        # a peer may still need our last message when our part is done
        self.controller.flush(timeout=self.begin.start_limit)
        write = partial(write_result, self.output / RESULT_FILE, content_of(executable.done()), self.controller.classes)
        # the disk may be full for a moment; hours of training are worth the wait
        when_there_is_room(write, "The result", self.logger)

    def _await_code_session(self) -> Session:
        try:
            return self.acceptor.code_sessions.get(timeout=self.begin.prepare_limit)
        except queue.Empty:
            raise TimedOut("the submitter to send the job's code", self.begin.prepare_limit) from None

    def _load_code(self, objects: bytes, code: bytes) -> tuple[dict[str, Any], Sequence[type]]:
        """Load code that the submitter has sent, if the agent's policy lets it; the hash goes to the agent's audit log."""
        # before it is loaded: what was about to run is on record, even if it ends the process
        self.acceptor.tell(SecurityEvent("code loaded", shipping.bundle_hash(objects, code)))
        return shipping.load(objects, code, self.begin.code_policy)

    def _load(self, load: Load, code: CodeSession) -> AbsExecutable:
        try:
            objects, classes = self._load_code(load.bundle, load.code)
        except ImportError as error:
            raise Rejected(f"Node {self.begin.node} lacks a module that the job's code imports: {error}.") from error
        if self.begin.node >= 0:  # a parameter server leaves logs only; the workers keep the same record
            self._sources = keep_sources(load.sources, self.output)
        # before anything of these classes can come from a peer or the submitter
        self.controller.use_classes(classes)
        code.use_classes(classes)
        maker = objects["executable"]
        if isinstance(maker, type) and not issubclass(maker, AbsExecutable):
            raise TypeError(f"A job runs an AbsExecutable, got {maker.__qualname__}.")
        made = maker(self.begin.node, self.begin.group, SUBMITTER)
        if not isinstance(made, AbsExecutable):
            raise TypeError(f"A job runs an AbsExecutable, got {type(made).__qualname__}.")
        made.shipped = objects.get("objects", {})
        made.cache_directory = Path(self.begin.cache)
        self.acceptor.serves_submitter = made.serves_submitter
        if made.meets_peers:
            self.acceptor.pending = PendingPeers()
        return made

    def _satisfy(self, executable: AbsExecutable, code: CodeSession) -> None:
        """Get the resources that the executor asks for. One that asks for nothing waits for the answer, too: none starts
        before the dispatch.
        """
        requests = list(executable.requests())
        while True:
            code.send(Asks([str(request) for request in requests]))
            answers = code.receive(Answers)
            replies = [ReplyPackage(content) for content in answers.contents] if answers.packages else answers.contents
            if requests:
                requests = list(executable.satisfy(replies))
            if executable.ready():
                return
            if not requests:
                raise ProtocolError(f"{type(executable).__qualname__} is not ready and asks for nothing.")

    # ---- the peers

    def _meet(self, load: Load, executable: AbsExecutable, check_submitter: Callable[[], None]) -> None:
        """Connect with all peers, and wait until all of the group are READY.

        Raises: Rejected when the start is rolled back, JobAborted when the submitter gives up.
        """
        begin, controller = self.begin, self.controller
        companions = [node for node in load.roster if node not in begin.group]
        machine = rendezvous.Rendezvous(begin.node, begin.group, companions, begin.start_limit, time.monotonic())
        events: list[object] = [rendezvous.Satisfied()]
        met: set[int] = set()
        ready: set[int] = set()
        # all lower ids; higher ones call us meanwhile, by the acceptor's thread
        self._dial_peers(load, companions, executable)
        while True:
            # a peer that has done its short work already was met, too
            events += [rendezvous.Met(peer) for peer in controller.sessions if peer not in met]
            met.update(controller.sessions)
            self._name_peers(load)
            heard = self._take_ready()
            ready.update(heard)
            events += [rendezvous.HeardReady(peer) for peer in heard]
            # a node that was READY may have started and failed already, or given up waiting: that decides nothing here
            events += [rendezvous.PeerGone(peer, str(e)) for peer, e in controller.lost.items() if peer not in ready]
            events.append(Tick())
            for event in events:
                for action in machine.handle(event, time.monotonic()):
                    if isinstance(action, rendezvous.SayReady):
                        controller.post(action.peer, None, _READY)
                    elif isinstance(action, rendezvous.RollBack):
                        raise Rejected(f"{ROLLED_BACK}: {action.reason}.")
                    else:
                        # READY must leave, though this node goes on to other work at once
                        controller.push()
                        return
            events = []
            # until the start the submitter can take everything back
            check_submitter()
            # in slices: a submitter that gives up is seen within a fifth of a second
            controller.pump(min(_LOOK_SECONDS, max(0.0, machine.deadline - time.monotonic())))

    def _name_peers(self, load: Load) -> None:
        """Name peers in errors by the address of their agents, not by the ports that they called from."""
        for node, session in self.controller.sessions.items():
            if node in load.roster:
                session.link.peer = load.roster[node][0]

    def _take_ready(self) -> list[int]:
        """List the peers that have said READY; it is their first message, later ones are for the executor."""
        ready = []
        for peer, session in self.controller.sessions.items():
            # looked at, not taken: a message for the executor must stay
            if session.inbox and session.inbox[0].head == _READY:
                session.inbox.popleft()
                ready.append(peer)
        return ready

    def _dial_peers(self, load: Load, companions: list[int], executable: AbsExecutable) -> None:
        """Call the peers: within the group the higher id calls the lower one; a group calls those that were submitted before
        it.
        """
        begin = self.begin
        far = executable.over_tcp()
        targets = {
            node: peer_target(begin.job, begin.peer_keys[node], begin.node, begin.attempt, node, load.roster[node], node in far)
            for node in [*(peer for peer in begin.group if peer < begin.node), *companions]
        }
        # a host with many processes answers each more slowly
        hosts = Counter(host for _, host, _ in load.roster.values())
        sessions, errors = dial_processes(targets, connect_seconds(max(hosts.values(), default=1)))
        for node, session in sessions.items():
            self.controller.admit(node, session)
        if errors:
            raise next(iter(errors.values()))

    def _communication(self, load: Load) -> Communication:
        begin, pending = self.begin, self.acceptor.pending
        place = load.roster.get(begin.node, ["", "", ""])
        com = Communication(
            self.controller,
            self.begin.group,
            self.output,
            Path(self.begin.cache),
            lambda percent, note: self.acceptor.tell(Advanced(percent, note)),
            self.begin.job,
            self.begin.attempt,
            self._load_code,
            None if pending is None else PeerConnector(begin.job, begin.node, begin.peer_keys, place, pending),
        )
        com.suspects = self.acceptor.suspects
        return com


def main() -> None:
    run_job(int(sys.argv[1]), int(sys.argv[2]))


def run_job(channel_descriptor: int, memory: int) -> None:
    """Run the job that the agent describes over the channel, with a recorder in its memory, and end this process."""
    # before sockets are opened: a free 0, 1 or 2 would be given to one of them, and text printed into it
    open_descriptors()
    name_process(JOB_PROCESS)
    faulthandler.enable()
    set_limits()
    # before user code can start any
    adopt_orphans()
    wake_when_orphaned()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a killed process must not take its last printed lines with it
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(CleanFormatter(partial(without_places, folder=os.getcwd())))  # it goes with the files of the run
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    recorder = open_recorder(memory)
    monitor.attach(recorder)
    channel = ProcessChannel(socket.socket(fileno=channel_descriptor), TO_JOB_PROCESS)
    # a child that holds the channel would keep the agent waiting for our end
    close_in_children(channel)
    os.register_at_fork(after_in_child=_leave_recorder)
    # an agent that hangs after it has started this process must not keep it
    wait_sockets([channel.sock], [], BEGIN_SECONDS)
    received = channel.receive()
    if received is None or not isinstance(received[0], Begin):
        sys.exit(ORPHANED)
    process = JobProcess(channel, received[0], recorder)
    # a scheduler that wants its machines back sends this to every process; the executor ends as if it had been stopped
    catch(signal.SIGTERM, lambda *_: process.halt("Its process was sent SIGTERM."))
    process.logger.info(
        "Job %s (%s), node %s, attempt %s, pid %s, Python %s, version %s, BLAS threads %s.",
        process.begin.job,
        process.begin.title,
        process.begin.node,
        process.begin.attempt + 1,
        os.getpid(),
        platform.python_version(),
        VERSION,
        os.environ.get("OMP_NUM_THREADS", "?"),
    )
    process.run()
    # os._exit does not
    sys.stdout.flush()
    end_descendants()
    os._exit(0)  # the report is out and the logs are flushed; tearing the interpreter down would only keep the node busy


def _leave_recorder() -> None:
    """Leave the recorder in a process that user code has forked: the signals of life and the stacks in that memory are the
    job's.
    """
    monitor.detach()
    faulthandler.unregister(STACK_SIGNAL)


def open_recorder(descriptor: int) -> Recorder:
    """Open the recorder in the memory that the agent gave; behind it goes the stack of every thread when the agent asks for
    it.
    """
    os.set_inheritable(descriptor, False)
    recorder = Recorder(descriptor)
    # faulthandler writes where the descriptor stands
    os.lseek(descriptor, SIZE, os.SEEK_SET)
    faulthandler.register(STACK_SIGNAL, file=descriptor, all_threads=True, chain=False)
    return recorder


if __name__ == "__main__":
    main()
