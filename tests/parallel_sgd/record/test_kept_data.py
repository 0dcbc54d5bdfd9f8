"""Samples of a program that a run keeps, so that it can be run and verified again."""

from __future__ import annotations

import json
import re
import resource
import shutil
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas
import pytest

from network.nodes import NodeAssignment
from nn.dataset import ArrayDataset
from nn.dataset.interface import AbsDataset, Arrays
from parallel_sgd import local_workers
from parallel_sgd.options.forms import Unnamed
from parallel_sgd.record.hashes import sha256_of
from parallel_sgd.record.job_file import JobFile
from parallel_sgd.record.kept_data import DATA_FILE, keep, load_kept
from parallel_sgd.record.run import RunManifest
from tests.statements import covers

from .runs import folder_of, psgd, samples, train

Capture = pytest.CaptureFixture[str]


def numbers(rows: int = 200) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(rows, 6))
    return x, np.digitize(x.sum(axis=1), [-1, 1])


def arrays() -> ArrayDataset:
    return ArrayDataset(*numbers())


def transposed() -> ArrayDataset:
    """Of another order in memory and of bytes."""
    x, y = numbers()
    return ArrayDataset(np.asfortranarray(x.astype(">f4")), y.astype(np.int8), test_fraction=0.1, seed=3)


def frames() -> ArrayDataset:
    x, y = numbers()
    frame = pandas.DataFrame(x[:, :4], columns=list("abcd")).assign(kind=pandas.Categorical(np.where(x[:, 4] > 0, "yes", "no")))
    return ArrayDataset(frame, pandas.Series(np.array(["low", "middle", "high"])[y]))


class _Own(AbsDataset):
    """A data set that only a program can make: its class tells no argument."""

    def load(self, download: bool = True) -> Arrays:
        x, y = numbers()
        return x[:150], y[:150], x[150:], y[150:]


def own() -> AbsDataset:
    class Inner(_Own):
        pass

    return Inner()


