"""Groups of neighbours compute the same block."""

from __future__ import annotations

from .abstract import AbsBlockAssignment


class DuplicateAssignment(AbsBlockAssignment):
    """n/r blocks, one per worker; groups of r neighbours hold the same one. n=4, r=2: `[[0], [0], [1], [1]]`."""

    def deal(self, node_count: int, redundancy: int) -> list[list[int]]:
        """The one block of each worker.

        Raises: ValueError when the workers do not fall into groups of `redundancy`.
        """
        if node_count % redundancy:
            raise ValueError(
                f"DuplicateAssignment 'redundancy' must divide the number of workers, got {redundancy} for {node_count}"
            )
        return [[node // redundancy] for node in range(node_count)]
