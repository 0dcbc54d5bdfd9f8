"""What holds for every block assignment."""

from __future__ import annotations

import pytest

import parallel_sgd.profiles.blockassignment
from parallel_sgd.profiles import (
    AbsBlockAssignment,
    CyclicAssignment,
    DuplicateAssignment,
    FixedBlockAssignment,
    IIDBlockAssignment,
    ISetting,
)
from tests.contract.kinds import public_kinds, row_faults

from ..statements import covers

#: The (node_count, redundancy) that each kind is examined with.
ROWS: dict[type[AbsBlockAssignment], list[tuple[int, int]]] = {
    IIDBlockAssignment: [(1, 1), (2, 1), (5, 1), (4, 2), (5, 3), (3, 3)],
    DuplicateAssignment: [(1, 1), (3, 1), (4, 2), (6, 3), (3, 3)],
    CyclicAssignment: [(1, 1), (3, 1), (4, 2), (5, 3), (3, 3), (10, 4)],
    FixedBlockAssignment: [(1, 1), (2, 1), (3, 1), (4, 1), (4, 2), (3, 3)],
}
CASES = [(kind, *numbers) for kind, all_numbers in ROWS.items() for numbers in all_numbers]


def test_every_assignment_has_a_row() -> None:
    kinds = public_kinds(AbsBlockAssignment, parallel_sgd.profiles.blockassignment)
    assert not row_faults(kinds, ROWS, "ROWS in tests/contract/test_assignments.py")


@covers("SUB-28")
@pytest.mark.parametrize(("kind", "nodes", "copies"), CASES)
def test_the_two_tables_say_the_same(kind: type[AbsBlockAssignment], nodes: int, copies: int) -> None:
    """Every block is on exactly r workers, and every worker has work."""
    assignment = kind(nodes, copies)
    assert isinstance(assignment, ISetting)
    assert (assignment.node_count, assignment.redundancy) == (nodes, copies)
    assert list(assignment.nodes) == list(range(nodes))
    assert list(assignment.blocks) == list(range(assignment.block_count))
    for block in assignment.blocks:
        holders = assignment.block_2_node[block]
        assert len(holders) == copies
        assert holders == sorted(node for node in assignment.nodes if block in assignment.node_2_block[node])
    for node in assignment.nodes:
        blocks = assignment.node_2_block[node]
        assert blocks
        assert blocks == sorted(set(blocks))


@covers("SUB-30")
@pytest.mark.parametrize(("kind", "nodes", "copies"), CASES)
def test_adversaries_are_those_who_do_not_hold_the_block(kind: type[AbsBlockAssignment], nodes: int, copies: int) -> None:
    """Together with the holders they are all workers."""
    assignment = kind(nodes, copies)
    for block in assignment.blocks:
        assert sorted([*assignment.get_adversary(block), *assignment.block_2_node[block]]) == list(range(nodes))


@covers("SUB-29")
@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize(("nodes", "copies"), [(2, 3), (2, 0), (0, 1), (-1, 1), (2, -1), (2, 1.0), ("2", 1)])
def test_impossible_numbers_are_refused(kind: type[AbsBlockAssignment], nodes: object, copies: object) -> None:
    """r > n, r < 1 and what is no number."""
    with pytest.raises(ValueError, match=f"{kind.__name__} '(redundancy|node_count)' must"):
        kind(nodes, copies)  # type: ignore[arg-type]