@covers("RUN-11")
@pytest.mark.parametrize("data", [arrays, transposed, frames, own])
@pytest.mark.long
def test_a_run_on_arrays_is_repeated_from_its_folder_alone(
    data: Callable[[], AbsDataset], tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Moved to another place, and the run that repeats it keeps its samples in turn."""
    made = data()
    folder = folder_of(train(made, directory=tmp_path / "first"))
    assert (stat.S_IMODE((folder / DATA_FILE).stat().st_mode), list(folder.glob(".*"))) == (0o644, [])
    manifest, file = RunManifest.read(folder), JobFile.read(folder)
    assert file.kept is not None and manifest.files[DATA_FILE] == file.kept.sha256 == sha256_of(folder / DATA_FILE)
    with np.load(folder / DATA_FILE, allow_pickle=False) as content:
        assert [content[name].shape for name in content] == [each.shape for each in made.load()]
    assert load_kept(folder / DATA_FILE, file.kept.sha256).checksum() == made.checksum()
    moved = shutil.move(folder, tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    for run in (moved, "runs/P-SGD-1"):
        code, out, err = psgd(capsys, "verify", run)
        assert code == 0 and "all 4 variables equal" in out, err
        code, out, err = psgd(capsys, "run", run, "--json", "--quiet", "--local", 1)
        assert code == 0 and json.loads(out)["repeats"]["equal"], err


@pytest.mark.long
@covers("RUN-11")
@pytest.mark.processes
def test_jobs_on_local_workers_and_on_agents_keep_theirs(tmp_path: Path, capsys: Capture) -> None:
    with local_workers(2) as nodes:
        local = folder_of(train(arrays(), nodes, directory=tmp_path / "local"))
        agents = NodeAssignment(nodes.key_file)
        for node, address in nodes.items():
            agents.add(node, address)
        remote = folder_of(train(arrays(), agents, directory=tmp_path / "remote"))
    for run in (local, remote):
        assert DATA_FILE in RunManifest.read(run).files
        code, out, err = psgd(capsys, "verify", run)
        assert code == 0 and "all 4 variables equal" in out, err


@covers("RUN-11")
@pytest.mark.parametrize(
    ("most", "said"),
    [
        (0, "it was samples in the memory of a program, which keep_data=0 keeps nowhere."),
        (
            0.001,
            "it was samples in the memory of a program: 0.0 MiB, and keep_data=0.001 keeps up to 0.001 MiB in a run; "
            "keep_data=1 (--keep-data 1) would have kept them.",
        ),
    ],
)
def test_what_is_not_kept_is_told_with_what_to_do(most: float, said: str, tmp_path: Path, capsys: Capture) -> None:
    folder = folder_of(train(arrays(), directory=tmp_path, keep_data=most))
    assert not (folder / DATA_FILE).exists() and DATA_FILE not in RunManifest.read(folder).files
    for command in ("run", "verify"):
        code, out, err = psgd(capsys, command, folder)
        assert (
            (code, out) == (2, "")
            and said in err
            and "run the program again" in err.lower()
            and ("Give --dataset" in err) == (command == "run")
            and err.count("\n") == 1
        )


def test_by_default_64_mebibytes_are_kept(tmp_path: Path) -> None:
    rows = np.zeros((64 << 10, 1 << 8), np.float32)  # 64 MiB
    labels = np.zeros(len(rows), np.uint8)
    with pytest.raises(Unnamed, match=r"64\.1 MiB, and keep_data=64 keeps up to 64 MiB in a run; keep_data=65"):
        keep(tmp_path, ArrayDataset(rows, labels).load(), 64)
    kept = keep(tmp_path, ArrayDataset(rows[:-512], labels[:-512]).load(), 64)
    assert kept.sha256 == sha256_of(tmp_path / DATA_FILE)


def test_what_has_a_text_is_not_kept(tmp_path: Path) -> None:
    folder = folder_of(train(samples(), directory=tmp_path))
    assert not (folder / DATA_FILE).exists() and JobFile.read(folder).kept is None


def test_a_disk_that_takes_less_leaves_nothing(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(Unnamed, match="which could not be kept: File too large"):
            keep(tmp_path, arrays().load(), 64)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert list(tmp_path.iterdir()) == []


def _change_a_row(file: Path) -> None:
    with np.load(file) as content:
        found = dict(content)
    found["train_x"][37] += 1
    np.savez(file, **found)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_change_a_row, "data.npz was changed: train_x: rows 35 to 37|was changed: train_x: row"),
        (lambda file: file.write_bytes(file.read_bytes()[:-40]), "data.npz was changed: .*is no .npz file"),
        (lambda file: file.write_bytes(file.read_bytes() + b"\0"), "data.npz was changed"),
        (lambda file: np.savez(file, train_x=np.array([{}], object)), "data.npz was changed: .*must hold booleans"),
    ],
)
def test_samples_that_were_changed_are_told(
    spoil: Callable[[Path], object], said: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By array and rows; and nothing is trained on them."""
    folder = folder_of(train(arrays(), directory=tmp_path))
    spoil(folder / DATA_FILE)
    monkeypatch.chdir(tmp_path)
    code, out, err = psgd(capsys, "verify", folder)
    assert code == 1 and re.search(said, out), out + err
    code, out, err = psgd(capsys, "run", folder)
    assert (code, out, err.count("\n")) == (2, "", 1) and "The samples data.npz of the run are damaged: " in err
    assert len(list((tmp_path / "runs").glob("P-SGD-*"))) == 1


def test_a_run_without_its_file_says_so(tmp_path: Path, capsys: Capture) -> None:
    folder = folder_of(train(arrays(), directory=tmp_path))
    (folder / DATA_FILE).unlink()
    code, _, err = psgd(capsys, "run", folder)
    assert code == 2 and "kept as data.npz, which is not in this folder. Give --dataset, or run the program again" in err
    text = (folder / "job.toml").read_text()
    (folder / "job.toml").write_text(text.replace('"data.npz"', '"../data.npz"'))
    code, _, err = psgd(capsys, "run", folder)
    assert code == 2 and "'data.file' must be the name of a file beside it, got '../data.npz'" in err
