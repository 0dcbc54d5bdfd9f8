"""The outer wall: tests of what users see. A change of how the product is made changes nothing that they assert."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent
WALL = (
    "contract",  # one suite of behaviour for every layer, loss, codec, sync type, assignment
    "equivalence",  # n workers = one worker, to the bit
    "faults",  # the grid of faults
    "processes",  # real agents and jobs
    "test_docs.py",  # programs in the guides run
    "test_examples.py",
    "test_readme_programs.py",
)


def in_the_wall(path: Path) -> bool:
    """Whether a file of tests belongs to the outer wall, as one of its folders or files."""
    return any(path.is_relative_to(TESTS / part) for part in WALL)
