"""Which nodes a job gets: what the functions that name them refuse."""

from __future__ import annotations

from functools import partial

import pytest

from parallel_sgd import in_process, local_workers, nodes_from, parse_worker


def test_the_name_of_a_file_in_the_place_of_ps_is_refused_with_the_call_that_is_meant() -> None:
    said = r"'ps' must be True or False .*, got 'my.json'; write parse_worker\(4, filename='my.json'\)"
    with pytest.raises(TypeError, match=said):
        parse_worker(4, "my.json")  # type: ignore[arg-type]


@pytest.mark.parametrize("start", [local_workers, in_process, partial(nodes_from, "local:1")])
@pytest.mark.parametrize("ps", ["Plain", 1, None])
def test_ps_is_true_or_false(start: partial[object], ps: object) -> None:
    with pytest.raises(TypeError, match=f"'ps' must be True or False .*, got {ps!r}$"), start(1, ps):  # type: ignore[attr-defined]
        pass
