"""The job process's end of the flight recorder."""

from __future__ import annotations

import faulthandler
import os

from ..liveness.recorder import SIZE, STACK_SIGNAL, Recorder


def open_recorder(descriptor: int) -> Recorder:
    """The recorder in the memory that the agent gave; behind it goes the stack of every thread when the agent asks for it."""
    os.set_inheritable(descriptor, False)
    recorder = Recorder(descriptor)
    os.lseek(descriptor, SIZE, os.SEEK_SET)
    faulthandler.register(STACK_SIGNAL, file=descriptor, all_threads=True, chain=False)
    return recorder
