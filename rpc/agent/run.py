"""One job process of an agent: started, spoken to, watched, ended; the slot machine decides, this acts."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import network
from network.door import PassedOn
from network.errors import ProtocolError
from network.hello import Hint

from ..messages import FROM_JOB_PROCESS, Advanced, Audit, Begin, CanCommit, Halt, Operation, Reached, Took, Visitor
from ..pair import Pair, make_pair
from . import slot
from .jobs import JobRecord

MOST_UNTAKEN = 64  # visitors sent to the process that it has not taken yet
_KEPT_VARIABLES = ("PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "PSGD_DATA")
_BLAS_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_CHILD = "from rpc.job.process import main; main()"

logger = logging.getLogger(__name__)


def child_environment(environ: Mapping[str, str], blas_threads: int) -> dict[str, str]:
    """What a job process may see: no key, nothing that the agent's user did not mean for it, and the BLAS threads."""
    kept = {name: environ[name] for name in _KEPT_VARIABLES if name in environ}
    kept.update({name: value for name, value in environ.items() if name.startswith("LC_")})
    root = str(Path(network.__file__).resolve().parent.parent)
    kept["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [environ.get("PYTHONPATH")])])
    kept["PYTHONSAFEPATH"] = "1"
    kept.update(dict.fromkeys(_BLAS_VARIABLES, str(blas_threads)))
    return kept


class Run:
    """A job process and its slot. `on_tell(run, state, detail)` and `on_progress(run, percent)` are called as they happen."""

    def __init__(
        self,
        order: CanCommit,
        record: JobRecord,
        folder: Path,
        *,
        cache: Path,
        code_policy: str,
        now: float,
        on_tell: Callable[[Run, slot.Tell], None],
        on_progress: Callable[[Run, int], None],
        on_audit: Callable[[str, str], None],
    ) -> None:
        self.order = order
        self.record = record
        self.slot = slot.Slot(order.start_limit, now)
        self.free = False
        self._folder = folder
        self._on_tell, self._on_progress, self._on_audit = on_tell, on_progress, on_audit
        self._untaken = 0
        ours, theirs = make_pair()
        log = os.open(folder / record.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _CHILD, str(theirs.fileno())],
                cwd=folder,
                env=child_environment(os.environ, order.blas_threads),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                umask=0o077,
            )
        finally:
            os.close(log)
            theirs.close()  # else connections in flight would outlive a dead process
        self.pair: Pair | None = Pair(ours, FROM_JOB_PROCESS)
        ours.setblocking(False)
        self._send(
            Begin(
                order.job,
                order.title,
                order.node,
                order.group,
                order.attempt,
                order.code_key,
                order.peer_key,
                order.start_limit,
                str(cache),
                code_policy,
            )
        )

    @property
    def pid(self) -> int:
        """Process id of the job process."""
        return self._process.pid

    @property
    def name(self) -> str:
        """What connections ask for that want this process."""
        return self.record.name

    def _send(self, operation: Operation, connection: socket.socket | None = None) -> bool:
        if self.pair is None:
            return False
        try:
            self.pair.send(operation, connection.fileno() if connection else None)
        except OSError:  # gone, which `step` will see, or hung with a full pair, which its limit will end
            return False
        return True

    def pass_on(self, visitor: PassedOn) -> None:
        """Give a connection to the job process, or turn it away when too many are waiting there."""
        if self._untaken >= MOST_UNTAKEN:
            with contextlib.suppress(OSError):
                visitor.sock.send(bytes([Hint.FULL]))
        elif self._send(Visitor(visitor.hello, visitor.seconds, visitor.peer), visitor.sock):
            self._untaken += 1
        visitor.sock.close()  # our copy; the process has its own

    def read(self) -> list[object]:
        """Take in what the process says; returns events for `handle`."""
        events: list[object] = []
        while self.pair is not None:
            try:
                received = self.pair.receive()
            except BlockingIOError:
                break
            except (ProtocolError, OSError) as error:
                logger.error("Job %s: its process spoke out of turn and is ended: %s", self.name, error)
                self.kill()
                received = None
            if received is None:
                self.pair.close()
                self.pair = None
                break
            operation, connection = received
            if connection is not None:
                connection.close()
            if isinstance(operation, Took):
                self._untaken -= 1
            elif isinstance(operation, Advanced):
                self._on_progress(self, operation.percent)
            elif isinstance(operation, Audit):
                self._on_audit(operation.event, f"job {self.name}: {operation.detail}")
            elif isinstance(operation, Reached):
                events.append(slot.Reported(operation.state, operation.detail, tuple(operation.files)))
        if self.pair is None and self._process.poll() is not None:
            self.kill()  # children that it left behind
            events.append(slot.ProcessGone(_how(self._process.returncode)))
        return events

    def handle(self, event: object, now: float) -> None:
        """Let the slot decide on `event`, and do as it says."""
        if self.free:
            return
        for action in self.slot.handle(event, now):
            if isinstance(action, slot.Kill):
                self.kill()
            elif isinstance(action, slot.OrderHalt):
                self._send(Halt(action.reason))
            elif isinstance(action, slot.Tell):
                self._on_tell(self, action)
            elif isinstance(action, slot.Free):
                self.free = True

    def kill(self) -> None:
        """End the process and all it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self) -> None:
        """Reap a killed process."""
        self._process.wait()
        if self.pair is not None:
            self.pair.close()
            self.pair = None

    @property
    def reaping(self) -> bool:
        """The process has hung up but is not reaped yet, so somebody must look again soon."""
        return self.pair is None and not self.free


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"killed by signal {-code}"
