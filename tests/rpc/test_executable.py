"""The executor that needs nothing but a function."""

from __future__ import annotations

from typing import Any

import pytest

from rpc import AbsExecutable, AbsSimpleExecutor, ReplyPackage

from ..statements import covers


class Returns(AbsSimpleExecutor):
    result: Any = None

    def run(self, com: Any) -> Any:
        return self.result


@covers("SUB-41")
def test_the_executor_that_needs_nothing_but_a_function() -> None:
    """What `run` returns is the result, wrapped or not; an executor must be complete."""
    for result, content in [(None, None), (5, 5), (ReplyPackage([1]), [1]), ((1, 2), (1, 2))]:
        executor = Returns(1, (0, 1), -1)
        executor.result = result
        assert list(executor.requests()) == list(executor.satisfy([])) == list(executor.trace_files()) == []
        assert executor.ready() and executor.done() == ReplyPackage(None)
        executor.start(None)  # type: ignore[arg-type]
        assert executor.done() == ReplyPackage(content)
    assert (executor.node_id, executor.working_group, executor.initializer_id) == (1, [0, 1], -1)
    assert executor.logger.name == "Fit-1" and executor.shipped == {}

    class Half(AbsExecutable):
        def ready(self) -> bool:
            return True

    with pytest.raises(TypeError, match="abstract"):
        Half(0, [0], -1)  # type: ignore[abstract]
