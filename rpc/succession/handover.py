"""What the driver of one attempt has to do with those before, beside and after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..messages import TO_DRIVER, Denied, Halted, Keeps, Operation
from .entrusting import Entrusting
from .will import Will


class Handover:
    """`tell(node, operation)` sends to an agent, `pending(node)` is how many bytes are in line for it.

    Attributes: `deposed`, who drives instead of us, in words; `halted`, why the job is not to be started again.
    """

    def __init__(self, job: str, attempt: int, tell: Callable[[int, Operation], None], pending: Callable[[int], int]) -> None:
        self._job, self._attempt, self._tell, self._pending = job, attempt, tell, pending
        self._entrusting: Entrusting | None = None
        self.deposed = self.halted = ""

    def entrust(self, will: Will, nodes: Iterable[int]) -> None:
        """Hand `will` on; `send` goes on with it."""
        self._entrusting = Entrusting(self._job, self._attempt, will, nodes, self._tell, self._pending)

    @property
    def is_entrusted(self) -> bool:
        """Whether agents could go on without us, or will be able to."""
        return self._entrusting is not None

    @property
    def lacking(self) -> list[int]:
        """The nodes that do not have everything yet."""
        return [] if self._entrusting is None else sorted(self._entrusting.open)

    def send(self) -> None:
        """Put in line what there is room for."""
        if self._entrusting is not None:
            self._entrusting.send()

    def lose(self, node: int) -> None:
        """An agent is gone."""
        if self._entrusting is not None:
            self._entrusting.lose(node)

    def take(self, node: int, operation: Operation) -> bool:
        """Take in what an agent says to its driver; False when it is about something else."""
        if isinstance(operation, Keeps) and self._entrusting is not None:
            self._entrusting.take(node, operation)
        elif isinstance(operation, Denied):
            self.deposed = operation.reason
        elif isinstance(operation, Halted):
            self.halted = self.halted or operation.reason
        return isinstance(operation, TO_DRIVER)
