"""Python threads that compute at the same time: NumPy lets go of the interpreter's lock while it works on arrays."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from nn.blas import limited_to_one_thread


class Team:
    """Runs several tasks at once, each with a BLAS of one thread. Its threads start with the first use and end with it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._pool: ThreadPoolExecutor | None = None

    def run(self, tasks: Sequence[Callable[[], None]]) -> None:
        """Run all tasks, the first in this thread, and return when all have ended; raise what the first that failed raised."""
        if len(tasks) == 1:
            tasks[0]()
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.size - 1, "nn")
        with limited_to_one_thread():
            others = [self._pool.submit(task) for task in tasks[1:]]
            try:
                tasks[0]()
            finally:
                for other in others:
                    other.exception()  # waits: nobody may go on while a thread still writes
        for other in others:
            other.result()
