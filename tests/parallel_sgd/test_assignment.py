"""Block assignments: who computes what, beyond what `tests/contract` says of all."""

from __future__ import annotations

from math import comb

import pytest

from parallel_sgd.engine.block_tree import block_tree
from parallel_sgd.options.job_options import AssignmentType
from parallel_sgd.profiles import CyclicAssignment, DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment
from parallel_sgd.profiles.blockassignment import AbsBlockAssignment

from ..statements import covers


@covers("SUB-28")
@pytest.mark.parametrize(("nodes", "copies"), [(1, 1), (3, 1), (4, 2), (5, 3), (6, 6)])
def test_iid_counts(nodes: int, copies: int) -> None:
    """C(n, r) blocks, each on r workers, C(n-1, r-1) per worker."""
    assignment = IIDBlockAssignment(nodes, copies)
    assert assignment.block_count == comb(nodes, copies)
    assert all(len(holders) == copies for holders in assignment.block_2_node)
    assert all(len(blocks) == comb(nodes - 1, copies - 1) for blocks in assignment.node_2_block)


@covers("SUB-29")
@pytest.mark.parametrize(
    ("kind", "nodes", "copies", "words"),
    [
        (DuplicateAssignment, 4, 3, "'redundancy' must divide the number of workers, got 3 for 4"),
        (DuplicateAssignment, 2, 4, r"'redundancy' must not exceed the number of workers, got 4 for 2"),
        (DuplicateAssignment, 2, 0, "'redundancy' must be a positive integer, got 0"),
        (IIDBlockAssignment, 0, 1, "'node_count' must be a positive integer, got 0"),
        (IIDBlockAssignment, 2, True, "'redundancy' must be a positive integer, got True"),
        (FixedBlockAssignment.of(4), 5, 1, "'blocks' must be at least 5, a block for each of 5 workers"),
        (FixedBlockAssignment.of(4), 3, 2, "'redundancy' must divide the number of workers, got 2 for 3"),
        (FixedBlockAssignment.of(0), 1, 1, "'blocks' must be a positive integer, got 0"),
    ],
)
def test_impossible_numbers_are_refused(kind: type, nodes: int, copies: int, words: str) -> None:
    """Refused before anything is sent, naming argument, expectation and what came."""
    with pytest.raises(ValueError, match=words):
        kind(nodes, copies)


@covers("SUB-28", "SUB-29")
@pytest.mark.parametrize(
    ("kind", "nodes", "copies", "dealt"),
    [
        (IIDBlockAssignment, 4, 2, [[0, 1, 2], [0, 3, 4], [1, 3, 5], [2, 4, 5]]),
        (DuplicateAssignment, 4, 2, [[0], [0], [1], [1]]),
        (CyclicAssignment, 4, 2, [[0, 1], [1, 2], [2, 3], [0, 3]]),
        (CyclicAssignment, 5, 3, [[0, 1, 2], [1, 2, 3], [2, 3, 4], [0, 3, 4], [0, 1, 4]]),
        (CyclicAssignment, 3, 1, [[0], [1], [2]]),
        (FixedBlockAssignment.of(4), 1, 1, [[0, 1, 2, 3]]),
        (FixedBlockAssignment.of(4), 2, 1, [[0, 1], [2, 3]]),
        (FixedBlockAssignment.of(4), 3, 1, [[0, 1], [2], [3]]),
        (FixedBlockAssignment.of(4), 4, 1, [[0], [1], [2], [3]]),
        (FixedBlockAssignment.of(6), 4, 1, [[0, 1], [2], [3, 4], [5]]),
        (FixedBlockAssignment.of(8), 3, 1, [[0, 1], [2, 3, 4], [5, 6, 7]]),
        (FixedBlockAssignment.of(4), 4, 2, [[0, 1], [0, 1], [2, 3], [2, 3]]),
    ],
)
def test_who_computes_what(kind: AssignmentType, nodes: int, copies: int, dealt: list[list[int]]) -> None:
    assert kind(nodes, copies).node_2_block == dealt


@pytest.mark.parametrize("blocks", range(1, 20))
def test_fixed_blocks_keep_subtrees_whole_where_that_is_even(blocks: int) -> None:
    """Contiguous, the largest share minimal, and one sum per worker for powers of two."""
    for nodes in range(1, blocks + 1):
        dealt = FixedBlockAssignment(nodes, 1, blocks).node_2_block
        assert [block for share in dealt for block in share] == list(range(blocks))
        assert max(map(len, dealt)) == -(-blocks // nodes)
        if nodes & (nodes - 1) == 0:
            assert all(len(block_tree(blocks).cover(share)) == 1 for share in dealt)


def test_an_assignment_type_with_arguments_is_plain_data() -> None:
    assert FixedBlockAssignment.of(8) == FixedBlockAssignment.of(blocks=8)
    assert FixedBlockAssignment.of(8).blocks == 8


@pytest.mark.parametrize(
    ("dealt", "words"),
    [
        ([[0], [2]], "every block from 0 to 2"),
        ([[0], []], "at least one block to each of 2 workers"),
        ([[0, -1], [1]], "every block from 0 to 1 to some worker, and no other"),
        ([[0, -5], [1]], "every block from 0 to 1 to some worker, and no other"),
    ],
)
def test_an_assignment_of_ones_own_is_checked(dealt: list[list[int]], words: str) -> None:
    """A negative block was taken for another one, or ended in an IndexError."""

    class Own(AbsBlockAssignment):
        def deal(self, node_count: int, redundancy: int) -> list[list[int]]:
            return dealt

    with pytest.raises(ValueError, match=words):
        Own(2)
