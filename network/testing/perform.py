"""Does to the own process what a fault plan says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from .fault import ProcessFault

# Wakes up the process whose id it is given, after some seconds and then again, until that closes our stdin or dies.
_WAKER = """
import os, select, signal, sys
pid, seconds = int(sys.argv[1]), float(sys.argv[2])
print("here", flush=True)
while not select.select([0], [], [], seconds)[0]:
    os.kill(pid, signal.SIGCONT)
    seconds = 0.05
"""


class InjectedFault(RuntimeError):
    """What the fault `raise` raises."""


def perform(
    fault: ProcessFault, *, poison: Callable[[], None] | None = None, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Let `fault` happen to this process, in the calling thread.

    `poison` makes the loss of the running batch not a number; `sleep` is how a hang passes its seconds. A stop returns when the
    process goes on, whoever sent the SIGCONT.

    Raises: InjectedFault for `raise`, SystemExit for `exit`, ValueError for `nan` without `poison`.
    """
    if fault.kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault.kind == "stop":
        _stop(fault.seconds)
    elif fault.kind == "hang":
        _hang(fault.seconds, sleep)
    elif fault.kind == "exit":
        raise SystemExit(1 if fault.code is None else fault.code)
    elif fault.kind == "raise":
        raise InjectedFault(f"Injected fault: {fault}.")
    elif fault.kind == "nan" and poison is not None:
        poison()
    else:
        raise ValueError(f"perform needs 'poison' for the fault {str(fault)!r}, got None.")


def _stop(seconds: float | None) -> None:
    if seconds is None:
        os.kill(os.getpid(), signal.SIGSTOP)
        return
    command = [sys.executable, "-I", "-S", "-c", _WAKER, str(os.getpid()), str(seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as waker:
        if waker.stdout is not None:
            waker.stdout.readline()  # it counts from here on; should it wake us before we sleep, it does so again
        os.kill(os.getpid(), signal.SIGSTOP)
        if waker.stdin is not None:
            waker.stdin.close()


def _hang(seconds: float | None, sleep: Callable[[float], None]) -> None:
    if seconds is not None:
        sleep(seconds)
        return
    while True:
        sleep(3600.0)
