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
@pytest.mark.parametrize(("result", "content"), [(None, None), (5, 5), (ReplyPackage([1]), [1]), ((1, 2), (1, 2))])
def test_the_result_of_run(result: Any, content: Any) -> None:
    """What `run` returns is the result, wrapped or not."""
    executor = Returns(1, (0, 1), -1)
    executor.result = result
    assert list(executor.requests()) == list(executor.satisfy([])) == list(executor.trace_files()) == []
    assert executor.ready()
    assert executor.done() == ReplyPackage(None)
    executor.start(None)  # type: ignore[arg-type]
    assert executor.done() == ReplyPackage(content)
    assert (executor.node_id, executor.working_group, executor.initializer_id) == (1, [0, 1], -1)
    assert executor.logger.name == "Fit-1"
    assert executor.shipped == {}


def test_an_executor_must_be_complete() -> None:
    class Half(AbsExecutable):
        def ready(self) -> bool:
            return True

    with pytest.raises(TypeError, match="abstract"):
        Half(0, [0], -1)  # type: ignore[abstract]
