"""`psgd verify` on runs whose folder claims what was not computed, and on honest runs of all kinds."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from psgd import cli

import numpy as np
import pytest

import nn
from nn.dataset import SimData
from nn.dataset.transforms import Shuffle
from nn.gradient_descent import SGDOptimizer
from nn.optimizer import ParameterAveragingOptimizer
from nn.tensor_files import dump, parse, read_file
from parallel_sgd import ParallelSGD, in_process, simulated
from parallel_sgd.checkpoint import Snapshot
from parallel_sgd.codec import TopK
from parallel_sgd.profiles import FixedBlockAssignment
from parallel_sgd.record.certificate import contradictions
from parallel_sgd.record.claims import further_packets, wrong_packets
from parallel_sgd.record.contents import misplaced
from parallel_sgd.record.files import MANIFEST
from parallel_sgd.record.hashes import sha256_of
from parallel_sgd.record.identity import differences, own_identity, parts_of
from parallel_sgd.record.run import RunManifest, write_run_manifest
from parallel_sgd.record.tables import read_identities
from tests.statements import covers

from .runs import folder_of

EPOCHS = 2
OPTIONS: dict[str, Any] = {
    "epoch": EPOCHS, "block_size": 8, "gd_type": SGDOptimizer, "gd_params": (0.1,), "seed": 4,
    "assignment_type": FixedBlockAssignment.of(4), "checkpoint_every": "epoch",
}  # fmt: skip


def job() -> ParallelSGD:
    model = nn.model.SequentialModel(input_shape=[-1, 6])
    model.add(nn.layer.Dense(5, activation=nn.activation.Tanh()))
    model.add(nn.layer.Dense(3, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    return ParallelSGD(model, SimData(kind="classification", samples=120, features=6, classes=3, seed=1), Shuffle())


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("honest")
    with in_process(2) as nodes:
        result = job().parallel(nodes, directory=place, **OPTIONS)
    return result.files[0][0].resolve().parent.parent


@pytest.fixture
def run(honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(honest, tmp_path / "runs" / "P-SGD-1"))


def verify(run: Path, capsys: pytest.CaptureFixture[str], *options: object) -> tuple[int, str]:
    code = cli.main(["verify", str(run), *map(str, options)])
    told = capsys.readouterr()
    return code, told.out + told.err


# ---- false runs


def sealed_again(run: Path) -> None:
    """Write the manifest of the folder as it is now: every hash fits."""
    write_run_manifest(run, RunManifest.read(run).job)


def set_option(run: Path, name: str, old: int, new: int) -> None:
    """Let the run have had another option, in all of its files."""
    rewrite(run, "job.toml", lambda text: text.replace(f"{name} = {old}", f"{name} = {new}"))
    edit(run / "outcome.json", lambda content: content["settings"].update({name: str(new)}))
    sealed_again(run)


def replace_model(path: Path) -> None:
    model = nn.model.Model.load(path)
    model.store.values[:] = 0.123
    model.save(path)


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def rewrite(run: Path, pattern: str, change: Callable[[str], str]) -> None:
    paths = sorted(run.glob(pattern))
    assert paths
    for path in paths:
        before = path.read_text()
        path.write_text(change(before))
        assert path.read_text() != before


def models(run: Path, nodes: str = "*") -> list[Path]:
    return sorted(run.glob(f"Node-{nodes}-Retrieve/MODEL-*.model"))


def all_models(run: Path) -> None:
    for path in models(run):
        replace_model(path)
    sealed_again(run)


def model_in_no_list(run: Path) -> None:
    replace_model(models(run, "0")[0])
    edit(run / MANIFEST, lambda content: content["files"].pop("Node-0-Retrieve/MODEL-P-SGD-N(0).model"))


def no_list(run: Path) -> None:
    edit(run / MANIFEST, lambda content: content["files"].clear())


def model_of_one_node(run: Path) -> None:
    replace_model(models(run, "1")[0])
    sealed_again(run)


def added_file(run: Path) -> None:
    shutil.copy(models(run, "0")[0], run / "Node-0-Retrieve" / "best.model")


def added_file_in_a_folder(run: Path) -> None:
    (run / "extra").mkdir()
    shutil.copy(models(run, "0")[0], run / "extra" / "best.model")


def figures(run: Path) -> None:
    edit(run / "outcome.json", lambda content: content["figures"].update(accuracy=0.9999))
    sealed_again(run)


def figures_gone(run: Path) -> None:
    edit(run / "outcome.json", lambda content: content["figures"].clear())
    sealed_again(run)


def evaluations(run: Path) -> None:
    rewrite(run, "Node-*/EV-*.csv", lambda text: re.sub(r"(?m)^([\d.]+),[\d.]+,(\d+)$", r"\1,0.9999,\2", text))
    sealed_again(run)


def evaluations_and_figures(run: Path) -> None:
    evaluations(run)
    figures(run)


def evaluation_lost(run: Path) -> None:
    rewrite(run, "Node-1-*/EV-*.csv", lambda text: "".join(text.splitlines(keepends=True)[:-1]))
    sealed_again(run)


def hashes_cut_off(run: Path) -> None:
    rewrite(run, "Node-*/WH-*.csv", lambda text: re.sub(r"(?m)^2,.*\n", "", text))
    sealed_again(run)


def hashes_of_one_node_cut_off(run: Path) -> None:
    rewrite(run, "Node-1-*/WH-*.csv", lambda text: re.sub(r"(?m)^1,.*\n", "", text))
    rewrite(run, "Node-0-*/WH-*.csv", lambda text: re.sub(r"(?m)^2,.*\n", "", text))
    sealed_again(run)


def hash_lost(run: Path) -> None:
    rewrite(run, "Node-1-*/WH-*.csv", lambda text: re.sub(r"(?m)^2,dense_1/bias,.*\n", "", text))
    sealed_again(run)


def hashes(run: Path) -> None:
    rewrite(run, "Node-*/WH-*.csv", lambda text: re.sub(r"(?m)^1,dense_1/bias,.*$", f"1,dense_1/bias,{'0' * 64}", text))
    sealed_again(run)


def hashes_and_models(run: Path) -> None:
    """As if training had ended elsewhere: models and hash tables fit each other."""
    from parallel_sgd.record.weight_hashes import hash_of

    for path in models(run):
        replace_model(path)
    arrays, _ = parse(read_file(models(run)[0]))

    def change(text: str) -> str:
        return re.sub(r"(?m)^2,([^,]+),.*$", lambda row: f"2,{row[1]},{hash_of(arrays[row[1]])}", text)

    rewrite(run, "Node-*/WH-*.csv", change)
    sealed_again(run)


def start(run: Path) -> None:
    import hashlib

    before = hashlib.sha256((run / "start.model").read_bytes()).hexdigest()
    replace_model(run / "start.model")
    after = hashlib.sha256((run / "start.model").read_bytes()).hexdigest()
    rewrite(run, "job.toml", lambda text: text.replace(before, after))
    sealed_again(run)


def fewer_epochs(run: Path) -> None:
    """A run of two epochs that says it had three."""
    set_option(run, "epoch", 2, 3)


def other_seed(run: Path) -> None:
    set_option(run, "seed", 4, 5)


def settings_of_the_manifest(run: Path) -> None:
    edit(run / MANIFEST, lambda content: content["settings"]["options"].update(seed=5))


def checkpoint(run: Path) -> None:
    """The state of the rule in a checkpoint, with its own hash; the weights in it are right."""
    for path in sorted(run.glob("Node-*/checkpoints/*-000002-*")):
        snapshot = Snapshot.read(path.read_bytes())
        numbers = {name: value + 5 if type(value) is int else value for name, value in snapshot.numbers.items()}
        assert numbers != snapshot.numbers
        path.write_bytes(b"".join(map(bytes, Snapshot(snapshot.header, snapshot.arrays, numbers).pieces())))


def model_outside_of_its_variables(run: Path) -> None:
    for path in models(run):
        arrays, metadata = parse(read_file(path))
        changed = metadata["config"].replace('"seed":0', '"seed":9')
        assert changed != metadata["config"]
        path.write_bytes(dump(arrays, {"format": metadata["format"], "config": changed}))
    sealed_again(run)


def node_gone(run: Path) -> None:
    shutil.rmtree(run / "Node-1-Retrieve")
    sealed_again(run)


def chain(run: Path) -> None:
    edit(run / MANIFEST, lambda content: content["chain"].pop())


def identities(run: Path) -> None:
    """Other kernels in job.toml alone, as an excuse for other bits."""
    rewrite(run, "job.toml", lambda text: re.sub(r"OpenBLAS kernels \w+", "OpenBLAS kernels Other", text))
    edit(run / MANIFEST, lambda content: content["files"].pop("job.toml"))
    sealed_again(run)


def kind_of_model(run: Path) -> None:
    for path in models(run):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    sealed_again(run)


# ---- rows, files and states that stand beside the true ones


def of_workers(run: Path, pattern: str, change: Callable[[str], str], nodes: str = "*") -> None:
    rewrite(run, f"Node-{nodes}-Retrieve/{pattern}", change)
    sealed_again(run)


def evaluation_of_an_epoch_that_was_not(run: Path) -> None:
    of_workers(run, "EV-*.csv", lambda text: f"{text}0.001,0.9999,3\n")


def two_evaluations(run: Path) -> None:
    of_workers(run, "EV-*.csv", lambda text: text.replace("\n", "\n0.001,0.9999,1\n", 1))


def evaluation_in_no_epoch(run: Path) -> None:
    of_workers(run, "EV-*.csv", lambda text: f"{text}0.001,0.9999,best\n")


def evaluation_of_another_form(run: Path) -> None:
    of_workers(run, "EV-*.csv", lambda text: "".join(text.splitlines(keepends=True)[:-1]) + "0.001,99.99 %,2\n", "1")


def further_metric(run: Path) -> None:
    of_workers(run, "EV-*.csv", lambda text: re.sub(r"(?m)(\d)$", r"\1,0.99", text.replace("Epoch\n", "Epoch,f1\n")))


def two_hashes(run: Path) -> None:
    of_workers(run, "WH-*.csv", lambda text: text.replace("\n", f"\n1,dense_1/bias,{'0' * 64}\n", 1))


def no_hash(run: Path) -> None:
    of_workers(run, "WH-*.csv", lambda text: f"{text}2,dense_1/bias,zz\n")


def hash_before_the_first_epoch(run: Path) -> None:
    of_workers(run, "WH-*.csv", lambda text: f"{text}0,dense_1/bias,{'0' * 64}\n", "1")


def table_of_another_title(run: Path) -> None:
    (run / "Node-1-Retrieve" / "WH-other-N(1).csv").write_text("Epoch,Variable,SHA256\n")
    sealed_again(run)


def steps(run: Path) -> None:
    of_workers(run, "TR-*.csv", lambda text: re.sub(r"(?m)^([\d.e-]+,1,1,\d+,\d+),.*$", r"\1,0.0,1.0", text))


def applied_blocks(run: Path) -> None:
    of_workers(run, "LEDGER-*.csv", lambda text: "".join(text.splitlines(keepends=True)[:-3]))


def listed(name: str) -> Callable[[Path], None]:
    """A replaced model under another name, which the manifest has."""

    def add(run: Path) -> None:
        place = run / name
        place.parent.mkdir(exist_ok=True)
        # by a name of models: nn warns of others
        other = Path(shutil.copy(models(run, "0")[0], run / "other.model"))
        replace_model(other)
        other.rename(place)
        sealed_again(run)

    add.__name__ = f"listed {name}"
    return add


def stray_in_checkpoints(run: Path) -> None:
    shutil.copy(models(run, "0")[0], run / "Node-0-Retrieve" / "checkpoints" / "best.model")


def checkpoint_of_a_later_epoch(run: Path) -> None:
    folder = run / "Node-0-Retrieve" / "checkpoints"
    shutil.copy(folder / "checkpoint-000002-00000000.safetensors", folder / "checkpoint-000009-00000000.safetensors")


def checkpoint_of_another_epoch(run: Path) -> None:
    folder = run / "Node-0-Retrieve" / "checkpoints"
    shutil.copy(folder / "checkpoint-000002-00000000.safetensors", folder / "checkpoint-000001-00000000.safetensors")


def changed_checkpoints(run: Path, change: Callable[[Snapshot], Snapshot]) -> None:
    for path in sorted(run.glob("Node-*/checkpoints/*")):
        path.write_bytes(b"".join(map(bytes, change(Snapshot.read(path.read_bytes())).pieces())))


def checkpoint_with_more(run: Path) -> None:
    more = {"optimizer/evil": np.ones(3)}
    changed_checkpoints(run, lambda was: Snapshot(was.header, {**was.arrays, **more}, was.numbers))


def checkpoint_of_another_seed(run: Path) -> None:
    changed_checkpoints(run, lambda was: Snapshot(replace(was.header, seed=99), was.arrays, was.numbers))


def checkpoint_that_is_the_best(run: Path) -> None:
    def change(was: Snapshot) -> Snapshot:
        progress = was.header.progress
        better = replace(progress, evaluation=dict.fromkeys(progress.evaluation, 0.0001))
        return Snapshot(replace(was.header, progress=better), was.arrays, was.numbers)

    changed_checkpoints(run, change)


def outcome_of_a_failure(run: Path) -> None:
    edit(run / "outcome.json", lambda content: content.update(state="failed"))
    sealed_again(run)


def lost_by_its_own_word(run: Path) -> None:
    edit(run / "outcome.json", lambda content: content.update(failures=[[1, "lost", "gone"]]))
    shutil.rmtree(run / "Node-1-Retrieve")
    sealed_again(run)


def failed_by_its_own_word(run: Path) -> None:
    incident = {"time": 1.0, "attempt": 0, "message": "gone", "verdicts": []}
    edit(run / "outcome.json", lambda content: content.update(incidents=[incident]))
    shutil.rmtree(run / "Node-1-Retrieve")
    sealed_again(run)


def seed_of_the_page(run: Path) -> None:
    edit(run / "outcome.json", lambda content: content["settings"].update(seed="77"))
    sealed_again(run)


def job_of_the_manifest(run: Path) -> None:
    edit(run / MANIFEST, lambda content: content.update(job="20261128-133933-98495c50"))


def title_of_the_run(run: Path) -> None:
    edit(run / "job.json", lambda content: content.update(title="other"))
    sealed_again(run)


def start_of_the_manifest(run: Path) -> None:
    edit(run / MANIFEST, lambda content: content["start"].update({"dense_1/bias": "0" * 64}))


def model_with_more(run: Path) -> None:
    for path in models(run):
        arrays, about = parse(read_file(path))
        path.write_bytes(dump({**arrays, "evil": np.ones(3)}, {key: about[key] for key in about if key != "sha256"}))
    sealed_again(run)


def model_with_a_note(run: Path) -> None:
    for path in models(run):
        arrays, about = parse(read_file(path))
        path.write_bytes(dump(arrays, {**{key: about[key] for key in about if key != "sha256"}, "note": "accuracy 0.9999"}))
    sealed_again(run)


def hidden_in_a_folder_of_checkpoints(run: Path) -> None:
    (run / "checkpoints").mkdir()
    shutil.copy(models(run, "0")[0], run / "checkpoints" / "best.model")


def hidden_as_work(run: Path) -> None:
    """In a folder that the record of the run calls the work of its agents."""
    edit(run / "job.json", lambda content: content["about"].update(work=["hidden"]))
    sealed_again(run)
    (run / "hidden").mkdir()
    shutil.copy(models(run, "0")[0], run / "hidden" / "best.model")


# ---- claims besides weights: packets, and what the page shows


def fewer_bytes(kind: str, first: int) -> Callable[[Path], None]:
    """Counts of bytes that are smaller than those sent, as of a better codec."""

    def change(run: Path) -> None:
        def smaller(line: str) -> str:
            return ",".join("1" if place == first else text for place, text in enumerate(line.split(",")))

        of_workers(run, f"{kind}-*.csv", lambda text: re.sub(r"(?m)^Plain,.*$", lambda row: smaller(row[0]), text), "0")

    change.__name__ = f"fewer bytes in {kind}"
    return change


def fewer_bytes_of_shards(run: Path) -> None:
    of_workers(run, "BY-*.csv", lambda text: re.sub(r"(?m)^(ParameterShard,1,1,1),\d+", r"\1,1", text), "0")


def batch_without_packets(run: Path) -> None:
    of_workers(run, "BY-*.csv", lambda text: "".join(text.splitlines(keepends=True)[:-1]))


def packets_of_another_codec(run: Path) -> None:
    of_workers(run, "AC-*.csv", lambda text: text.replace("Plain,", "Magic,"))


def told_by_outcome(table: str, key: str, value: object) -> Callable[[Path], None]:
    """Another word in outcome.json, which the page of the run shows."""

    def change(run: Path) -> None:
        edit(run / "outcome.json", lambda content: (content[table] if table else content).update({key: value}))
        sealed_again(run)

    change.__name__ = f"told {key}"
    return change


# ---- what is gone: rows and tables that say nothing where others of the run say something


def without_rows(pattern: str, nodes: str = "1", kept: str = "$^") -> Callable[[Path], None]:
    """Tables of some nodes of which the rows are gone, but for those that fit `kept`."""

    def change(run: Path) -> None:
        def cut(text: str) -> str:
            head, *rows = text.splitlines(keepends=True)
            return head + "".join(row for row in rows if re.match(kept, row))

        of_workers(run, pattern, cut, nodes)

    change.__name__ = f"{pattern} of {nodes} with {kept}"
    return change


def table_gone(run: Path) -> None:
    for path in run.glob("Node-*/LEDGER-*.csv"):
        path.unlink()
    sealed_again(run)


def table_of_other_columns(run: Path) -> None:
    of_workers(run, "TR-*.csv", lambda text: text.replace("Time,", "Clock,"), "0")


def table_of_other_batches(run: Path) -> None:
    of_workers(run, "BA-*.csv", lambda text: re.sub(r"(?m)^([\d.]+),2,4,", r"\1,2,5,", text), "0")


def later_identity(run: Path) -> None:
    of_workers(run, "ID-*.csv", lambda text: text.replace("\n1,", "\n2,"), "0")


def other_identities_at_the_start(run: Path) -> None:
    rewrite(run, "identities.csv", lambda text: text.replace("\n1,1,", "\n1,0,"))
    sealed_again(run)


def second_attempt(run: Path) -> None:
    rewrite(run, "identities.csv", lambda text: text.replace("\n1,", "\n2,"))
    sealed_again(run)


def evaluations_in_another_order(run: Path) -> None:
    of_workers(run, "EV-*.csv", lambda text: "".join(text.splitlines(keepends=True)[each] for each in (0, 2, 1)))


def gone_from_outcome(key: str) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        edit(run / "outcome.json", lambda content: content.pop(key))
        sealed_again(run)

    change.__name__ = f"outcome without {key}"
    return change


def file_gone(name: str, *, listed: bool) -> Callable[[Path], None]:
    """A file without which nothing can be computed again, in the manifest (`listed`) or not."""

    def change(run: Path) -> None:
        (run / name).unlink()
        if not listed:
            edit(run / MANIFEST, lambda content: content["files"].pop(name))

    change.__name__ = f"{name} gone {listed}"
    return change


_STRANGER = "is a file that this run cannot have left: it had no callback and no writer"
FALSE: list[tuple[Callable[[Path], None], str]] = [
    (all_models, "MODEL-P-SGD-N(0).model: after epoch 2 the variable dense_1/kernel, dense_1/bias"),
    (model_in_no_list, "MODEL-P-SGD-N(0).model is not listed in manifest.json, though a run of this kind always leaves it"),
    (no_list, "start.model is not listed in manifest.json"),
    (model_of_one_node, "Node-1-Retrieve/MODEL-P-SGD-N(1).model: after epoch 2 the variable dense_1/kernel"),
    (added_file, "Node-0-Retrieve/best.model lies in the folder, but is not listed"),
    (added_file_in_a_folder, "extra/best.model lies in the folder, but is not listed"),
    (figures, "outcome.json: the figures are Loss "),
    (figures_gone, "outcome.json has no figures"),
    (evaluations, "node 0: the evaluation after epoch 1 is Loss"),
    (evaluations_and_figures, "accuracy 0.9999"),
    (evaluation_lost, "node 1: its table has no evaluation after epoch 2"),
    (hashes_cut_off, "MODEL-P-SGD-N(0).model: after epoch 1 the variable"),
    (hashes_of_one_node_cut_off, "no table of the weights (WH-*.csv) has all epochs from 1 to 2"),
    (hash_lost, "the table of the weights of node 1 lacks dense_1/bias after epoch 2"),
    (hashes, "after epoch 1 the variable dense_1/bias differs from that of the run"),
    (hashes_and_models, "after epoch 2 the variable dense_1/"),
    (start, "after epoch 1 the variable dense_1/kernel differs from that of the run"),
    (fewer_epochs, "have 2 epochs, and the options say 3"),
    (other_seed, "after epoch 1 the variable dense_1/kernel differs from that of the run"),
    (settings_of_the_manifest, "job.toml and the manifest differ: 'options.seed' was 5, it is 4"),
    (checkpoint, "checkpoint-000002-00000000.safetensors: "),
    (model_outside_of_its_variables, "MODEL-P-SGD-N(0).model: its seed differs from what was computed"),
    (node_gone, "Node-1-Retrieve/MODEL-P-SGD-N(1).model is not listed in manifest.json"),
    (chain, "the tables of the weights (WH-*.csv) have 2 epochs, the manifest has 1"),
    (identities, "the identities of the nodes differ between their tables (ID-*.csv), job.toml and the manifest"),
    (kind_of_model, "MODEL-P-SGD-N(0).model: "),
    (evaluation_of_an_epoch_that_was_not, "node 0: its table has an evaluation after epoch '3', and the run has 2"),
    (two_evaluations, "its table says Loss 0.001, accuracy 0.9999 and Loss "),
    (evaluation_in_no_epoch, "its table has an evaluation after epoch 'best', and the run has 2"),
    (evaluation_of_another_form, "its table says Loss 0.001, accuracy 99.99 %"),
    (further_metric, ", f1 0.99"),
    (two_hashes, "WH-P-SGD-N(0).csv has several hashes of dense_1/bias after epoch 1"),
    (no_hash, "'SHA256' must be 64 hexadecimal digits, got 'zz'"),
    (hash_before_the_first_epoch, "'Epoch' must be a whole number from 1"),
    (table_of_another_title, f"Node-1-Retrieve/WH-other-N(1).csv {_STRANGER}"),
    (steps, "Node-0-Retrieve/TR-P-SGD-N(0).csv: row 2 is "),
    (applied_blocks, "Node-0-Retrieve/LEDGER-P-SGD-N(0).csv: row 31 is none, computed is 2,4,"),
    *((listed(name), f"{name} {_STRANGER}") for name in ("best.model", "MODEL-best.model", "Node-0-Retrieve/Fit-best.model")),
    (listed("data.npz"), f"data.npz {_STRANGER}"),
    (listed("Node-0-Retrieve/sub/MODEL-x.model"), f"Node-0-Retrieve/sub/MODEL-x.model {_STRANGER}"),
    (stray_in_checkpoints, "Node-0-Retrieve/checkpoints/best.model lies in the folder, but is not listed"),
    (checkpoint_of_a_later_epoch, "checkpoint-000009-00000000.safetensors is named after epoch 9, and the run has 2"),
    (checkpoint_of_another_epoch, "Node-0-Retrieve/checkpoints/checkpoint-000001-00000000.safetensors"),
    (checkpoint_with_more, "checkpoint-000002-00000000.safetensors: optimizer/evil differs from what was computed"),
    (checkpoint_of_another_seed, "checkpoint-000002-00000000.safetensors: seed differs from what was computed"),
    (checkpoint_that_is_the_best, "checkpoint-000002-00000000.safetensors: evaluation differs from what was computed"),
    (outcome_of_a_failure, "outcome.json says that the run is 'failed', and only one that is done has a manifest"),
    (lost_by_its_own_word, "outcome.json says that node 1 was lost, and this run could not do without it"),
    (failed_by_its_own_word, "outcome.json says that an attempt failed, and this run was not to start again"),
    (seed_of_the_page, "outcome.json says 'seed' 77, job.toml 4"),
    (job_of_the_manifest, "the job differs between files: job.toml "),
    (title_of_the_run, "the title differs between files: job.toml 'P-SGD', job.json 'other'"),
    (start_of_the_manifest, "start.model and the manifest differ: at the start the variable dense_1/bias differs"),
    (model_with_more, "MODEL-P-SGD-N(0).model: after epoch 2 evil differs from what was computed"),
    (model_with_a_note, "MODEL-P-SGD-N(0).model: its metadata are format psgd.model/2, note accuracy 0.9999, computed are"),
    (hidden_in_a_folder_of_checkpoints, "checkpoints/best.model lies in the folder, but is not listed"),
    (hidden_as_work, "hidden/best.model lies in the folder, but is not listed"),
    (fewer_bytes("AC", 7), "AC-P-SGD-N(0).csv: Plain dense_1/kernel 1 received is 8, 1, computed is 8, 960"),
    (fewer_bytes("BY", 4), "BY-P-SGD-N(0).csv: Plain 1 1 is "),
    (batch_without_packets, "BY-P-SGD-N(0).csv: Plain 2 4 is none, computed is "),
    (packets_of_another_codec, "AC-P-SGD-N(0).csv: Plain dense_1/kernel 1 received is none, computed is "),
    (told_by_outcome("settings", "gd_type", "LionOptimizer"), "outcome.json says 'gd_type' LionOptimizer, computed with SGD"),
    (told_by_outcome("settings", "codec", "TopK"), "outcome.json says 'codec' TopK, computed with None"),
    (told_by_outcome("settings", "gd_params", "0.2"), "outcome.json says 'gd_params' 0.2, computed with 0.1"),
    (
        told_by_outcome("settings", "data", "mnist, 60000 training and 10000 test samples"),
        "says that the data are mnist, 60000",
    ),
    (told_by_outcome("model", "summary", "ResNet50"), "outcome.json: the summary of the model differs"),
    (told_by_outcome("model", "svg", "<svg/>"), "outcome.json: the svg of the model differs"),
    (told_by_outcome("environment", "the nodes compute with", "a GPU"), "says that the nodes compute with a GPU, the tables"),
    (told_by_outcome("", "problems", ["none"]), "outcome.json tells the problems none, computed are none"),
    (told_by_outcome("settings", "blas_threads", "8"), "outcome.json says 'blas_threads' 8, job.toml 1"),
    (told_by_outcome("settings", "max_restarts", "7"), "outcome.json says 'max_restarts' 7, job.toml 3"),
    (told_by_outcome("settings", "on_failure", "shrink"), "outcome.json says 'on_failure' shrink, job.toml none"),
    (told_by_outcome("settings", "mission_title", "other"), "outcome.json says 'mission_title' other, job.toml P-SGD"),
    (told_by_outcome("", "fault", "kill 1@e1.b1"), "says that the faults 'kill 1@e1.b1' were injected, its settings say ''"),
    (gone_from_outcome("settings"), "outcome.json says 'redundancy' nothing, computed with 1"),
    (gone_from_outcome("model"), "outcome.json: the summary of the model differs"),
    (without_rows("WH-*.csv"), "the table of the weights of node 1 has no row"),
    (without_rows("WH-*.csv", kept="2,"), "the table of the weights of node 1 begins with epoch 2"),
    (without_rows("ID-*.csv"), "the tables of identities (ID-*.csv) of node 1 have no row"),
    (later_identity, "the tables of identities (ID-*.csv) of node 0 begin after epoch 1"),
    (other_identities_at_the_start, "the identities of node 0, 1 differ between identities.csv and ID-*.csv"),
    (second_attempt, "identities.csv tells of attempt 2, and no attempt of this run failed"),
    *((without_rows(f"{kind}-*.csv"), f"{kind}-P-SGD-N(1).csv: row 2 is none, computed is ") for kind in ("BA", "TI")),
    (table_gone, "Node-0-Retrieve has no table LEDGER-*.csv, though a run of this kind always leaves it"),
    (table_of_other_columns, "Node-0-Retrieve/TR-P-SGD-N(0).csv: row 1 is Clock,Epochs,"),
    (table_of_other_batches, "Node-0-Retrieve/BA-P-SGD-N(0).csv: row 9 is "),
    (evaluations_in_another_order, "node 1: the evaluations in its table are not in the order of epochs"),
    (file_gone("start.model", listed=True), "start.model cannot be read: No such file or directory"),
    (file_gone("start.model", listed=False), "start.model is not listed in manifest.json, though a run of this kind always"),
    (file_gone("job.toml", listed=True), "job.toml cannot be read: No such file or directory"),
    (file_gone("job.toml", listed=False), "job.toml is not listed in manifest.json, though a run of this kind always"),
]


@pytest.mark.share(3)
@covers("RUN-4")
@pytest.mark.parametrize(("falsify", "said"), FALSE, ids=[falsify.__name__ for falsify, _ in FALSE])
def test_a_false_run_is_named(
    run: Path, falsify: Callable[[Path], None], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    falsify(run)
    code, told = verify(run, capsys)
    assert code == 1 and said in told and "equal" not in told.replace("not equal", ""), told


@covers("RUN-9")
@pytest.mark.parametrize("value", [10**9, "x", []], ids=str)
def test_settings_of_a_stranger_have_bounds(run: Path, value: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A billion workers: no file of theirs is looked for, whether the manifest alone tells of them or job.toml, too."""
    edit(run / MANIFEST, lambda content: content["settings"]["run"].update(workers=value))
    code, told = verify(run, capsys)
    assert code == 1 and "job.toml and the manifest differ: 'run.workers' was " in told, told
    rewrite(run, "job.toml", lambda text: text.replace("workers = 2", f"workers = {json.dumps(value)}"))
    edit(run / MANIFEST, lambda content: content["files"].update({"job.toml": sha256_of(run / "job.toml")}))
    code, told = verify(run, capsys)
    assert code == 2 and "'run.workers' must be " in told, told


