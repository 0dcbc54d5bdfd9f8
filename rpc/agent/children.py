"""Child processes of an agent: those that it starts, and those of jobs that it adopts."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import network

from ..job.hardening import REFUSE_INSPECTION, adopt_orphans, children, kill_and_wait
from ..job.kernels import KERNEL_VARIABLES
from ..process_channel import make_channel
from ..support.processors import limit_met

_MOST_ROUNDS = 100  # in one go, against a process that forks faster than it is killed
_CLOSE_SECONDS = 2.0
_LOOK_SECONDS = 0.005
_STUCK_SECONDS = 2.0  # until a fork server that does not answer is ended, once no process that it is to fork is wanted
_ANSWER_BYTES = 64
COULD_NOT_FORK: Final = 71  # in place of an exit code (EX_OSERR)
_GC_OFF = "import gc; gc.disable()"  # until all is loaded
_JOB = f"{_GC_OFF}; from rpc.job.process import main; main()"
_FORK_SERVER = f"{REFUSE_INSPECTION}; {_GC_OFF}; from rpc.job.fork_server import main; main()"


class ChildProcesses:
    """Starter of the agent's children, each the leader of a session. It ends those that it did not start.

    With `adopts` this process becomes the parent of all processes that a job has left behind. Any child that it has not started
    and that was not there before is taken for one of those, so say so only for a process that is an agent and nothing else.
    """

    def __init__(self, adopts: bool) -> None:
        self._adopts = adopts
        # elsewhere an adopted child's end would not be seen, so a forked process could not be waited for
        self._forks = adopts and sys.platform.startswith("linux")
        # a service manager may have given this process children before
        self._spared = children() if adopts else set()
        self._started: list[JobProcess] = []
        self._fork_server: ForkServer | None = None
        if adopts:
            adopt_orphans()

    def start(self, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start `command` by `subprocess.Popen` with `options`, in a new session and under a private umask.

        Raises: OSError.
        """
        # those that have ended are forgotten: their numbers may be a stranger's by now
        self._started = [process for process in self._started if process.poll() is None]
        # a session of its own: Ctrl-C at the agent's terminal must not reach jobs, and its group can be killed
        process = subprocess.Popen(command, start_new_session=True, umask=0o077, **options)
        self._started.append(process)
        return process

    def start_job(
        self, environment: dict[str, str], modules: Sequence[str], folder: Path, channel: int, memory: int, output: int
    ) -> JobProcess:
        """Start a job process, forked where its end can be seen as that of a child.

        Args:
            environment: its environment.
            modules: modules that it needs.
            folder: its working directory.
            channel: descriptor of its channel with the agent.
            memory: descriptor of its recorder's memory.
            output: descriptor of its standard output and error.

        Raises: OSError.
        """
        if not self._forks:
            return self.start(
                [sys.executable, "-c", _JOB, str(channel), str(memory)],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[channel, memory],
            )
        process = self._fork_server_for(environment).fork(modules, folder, [channel, memory, output])
        self._started.append(process)
        return process

    def prepare(self, environment: dict[str, str]) -> None:
        """Begin a process for the next job early; it probably has this `environment`."""
        if self._forks:
            with contextlib.suppress(OSError):  # it is tried again when there is a job
                self._fork_server_for(environment)

    def _fork_server_for(self, environment: dict[str, str]) -> ForkServer:
        server = self._fork_server
        # thread counts and kernels are read once, when NumPy is loaded: another environment needs another server
        if server is None or server.environment != environment or not server.is_alive:
            if server is not None:
                server.retire()
            self._fork_server = server = ForkServer(environment, self)
        return server

    def end_adopted(self) -> set[int]:
        """Kill the adopted processes; return those that are still there, which take some milliseconds to end.

        Job processes adopt the processes that they have started, so those that come here are of a job process that has ended.
        """
        if not self._adopts:
            return set()
        last: set[int] = set()
        for _ in range(_MOST_ROUNDS):
            present = children()  # before those that the fork server tells of
            self._spared &= present  # a number that is free again may be given to a stranger
            left = present - self._spared - {process.pid for process in self._started if process.returncode is None}
            if left == last:
                break
            kill_and_wait(left)
            last = left
        return last

    def give_up(self, pids: set[int]) -> None:
        """Stop waiting for the end of adopted processes that cannot be killed."""
        self._spared |= pids

    def close(self) -> None:
        if self._fork_server is not None:
            # first, as it would go on forking
            self._fork_server.close()
        deadline = time.monotonic() + _CLOSE_SECONDS
        while self.end_adopted() and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)


