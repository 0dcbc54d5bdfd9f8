"""What an optimizer needs from the engine that connects workers."""

from typing import Protocol

from nn.arrays import Array


class Exchange(Protocol):
    """Hands to other workers what this one puts and gives back the merged results. One batch at a time; it never blocks.

    In a batch a variable is put for each of the worker's blocks and then got, or neither: an optimizer need not exchange in
    every batch, but all workers do in the same ones.
    """

    def put(self, variable_id: int, block_id: int, content: Array) -> None:
        """Take the content of one variable for one block. It stays unchanged until the batch is finished."""

    def ready(self, variable_id: int) -> bool:
        """Whether the merged result of a variable is there."""

    def get(self, variable_id: int) -> Array:
        """Return the merged result of a variable that is ready; read it before the next batch."""
