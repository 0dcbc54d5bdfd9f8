"""What an optimizer needs from the engine that connects workers."""

from typing import Protocol

from nn.arrays import Array


class Exchange(Protocol):
    """Hands gradients to other workers and gives back the merged ones. One batch at a time; it never blocks."""

    def put(self, variable_id: int, block_id: int, content: Array) -> None:
        """Take the content of one variable for one block. It stays unchanged until the batch is finished."""

    def ready(self, variable_id: int) -> bool:
        """Whether the merged result of a variable is there."""

    def get(self, variable_id: int) -> Array:
        """Return the merged result of a variable that is ready; read it before the next batch."""
