"""A job process from its first breath to its exit: load the executor, feed it, meet the peers, run it, report.

Started by the agent as `python -m rpc.job.process FD`; everything it needs to know comes over that socket pair.
"""

from __future__ import annotations

import faulthandler
import gc
import logging
import os
import platform
import queue
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import msgpack  # noqa: F401  imported by everything below; named here because a job without it cannot even say so

from network.controller import Controller
from network.dial import Target, dial_all
from network.errors import NetworkError, PeerLost, ProtocolError, Rejected, TimedOut
from network.keys import Key
from network.nodes import SUBMITTER, Address
from network.session import Session
from network.sockets import wait_sockets
from network.version import VERSION
from network.wire import Kind, pack

from .. import shipping
from ..communication import Communication
from ..errors import JobAborted
from ..executable import AbsExecutable, ReplyPackage
from ..host import host_name
from ..identity import process_name
from ..logs import CleanFormatter
from ..messages import (
    CODE_TO_JOB,
    TO_JOB_PROCESS,
    Advanced,
    Answers,
    Asks,
    Audit,
    Begin,
    Load,
    Loaded,
    Operation,
    Prepared,
    Reached,
    parse,
)
from ..pair import Pair
from . import rendezvous
from .porter import Porter

RESULT_FILE = "result.psgd"
OUTPUT = "out"
_DETAIL_LIMIT = 48 << 10
_READY = (1,)  # head of the READY message between peers


