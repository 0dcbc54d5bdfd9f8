"""Commands of docs/day-two.md that keep and clear what runs and workers leave."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from psgd import cli

import pytest

from parallel_sgd import local_workers
from tests.processes.training.jobs import line_job, only_weights
from tests.sources import ROOT

PAGE = (ROOT / "docs" / "day-two.md").read_text("utf-8")


@pytest.mark.long
@pytest.mark.processes
def test_a_run_is_packed_deleted_and_brought_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the page has it; the last command finds that the folder is what it was."""
    monkeypatch.chdir(tmp_path)
    with local_workers(2) as nodes:
        line_job().parallel(nodes, epoch=2, block_size=6, mission_title="digits", verbose=0)
    (block,) = (each for each in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL) if "psgd verify" in each)
    commands = [line.partition("#")[0].removeprefix("$ ").split() for line in block.splitlines()]
    assert [words[:2] for words in commands] == [["tar", "-C"], ["psgd", "runs"], ["mkdir", "-p"], ["psgd", "verify"]]
    pack, delete, restore, verify = commands
    subprocess.run(pack, check=True)
    assert cli.main(delete[1:]) == 0 and not Path("runs/digits-1").exists()
    subprocess.run(" ".join(restore), shell=True, check=True)
    assert cli.main(verify[1:]) == 0
    assert "Epochs 1 to 2, computed again from the start on 2 workers: all" in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.processes
def test_a_cache_that_was_removed_is_filled_again(tmp_path: Path) -> None:
    """While the worker runs, which need not stop for that."""
    assert "the worker need not stop, and jobs fill it again" in PAGE
    with local_workers(1) as nodes:
        assert nodes.agents is not None
        cache = nodes.agents.directory / "agent-0" / "cache"
        found = []
        for run in range(2):
            job = line_job().parallel(nodes, epoch=1, block_size=6, directory=tmp_path / str(run), verbose=0)
            found.append(only_weights(job))
            assert [path for path in cache.iterdir() if path.stat().st_size]
            shutil.rmtree(cache)
    assert found[0] == found[1]