@covers("RUN-4")
def test_a_manifest_with_a_further_claim_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(run / MANIFEST, lambda content: content.update(certified="by a stranger"))
    code, told = verify(run, capsys)
    assert code == 2 and "cannot be used: 'certified' is no part of a manifest." in told, told


# ---- honest runs


@covers("RUN-4")
def test_what_no_computation_bears_out_is_told(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """More packets than computed may be requests for late blocks; with other workers, tables of steps are others."""
    beside = "Tables of steps and packets, which depend on more than the job, were not computed again"
    code, told = verify(run, capsys)
    assert code == 0 and beside not in told, told
    code, told = verify(run, capsys, "-n", 4)
    assert code == 0 and f"{beside}: TR-*.csv, LEDGER-*.csv, BL-*.csv, AC-*.csv, BY-*.csv." in told, told
    # shares of one vector, rounded for shared memory and for sockets by themselves
    of_workers(run, "AC-*.csv", lambda text: text.replace(",960,", ",959,", 1), "0")
    assert verify(run, capsys)[0] == 0
    of_workers(run, "BY-*.csv", lambda text: re.sub(r"(?m)^Plain,1,1,\d+", "Plain,1,1,99", text), "1")
    code, told = verify(run, capsys)
    assert code == 0 and f"{beside}: Node-1-Retrieve/BY-P-SGD-N(1).csv." in told, told
    # of packets there are whole ones: a single one more is told, too
    of_workers(run, "AC-*.csv", lambda text: text.replace(",8,960,", ",9,960,", 1), "1")
    code, told = verify(run, capsys)
    assert code == 0 and f"{beside}: Node-1-Retrieve/AC-P-SGD-N(1).csv, Node-1-Retrieve/BY-P-SGD-N(1).csv." in told, told


@covers("RUN-3", "RUN-4")
@pytest.mark.parametrize("row", [",1,1,0,0,0,0,0,0", "Plain,2,4,0,0,0,0,0,0"])
def test_rows_that_tell_how_far_a_table_goes_accuse_no_run(run: Path, tmp_path: Path, row: str) -> None:
    """A worker writes a row of zeros where a second is over and no packet was sent, whichever batch that was."""
    again = Path(shutil.copytree(run, tmp_path / "again"))
    rewrite(again, "Node-1-*/BY-*.csv", lambda text: f"{text}{row}\n")
    for one, other in ((run, again), (again, run)):
        assert [*wrong_packets(one, other, EPOCHS, whole=True)] == []
        assert further_packets(one, other, EPOCHS, whole=True) == []


@covers("RUN-3", "RUN-4")
def test_packets_of_checkpoints_accuse_no_run_without_an_exchange(run: Path, tmp_path: Path) -> None:
    """`verify` keeps checkpoints, of which workers tell the server; a run need not, and may have exchanged nothing else."""
    of_workers(run, "[AB][CY]-*.csv", lambda text: text.partition("\n")[0] + "\n")
    again = Path(shutil.copytree(run, tmp_path / "again"))
    rewrite(again, "Node-*/AC-*.csv", lambda text: f"{text}checkpoint,-1,,-2,sent,process,2,0,64,64\n")
    rewrite(again, "Node-*/BY-*.csv", lambda text: f"{text}checkpoint,1,4,1,0,32,0,0,0\n")
    assert [*wrong_packets(run, again, EPOCHS, whole=True)] == []


@covers("RUN-3", "RUN-4")
@pytest.mark.parametrize("options", [{"checkpoint_every": None}, {"checkpoint_every": None, "gd_type": "adam"}, {}], ids=str)
def test_how_often_a_shared_state_was_gathered_accuses_no_run(
    options: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sharded rule brings its shards together for a checkpoint, and `verify` keeps one after each epoch; a run need not."""
    with in_process(2) as nodes:
        result = job().parallel(nodes, directory=tmp_path, **{**OPTIONS, "op_type": "ShardedPSGDOptimizer", **options})
    code, told = verify(folder_of(result), capsys)
    assert code == 0, told
    fewer_bytes_of_shards(folder_of(result))
    code, told = verify(folder_of(result), capsys)
    assert code == 1 and "BY-P-SGD-N(0).csv: ParameterShard 1 1 is 1, 1, " in told, told


@covers("RUN-3", "RUN-4")
def test_an_untouched_run_agrees_with_itself(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also elsewhere, with a page made anew, a lock and a link beside it, and on other workers; no file is made in it."""
    moved = tmp_path / "elsewhere" / "run"
    shutil.copytree(run, moved)
    timeline = (moved / "timeline.json.gz").stat()
    assert cli.main(["report", str(moved)]) == 0
    assert (moved / "timeline.json.gz").stat().st_mtime_ns == timeline.st_mtime_ns
    (moved / "sweep.lock").touch()
    (moved / "newest").symlink_to("Node-0-Retrieve")
    before = sorted(moved.rglob("*"))
    monkeypatch.chdir(moved)
    for options in ((), ("-n", 4), ("--epoch", 2)):
        code, told = verify(moved, capsys, *options)
        assert code == 0 and "the folder agrees with itself" in told, told
    assert sorted(moved.rglob("*")) == before


@covers("RUN-4")
def test_seconds_of_a_simulation_are_not_borne_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with simulated(2) as nodes:
        result = job().parallel(nodes, directory=tmp_path, **OPTIONS)
    code, told = verify(folder_of(result), capsys)
    assert code == 0 and "What a simulation tells was not computed again: its seconds, its events and the load" in told, told


@covers("RUN-3")
@pytest.mark.parametrize("left", [False, True])
def test_a_run_that_began_again_is_not_accused_where_it_was_fetched(
    left: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also into the folder of a submitter that had left it to its nodes, of which one drove it on.

    Its nodes tell of no attempt that failed, and their tables have other rows of steps since.
    """
    with simulated(2) as nodes:
        options = {**OPTIONS, "on_failure": "restart", "fault": "kill 1@e2.b1"}
        run = folder_of(job().parallel(nodes, directory=tmp_path, **options))
    assert json.loads((run / "outcome.json").read_text())["incidents"]
    edit(run / "outcome.json", lambda content: content.update(incidents=[]))
    edit(run / "outcome.json", lambda content: content["settings"].pop("writers"))
    if left:
        (run / "Node-0-Retrieve" / "Drive-0.log").touch()
    else:
        rewrite(run, "job.toml", lambda text: f"fetched = true\n{text}")
    sealed_again(run)
    code, told = verify(run, capsys)
    assert code == 0 and "were not computed again: TR-*.csv, LEDGER-*.csv" in told, told


@covers("RUN-4")
@pytest.mark.parametrize("policy", ["restart", "shrink"])
def test_steps_of_a_run_that_was_fetched_are_compared_where_no_attempt_went_on(
    policy: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its nodes tell of no attempt that failed, but their tables tell whether one went on with those of another."""
    edit(run / "outcome.json", lambda content: content["settings"].update(on_failure=policy))
    edit(run / "outcome.json", lambda content: content["settings"].pop("writers"))
    rewrite(run, "job.toml", lambda text: "fetched = true\n" + text.replace("seed = ", f'on_failure = "{policy}"\nseed = '))
    sealed_again(run)
    code, told = verify(run, capsys)
    assert code == 0 and "TR-" not in told, told
    rewrite(run, "Node-1-*/TR-*.csv", lambda text: re.sub(r"(?m)^([^,]*,2,3,.*),[^,]*$", r"\1,0.75", text))
    sealed_again(run)
    code, told = verify(run, capsys)
    assert code == 1 and "TR-P-SGD-N(1).csv: row " in told, told


@covers("RUN-3")
@pytest.mark.parametrize("sync", ["SynchronizedSGD", "AsynchronizedSGD"])
def test_a_worker_that_began_again_in_a_later_epoch_is_not_accused(run: Path, sync: str) -> None:
    """Of workers that wait for none one is behind the others when an attempt fails; all go on from the newest state."""
    incident = {"time": 1.0, "attempt": 0, "message": "gone", "verdicts": []}
    edit(run / "outcome.json", lambda content: content.update(incidents=[incident]))
    edit(run / "outcome.json", lambda content: content["settings"].update(on_failure="restart"))
    rewrite(
        run,
        "job.toml",
        lambda text: (
            text.replace('"SynchronizedSGD"', f'"{sync}"').replace("seed = ", 'on_failure = "restart"\nseed = ') + "\n"
        ),
    )
    rewrite(run, "Node-0-*/WH-*.csv", lambda text: text + "".join(re.findall(r"(?m)^2,.*\n", text)).replace("2,", "3,"))
    rewrite(run, "Node-1-*/WH-*.csv", lambda text: re.sub("(?m)^2,", "3,", text))
    sealed_again(run)
    found = [*contradictions(run, RunManifest.read(run))]
    lacks = ["the table of the weights of node 1 lacks an epoch between 1 and 3"]
    assert found == (lacks if sync == "SynchronizedSGD" else []), found


@covers("RUN-3")
def test_a_worker_that_was_away_for_a_part_of_the_training_is_not_accused(run: Path, tmp_path: Path) -> None:
    """An agent that a job with `shrink` has lost takes part again when another goes on: its table lacks the time between."""
    with in_process(2) as nodes:
        gone_on = job().parallel(nodes, **{**OPTIONS, "epoch": 5}, directory=tmp_path, resume=str(run))
    later = folder_of(gone_on)
    (table,) = later.glob("Node-1-*/DE-*.csv")
    assert re.findall(r"(?m)^\d+,(\d+),1,", table.read_text()) == ["1", "3"]
    for epoch, lacks in (("2", []), ("4", ["the table of the weights of node 1 lacks an epoch between 1 and 5"])):
        wrong = Path(shutil.copytree(later, tmp_path / f"lacks-{epoch}"))
        rewrite(wrong, "Node-1-*/WH-*.csv", lambda text, epoch=epoch: re.sub(f"(?m)^{epoch},.*\n", "", text))  # type: ignore[misc]
        sealed_again(wrong)
        assert [*contradictions(wrong, RunManifest.read(wrong))] == lacks


def began_anew(kind: str, place: Path) -> Path:
    """A run of which each worker had a state of its own, and that went on with the state of one of them."""
    if kind == "restarted within an epoch":
        options = {**OPTIONS, "codec": "TopK", "on_failure": "restart", "fault": "kill 1@e1.b3"}
        with simulated(2) as nodes:
            return folder_of(job().parallel(nodes, directory=place, **options))
    options = {**OPTIONS, "codec": "LocalSGD", "op_type": ParameterAveragingOptimizer, "directory": place}
    with in_process(4) as nodes:
        job().parallel(nodes, **{**options, "epoch": 1})
    with in_process(2) as nodes:
        return folder_of(job().parallel(nodes, **{**options, "epoch": 3}, resume="last"))


@covers("RUN-3", "RUN-4")
@pytest.mark.parametrize("kind", ["restarted within an epoch", "resumed by fewer workers"])
def test_a_run_that_went_on_with_the_state_of_one_worker_is_computed_likewise(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What single workers had remembered is lost to the computation where it was lost to the run, and nowhere else."""
    run = began_anew(kind, tmp_path)
    code, told = verify(run, capsys)
    assert code == 0 and "went on with the state of one worker" in told and "the folder agrees with itself" in told, told
    # with TopK all workers have the same weights, and differ in what they remember
    for owner in ("", "1") if kind == "resumed by fewer workers" else ("",):
        forged = Path(shutil.copytree(run, tmp_path / "runs" / f"forged{owner}"))
        rewrite(forged, "Node-*/DE-*.csv", lambda text, to=owner: re.sub(r",0,(\d)\n\Z", rf",{to},\1\n", text))  # type: ignore[misc]
        sealed_again(forged)
        code, told = verify(forged, capsys)
        assert code == 1 and "differs from that of the run" in told, told


@covers("RUN-3")
def test_parts_of_an_older_run_tell_no_owner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its tables have neither workers nor owner, so that nothing tells whether the computation must lose a state."""
    run = began_anew("restarted within an epoch", tmp_path)
    rewrite(run, "Node-*/DE-*.csv", lambda text: re.sub(r"(?m)^((?:[^,]*,){4})[^,]*,[^,]*,", r"\1", text))
    sealed_again(run)
    code, told = verify(run, capsys)
    assert code == 2 and "did not record what single workers had remembered" in told, told


@covers("RUN-4")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text + "4,2,1,4,2,,0\n", "has 3 parts, and there were 2 attempts"),
        (lambda text: text.replace("4,1,3,4,2", "4,1,3,4,9"), "tells 9 workers, and there can be 4"),
        (lambda text: text.replace("4,1,3,4,2,0", "4,1,3,4,2,7"), "went on with the state of node 7, and there was none"),
        (lambda text: text.replace("4,1,1,", "4,1,2,"), "has parts that do not follow each other from the start"),
        (lambda text: text.replace("4,1,3,", "4,1,4,", 1), "differs from that of node 0"),
    ],
    ids=["further", "workers", "owner", "order", "one"],
)
def test_false_parts_are_named(
    change: Callable[[str], str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = began_anew("restarted within an epoch", tmp_path)
    rewrite(run, "Node-1-*/DE-*.csv" if "differs" in said else "Node-*/DE-*.csv", change)
    sealed_again(run)
    code, told = verify(run, capsys)
    assert code == 1 and said in told, told


@covers("RUN-4")
@pytest.mark.parametrize("change", [lambda text: text[: text.index("\n") + 1], lambda text: text.replace("Tables", "Other")])
def test_parts_that_one_worker_does_not_tell_are_named(
    change: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = began_anew("restarted within an epoch", tmp_path)
    rewrite(run, "Node-1-*/DE-*.csv", change)
    sealed_again(run)
    code, told = verify(run, capsys)
    assert code == 1 and "(DE-*.csv) of node 1 has none, others have" in told, told


@covers("RUN-4")
@pytest.mark.parametrize("rows", [r"(?m)^\d.*\n", r"(?m)^2.*\n"], ids=["all", "last"])
def test_a_worker_of_the_last_attempt_tells_its_weights_to_the_end(rows: str, tmp_path: Path) -> None:
    run = began_anew("restarted within an epoch", tmp_path)
    rewrite(run, "Node-0-*/WH-*.csv", lambda text: re.sub(rows, "", text))
    sealed_again(run)
    found = [*contradictions(run, RunManifest.read(run))]
    assert "the table of the weights of node 0 lacks epoch 2" in found, found


@covers("RUN-3")
def test_a_codec_that_is_not_exact_accuses_no_run_on_other_workers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the number of the first attempt, too, where fewer went on."""
    run = began_anew("resumed by fewer workers", tmp_path)
    for workers in (1, 4):
        code, told = verify(run, capsys, "-n", workers)
        assert code == 2 and "But the run had 4 and 2 workers, and only codecs that are exact" in told, told
    all_models(run)
    assert verify(run, capsys)[0] == 1


@covers("RUN-4")
@pytest.mark.parametrize("kind", ["TR", "AC", "BA", "BY", "EV", "LEDGER", "TI"])
def test_a_table_that_was_cut_off_is_named_in_a_run_that_went_on(kind: str, tmp_path: Path) -> None:
    """Its rows need not be those of the computation, but its workers have written them whole."""
    options = {**OPTIONS, "on_failure": "restart", "fault": "kill 1@e2.b2"}
    with simulated(2) as nodes:
        run = folder_of(job().parallel(nodes, directory=tmp_path, **options))
    assert [*contradictions(run, RunManifest.read(run))] == []
    rewrite(run, f"Node-1-*/{kind}-*.csv", lambda text: text[:-4])
    sealed_again(run)
    found = [*contradictions(run, RunManifest.read(run))]
    assert found == [f"Node-1-Retrieve/{kind}-P-SGD-N(1).csv: its last row is cut off"]


@covers("RUN-3", "RUN-4")
@pytest.mark.parametrize("kind", ["restarted", "restarted within an epoch", "resumed by fewer workers"])
def test_steps_of_a_run_that_went_on_must_have_been_computed(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A killed worker takes rows along, so that some may be lacking; none may be another."""
    if kind == "restarted":
        with simulated(2) as nodes:
            options = {**OPTIONS, "on_failure": "restart", "fault": "kill 1@e2.b2"}
            run = folder_of(job().parallel(nodes, directory=tmp_path, **options))
    else:
        run = began_anew(kind, tmp_path)
    rewrite(run, "Node-1-*/TR-*.csv", lambda text: "".join(text.splitlines(keepends=True)[:-1]))
    sealed_again(run)
    code, told = verify(run, capsys)
    assert code == 0 and "the folder agrees with itself" in told, told
    rewrite(run, "Node-1-*/TR-*.csv", lambda text: re.sub(r"(?m)^([^,]*,2,1,.*),[^,]*$", r"\1,0.75", text, count=1))
    sealed_again(run)
    code, told = verify(run, capsys)
    assert code == 1 and "TR-P-SGD-N(1).csv: row " in told and "and was not computed" in told, told


@covers("RUN-4")
@pytest.mark.parametrize(("name", "value"), [("epochs", "500"), ("job_title", "better"), ("learn_rate", "0.1")])
def test_outcome_tells_no_further_settings(name: str, value: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page would show them; names of earlier releases stand for others."""
    edit(run / "outcome.json", lambda content: content["settings"].update({name: value}))
    sealed_again(run)
    code, told = verify(run, capsys)
    assert code == 1 and f"outcome.json says '{name}' {value}, and no run has that" in told, told


@covers("RUN-4")
@pytest.mark.parametrize(("head", "own"), [("Last,Workers,Owner", "4,2,"), ("Last", "4")], ids=["now", "an earlier release"])
def test_a_run_without_a_failure_has_no_parts(head: str, own: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Parts of an earlier release excuse weights that no computation has again."""
    (run / "Node-0-Retrieve" / "DE-P-SGD-N(0).csv").write_text(
        f"Steps,Epochs,Batches,{head},Tables\n4,1,1,{own},0\n4,2,1,{own},0\n"
    )
    sealed_again(run)
    code, told = verify(run, capsys)
    assert code == 1 and "of node 0 has some, and no attempt failed" in told, told


@covers("RUN-4")
def test_a_part_excuses_no_rows_of_a_worker_that_was_there(run: Path, tmp_path: Path) -> None:
    """A worker that was away begins again with a process of its own, which its table of identities tells."""
    with in_process(2) as nodes:
        later = folder_of(job().parallel(nodes, **{**OPTIONS, "epoch": 5}, directory=tmp_path, resume=str(run)))
    rewrite(later, "Node-*/DE-*.csv", lambda text: text + "4,5,1,4,2,,2\n")
    rewrite(later, "Node-1-*/WH-*.csv", lambda text: re.sub("(?m)^4,.*\n", "", text))
    sealed_again(later)
    found = [*contradictions(later, RunManifest.read(later))]
    assert found == ["the table of the weights of node 1 lacks an epoch between 1 and 5"]


@covers("RUN-3")
def test_a_run_that_went_on_with_one_that_is_not_at_hand_is_neither_true_nor_false(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first part had other blocks, which no file of the later run tells."""
    with in_process(3) as nodes:
        first = folder_of(job().parallel(nodes, **{**OPTIONS, "assignment_type": "iid"}, directory=tmp_path))
    with in_process(2) as nodes:
        options = {**OPTIONS, "assignment_type": "iid", "epoch": 3, "directory": tmp_path, "resume": str(first)}
        later = folder_of(job().parallel(nodes, **options))
    code, told = verify(later, capsys)
    assert code == 2 and "went on with" in told and "which differs in number of blocks. Give an --epoch" in told, told
    # beside it in a folder of any name
    for run in (first, later):
        shutil.copytree(run, tmp_path / "elsewhere" / "copied" / run.name)
    code, told = verify(tmp_path / "elsewhere" / "copied" / later.name, capsys)
    assert code == 2 and "which differs in number of blocks" in told, told
    alone = Path(shutil.copytree(later, tmp_path / "alone" / "runs" / later.name))
    code, told = verify(alone, capsys)
    assert code == 2 and "which is not beside it and may have had other blocks" in told, told
    # what differs within the folder does not depend on the first part
    checkpoint = sorted(alone.glob("Node-0-Retrieve/checkpoints/*.safetensors"))[-1]
    content = bytearray(checkpoint.read_bytes())
    content[-1] ^= 1
    checkpoint.write_bytes(content)
    code, told = verify(alone, capsys)
    assert code == 1 and f"{checkpoint.name} " in told and "not beside it" not in told, told


@covers("RUN-3", "SUB-45")
def test_a_run_that_grew_to_many_workers_is_not_accused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first four have tables, and those that were there before leave models, too."""
    options = {**OPTIONS, "assignment_type": "iid", "block_size": 2, "directory": tmp_path}
    with in_process(6) as nodes:
        job().parallel(nodes, **{**options, "epoch": 1})
    with in_process(17) as nodes:
        result = job().parallel(nodes, **options, resume="last")
    run = folder_of(result)
    assert [*run.glob("Node-4-Retrieve/MODEL-*")] and not [*run.glob("Node-4-Retrieve/WH-*")]
    assert [*misplaced(run, RunManifest.read(run))] == []
    code, told = verify(run, capsys)
    assert code == 2 and "went on with" in told, told


@covers("RUN-3")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"learn": False}, "time only, nothing is learned"),
        ({"distinct": 1}, "1 different blocks in a batch, the other workers send the gradients of these"),
    ],
    ids=str,
)
def test_a_simulation_that_leaves_out_computation_is_not_accused(
    options: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with simulated(2, "star 1Gbit/s 50us", compute="1ms", codec_time=0, **options) as nodes:
        result = job().parallel(nodes, directory=tmp_path, **{**OPTIONS, "epoch": 1, "assignment_type": "iid"})
    code, told = verify(folder_of(result), capsys)
    assert code == 2 and f"No epoch of the run can be computed again: it was simulated with {said}, " in told, told


@covers("RUN-3", "RUN-4")
@pytest.mark.parametrize("shared", [False, None])
def test_many_workers_with_tables_of_their_own_are_not_accused(
    shared: bool | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """17 processes have 17 tables, and 17 workers of one process those of the first four: computed is what the run has."""
    with simulated(17, "star 1Gbit/s 50us", compute="1ms", codec_time=0, shared=shared) as nodes:
        options = {"epoch": 1, "block_size": 2, "assignment_type": "iid", "checkpoint_every": None}
        result = job().parallel(nodes, directory=tmp_path, **{**OPTIONS, **options})
    run = folder_of(result)
    assert len([*run.glob("Node-*-Retrieve")]) == (17 if shared is False else 4)
    code, told = verify(run, capsys)
    assert code == 0 and "the folder agrees with itself" in told, told
    of_workers(run, "TR-*.csv", lambda text: re.sub(r"(?m)^([\d.e-]+,1,1,\d+,\d+),.*$", r"\1,0.0,1.0", text), "3")
    code, told = verify(run, capsys)
    assert code == 1 and "Node-3-Retrieve/TR-P-SGD-N(3).csv: row 2 is " in told, told


@covers("RUN-4")
def test_files_of_callbacks_are_told_at_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A callback ends training before its last epoch: with the same one the computation ends there, too."""
    stop = nn.callback.EarlyStopping("val_Loss", patience=1, min_delta=10.0)
    with in_process(2) as nodes:
        result = job().parallel(
            nodes, directory=tmp_path, **{**OPTIONS, "epoch": 5}, callbacks=[stop, nn.callback.ModelCheckpoint("best.model")]
        )
    assert len(result.history.rows) < 5
    run = result.files[0][0].resolve().parent.parent
    code, told = verify(run, capsys)
    assert code == 0 and "not computed again: Node-0-Retrieve/best.model, Node-1-Retrieve/best.model." in told, told
    shutil.copy(run / "Node-0-Retrieve" / "best.model", run)  # a callback writes into the folder of its node
    code, told = verify(run, capsys)
    assert code == 1 and "best.model lies in the folder, but is not listed in manifest.json" in told, told


@covers("RUN-3")
def test_weights_of_an_earlier_epoch_are_the_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A callback has given the models the weights of their best epoch back, which is not the last one."""
    stop = nn.callback.EarlyStopping("val_Loss", patience=0, min_delta=10.0, restore_best=True)
    with in_process(2) as nodes:
        result = job().parallel(nodes, directory=tmp_path, **{**OPTIONS, "epoch": 4}, callbacks=[stop])
    run = folder_of(result)
    code, told = verify(run, capsys)
    assert code == 0 and "Epochs 1 to 2, computed again" in told, told
    replace_model(models(run, "1")[0])
    sealed_again(run)
    code, told = verify(run, capsys)
    assert code == 1 and "Node-1-Retrieve/MODEL-P-SGD-N(1).model: after epoch 2" in told, told


@covers("RUN-3")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_evaluation_that_is_not_finite_is_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with in_process(2) as nodes:
        result = job().parallel(nodes, directory=tmp_path, **{**OPTIONS, "epoch": 1, "block_size": 30, "gd_params": (1e39,)})
    run = folder_of(result)
    assert math.isnan(result["Loss"])
    code, told = verify(run, capsys)
    assert code == 0 and "the folder agrees with itself" in told, told
    rewrite(run, "Node-*/EV-*.csv", lambda text: text.replace("nan,nan,1", "nan,0.9,1"))
    sealed_again(run)
    code, told = verify(run, capsys)
    assert code == 1 and "its table says Loss nan, accuracy 0.9" in told, told


class Notes:
    """A writer of a program: no text of the job file stands for it."""

    def start(self, config: Any) -> None:
        self.path = Path(config["run"], "notes.txt")
        self.path.write_text("begun\n")

    def log(self, step: int, values: Any) -> None:
        with self.path.open("a") as file:
            file.write(f"{step} {values['Loss']}\n")

    def finish(self, status: str) -> None:
        with self.path.open("a") as file:
            file.write(f"{status}\n")


@pytest.mark.long
@covers("RUN-3", "RUN-4")
def test_files_of_writers_are_whole_before_they_are_hashed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with in_process(2) as nodes:
        run = folder_of(job().parallel(nodes, directory=tmp_path, **OPTIONS, writers=[Notes()]))
    assert (run / "notes.txt").read_text().endswith("done\n")
    code, told = verify(run, capsys)
    assert code == 0 and "What callbacks or writers have left was not computed again: notes.txt." in told, told
    assert cli.main(["run", str(run), "--local", "1", "-q"]) == 0


@covers("RUN-3", "RUN-4")
def test_a_state_of_a_single_worker_is_computed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a codec remembers of one worker stands in its checkpoints alone."""
    with in_process(2) as nodes:
        run = folder_of(job().parallel(nodes, directory=tmp_path, **OPTIONS, codec=TopK))
    code, told = verify(run, capsys)
    assert code == 0, told

    def change(was: Snapshot) -> Snapshot:
        return Snapshot(
            was.header, {name: each * 0 if "residual" in name else each for name, each in was.arrays.items()}, was.numbers
        )

    changed_checkpoints(run, change)
    code, told = verify(run, capsys)
    assert code == 1 and "residual" in told and "differs from what was computed" in told, told


@pytest.mark.long
@covers("RUN-3")
def test_threads_that_hosts_decide_on_are_those_of_the_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A worker had two of the cores of another host; here each of two would have one."""
    for path in [*run.glob("Node-*/ID-*.csv"), run / "identities.csv", run / "job.toml"]:
        text = path.read_text().replace('blas_threads = "1"', 'blas_threads = "auto"')
        path.write_text(text.replace("1 thread", "2 threads"))
    edit(run / "outcome.json", lambda content: content["settings"].update(blas_threads="auto"))
    sealed_again(run)
    assert cli.main(["run", str(run), "--local", "2", "-q"]) == 0
    assert all(text.endswith("2 threads") for texts in read_identities(Path("runs/latest")).values() for text in texts)


def test_a_run_that_went_on_is_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with in_process(2) as nodes:
        job().parallel(nodes, directory=tmp_path, **OPTIONS)
    with in_process(3) as nodes:
        result = job().parallel(nodes, directory=tmp_path, **{**OPTIONS, "epoch": 4}, resume="last")
    code, told = verify(result.files[0][0].resolve().parent.parent, capsys)
    assert code == 0 and "Epochs 1 to 4, computed again from the start on 3 workers" in told, told


# ---- who computed


def pretend(run: Path, old: str, new: str) -> None:
    """Let the run have been computed by processes with another identity, in all of its files."""
    for path in [*run.glob("Node-*/ID-*.csv"), run / "identities.csv", run / "job.toml", run / "outcome.json"]:
        path.write_text(re.sub(old, new, path.read_text()))
    sealed_again(run)


@covers("RUN-1")
def test_a_run_names_what_trained_by_node(run: Path) -> None:
    """In its table, in job.toml and in the manifest: release, Python, NumPy, BLAS build, kernels and threads."""
    from parallel_sgd.record.job_file import JobFile

    expected = own_identity().rpartition(", ")[0] + ", 1 thread"
    assert {"Parallel-SGD", "Python", "NumPy", "functions for", "threads"} <= parts_of(expected).keys()
    assert read_identities(run) == JobFile.read(run).nodes == {0: [expected], 1: [expected]}
    assert RunManifest.read(run).nodes == {"0": [expected], "1": [expected]}


@covers("RUN-3")
def test_a_computation_by_another_numpy_accuses_no_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Equal bits are equal; other bits show nothing about the run where its processes were others."""
    pretend(run, r"NumPy [\d.]+", "NumPy 1.0.0")
    assert verify(run, capsys)[0] == 0
    set_option(run, "seed", 4, 5)
    code, told = verify(run, capsys)
    assert (
        code == 2
        and "But the run was computed with NumPy 1.0.0 (here " in told
        and "does not show that the run is false" in told
    )
    assert cli.main(["verify", str(run), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["equal"] is None


@covers("RUN-3")
def test_kernels_that_this_machine_lacks_are_named(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pretend(run, r"OpenBLAS kernels \w+", "OpenBLAS kernels Z14")
    set_option(run, "seed", 4, 5)
    code, told = verify(run, capsys)
    assert code == 2 and "OpenBLAS kernels Z14 (here " in told and "--workers" in told, told
    assert cli.main(["run", str(run), "--local", "1", "-q"]) == 0
    assert "Other than then: OpenBLAS kernels Z14 (here " in capsys.readouterr().out


def test_parts_of_identities_are_told_by_name() -> None:
    was = "Parallel-SGD 1.0.0, Python 3.11.7, NumPy 2.4.6, functions for AVX2, OpenBLAS kernels Haswell, 1 thread"
    now = (
        was.replace("Haswell", "SkylakeX")
        .replace("AVX2", "AVX512_SPR")
        .replace("1 thread", "2 threads")
        .replace("3.11", "3.12")
    )
    assert differences([was], [was]) == []
    assert differences([was.replace("1 thread", "1 thread(s)")], [was]) == []  # as earlier versions wrote it
    assert differences([was], [now]) == [
        "Python 3.11.7 (here 3.12.7)",
        "functions for AVX2 (here AVX512_SPR)",
        "OpenBLAS kernels Haswell (here SkylakeX)",
        "threads 1 (here 2)",
    ]
    assert differences([was], [now], portable=True) == ["Python 3.11.7 (here 3.12.7)"]
    assert differences([was, now], [was])[0] == "Python 3.11.7 and 3.12.7 (here 3.11.7)"
