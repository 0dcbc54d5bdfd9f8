"""What an agent hands out for the cause of a failure, from acceptance to the end of a job."""

from __future__ import annotations

import json
from pathlib import Path

from rpc.agent.evidence import send_evidence
from rpc.agent.jobs import JobFolders
from rpc.agent.timeline import Timeline
from rpc.configuration import keep_configuration
from rpc.download import Download
from rpc.messages import FROM_AGENT, parse


def bring(folders: JobFolders, directory: Path, logs: tuple[Path, ...] = ()) -> Download:
    (record,) = folders
    directory.mkdir()
    download = Download(directory, record.node)
    for operation in send_evidence(record, folders.folder(record), logs):
        if operation is not None:
            download.take(parse(operation.to_value(), FROM_AGENT))
    assert download.done
    return download


def test_all_that_is_there(tmp_path: Path) -> None:
    folders = JobFolders(tmp_path / "jobs", 20)
    record = folders.create("job", 1, "T")
    folder = folders.folder(record)
    (folder / record.log).write_text("a log")
    (tmp_path / "agent.log").write_text("another")
    for name, size in (("TR.csv", 10), ("large.model", 9 << 20)):
        (folder / "out" / name).write_bytes(bytes(size))
    Timeline(folder, 0).note("state", state="failed")
    keep_configuration(folder, {"settings": {"epochs": 3, "odd": {1}}})
    record.state, record.ended, record.files = "failed", 1.0, ["TR.csv", "large.model"]
    download = bring(folders, tmp_path / "home", (tmp_path / "agent.log",))
    names = {path.name for path in download.files}
    assert names == {"record.json", "kept.json", "agent.log", record.log, "events.jsonl", "configuration.json", "TR.csv"}
    assert download.problem == ""
    texts = {path.name: path.read_text() for path in download.files}
    assert json.loads(texts["record.json"])["state"] == "failed"
    assert json.loads(texts["configuration.json"])["settings"] == {"epochs": 3, "odd": "{1}"}
    assert json.loads(texts["kept.json"]) == []


def test_a_job_that_has_just_begun(tmp_path: Path) -> None:
    """What is not there yet is named, and the rest comes."""
    folders = JobFolders(tmp_path / "jobs", 20)
    folders.create("job", 0, "T")
    download = bring(folders, tmp_path / "home")
    assert {path.name for path in download.files} == {"record.json", "kept.json"}
    for missing in ("Fit-0", "events.jsonl", "configuration.json"):
        assert missing in download.problem
