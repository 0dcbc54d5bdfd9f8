"""Fork server: the process from which an agent's job processes are forked, so that modules are imported once for all of them.

It runs no code of theirs, and they cannot change the state from which later ones are forked. Random generators that would go on
alike in all of them begin anew.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import socket
import sys
from collections.abc import Sequence
from importlib import import_module

from ..code_closure import OWN_PACKAGES
from ..support.console import guard_streams, open_descriptors
from ..support.places import without_places
from . import process
from .hardening import allow_inspection, name_process, refuse_inspection, wake_when_orphaned

_NAME = "psgd-fork-srv"
_SLOTS = "rpc.collective.shared_slots"  # which each job process imports
_REQUEST_BYTES = 1 << 17
_CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


def main() -> None:
    """Fork a job process for each request from the socket `sys.argv[1]`, and answer with its number, until the agent is gone.

    A request is the folder to work in, a zero, and the names of the modules that the job needs, with blanks between them; with
    it come the descriptors of the job's channel, recorder and output. The answer is decimal, and negative where an error kept
    it from being forked. The process is a child of the process that adopts orphans here, which is the agent, and leads a
    session.
    """
    open_descriptors()  # before descriptors of jobs come, which would get the numbers that are free
    guard_streams()
    refuse_inspection()
    wake_when_orphaned()
    name_process(_NAME)
    without_places("/")  # it compiles its patterns once
    _import([_SLOTS])
    gc.freeze()  # in a fork the collector would write to all that it looks at, and so copy it
    control = socket.socket(fileno=int(sys.argv[1]))
    channel, memory = _serve(control)
    process.run_job(channel, memory)


def _serve(control: socket.socket) -> tuple[int, int]:
    """Serve requests; return in job processes only, with the descriptors of the channel and of the recorder's memory."""
    while True:
        packet, descriptors, _, _ = socket.recv_fds(control, _REQUEST_BYTES, 3, _CLOEXEC)
        # the agent has closed its end, or is gone
        if not packet:
            os._exit(0)
        folder, _, modules = packet.partition(b"\0")
        # before the fork, so that later jobs find them loaded, too
        _import(modules.decode("utf-8", "replace").split())
        # in the new process: it speaks with the agent over its own channel
        if _fork(control):
            control.close()
            channel, memory, output = descriptors
            _become_job(folder, output)
            return channel, memory
        # ours were copies: a job's output must end when its process ends
        for descriptor in descriptors:
            os.close(descriptor)


def _import(modules: Sequence[str]) -> None:
    """Import modules of ours before the first job that needs them is forked; others are for the job itself."""
    lacking = [name for name in modules if name not in sys.modules and name.partition(".")[0] in OWN_PACKAGES]
    for name in lacking:
        # the job process will fail in the same way, and tell its submitter
        with contextlib.suppress(Exception, SystemExit):
            import_module(name)
    if lacking:
        # again: what was imported just now is shared by the forks to come
        gc.freeze()


def _fork(control: socket.socket) -> bool:
    """Fork; return whether this is the new process. A process between forks it and ends at once, so that the agent adopts
    it.
    """
    try:
        between = os.fork()
    except OSError as error:
        _answer(control, -(error.errno or 1))
        return False
    if between:
        # the one between ends at once, so waiting for it costs nothing
        status = os.waitstatus_to_exitcode(os.waitpid(between, 0)[1])
        if status:
            _answer(control, -abs(status))
        return False
    between = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        os._exit(error.errno or 1)
    if pid:
        _answer(control, pid)  # before its end: the agent never has a child of which it cannot have heard
        os._exit(0)
    _wait_for_adoption(between)
    return True


def _wait_for_adoption(between: int) -> None:
    """Return when the process between has ended, so that the job never sees its parent change."""
    # it has ended meanwhile, or this Python or system cannot wait for it
    with contextlib.suppress(AttributeError, OSError):
        if os.getppid() == between:
            ended = os.pidfd_open(between)
            select.select([ended], [], [])
            os.close(ended)


def _answer(control: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # the agent is gone
        control.send(b"%d" % number)


def _become_job(folder: bytes, output: int) -> None:
    # its own group and session, to be killed as a whole
    os.setsid()
    # it holds no key, and its peers map its memory through /proc
    allow_inspection()
    for number, name in ((1, "stdout"), (2, "stderr")):
        # the numbers themselves, too: C libraries and children write to 1 and 2
        os.dup2(output, number)
        stream = open(number, "w", closefd=False)  # noqa: SIM115  the one there is may know that it can seek, which a pipe cannot
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    os.close(output)
    os.chdir(folder)
    random = sys.modules.get("numpy.random")  # Python's own begins anew in every fork
    if random is not None:
        random.seed()
