"""Runs that are trained again from their `job.toml`, and verified: equal bits, or what is another."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from psgd import cli

import numpy as np
import pytest

import nn
from nn.dataset import MNIST, ArrayDataset, NpzDataset, SimData
from nn.dataset.interface import row_checksums_of
from nn.dataset.transforms import ImageCls, Normalize, Shuffle
from nn.gradient_descent import SGDOptimizer
from nn.optimizer import GradientAveragingOptimizer
from parallel_sgd import ParallelSGD, in_process
from parallel_sgd.batch_sync import StaleSynchronous
from parallel_sgd.checkpoint import Snapshot
from parallel_sgd.codec import AsyncPS, GradCode, Plain, TopK
from parallel_sgd.commands import repeat
from parallel_sgd.commands.options import make_parser, settings_of
from parallel_sgd.options.job_options import JobOptions
from parallel_sgd.profiles import CyclicAssignment, FixedBlockAssignment
from parallel_sgd.record.job_file import ROWS, JobFile
from parallel_sgd.record.run import write_run_manifest
from parallel_sgd.record.verification import rows_that_differ

EPOCHS = 3
OPTIONS: dict[str, Any] = {"epoch": EPOCHS, "block_size": 8, "gd_type": SGDOptimizer, "gd_params": (0.1,), "seed": 4}


def model() -> nn.model.Model:
    made = nn.model.SequentialModel(input_shape=[-1, 6])
    made.add(nn.layer.Dense(5, activation=nn.activation.Tanh()))
    made.add(nn.layer.Dense(3, activation=nn.activation.Softmax()))
    made.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    return made


def trained(workers: int = 2, ps: bool = False, **options: Any) -> Path:
    """The folder of a run in this process."""
    data = SimData(kind="classification", samples=120, features=6, classes=3, seed=1)
    with in_process(workers, ps) as nodes:
        result = ParallelSGD(model(), data, Shuffle()).parallel(nodes, **{**OPTIONS, **options})
    return result.files[0][0].parent.parent


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("finished")
    # with `keep_every` training waits for the disk, and leaves no checkpoint out
    options = {"checkpoint_every": "epoch", "keep_every": 1}
    return trained(directory=place, assignment_type=FixedBlockAssignment.of(4), **options).resolve()


@pytest.fixture
def run(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a run of two workers, which may be spoiled, in a folder in which others may be made."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(finished, tmp_path / "mine"))


def psgd(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = cli.main([str(each) for each in arguments])
    return code, *capsys.readouterr()


@pytest.mark.processes
@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.share(2)
def test_it_gives_the_same_bits_on_any_number_of_workers(run: Path, workers: int, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = psgd(capsys, "run", run / "job.toml", "--local", workers, "--quiet", "--json")
    assert (code, json.loads(out)["repeats"]["equal"]) == (0, True)
    again = sorted(Path("runs/latest").glob("*/MODEL-*.model"))
    assert len(again) == workers and {each.read_bytes() for each in again} == {next(run.glob("*/MODEL-*.model")).read_bytes()}


@pytest.mark.processes
def test_a_run_of_release_1_0(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its job file told of the submitter what [nodes] tells of each node; of its manifest the version is told, and a way on."""
    file, manifest = run / "job.toml", run / "manifest.json"
    text = re.sub(r"(?ms)^\[nodes\]$.*?(?=^\[|\Z)", "", file.read_text())
    told = 'parallel_sgd = "1.0.0"\nnumpy = "2.4.6"\npython = "3.11.7"\nkernels = "OpenBLAS kernels SkylakeX"\n'
    file.write_text(text.replace("[run]\n", f"[run]\n{told}"))
    manifest.write_text(manifest.read_text().replace("psgd.manifest/2", "psgd.manifest/1"))
    code, out, err = psgd(capsys, "verify", run)
    assert (
        code == 2 and "'psgd.manifest/1', this release reads 'psgd.manifest/2'" in err and "'psgd run' trains it again" in err
    )
    code, out, err = psgd(capsys, "run", run, "--quiet")
    assert code == 0 and "The weights equal those of mine after each of 3 epochs." in out, err


def test_a_run_that_took_row_numbers_for_a_feature_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run of a release without `index=`: the sentence has the option with which it is trained again, with the same bits."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{row + 1},{row % 7 / 7},{row % 3 / 3},{row % 2}\n" for row in range(80))
    Path("rows.csv").write_text("id,a,b,kind\n" + rows)
    data = nn.dataset.CSVDataset("rows.csv", "kind", index=None, test_fraction=0.25)
    made = nn.model.SequentialModel([-1, 3], [nn.layer.Dense(2, "softmax")])
    made.setup("crossentropy")
    ParallelSGD(made, data, Normalize()).parallel(in_process(2), epoch=1, block_size=8, mission_title="old", verbose=0)
    file = Path("runs/old-1/job.toml")
    text = file.read_text("utf-8")
    assert ",index=None" in text
    file.write_text(text.replace(",index=None", ""), "utf-8")
    code, _, said = psgd(capsys, "run", "old-1", "--local", 1)
    found = re.search(
        r"An older release took 'id' for a feature, as index=None does: 'psgd run RUN --dataset \"(.*)\"'\.$", said
    )
    assert code == 2 and found is not None, said
    code, out, said = psgd(capsys, "run", "old-1", "--dataset", found[1], "--quiet")
    assert code == 0 and "The weights equal those of runs/old-1" in out, said


def test_it_says_what_is_another(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An option that was given in its place, one that was changed in the file, a version; also of the latest run, which is
    another one by the end."""
    latest = Path("runs/latest")
    latest.parent.mkdir()
    run = run.rename(latest.with_name("P-SGD-1").absolute())
    latest.symlink_to(run.name)
    file = run / "job.toml"
    file.write_text(file.read_text().replace("block_size = 8", "block_size = 4").replace("Python 3", "Python 2"))
    changed = ("--seed", 5, "--codec", "topk", "--learn-rate", 0.2, "--title", "again")
    code, out, err = psgd(capsys, "run", latest, "--local", 1, "--quiet", *changed, "--epochs", 1)
    assert code == 0 and latest.resolve() != run, err
    assert f"are not those of {run.relative_to(Path.cwd())}," in out and "from epoch 1 on" in out
    assert (
        {"--seed", "--codec", "--learn-rate"} <= set(re.findall(r"--[a-z-]+", out))
        and "--title" not in out
        and "'options.block_size' was 8, it is 4" in out
        and "Python 2" in out
    )


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (("seed = 4", "sede = 4"), "[options] has no key 'sede'; did you mean 'seed'?"),
        (("seed = 4", 'seed = "4"'), "'options.seed' must be an integer, got '4'"),
        (("seed = 4", "seed = 4.0"), "'options.seed' must be an integer, got 4.0"),
        (("seed = 4", "seed = -4"), "job.toml cannot be used: 'options.seed' must be an integer from 0"),
        (("shuffle = true", "shuffle = 1"), "'options.shuffle' must be true or false, got 1"),
        (("psgd.job/1", "psgd.job/2"), "of another version than 'psgd.job/1'"),
        (("psgd.job/1", "toml"), "'format' must be 'psgd.job/1', got 'toml'"),
        (("start.model", "none.model"), "'model.file' must be a file, and there is none at"),
        (("workers = 2", ""), "'run.workers' is missing"),
        (("workers = 2", "workers = 0"), "'run.workers' must be a positive integer, got 0"),
        (("[options]", "options = 3\n[more]"), "is no valid TOML|must be a table|has no key"),
        (("[options]", "[[options"), "is no valid TOML"),
        (("SimData", "SimDate"), "'data.dataset' 'SimDate' is unknown; did you mean"),
        (("noise=", "noise=0.1+"), "SimData"),
        (
            ("features=6", "features=5"),
            "The data set SimData is not the one of the run: train_x: it was float32 120x6, it is float32 120x5;",
        ),
        (
            ('train_x = "float32 ', 'train_x = "float32 x '),
            "'rows.train_x' must be a type, a shape and checksums, got 'float32 x",
        ),
        (("train_x = ", "train_z = "), "[rows] has no key 'train_z'; did you mean"),
        (('gd_type = "SGD', 'gd_type = "SGB'), "did you mean"),
        (
            ("callbacks = []", 'callbacks = ["EarlyStoping"]'),
            "'options.callbacks' 'EarlyStoping' is unknown; did you mean 'EarlyStopping'?",
        ),
        (("callbacks = []", "callbacks = [3]"), "'options.callbacks' must be a list of texts, got [3]"),
        (("callbacks = []", 'callbacks = ["CSVLogger:path=/a/b"]'), "CSVLogger 'path' must be the name of a file in a job"),
        (
            ("writers = []", 'writers = ["json:JSONDecoder"]'),
            "needs code for 'writers': .*json/__init__.py \\(SHA-256 [0-9a-f]{64}\\), which the manifest of the run",
        ),
    ],
)
def test_a_file_that_does_not_do_is_refused_before_anything_starts(
    run: Path, spoil: tuple[str, str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = run / "job.toml"
    assert spoil[0] in file.read_text()
    file.write_text(file.read_text().replace(*spoil, 1))
    code, out, err = psgd(capsys, "run", file)
    assert (code, out, err.count("\n")) == (2, "", 1) and not Path("runs").exists()
    assert said in err or re.search(said, err), err


@pytest.mark.parametrize(
    ("option", "code"),
    [
        ("codec", '"evil.py:Codec"'),
        ("codec", '{dense_1 = "Plain", dense_2 = "evil:Codec"}'),
        ("sync_type", '"evil.Sync"'),
        ("callbacks", '["EarlyStopping:patience=2", "evil:Stop:patience=2"]'),
        ("dataset", '"Digits,evil.py:Data:noise=1"'),
        ("transform", '"Shuffle,Node-0-Retrieve.evil:Transform"'),
    ],
)
def test_what_nodes_tell_runs_no_code_of_theirs(
    run: Path, option: str, code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job.toml that was fetched names what ships, and nothing else; nor does it have a script run."""
    (tmp_path / "evil.py").write_text("raise SystemExit(99)")
    file = run / "job.toml"
    lines = [line for line in file.read_text().splitlines() if not line.startswith(f"{option} =")]
    lines.insert(lines.index("[data]" if option in ("dataset", "transform") else "[options]") + 1, f"{option} = {code}")
    lines.insert(lines.index("[options]") + 1, 'discovery = "./evil.sh"')
    file.write_text("\n".join(["fetched = true", *lines]))
    result, out, err = psgd(capsys, "run", run)
    assert (result, out) == (2, "") and re.search(
        f"has no '{option}': it was code of one's own, .* as its nodes tell. Give", err
    )
    assert "discovery" not in JobFile.read(run).options


class Unconfigured(nn.callback.Callback):
    """Takes an argument, and does not tell which."""

    def __init__(self, patience: int) -> None:
        self.patience = patience


class Printed:
    """A writer of one's own."""

    def start(self, config: Any) -> None:
        print("start")

    def log(self, step: int, values: Any) -> None:
        print(step)

    def finish(self, status: str) -> None:
        print(status)


@pytest.mark.long
@pytest.mark.processes
def test_callbacks_and_writers_stand_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What callbacks do is part of the bits; a writer is none, so one that has no text is left out."""
    monkeypatch.chdir(tmp_path)
    stop = nn.callback.EarlyStopping("val_accuracy", patience=1)
    slower = nn.callback.ReduceOnPlateau(patience=1, min_delta=1.0, factor=0.5)
    best = nn.callback.ModelCheckpoint("best.model")
    logger = nn.callback.CSVLogger("epochs.csv")
    run = trained(epoch=8, callbacks=[slower, stop, best, logger], writers=[Printed()]).resolve()
    ended = len((run / "Node-0-Retrieve" / "epochs.csv").read_text().splitlines()) - 1
    assert ended < 8 and "writers = []" in (run / "job.toml").read_text()
    code, out, _ = psgd(capsys, "verify", run)
    assert code == 0 and f"Epochs 1 to {ended}, computed again from the start on 2 workers" in out
    text = (run / "job.toml").read_text()
    (run / "job.toml").write_text(text.replace("writers = []", 'writers = ["tests.test_repeat:Printed"]'))
    code, out, _ = psgd(capsys, "run", run, "--epochs", "8", "--local", "1", "-q", "--allow-code")
    assert (
        code == 0
        and out.startswith("start\n1\n2\n")
        and f"equal those of {run.relative_to(tmp_path)} after each of {ended} epochs" in out
    )
    assert next(Path("runs/latest").glob("Node-*/epochs.csv")).read_bytes() == (run / "Node-0-Retrieve/epochs.csv").read_bytes()
    given = make_parser().parse_args(["-m", "x", "--callback", "none", "--writer", "none"])
    assert not settings_of(given)["callbacks"] and not settings_of(given)["writers"]  # in place of those of the file
    asked = trained(epoch=1, callbacks=[Unconfigured(2)])
    code, _, err = psgd(capsys, "run", asked)
    assert (
        code == 2 and "has no 'callbacks': it was Unconfigured, whose get_config() does not tell patience. Give --call" in err
    )


def test_the_files_of_a_data_set_are_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The number of threads of who submits is no difference: each worker has its own."""
    monkeypatch.chdir(tmp_path)
    x, y = np.linspace(0, 1, 480, dtype=np.float32).reshape(80, 6), np.arange(80) % 3
    np.savez("x.npz", x=x, y=y)
    with in_process(2) as nodes:
        result = ParallelSGD(model(), NpzDataset("x.npz")).parallel(nodes, **OPTIONS)
    run = result.files[0][0].absolute().parent.parent
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    code, out, _ = psgd(capsys, "verify", run)
    assert code == 0 and "all 4 variables equal" in out
    assert "path='../../x.npz'" in (run / "job.toml").read_text() and ", 2 threads" not in (run / "job.toml").read_text()


def test_what_only_a_program_can_make_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.linspace(0, 1, 480, dtype=np.float32).reshape(80, 6)
    y = np.arange(80) % 3
    with in_process(2) as nodes:
        result = ParallelSGD(model(), ArrayDataset(x, y, x, y)).parallel(nodes, directory=tmp_path, keep_data=0, **OPTIONS)
    run = result.files[0][0].parent.parent
    code, _, err = psgd(capsys, "run", run)
    assert (
        code == 2
        and "has no 'dataset': it was samples in the memory of a program, which keep_data=0 keeps nowhere. Give --dataset"
        in err
    )


@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), f"Epochs 1 to {EPOCHS}, computed again from the start on 2 workers: all 4 variables equal"),
        (("--epoch", 3), "Epoch 3, computed again from the checkpoint after epoch 2 on 2 workers: all 4 variables equal"),
        (("-n", 4), f"Epochs 1 to {EPOCHS}, computed again from the start on 4 workers: all 4 variables equal"),
        (
            ("--epoch", 2, "-n", 1),
            "Epoch 2, computed again from the checkpoint after epoch 1 on 1 worker: all 4 variables equal",
        ),
    ],
)
def test_epochs_are_verified(run: Path, options: tuple[object, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = psgd(capsys, "verify", run, *options)
    assert code == 0 and said in out, out
    assert not Path("runs").exists()


@pytest.mark.processes
@pytest.mark.long
def test_epochs_are_verified_on_other_workers(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where each epoch's checkpoint stays: beside that of the end, of one worker where all have the same."""
    assert psgd(capsys, "run", run, "--local", 2, "--keep-every", 1, "-q")[0] == 0
    latest = Path("runs/latest").resolve()
    kept = sorted(path.relative_to(latest) for path in latest.rglob("*.safetensors"))
    assert kept == [Path(f"Node-0-Retrieve/checkpoints/checkpoint-00000{n}-00000000.safetensors") for n in (1, 2, 3)]
    for workers, where in ((3, ("--local", 3)), (1, ("--launch", "local:1"))):
        code, out, _ = psgd(capsys, "verify", latest, "--epoch", 3, *where, "--json")
        found = json.loads(out)
        assert (code, found.pop("signature")["state"]) == (0, "none")
        # tables of steps and packets are those of two workers
        assert found.pop("not computed") == [f"{kind}-*.csv" for kind in ("TR", "LEDGER", "BL", "AC", "BY")]
        assert found == {"equal": True, "epochs": [3, 3], "from": 2, "workers": workers}


@pytest.mark.long
def test_what_each_worker_remembers_is_verified_with_its_checkpoints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The residuals of error feedback; the newest checkpoints are not the nearest."""
    run = trained(directory=tmp_path, epoch=9, codec=TopK, checkpoint_every=7, keep_every=3)
    said = "computed again from the checkpoint after epoch 3 on 2 workers: all 4 variables equal"
    code, out, _ = psgd(capsys, "verify", run, "--epoch", 5)
    assert code == 0 and f"Epochs 4 to 5, {said}" in out
    (run / "Node-1-Retrieve/checkpoints/checkpoint-000003-00000000.safetensors").unlink()
    code, out, _ = psgd(capsys, "verify", run, "--epoch", 5)
    assert code == 0 and "Epochs 1 to 5, computed again from the start" in out


def test_a_run_that_went_on_with_another_one_is_verified_from_the_start_of_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is taken over from that one: what was changed with its hashes is found. One with other options is named."""
    first = trained(directory=tmp_path, epoch=2, checkpoint_every="epoch")
    changed = trained(directory=tmp_path, resume="last", seed=5)
    blocks = trained(directory=tmp_path, resume=first, assignment_type=FixedBlockAssignment.of(blocks=4))
    second = trained(directory=tmp_path, resume=first)
    code, out, err = psgd(capsys, "verify", blocks)
    assert code == 2 and re.search(r", which differs in (\w+, )*number of blocks\. Give an --epoch", err), err
    code, out, err = psgd(capsys, "verify", second)
    assert code == 0 and "Epochs 1 to 3, computed again from the start on 2 workers: all 4 variables equal" in out, err
    code, out, err = psgd(capsys, "verify", changed)
    assert code == 2 and f"it went on with {first.resolve()}, which differs in seed. Give an --epoch that is" in err
    tables = [*second.glob("*/WH-*.csv")]
    for table in tables:
        table.write_text(re.sub("(?m)^1,dense_1/bias,.*", f"1,dense_1/bias,{'0' * 64}", table.read_text()))
    write_run_manifest(second, JobFile.read(second).job)
    code, out, err = psgd(capsys, "verify", second)
    assert code == 1 and "after epoch 1 the variable dense_1/bias differs from that of the run\nIt went on with " in out, err


def test_runs_that_name_each_other_lead_to_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where they lie below the current directory."""
    monkeypatch.chdir(tmp_path)
    first = trained(directory=tmp_path, epoch=2, checkpoint_every="epoch")
    second = trained(directory=tmp_path, resume=first)
    record = first / "job.toml"
    job = JobFile.read(second).job
    record.write_text(record.read_text().replace("[options]", f'[options]\nresume = "{job}"', 1))
    assert repeat._first(JobFile.read(second)).path == JobFile.read(first).path


def test_a_run_that_goes_on_with_itself_has_no_excuse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An earlier run that is not at hand leaves open whether the later one is true; this one is at hand."""
    run = trained(directory=tmp_path, epoch=2)
    job = JobFile.read(run).job
    record = run / "job.toml"
    for table in run.glob("*/WH-*.csv"):
        table.write_text(re.sub("(?m)^1,dense_1/bias,.*", f"1,dense_1/bias,{'0' * 64}", table.read_text()))
    record.write_text(record.read_text().replace("[options]", f'[options]\nresume = "{job}"', 1))
    write_run_manifest(run, job)
    code, out, err = psgd(capsys, "verify", run)
    assert code == 1 and "not beside it" not in out and "after epoch 1 the variable dense_1/bias differs" in out, out + err


@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("spoil", "said", "located"),
    [
        (lambda path: path.unlink(), "", ""),
        (lambda path: flip(path, -1), "cannot be used: .* sha256.* It is skipped.", " was changed"),
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "cannot be used: .* It is skipped.", " cannot be read: "),
        (
            lambda path: path.write_bytes(other_weights(path.read_bytes())),
            "after epoch 2 its variable dense_1/kernel had another value",
            " was changed: after epoch 2 the variable dense_1/kernel had another value",
        ),
    ],
    ids=["lost", "flipped", "cut off", "another"],
)
def test_an_earlier_checkpoint_is_taken_where_the_nearest_does_not_do(
    *,
    run: Path,
    spoil: Callable[[Path], Any],
    said: str,
    located: str,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is told with its file all the same, and the run is not what it was."""
    kept = [*run.glob("*/checkpoints/checkpoint-000002-*")]
    for path in kept:
        spoil(path)
    code, out, err = psgd(capsys, "verify", run, "--epoch", 3)
    assert "Epochs 2 to 3, computed again from the checkpoint after epoch 1 on 2 workers:" in out
    assert ("all 4 variables equal" in out) == (not located)
    assert code == bool(located) and out.count(f"checkpoint-000002-00000000.safetensors{located}") == len(kept) * bool(
        located
    ), out
    assert re.search(said, err + caplog.text), err


def other_weights(content: bytes) -> bytes:
    """A whole checkpoint, with its hashes, of other weights."""
    snapshot = Snapshot.read(content)
    name = "value/dense_1/kernel"
    changed = Snapshot(snapshot.header, {**snapshot.arrays, name: snapshot.arrays[name] + 1}, snapshot.numbers)
    return b"".join(map(bytes, changed.pieces()))


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("file", "place", "said"),
    [
        ("Node-1-Retrieve/MODEL-P-SGD-N(1).model", -1, f"after epoch {EPOCHS} the variable dense_2/bias had another value"),
        ("start.model", -1, "start.model was changed: at the start the variable dense_2/bias had another value"),
        ("start.model", 30, "start.model was changed, outside of the variables"),
        ("Node-0-Retrieve/WH-P-SGD-N(0).csv", -3, f"the tables of the weights (WH-*.csv) were changed in epoch {EPOCHS}"),
        ("Node-0-Retrieve/TR-P-SGD-N(0).csv", -3, "TR-P-SGD-N(0).csv was changed"),
    ],
)
def test_a_flipped_bit_is_found(run: Path, file: str, place: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    flip(run / file, place)
    code, out, _ = psgd(capsys, "verify", run)
    assert code == 1 and said in out, out


def idx_file(values: np.ndarray[Any, Any]) -> bytes:
    head = bytes((0, 0, 8, values.ndim)) + b"".join(size.to_bytes(4, "big") for size in values.shape)
    return head + values.astype(np.uint8).tobytes()


@pytest.fixture(scope="module")
def of_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of IDX files, and in it a run that was trained on these."""
    place = tmp_path_factory.mktemp("idx")
    random = np.random.default_rng(3)
    for name, samples in (("train", 130), ("t10k", 60)):
        (place / f"{name}-images-idx3-ubyte").write_bytes(idx_file(random.integers(0, 256, (samples, 2, 3))))
        (place / f"{name}-labels-idx1-ubyte").write_bytes(idx_file(random.integers(0, 3, samples)))
    with in_process(2) as nodes:
        job = ParallelSGD(model(), MNIST(place), ImageCls())
        result = job.parallel(nodes, **{**OPTIONS, "directory": place})
    return result.files[0][0].resolve().parent.parent


@pytest.mark.parametrize(
    ("file", "places", "said"),
    [
        (
            "train-images-idx3-ubyte",
            (16 + 6 * 77,),
            r"train_x \((\S+)\): rows 77 to 78; so every epoch would be trained on others",
        ),
        (
            "train-labels-idx1-ubyte",
            (8, 9, 8 + 129),
            r"train_y \((\S+)\): rows 0 to 1, 127 to 129; so every epoch would be trained on others",
        ),
        ("t10k-images-idx3-ubyte", (16 + 6 * 59,), r"test_x \((\S+)\): row 59; so every epoch would be evaluated on others"),
    ],
)
def test_a_flipped_bit_of_the_data_is_found(
    of_files: Path, file: str, places: tuple[int, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By file, array, rows and what it has to do with epochs; by `psgd run` before anything starts."""
    spoiled = of_files.parent.parent / file
    whole = spoiled.read_bytes()
    for place in places:
        flip(spoiled, place)
    verified, repeated = psgd(capsys, "verify", of_files), psgd(capsys, "run", of_files)
    spoiled.write_bytes(whole)
    assert (verified[0], repeated[0]) == (1, 2), (verified, repeated)
    for text in (verified[1], repeated[2]):
        found = re.search(said, text)
        assert found is not None and found[1] == str(spoiled), text


def test_a_damaged_file_of_the_data_is_named(of_files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoiled = of_files.parent.parent / "t10k-labels-idx1-ubyte"
    flip(spoiled, 3)
    code, out, _ = psgd(capsys, "verify", of_files, "--json")
    flip(spoiled, 3)
    assert code == 1
    [found] = json.loads(out)["damaged"]
    assert "of the run is damaged: " in found and str(spoiled) in found


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (np.zeros((0, 3)), "it was float32 4x3, it is float64 0x3"),
        (np.arange(4).astype("datetime64[s]"), "it was float32 4x3, it is datetime64[s] 4"),
        (np.asfortranarray(np.arange(12).reshape(4, 3), ">f4"), ""),
        (np.full((4, 3), 7, np.float32), "rows 0 to 3"),
    ],
)
def test_arrays_of_all_kinds_have_checksums_of_rows(changed: np.ndarray[Any, Any], said: str) -> None:
    """Layout and byte order do not count, and each text can stand in a job file."""
    was, now = row_checksums_of(np.arange(12, dtype=np.float32).reshape(4, 3)), row_checksums_of(changed)
    assert rows_that_differ(was, now) == said and ROWS.fullmatch(now)


def test_an_older_run_has_no_checksums_of_rows(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is told that the data are others, not where; so of a manifest without the hashes of the start."""
    file, manifest = run / "job.toml", run / "manifest.json"
    begin, _, rest = file.read_text().partition("[rows]")
    old = f"{begin}[nodes]{rest.partition('[nodes]')[2]}".replace("features=6", "features=5")
    file.write_text(old)
    content = json.loads(manifest.read_text())
    del content["start"], content["settings"]["rows"]
    content["settings"]["data"]["dataset"] = content["settings"]["data"]["dataset"].replace("features=6", "features=5")
    content["files"]["job.toml"] = hashlib.sha256(old.encode()).hexdigest()
    manifest.write_text(json.dumps(content))
    code, out, _ = psgd(capsys, "verify", run)
    assert code == 1 and "is not the one of the run: the SHA-256 of its samples is" in out, out
    flip(run / "start.model", -1)
    code, out, _ = psgd(capsys, "verify", run)
    assert (code, out) == (1, "start.model was changed\nNobody has signed the run: it has no model.sig.\n")


def test_what_was_computed_otherwise_is_found_by_epoch_and_variable(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not the files, which fit together, but the training was another: as if somebody had made all of it up."""
    code, out, _ = psgd(capsys, "verify", other_run(run))
    assert code == 1 and "after epoch 1 the variable dense_1/kernel differs from that of the run" in out


def other_run(run: Path) -> Path:
    """A run that says that it had another seed than it had, in all its files."""
    made = trained(directory=run / "other", seed=5, assignment_type=FixedBlockAssignment.of(4))
    for name, *seeds in (("job.toml", "seed = 5", "seed = 4"), ("outcome.json", '"seed": "5"', '"seed": "4"')):
        path = made / name
        path.write_text(path.read_text().replace(*seeds))
    write_run_manifest(made, JobFile.read(made).job)
    return made


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"ps": True, "sync_type": StaleSynchronous(2), "codec": AsyncPS, "op_type": GradientAveragingOptimizer},
            "under StaleSynchronous(2) a worker takes what has arrived",
        ),
        (
            {"ps": True, "codec": GradCode, "assignment_type": CyclicAssignment, "redundancy": 2},
            "the codec GradCode makes its result of what arrives first",
        ),
        ({"codec": {0: TopK, "dense_2": Plain}}, ""),
    ],
)
def test_what_depends_on_arrival_is_refused(
    options: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = trained(directory=tmp_path, **options)
    code, out, err = psgd(capsys, "verify", run)
    assert (code, said in err) == ((2, True) if said else (0, True)), (out, err)


@pytest.mark.parametrize("state", ["half", "newer", "none", "folder"])
def test_a_run_without_its_manifest_is_named(
    run: Path, state: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = run / "manifest.json"
    said = {"half": "is half written or damaged", "newer": "is of another version", "none": "There is no", "folder": "read"}
    content = path.read_text()
    path.unlink()
    if state == "folder":
        path.mkdir()
    elif state != "none":
        path.write_text(content[:300] if state == "half" else content.replace("psgd.manifest/2", "psgd.manifest/3"))
    # as the user may have written it, without the folders of the machine
    monkeypatch.chdir(run.parent)
    code, _, err = psgd(capsys, "verify", run.name)
    assert code == 2 and said[state] in err and f" {run.name}/manifest.json" in err and str(run) not in err, err


def test_a_run_that_goes_on_leaves_the_fault_of_the_file(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would strike again at the batch that comes next; one that is asked for on the command line counts."""
    file = run / "job.toml"
    file.write_text(file.read_text().replace('fault = ""', 'fault = "kill 1@e2.b3"'))
    asked: list[str] = []

    def train(options: Any, *_: object, **__: object) -> None:
        asked.append(str(options.fault))
        raise ValueError("it is enough to know what is asked for")

    monkeypatch.setattr("parallel_sgd.commands.repeat.train", train)
    for more in ([], ["--resume", "last"], ["--resume", "last", "--fault", "+1ms 0>1"]):
        assert cli.main(["run", str(file), "--local", "2", *more]) == 2
    first, *others = asked
    assert first == "kill 1@e2.b3" and others == [str(JobOptions.fault), "+1ms 0>1"]
