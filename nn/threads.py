"""Python threads that compute at the same time: NumPy lets go of the interpreter's lock while it works on arrays."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context


class Team:
    """Runs several tasks at once. They may use the BLAS where that is limited to one thread.

    Its threads start with the first use and end when nobody holds the team any more. A copy of a team, also one in the child
    of a fork, has threads of its own.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0

    def run(self, tasks: Sequence[Callable[[], None]]) -> None:
        """Run all tasks, the first in this thread, and return when all have ended; raise what the first that failed raised."""
        if len(tasks) == 1:
            tasks[0]()
            return
        if self._pool is None or self._process != os.getpid():
            self._pool, self._process = ThreadPoolExecutor(self.size - 1, "nn"), os.getpid()
        # each with the settings of this thread, such as numpy.errstate
        others = [self._pool.submit(copy_context().run, task) for task in tasks[1:]]
        try:
            tasks[0]()
        finally:
            _wait(others)
        for other in others:
            other.result()

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_pool": None}


def _wait(futures: Sequence[Future[None]]) -> None:
    """Return when all have ended, also after Ctrl-C: nobody may go on while a thread still writes."""
    interrupt: KeyboardInterrupt | None = None
    while True:
        try:
            wait(futures)
            break
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt
