"""`psgd-submit --post-mortem`: what a person who was not there finds out about a job that failed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import zipfile
from pathlib import Path
from typing import Any

import pytest

from parallel_sgd import JobFailed
from parallel_sgd.__main__ import main
from parallel_sgd.commands import output
from parallel_sgd.nodes import LocalNodes
from rpc.launch.local import local_agents
from tests.processes.training.jobs import FOUR_BLOCKS, line_job

from ...statements import covers


@pytest.mark.long
@covers("FD-18", "FD-13")
def test_the_cause_of_a_failure_found_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """a worker hangs; later an agent is gone and a checkpoint is damaged. One zip says who, where, why, and from
    which state to go on; an unknown job and a cluster that is gone have their own exit codes."""
    monkeypatch.chdir(tmp_path)
    with local_agents(3) as agents:
        monkeypatch.setenv("PSGD_KEY_FILE", str(shutil.copy(agents.key_file, tmp_path / "key")))  # it outlives the agents
        addresses = [str(address) for address in agents.addresses]
        Path("worker.json").write_text(json.dumps({"Worker": addresses}))
        nodes = LocalNodes(agents.key_file)
        for node, address in enumerate(agents.addresses):
            nodes.add(node, address)
        settings: dict[str, Any] = {"assignment_type": FOUR_BLOCKS, "epoch": 3, "block_size": 2, "checkpoint_every": 1}
        with pytest.raises(JobFailed) as info:
            line_job().parallel(nodes, fault="hang 1@e2.b2", stall_timeout=3.0, directory=tmp_path / "run", **settings)
        job = info.value.job_id
        assert info.value.verdicts[0].node == 1
        (folder,) = (path for path in agents.directory.glob(f"agent-*/jobs/{job}.0/checkpoints"))
        newest = max(folder.glob("checkpoint-*"))
        newest.write_bytes(newest.read_bytes()[:-1])
        os.kill(agents.pids[2], signal.SIGKILL)

        assert main(["--post-mortem", job]) == output.EXIT_OK
        path = tmp_path / f"post-mortem-{job}.zip"
        assert capsys.readouterr().out.strip() == path.name
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            texts = {name: archive.read(name).decode() for name in names if not name.endswith((".csv", ".model"))}
        verdict = json.loads(texts["verdicts.json"])[0]
        assert (verdict["node"], verdict["kind"], verdict["epoch"], verdict["batch"]) == (1, "stuck", 2, 2)
        assert "in _hang" in verdict["trace"]  # the line where it stands
        summary = texts["summary.txt"]
        assert "What failed first\n    Attempt 1: Node(1) on " in summary
        assert f"agent at {addresses[2]}: NOT REACHED" in summary
        damaged = next(line for line in texts["checkpoints.txt"].splitlines() if "NOT VALID" in line)
        assert newest.name in damaged
        assert texts["checkpoints.txt"].count(": valid") >= 2
        events = [(told["node"], told["event"]) for told in json.loads(texts["timeline.json"])]
        assert (1, "notice") in events and events.index((1, "notice")) < events.index((1, "verdict"))
        batches = json.loads(texts["batches.json"])["traceEvents"]
        assert "worker 0" in {event["args"]["name"] for event in batches if event["name"] == "process_name"}
        assert {event["args"]["epoch"] for event in batches if event["name"] == "compute"} == {1, 2}
        own = {name.rpartition("/")[2] for name in names if name.startswith("nodes/1-")}
        assert {"record.json", "events.jsonl", "configuration.json", "kept.json"} <= own
        assert {f"{kind}-P-SGD-N(1).csv" for kind in ("TR", "BA")} <= own  # what it had written before it was killed
        assert any(name.startswith("Fit-1") for name in own) and any(name.startswith("Worker-") for name in own)
        settings = json.loads(next(text for name, text in texts.items() if name.endswith("configuration.json")))
        assert settings["settings"]["misc_package"]["epochs"] == 3 and "numerics" in settings["versions"]
        assert [entry.name for entry in tmp_path.iterdir() if "post-mortem" in entry.name] == [path.name]

        assert main(["--post-mortem", "20200101-000000-00000000", "-n", "2"]) == output.EXIT_USAGE
        told = f"None of 2 agents knows job 20200101-000000-00000000; the newest that they know is {job}."
        assert told in capsys.readouterr().err
    assert main(["--post-mortem", job]) == output.EXIT_NETWORK
