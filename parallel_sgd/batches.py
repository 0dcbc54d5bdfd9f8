"""How the training set is cut into batches and blocks."""

from __future__ import annotations


class Batches:
    """A batch is `block_size` times `block_count` consecutive samples; block b of it is its b-th slice.

    `count` batches make an epoch; `tail` samples at the end do not fill one and are not used.

    Raises: ValueError when there is not a single batch.
    """

    def __init__(self, samples: int, block_size: int, block_count: int) -> None:
        if isinstance(block_size, bool) or not isinstance(block_size, int) or block_size < 1:
            raise ValueError(f"'block_size' must be a positive integer, got {block_size!r}")
        self.block_size = block_size
        self.block_count = block_count
        self.batch_size = block_size * block_count
        if samples < self.batch_size:
            raise ValueError(
                f"The training set must hold at least one batch of {self.batch_size} samples "
                f"(block_size {block_size} x {block_count} blocks), got {samples}"
            )
        self.count, self.tail = divmod(samples, self.batch_size)

    def rows(self, batch: int, block: int) -> slice:
        """The samples of one block."""
        start = batch * self.batch_size + block * self.block_size
        return slice(start, start + self.block_size)