class JobProcess:
    """One run of one executor."""

    def __init__(self, pair: Pair, begin: Begin) -> None:
        self.begin = begin
        self.output = Path(OUTPUT)
        self.controller = Controller(begin.node, {})
        self.porter = Porter(pair, begin, self.controller.admit, self._halt)
        self.executable: AbsExecutable | None = None
        self._code: Session | None = None

    def _halt(self, reason: str) -> None:
        self.controller.interrupt(JobAborted(reason))

    def run(self) -> None:
        """Everything; the outcome goes to the agent, whatever happens."""
        self.porter.start()
        state, detail = "done", ""
        try:
            self._execute()
        except JobAborted as aborted:
            state, detail = "stopped", str(aborted)
            logging.getLogger(self._name).warning("%s", aborted)
        except BaseException as error:  # noqa: BLE001  an executor may raise anything, SystemExit included
            if isinstance(error, SystemExit) and error.code in (None, 0):
                detail = "The executor called sys.exit() before its work was done."
            else:
                detail = "".join(traceback.format_exception(error))
            state = "failed"
            logging.getLogger(self._name).error("%s", detail)
        files = self._files()
        self.controller.close(farewell=state == "done")
        logging.shutdown()
        self.porter.tell(Reached(state, detail[-_DETAIL_LIMIT:], files))

    @property
    def _name(self) -> str:
        return f"Fit-{self.begin.node}"

    def _execute(self) -> None:
        self._code = self._await_code_session()
        load = self._receive_code(Load)
        self.executable = self._load(load)
        self._send_code(Loaded(VERSION))
        self._satisfy(self.executable)
        self._send_code(Prepared())
        self.executable.prepare()
        com = self._meet(load)
        self._code.close()
        gc.collect()
        gc.freeze()  # what exists now lives to the end; the collector need not look at it again during training
        self.porter.tell(Reached("running", "", []))
        self.executable.start(com)
        com.controller.flush(timeout=self.begin.start_limit)
        self._keep(self.executable.done())

    # ---- the code session

    def _await_code_session(self) -> Session:
        try:
            return self.porter.code_sessions.get(timeout=self.begin.start_limit)
        except queue.Empty:
            raise TimedOut("the submitter to send the job's code", self.begin.start_limit) from None

    def _receive_code(self, *allowed: type[Operation]) -> Any:
        session, deadline = self._session, time.monotonic() + self.begin.start_limit
        while (message := session.take()) is None:
            if session.lost is not None:
                raise JobAborted(f"The submitter is gone: {session.lost}")
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimedOut(f"the submitter to send {' or '.join(a.__name__ for a in allowed)}", self.begin.start_limit)
            self._pump_code(left)
        return parse(message.value, allowed)

    def _send_code(self, operation: Operation) -> None:
        self._session.queue(operation.to_value())
        while not self._session.send():
            self._pump_code(None)
        if self._session.lost is not None:
            raise JobAborted(f"The submitter is gone: {self._session.lost}")

    def _pump_code(self, timeout: float | None) -> None:
        link: Any = self._session.link
        wait_sockets([link], [link] if self._session.pending_bytes else [], timeout)
        self._session.send()
        self._session.receive()

    @property
    def _session(self) -> Session:
        if self._code is None:
            raise ProtocolError("The code session is not open yet.")
        return self._code

    def _load(self, load: Load) -> AbsExecutable:
        self.porter.tell(Audit("code loaded", shipping.bundle_hash(load.bundle, load.code)))
        try:
            objects, classes = shipping.load(load.bundle, load.code, self.begin.code_policy)
        except ImportError as error:
            raise Rejected(f"Node {self.begin.node} lacks a module that the job's code imports: {error}.") from error
        self.controller.use_classes(classes)
        self._session.use_classes(classes)
        executable: Any = objects["executable"]
        made = executable(self.begin.node, self.begin.group, SUBMITTER)
        if not isinstance(made, AbsExecutable):
            raise TypeError(f"A job runs an AbsExecutable, got {type(made).__qualname__}.")
        made.shipped = objects.get("objects", {})
        made.cache_directory = Path(self.begin.cache)
        return made

    def _satisfy(self, executable: AbsExecutable) -> None:
        requests = list(executable.requests())
        while not executable.ready():
            if not requests:
                raise ProtocolError(f"{type(executable).__qualname__} is not ready and asks for nothing.")
            self._send_code(Asks([str(r) for r in requests]))
            answers: Answers = self._receive_code(*(op for op in CODE_TO_JOB if op is Answers))
            requests = list(executable.satisfy(answers.contents))

    # ---- the peers

    def _meet(self, load: Load) -> Communication:
        """Connect to everybody, wait until all of the group are READY."""
        begin, controller = self.begin, self.controller
        companions = [n for n in load.roster if n not in begin.group] if begin.node in begin.group and begin.node >= 0 else []
        machine = rendezvous.Rendezvous(begin.node, begin.group, companions, begin.start_limit, time.monotonic())
        events: list[object] = [rendezvous.Satisfied()]
        self._dial_peers(load, companions)
        met: set[int] = set()
        while True:
            events += [rendezvous.Met(peer) for peer in controller.available_clients if peer not in met]
            met |= set(controller.available_clients)
            events += [rendezvous.HeardReady(peer) for peer in self._take_ready()]
            events += [rendezvous.PeerGone(peer, str(error)) for peer, error in controller.lost.items()]
            events.append(rendezvous.Tick())
            for event in events:
                for action in machine.handle(event, time.monotonic()):
                    if isinstance(action, rendezvous.SayReady):
                        controller.post(action.peer, None, _READY)
                    elif isinstance(action, rendezvous.RollBack):
                        raise Rejected(f"Rolled back before the start: {action.reason}.")
                    else:
                        controller.push()
                        return Communication(
                            controller,
                            begin.group,
                            self.output.absolute(),
                            Path(begin.cache),
                            lambda percent: self.porter.tell(Advanced(percent)),
                            begin.job,
                            begin.attempt,
                        )
            events = []
            if self._session.lost is not None:
                raise JobAborted(f"The submitter gave up before the start: {self._session.lost}")
            controller.pump(min(0.2, max(0.0, machine.deadline - time.monotonic())))
            self._session.receive()

    def _take_ready(self) -> list[int]:
        """Peers that have said READY; it is the first thing they say, what follows is for the executor."""
        ready = []
        for peer, session in self.controller.sessions.items():
            if session.inbox and session.inbox[0].head == _READY:
                session.inbox.popleft()
                ready.append(peer)
        return ready

    def _dial_peers(self, load: Load, companions: list[int]) -> None:
        """The higher id calls the lower one, and workers call the parameter server."""
        begin = self.begin
        targets = {}
        for node in [*begin.group, *companions]:
            if node < begin.node:
                address, host, unix_path = load.roster[node]
                targets[node] = Target(
                    Address.parse(address),
                    Key(begin.peer_key),
                    "peer",
                    "peer",
                    process_name(begin.job, node),
                    node,
                    {"node": begin.node, "attempt": begin.attempt},
                    unix_path if host == host_name() else "",
                )
        sessions, errors = dial_all(targets)
        for node, session in sessions.items():
            self.controller.admit(node, session)
        if errors:
            raise next(iter(errors.values()))

    # ---- the results

    def _keep(self, package: ReplyPackage) -> None:
        content = package.content if isinstance(package, ReplyPackage) else package
        packed = pack(Kind.MESSAGE, (), content, None, self.controller.classes)
        with open(self.output / RESULT_FILE, "wb") as file:
            for part in packed.buffers:
                file.write(part)

    def _files(self) -> list[str]:
        """Names of the reports that exist; the result first."""
        try:
            named = list(self.executable.trace_files()) if self.executable is not None else []
        except Exception:  # a broken trace_files must not lose the result
            logging.getLogger(self._name).exception("trace_files failed")
            named = []
        return [name for name in [RESULT_FILE, *named] if (self.output / name).is_file()]


def main() -> None:
    """Entry point of the interpreter that the agent starts."""
    faulthandler.enable()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(CleanFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    pair = Pair(socket.socket(fileno=int(sys.argv[1])), TO_JOB_PROCESS)
    received = pair.receive()
    if received is None or not isinstance(received[0], Begin):
        sys.exit(70)
    begin = received[0]
    logging.getLogger(f"Fit-{begin.node}").info(
        "Job %s (%s), node %s, attempt %s, pid %s, Python %s, version %s, BLAS threads %s.",
        begin.job,
        begin.title,
        begin.node,
        begin.attempt,
        os.getpid(),
        platform.python_version(),
        VERSION,
        os.environ.get("OMP_NUM_THREADS", "?"),
    )
    Path(OUTPUT).mkdir(mode=0o700, exist_ok=True)
    try:
        JobProcess(pair, begin).run()
    except (NetworkError, PeerLost) as error:
        logging.getLogger(f"Fit-{begin.node}").error("%s", error)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # the report is out and the logs are flushed; tearing the interpreter down would only keep the node busy


if __name__ == "__main__":
    main()