class ForkServer:
    """Process from which job processes with this `environment` are forked (see `rpc.job.fork_server`).

    Raises: OSError.
    """

    def __init__(self, environment: dict[str, str], processes: ChildProcesses) -> None:
        self.environment = environment
        self._asked: deque[ForkedProcess] = deque()  # those of which it has not told the number
        self._control, theirs = make_channel()
        # a server that is stuck must not stop the agent
        self._control.setblocking(False)
        null = subprocess.DEVNULL
        try:
            command = [sys.executable, "-c", _FORK_SERVER, str(theirs.fileno())]
            self._process = processes.start(
                command, cwd="/", env=environment, stdin=null, stdout=null, pass_fds=[theirs.fileno()]
            )
        except BaseException:
            self._control.close()
            raise
        finally:
            # the server must be the only holder of its end: its exit shows as an end of the stream
            theirs.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def fork(self, modules: Sequence[str], folder: Path, descriptors: Sequence[int]) -> ForkedProcess:
        """Ask for a process that has these `modules` and `descriptors`, and works in `folder`. Raises: OSError."""
        # one packet, so that a server never reads half of an order
        socket.send_fds(self._control, [os.fsencode(folder) + b"\0" + " ".join(modules).encode()], descriptors)
        process = ForkedProcess(self)
        self._asked.append(process)
        return process

    def take_answers(self) -> None:
        while self._asked:
            try:
                answer = self._control.recv(_ANSWER_BYTES)
            except BlockingIOError:
                # a slow start is waited for, for as long as a job wants it; one that has been given up is not
                is_wanted = not all(process.unwanted for process in self._asked)
                if is_wanted or time.monotonic() < self._asked[0].asked + _STUCK_SECONDS:
                    return
                answer = b""
            except OSError:
                answer = b""
            if not answer:
                self.close()
                return
            self._asked.popleft().begin(int(answer))

    def retire(self) -> None:
        """Let the server finish the forks that it was asked for, and end."""
        if not self._asked:
            self._control.close()
            return
        with contextlib.suppress(OSError):  # it has ended
            # it reads the orders that are there, and then sees the end
            self._control.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """End the server; job processes that were forked live on."""
        self._control.close()
        self._process.kill()
        self._process.wait()
        # nothing will answer these: as forks that have failed they end their jobs
        while self._asked:
            self._asked.popleft().begin(0)


class ForkedProcess:
    """Forked process, with the interface that `subprocess.Popen` has for a started one; `pid` is 0 until it is forked."""

    def __init__(self, server: ForkServer) -> None:
        self._server, self._pid = server, 0
        self.asked, self.unwanted = time.monotonic(), False
        self.returncode: int | None = None
        self.problem = ""  # why it could not be forked, as far as that is known

    @property
    def pid(self) -> int:
        if not self._pid and self.returncode is None:
            self._server.take_answers()
        return self._pid

    @property
    def busy_pid(self) -> int:
        """Process id: processor time and state of that process tell whether there will be this process, or how it is."""
        return self.pid or self._server.pid

    def begin(self, answer: int) -> None:
        """Note the `answer` of the server: the number of the forked process; of an error, negative; or 0 when it could not
        fork.
        """
        if answer <= 0:
            self.returncode = COULD_NOT_FORK
            self.problem = limit_met(OSError(-answer, "")) or (os.strerror(-answer) if answer else "")
            return
        self._pid = answer
        if self.unwanted:
            kill_group(self)

    def poll(self) -> int | None:
        """Return the exit code of the process, negative for a signal, once it has ended."""
        pid = self.pid
        if self.returncode is None and pid:
            with contextlib.suppress(ChildProcessError):  # it is not our child yet
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self) -> int:
        while (code := self.poll()) is None:
            time.sleep(_LOOK_SECONDS)
        return code


def kill_group(process: JobProcess) -> None:
    """Kill a process and the group that it leads; one that is not forked yet, as soon as it is."""
    if isinstance(process, ForkedProcess):
        process.unwanted = True
    # it has ended, or has taken the rights of another user
    with contextlib.suppress(ProcessLookupError, PermissionError):
        try:
            if process.pid:
                os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            if process.returncode is None:  # forked a moment ago: it does not lead a group yet
                os.kill(process.pid, signal.SIGKILL)


JobProcess = subprocess.Popen[bytes] | ForkedProcess


# nothing else: an agent's environment may hold secrets, and user code could read them
_KEPT = (
    *("PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
    *("PSGD_DATA", "XDG_CACHE_HOME"),
    *KERNEL_VARIABLES,
)
_BLAS_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def project_root() -> str:
    return str(Path(network.__file__).resolve().parent.parent)


def child_environment(environ: Mapping[str, str], blas_threads: int) -> dict[str, str]:
    kept = {name: environ[name] for name in _KEPT if name in environ}
    kept.update({name: value for name, value in environ.items() if name.startswith("LC_")})
    # first ours: shipped code must not find another release of these packages
    kept["PYTHONPATH"] = os.pathsep.join([project_root(), *filter(None, [environ.get("PYTHONPATH")])])
    # without this the folder of the job would stand first, and a file there could pass for a module of ours
    kept["PYTHONSAFEPATH"] = "1"
    kept.update(dict.fromkeys(_BLAS_THREADS, str(blas_threads)))
    return kept
