"""The agent's own look at files that carry their SHA-256: it agrees with those who write and read them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nn.model.tensors import dump
from rpc.agent import sealed
from rpc.agent.sealed import Kept, kept_files

CONTENT = dump({"a": np.arange(600_000, dtype=np.float32)}, {"format": "psgd.test/1", "note": "hello"})


def look(folder: Path) -> tuple[list[Kept], int]:
    """What is found, and how often others could be served meanwhile."""
    work, pauses = kept_files(folder, "out"), 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, pauses
        pauses += 1


def place(folder: Path, content: bytes, name: str = "checkpoint") -> Path:
    (folder / "checkpoints").mkdir(exist_ok=True)
    (folder / "checkpoints" / name).write_bytes(content)
    return folder


def test_a_whole_file(tmp_path: Path) -> None:
    (kept,), pauses = look(place(tmp_path, CONTENT))
    assert (kept.folder, kept.name, kept.size, kept.whole, kept.why) == ("checkpoints", "checkpoint", len(CONTENT), True, "")
    assert kept.about == {"format": "psgd.test/1", "note": "hello"}
    assert pauses >= 2  # the file has more than two steps


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(CONTENT[:-1], id="truncated by a byte"),
        pytest.param(CONTENT[:-1] + bytes([CONTENT[-1] ^ 1]), id="flipped bit at the end"),
        pytest.param(CONTENT[:200] + bytes([CONTENT[200] ^ 4]) + CONTENT[201:], id="flipped bit in the header"),
        pytest.param(CONTENT + b"x", id="a byte too many"),
        pytest.param(CONTENT[:50], id="cut within the hash"),
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff" * 300, id="another format"),
    ],
)
def test_a_damaged_file(tmp_path: Path, content: bytes) -> None:
    """FD-13: whatever is wrong with it, it is listed and called so."""
    (kept,), _ = look(place(tmp_path, content))
    assert kept.whole is False and kept.why and kept.size == len(content)


def test_what_is_no_file_of_the_job_is_left_out(tmp_path: Path) -> None:
    """SEC-10: no links, no special files, nothing of the reports, nothing half written."""
    place(place(tmp_path, CONTENT), CONTENT, ".half.psgd-tmp")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report").write_bytes(CONTENT)
    (tmp_path / "checkpoints" / "link").symlink_to("/etc/passwd")
    (tmp_path / "elsewhere").symlink_to("/etc")
    found, _ = look(tmp_path)
    assert [kept.name for kept in found] == ["checkpoint"]
    assert look(tmp_path / "nowhere") == ([], 0)


def test_what_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed, "MOST_CHECKED", len(CONTENT) - 1)
    (kept,), pauses = look(place(tmp_path, CONTENT))
    assert (kept.whole, pauses) == (None, 0) and "not read" in kept.why
