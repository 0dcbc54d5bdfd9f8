"""Numbers of a job file have bounds before anything is made of them."""

from __future__ import annotations

import re
import shutil
import time
import tracemalloc
from pathlib import Path

import pytest

from parallel_sgd import ParallelSGD, in_process
from parallel_sgd.options.job_options import options
from parallel_sgd.record.job_file import types
from tests.statements import covers

from .runs import OPTIONS, folder_of, model, psgd, samples, train

MOST_SECONDS, MOST_BYTES = 5.0, 64 << 20
Capture = pytest.CaptureFixture[str]
INTEGERS = sorted(name for name, about in options() if about.flag is not None and int in types(about.flag))
FLOATS = sorted(name for name, about in options() if about.flag is not None and float in types(about.flag))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(train(directory=tmp_path_factory.mktemp("finished")))


@pytest.fixture
def run(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(finished, tmp_path / "runs" / "P-SGD-1"))


def put(run: Path, key: str, value: str) -> None:
    """Give a key of the job file a value, whether or not it is there."""
    table, name = key.split(".")
    file = run / "job.toml"
    text = re.sub(rf"^{name} = .*\n", "", file.read_text(), flags=re.MULTILINE)
    file.write_text(text.replace(f"[{table}]\n", f"[{table}]\n{name} = {value}\n", 1))


def refused(run: Path, key: str, value: str, capsys: Capture) -> str:
    """What `psgd run` says of it: one sentence, at once, and nothing was made."""
    put(run, key, value)
    tracemalloc.start()
    begun = time.thread_time()
    try:
        code, out, err = psgd(capsys, "run", run, "-q")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert f"'{key}'" in err and "job.toml" in err, err
    assert time.thread_time() - begun < MOST_SECONDS and most < MOST_BYTES
    assert [each.name for each in run.parent.iterdir()] == ["P-SGD-1"]
    return err


@covers("RUN-9")
@pytest.mark.parametrize("key", ["run.workers", "run.blocks", *(f"options.{name}" for name in INTEGERS)])
@pytest.mark.parametrize("value", ["1000000000000000000000", "-1000000000", "9" * 5000])
@pytest.mark.share(12)
def test_whole_numbers(run: Path, key: str, value: str, capsys: Capture) -> None:
    if len(value) == 5000:
        put(run, key, value)
        code, out, err = psgd(capsys, "run", run, "-q")
        assert (code, out, err.count("\n")) == (2, "", 1) and "is no valid TOML" in err and len(err) < 500
    else:
        assert f"got {value}" in refused(run, key, value, capsys)


@covers("RUN-9")
@pytest.mark.parametrize("key", ["run.workers", "run.blocks", "options.epoch", "options.redundancy", "options.block_size"])
def test_numbers_of_what_would_be_made(run: Path, key: str, capsys: Capture) -> None:
    """A thousand million of them are numbers like others, and far too many."""
    said = refused(run, key, "10000000000", capsys)
    assert "must be from 1 to" in said


@covers("RUN-9")
@pytest.mark.parametrize("key", [f"options.{name}" for name in FLOATS])
@pytest.mark.parametrize("value", ["inf", "nan", "-1e300"])
@pytest.mark.share(3)
def test_numbers_that_are_not_finite(run: Path, key: str, value: str, capsys: Capture) -> None:
    refused(run, key, value, capsys)


@covers("RUN-9")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("options.assignment_type", '"fixed:1000000000"'),
        ("options.assignment_type", f'"fixed:{"9" * 5000}"'),
        ("options.sync_type", '"stale:1000000000000"'),
        ("options.checkpoint_every", f'"{"9" * 5000}"'),
        ("options.blas_threads", f'"{"9" * 5000}"'),
    ],
)
def test_numbers_in_texts(run: Path, key: str, value: str, capsys: Capture) -> None:
    assert len(refused(run, key, value, capsys)) < 6000


@covers("RUN-9")
@pytest.mark.parametrize("epoch", ["1e300", "1000000000", "inf", "5000000"])
def test_epochs_of_the_tables_of_weights(run: Path, epoch: str, capsys: Capture) -> None:
    """One row of a node's table does not have a verifier compute for ever."""
    table = next(run.glob("*/WH-*.csv"))
    table.write_text(f"{table.read_text()}{epoch},dense/kernel,{'0' * 64}\n")
    (run / "manifest.json").write_text((run / "manifest.json").read_text().replace("WH-", "XX-"))
    begun = time.thread_time()
    code, out, err = psgd(capsys, "verify", run)
    assert code in (1, 2) and "equal those" not in out and time.thread_time() - begun < MOST_SECONDS, err
    assert "WH-" in err or "XX-" in out


@covers("RUN-9")
@pytest.mark.parametrize("name", ["epoch", "redundancy", "block_size"])
def test_a_job_has_the_same_bounds(name: str) -> None:
    """So a job file can say all that a job was."""
    with in_process(2) as nodes, pytest.raises(ValueError, match=rf"^'{name}' must be from 1 to \d+, got 10000000000$"):
        ParallelSGD(model(), samples()).parallel(nodes, **{**OPTIONS, name: 10_000_000_000})
