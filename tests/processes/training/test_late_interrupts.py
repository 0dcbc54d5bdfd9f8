"""Ctrl-C that comes when all results are here leaves the run done, and is raised behind it."""

from __future__ import annotations

import json
import logging
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parallel_sgd import local_workers
from parallel_sgd.driver import remote_run
from rpc import Coordinator
from rpc.support.logs import SUBMIT_LOGGER
from tests.statements import covers

from .jobs import digits_job


def pressing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Press Ctrl-C when the function begins."""

    def pressed(*given: Any, **named: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return function(*given, **named)

    return pressed


@covers("SUB-44")
@pytest.mark.processes
@pytest.mark.parametrize(("owner", "name"), [(Coordinator, "conclude"), (remote_run, "_result")])
def test_the_run_keeps_its_result(
    owner: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(owner, name, pressing(getattr(owner, name)))
    with local_workers(1) as nodes, caplog.at_level(logging.INFO, SUBMIT_LOGGER), pytest.raises(KeyboardInterrupt):
        digits_job().parallel(nodes, epoch=1, directory=tmp_path)
    run = tmp_path / "runs" / "P-SGD-1"
    assert json.loads((run / "outcome.json").read_text())["state"] == "done"
    assert f"The run is done, and its models are in {run}." in caplog.messages
    assert not [each for each in caplog.messages if "goes on" in each or "go on" in each or "stopped by Ctrl-C" in each]
    assert list(run.glob("*/MODEL-*.model"))
