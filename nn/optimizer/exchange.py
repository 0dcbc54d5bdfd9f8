"""What an optimizer needs from the engine that connects workers."""

from typing import Protocol

from nn.arrays import Array


class Exchange(Protocol):
    """Hands to other workers what this one puts and gives back the merged results. One batch at a time; it never blocks.

    In a batch a variable is put for each of the worker's blocks and then got, or neither: an optimizer need not exchange in
    every batch, but all workers do in the same ones. The buffers, if the model has any, are one more vector under the id after
    the last variable's: how a block wants them changed, or where parameters are put, their values. The result is the mean over
    blocks, whatever becomes of the variables.

    >>> class Alone:  # one worker with one block: what it gets is what it puts
    ...     def __init__(self):
    ...         self.contents = {}
    ...     def put(self, variable_id, block_id, content):
    ...         self.contents[variable_id] = content
    ...     def ready(self, variable_id):
    ...         return variable_id in self.contents
    ...     def get(self, variable_id):
    ...         return self.contents.pop(variable_id)
    >>> exchange: nn.optimizer.Exchange = Alone()
    """

    def put(self, variable_id: int, block_id: int, content: Array) -> None:
        """Take the content of one variable for one block. It stays unchanged until the batch is finished."""

    def ready(self, variable_id: int) -> bool:
        """Whether the merged result of a variable is there."""

    def get(self, variable_id: int) -> Array:
        """Return the merged result of a variable that is ready; read it before the next batch."""
