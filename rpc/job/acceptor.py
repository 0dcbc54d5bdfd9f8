"""Second thread of a job process: takes connections from the agent, proves keys, and passes on the order to stop.

It costs nothing while training runs: it sleeps in poll. The training thread never waits for it.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable

from network.acceptor import Accept, Acceptor, Authenticated, Dropped, Outcome
from network.clock import Clock, SystemClock
from network.errors import Impostor, PeerLost, ProtocolError
from network.hello import Hello
from network.keys import Key, Keyring
from network.nodes import SUBMITTER
from network.session import Session
from network.transport import wait_sockets

from ..liveness.limits import TELL_SECONDS
from ..messages import Begin, Halt, Lose, Operation, SecurityEvent, Suspect, Took, Visitor
from ..process_channel import ProcessChannel
from ..support.identity import process_name
from ..support.logs import clean, get_logger
from .hardening import end_process
from .peers import PendingPeers, Suspects

ORPHANED = 70  # exit code of a job process whose agent is gone
logger = get_logger(__name__)


class JobAcceptor:
    """Acceptor of a job process.

    Args:
        channel: socket pair with the agent, owned from now on.
        begin: the first message of the agent.
        on_peer: called with node and session, in the acceptor's thread.
        on_halt: called with the reason, in that thread.
        on_lose: called with node, reason and class of the error, in that thread.
    """

    def __init__(
        self,
        channel: ProcessChannel,
        begin: Begin,
        on_peer: Callable[[int, Session], None],
        on_halt: Callable[[str], None],
        on_lose: Callable[[int, str, type[PeerLost]], None],
    ) -> None:
        self._channel = channel
        self._begin = begin
        self._on_peer = on_peer
        self._on_halt = on_halt
        self._on_lose = on_lose
        self._clock: Clock = SystemClock()
        self._terms = Accept(
            {"code": Keyring((Key(begin.code_key),))}, "peer", process_name(begin.job, begin.node), {"node": begin.node}
        )
        self.suspects = Suspects()  # peers that the failure detector doubts
        self._acceptor = Acceptor(lambda _hello: self._terms, self._clock)
        # `tell` is called by the training thread and by this one
        self._lock = threading.Lock()
        self._admitted: dict[int, Session] = {}
        self._impostors: dict[int, str] = {}  # nodes that have called as others, and how
        self._has_code_session = False
        self.serves_submitter = False  # whether the executor wants to be called by the submitter while it runs
        self.pending: PendingPeers | None = None  # where peers go whose executor meets them by itself
        self.code_sessions: queue.SimpleQueue[Session] = queue.SimpleQueue()
        # daemon: the process ends with its main thread
        self._thread = threading.Thread(target=self._run, name="acceptor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def tell(self, operation: Operation) -> None:
        """Send an operation to the agent (any thread); waits up to 30 s while the agent does not read."""
        deadline = self._clock.monotonic() + TELL_SECONDS
        with self._lock, contextlib.suppress(OSError):  # when it is gone, so are we: see `_take_all`
            while True:
                try:
                    self._channel.send(operation)
                    return
                except BlockingIOError:
                    left = deadline - self._clock.monotonic()
                    if left <= 0:
                        logger.error("The agent does not read, so it is not told of %s.", type(operation).__name__)
                        return
                    wait_sockets([], [self._channel.sock], left)

    def _run(self) -> None:
        try:
            while True:
                deadline = self._acceptor.deadline
                left = None if deadline is None else deadline - self._clock.monotonic()
                wait_sockets([self._channel.sock, *self._acceptor.links], [], left)
                self._take_all()
                for outcome in self._acceptor.step():
                    self._settle(outcome)
        except BaseException:  # without this thread no peer or agent could reach or stop the process
            logger.exception("The acceptor failed")
            # at once, past Python's own clean-up, which could hang in user code
            end_process(ORPHANED)

    def _take_all(self) -> None:
        while True:
            try:
                received = self._channel.receive()
            except BlockingIOError:
                return
            except ProtocolError as error:
                logger.error("The agent sent something wrong: %s", error)
                end_process(ORPHANED)
                return
            if received is None:  # the agent has died; no submitter could ever ask for our result
                end_process(ORPHANED)
                return
            operation, connection = received
            if isinstance(operation, Visitor) and connection is not None:
                self._acceptor.add(
                    connection,
                    hello=operation.hello,
                    seconds=operation.seconds,
                    peer=operation.peer,
                    accept=self._terms_of(operation),
                )
                # so that the agent counts how many visitors wait here
                self.tell(Took())
            elif isinstance(operation, Halt):
                self._on_halt(operation.reason)
            elif isinstance(operation, Lose):
                self._on_lose(operation.node, operation.reason, PeerLost)
            elif isinstance(operation, Suspect):
                self.suspects.note(operation.node, operation.seconds)

    def _terms_of(self, visitor: Visitor) -> Accept | None:
        """Choose the key to prove: of a peer the one that it shares with this node; of any other visitor that of the code."""
        if not visitor.key:
            return None
        return self._terms._replace(admits={"peer": Keyring((Key(visitor.key),))}, node=visitor.caller)

    def _settle(self, outcome: Outcome) -> None:
        if isinstance(outcome, Dropped):
            logger.warning("A visitor from %s was turned away: %s", clean(outcome.peer), clean(outcome.reason))
            # the agent keeps the audit log: a process that runs user code must not write it
            self.tell(SecurityEvent("turned away", clean(f"{outcome.peer}: {outcome.reason}")))
        elif isinstance(outcome, Authenticated):
            self._admit(outcome.session, outcome.hello)

    def _admit(self, session: Session, hello: Hello) -> None:
        node, claimed, attempt = session.node_id, hello.caps.get("node"), hello.caps.get("attempt")
        # the key tells which node it is; a claim of another one is no mistake of an honest process
        if node is not None and (type(claimed) is not int or claimed != node):
            self._refuse_impostor(session, node, claimed)
        elif session.role == "code" and not self._has_code_session:
            self._has_code_session = True
            # the first one brings the code, later ones are calls of the submitter
            self.code_sessions.put(session)
        elif session.role == "code" and self.serves_submitter and self._is_free(SUBMITTER):
            self._admitted[SUBMITTER] = session
            self._on_peer(SUBMITTER, session)
        elif session.role == "peer" and self.pending is not None and self.pending.arrive(attempt, node, session):
            pass
        # the attempt, too: a process of an attempt that is over may still be calling
        elif node is not None and self.pending is None and self._expects(node) and attempt == self._begin.attempt:
            self._admitted[node] = session
            self._on_peer(node, session)
            # it had called as another node before this; until now there was no session to lose
            if node in self._impostors:
                self._on_lose(node, self._impostors[node], Impostor)
        else:
            who = clean(f"{session.role} {node} of attempt {attempt!r}", 80)
            logger.warning("A second or unexpected visitor was refused: %s", who)
            self.tell(SecurityEvent("refused", f"{who} from {clean(session.link.peer)}"))
            session.close()

    def _refuse_impostor(self, session: Session, node: int, claimed: object) -> None:
        """Refuse node `node`, which has proven its own key and claims to be another one: its messages elsewhere are not
        reliable, either.
        """
        reason = clean(f"its process has called node {self._begin.node} under the id {claimed!r}", 120)
        logger.error("Node %s is an impostor: %s.", node, reason)
        self.tell(SecurityEvent("refused", f"node {node}, an impostor: {reason}, from {clean(session.link.peer)}"))
        session.close()
        self._impostors[node] = reason
        # with pending peers the executor decides whom it meets
        if self.pending is None:
            self._on_lose(node, reason, Impostor)

    def _expects(self, node: int) -> bool:
        """Tell if `node` may call: one of the job, within the group only the higher ids, of groups submitted later all, and
        none twice while its first call lasts.
        """
        # the higher id of a group calls the lower one, so that there is one connection and not two
        called_by_us = node in self._begin.group and node <= self._begin.node
        return node in self._begin.peer_keys and not called_by_us and self._is_free(node)

    def _is_free(self, node: int) -> bool:
        first = self._admitted.get(node)
        # a peer that was lost may come back
        return first is None or first.lost is not None
