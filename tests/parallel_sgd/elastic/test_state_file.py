"""What the driver keeps of the state: whole or not there, and nothing but data."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parallel_sgd.checkpoint.disk import Disk
from parallel_sgd.elastic import ObjectState, State, run
from parallel_sgd.elastic.group import Alone, using
from parallel_sgd.elastic.job import StateFile

from ...statements import covers

CONTENT = {"plain": {"step": 3, "table": np.arange(50_000.0)}, "kept": {"sampler": {"epoch": 1, "processed": 40}}}


def test_what_is_kept_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "state"
    state_file = StateFile(path)
    assert state_file.content is None and not path.exists()
    assert state_file.keep({"old": 1}) and state_file.keep(CONTENT)
    assert (path.stat().st_mode & 0o777, os.listdir(tmp_path)) == (0o600, ["state"])
    found = StateFile(path).content
    np.testing.assert_array_equal(found["plain"].pop("table"), CONTENT["plain"]["table"])
    assert found == {"plain": {"step": 3}, "kept": CONTENT["kept"]}


@pytest.mark.parametrize("place", [25, 60, 100_000, -1])
def test_a_damaged_file_is_no_state(tmp_path: Path, place: int) -> None:
    """Each flipped bit, and each missing byte, is noticed before anything starts."""
    path = tmp_path / "state"
    StateFile(path).keep(CONTENT)
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"The checkpoint .*state is damaged"):
        StateFile(path)
    data[place] ^= 1
    path.write_bytes(data[:place])
    with pytest.raises(ValueError, match=r"The checkpoint .*state is damaged"):
        StateFile(path)


def test_another_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "thesis.txt"
    path.write_text("Chapter 1")
    with pytest.raises(
        ValueError, match=r"'checkpoint' must be a file that elastic\.launch has written, or none yet; .*thesis.txt"
    ):
        StateFile(path)


class FullDisk(Disk):
    def replace(self, source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_that_refuses(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The job goes on; what was kept before stays."""
    path = tmp_path / "state"
    StateFile(path).keep(1)
    state_file = StateFile(path, FullDisk())
    assert not state_file.keep(2) and state_file.content == 1
    assert "No space left on device" in caplog.text
    assert os.listdir(tmp_path) == ["state"] and StateFile(path).content == 1


class Kept(Alone):
    """A group of one that begins with something that was kept, and keeps all."""

    def __init__(self, content: Any) -> None:
        self.begins_with, self.kept = content, []

    def keep(self, content: Any) -> None:
        self.kept.append(content())

    def take_kept(self) -> Any:
        return self.begins_with


@covers("EL-12")
def test_a_state_begins_with_what_was_kept() -> None:
    """`run` loads it before it synchronises; each save, and each commit, may be kept, and is a copy."""
    kept = Kept({"plain": {"seen": [1, 2]}, "kept": {}})

    @run
    def train(state: Any) -> Any:
        state.seen.append(3)
        state.commit()
        state.seen.append(4)
        return state.seen

    with using(kept):
        assert train(ObjectState(seen=[])) == [1, 2, 3, 4]
    assert [content["plain"]["seen"] for content in kept.kept] == [[1, 2], [1, 2], [1, 2, 3]]
    with (
        using(Kept({"plain": {"other": 1}, "kept": {}})),
        pytest.raises(ValueError, match=r"not of this program's state: .*other"),
    ):
        train(ObjectState(seen=[]))


def test_a_state_that_cannot_be_kept() -> None:
    class Counting(State):
        def save(self) -> None: ...

        def restore(self) -> None: ...

        def sync(self) -> None: ...

    with pytest.raises(TypeError, match="Counting is no state that can begin with a checkpoint"):
        Counting(lambda value: value, lambda: 0).load({})
