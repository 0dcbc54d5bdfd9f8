"""The grid of single faults on real agents, submitters and job processes; takes minutes, so it is no part of the gate.

make faults                                  every cell, and random schedules on the virtual clock
python -m tests.faults [--how kill|stop] [PHASE-ROLE ...]
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

from network.key_files import create_key_file
from network.transport import wait_sockets
from parallel_sgd.checkpoint.store import file_name
from parallel_sgd.engine.progress import Position
from tests.proc import is_job
from tests.processes.harness import AgentProcess, processes_below

from .grid import BEFORE_RUNNING, CELLS, Cell
from .submit_job import EPOCHS
from .tap import Tap

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
END_SECONDS = 100.0  # the longest limit is that of doCommit, 60 s
NEXT_SECONDS = 20.0
BIRTH_SECONDS = 20.0
REVIVAL_SECONDS, WAKING_SECONDS = 3.0, 15.0
WORKERS = 3
INTERRUPTED = 130
_POLL_SECONDS = 0.002
UNREACHABLE = ("done-server", "retrieve-child", "retrieve-peer", "retrieve-server")  # it has exited before anybody could hit it


class Rig:
    """Three agents for workers and one for a parameter server, each behind a tap; the one of node 1 is watched."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.key_file = root / "key"
        key = create_key_file(self.key_file).offered
        self.taps = [Tap(key, partial(self._phase, node)) for node in range(WORKERS + 1)]
        self.agents = [self._start(number) for number in range(WORKERS + 1)]
        self.armed: tuple[str, int] | None = None  # phase, and at whose tap
        self.struck = threading.Event()
        self.hit: list[int] = []
        self.submitter: subprocess.Popen[bytes] | None = None

    def _start(self, number: int) -> AgentProcess:
        # a path too long for a Unix socket, so that everybody comes by the tap
        folder = self.root / f"agent-{number}"
        agent = AgentProcess(folder / str(time.monotonic()), self.key_file, work=folder / ("w" * 120)).await_address()
        self.taps[number].target = agent.address
        return agent

    def _phase(self, number: int, phase: str) -> None:
        if phase.startswith("step-") and not all(tap.runs for tap in self.taps[:WORKERS]):
            return  # a parameter server starts before the workers
        if self.armed == (phase, number) and not self.struck.is_set():
            self.armed = None
            self._strike()

    def _strike(self) -> None:
        deadline = time.monotonic() + BIRTH_SECONDS
        # an agent accepts a job when it has asked for its process; what is said waits at the tap until that one is born
        while not (victims := self._victims()) and self.cell.phase in BEFORE_RUNNING and time.monotonic() < deadline:
            wait_sockets([], [], _POLL_SECONDS)
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, SIGNALS[self.how])
                self.hit.append(pid)
        self.struck.set()

    def _victims(self) -> list[int]:
        role = self.cell.role
        if role == "coordinator":
            return [self.submitter.pid] if self.submitter else []
        if role == "agent":
            return [self.agents[1].pid]
        agent = self.agents[{"child": 1, "peer": 0, "server": WORKERS}[role]]
        return [pid for pid in agent.job_pids() if is_job(pid)]

    def run(self, cell: Cell, how: str) -> str:
        """One cell; returns what came of it, and raises AssertionError where something does not hold."""
        self.cell, self.how = cell, how
        self.struck.clear()
        self.hit.clear()
        for tap in self.taps:
            tap.reset()
        witness = WORKERS if cell.role == "server" else 0 if cell.role == "peer" else 1
        phase = cell.phase
        if cell.role in ("agent", "coordinator"):
            phase = {"listen": "connect"}.get(phase, phase)
        else:  # its own door, where a connection shows with the hello
            phase = {"connect": "child-auth", "auth": "child-auth", "canCommit": "load"}.get(phase, phase)
        self.armed = (phase, witness)
        began = time.monotonic()
        files = (
            "checkpoints/*"
            if phase == "checkpoint-write"
            else f"checkpoints/{file_name(Position(EPOCHS, 0))}"  # the last one, when training has ended
            if str(cell) in ("done-child", "done-peer")
            else ""
        )
        told = self._submit(cell.server, f"{cell}-{how}", files and f"agent-{witness % WORKERS}/w*/jobs/*/{files}")
        seconds = time.monotonic() - began
        assert self.struck.is_set() and self.hit, "the fault has not fired"
        self._mend()
        if not (cell.role == "coordinator" and how == "kill"):
            assert told.startswith(("completed", "failed: ")), told or "no word of the submitter"
            assert told.startswith("completed") or cell.phase in BEFORE_RUNNING or cell.role == "agent", told
        if told.startswith("completed"):
            assert told.split()[1] == self.calm(cell.server), "other weights than in a calm run"
        began = time.monotonic()
        following = self._submit(cell.server, f"{cell}-{how}-next")
        assert following.split()[1:2] == [self.calm(cell.server)], f"the next job: {following or 'no end'}"
        return f"{told[:150]:150} | {seconds:5.1f} s, next {time.monotonic() - began:.1f} s"

    def calm(self, server: bool) -> str:
        """The weights of a job to which nothing happens."""
        known = self.__dict__.setdefault("_calm", {})
        if server not in known:
            armed, self.armed = self.armed, None
            known[server] = self._submit(server, f"calm-{server}").split()[1]
            self.armed = armed
        return str(known[server])

    def _submit(self, server: bool, name: str, watched: str = "") -> str:
        """What a submitter says in the end; the fault happens when a file appears that fits `watched`, if that is given."""
        folder = self.root / name
        folder.mkdir()
        addresses = [str(tap.address) for tap in self.taps]
        command = [sys.executable, "-m", "tests.faults.submit_job", str(self.key_file), str(folder)]
        command += [addresses[-1] if server else "-", *addresses[:WORKERS]]
        known = self._files(watched)
        with open(folder / "log", "wb") as log:
            self.submitter = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
            waker = threading.Timer(WAKING_SECONDS if self.how == "stop" else REVIVAL_SECONDS, self._mend)
            deadline = time.monotonic() + END_SECONDS
            try:
                while self.submitter.poll() is None and time.monotonic() < deadline:
                    wait_sockets([], [], _POLL_SECONDS)
                    if watched and not self.struck.is_set() and self._files(watched) - known:
                        self._strike()
                    if self.struck.is_set() and waker.ident is None:
                        waker.start()
                if self.submitter.poll() is None:
                    self.submitter.kill()
                output, _ = self.submitter.communicate()
            except KeyboardInterrupt:
                waker.cancel()
                self.submitter.kill()  # it may have been stopped
                raise
            finally:
                if waker.ident is not None:  # agents that it starts are ended with the others
                    waker.join()
        return output.decode().strip()

    def _files(self, pattern: str) -> set[Path]:
        return set(self.root.glob(pattern)) if pattern else set()

    def _mend(self) -> None:
        """Wake who was stopped, and start the agent again that was killed."""
        for pid in self.hit:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        for number, agent in enumerate(self.agents):
            if agent.process.poll() is not None:
                agent.end()
                self.agents[number] = self._start(number)
        deadline = time.monotonic() + (NEXT_SECONDS if self.cell.role == "coordinator" else 0.0)
        while any(agent.job_pids() for agent in self.agents) and time.monotonic() < deadline:
            wait_sockets([], [], 0.05)  # a job whose submitter is gone goes on

    def close(self) -> None:
        for tap in self.taps:
            tap.close()
        for agent in self.agents:
            agent.end()
        left = processes_below(self.root)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert not left, f"processes {left} were left behind"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("cells", nargs="*", metavar="PHASE-ROLE", help=f"one of {', '.join(map(str, CELLS))}; default all")
    parser.add_argument("--how", choices=sorted(SIGNALS), help="default both")
    options = parser.parse_args()
    cells = [cell for cell in CELLS if str(cell) not in UNREACHABLE and (not options.cells or str(cell) in options.cells)]
    wanted = list(itertools.product(cells, [options.how] if options.how else sorted(SIGNALS)))
    tried = bad = 0
    with tempfile.TemporaryDirectory(prefix="psgd-faults-") as root:
        rig = Rig(Path(root))
        try:
            for cell, how in wanted:
                try:
                    told = rig.run(cell, how)
                except AssertionError as error:
                    bad += 1
                    told = f"NOT AS IT SHOULD BE: {error}"
                tried += 1
                print(f"{cell!s:28} {how}: {told}", flush=True)
        except KeyboardInterrupt:
            print(f"Interrupted after {tried} of {len(wanted)} cells; ", end="")
            return INTERRUPTED
        finally:
            rig.close()
            print(f"{bad} of {tried} cells are not as they should be.", flush=True)
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
