"""Faults of a job's plan, as a node looks at them."""

from __future__ import annotations

import pytest

from parallel_sgd.engine.fault_injection import disturbed


@pytest.mark.parametrize(
    ("text", "node", "expected"),
    [
        ("", 0, set()),
        ("kill 1@e1.b3", 1, set()),
        ("+500ms 0>1", 0, {1}),
        ("+500ms 0>1", 1, {0}),
        ("+500ms 0>1; +20ms 2>0; kill 3@e1.b3", 0, {1, 2}),
        ("+500ms 0>1", 2, set()),
    ],
)
def test_links_with_faults_are_known_at_both_ends(text: str, node: int, expected: set[int]) -> None:
    assert disturbed(text, node) == expected
