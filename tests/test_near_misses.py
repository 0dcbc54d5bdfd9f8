"""A name that is nearly one that exists: the message says which, everywhere a name is looked up."""

from __future__ import annotations

import ast
import concurrent.futures
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from typing import Any

from psgd.cli import COMMANDS
from psgd.cli import main as psgd_main
from psgd.cli import make_parser as make_commands

import pytest

import executor
import network
import nn
import parallel_sgd
import parallel_sgd.elastic
import rpc
from executor import cluster
from executor.parallel import Collection
from network.faults.plan import FaultPlan
from network.names import did_you_mean
from nn import arguments
from nn.callback import EarlyStopping
from nn.dataset.transforms import ImageCls, Shuffle
from nn.model import History
from parallel_sgd import ParallelSGD, in_process
from parallel_sgd.codec import Codec, Plain, compose
from parallel_sgd.codec.choice import by_variable
from parallel_sgd.commands.options import make_dataset, make_parser, make_transform, settings_of
from parallel_sgd.options.named_parts import sync_forms
from parallel_sgd.record import run
from parallel_sgd.record.run import JobResult
from rpc import Communication, communication
from rpc.agent.cli import main as worker
from rpc.collective.allreduce import check_op
from rpc.launch import launcher_of
from rpc.submit.recovery import checked_policy
from rpc.submit.restarts import Restarts

from .nn.model.models import classifier
from .processes.training.jobs import digits_job
from .sources import ROOT, findings, library_files


def command(*options: str) -> Callable[[], Any]:
    return lambda: settings_of(make_parser().parse_args(["-m", "dnn.model", *options]))


def history() -> History:
    made = History()
    made.add(1, {"Loss": 1.0, "val_Loss": 2.0})
    return made


NEAR: dict[str, tuple[Callable[[], Any], str]] = {
    "codec": (
        command("--codec", "Plian"),
        "--codec 'Plian' is unknown; did you mean 'Plain'? All 51 are in parallel_sgd.codec; or write ",
    ),
    "file": (
        command("--codec", f"{ROOT}/examples/codecs/compere.py:Mine"),
        f"; did you mean '{ROOT}/examples/codecs/compare.py'?",
    ),
    "server codec": (command("--server-codec", "syncps2"), "did you mean 'SyncPS'?"),
    "class in a module": (command("--codec", "parallel_sgd.codec:Plian"), "has no 'Plian'; did you mean 'Plain'?"),
    "sync type": (command("--psgd", "assgd"), "did you mean 'ssgd'?"),
    "sync type with a number": (command("--psgd", "stal:4"), "; did you mean 'stale:N'?"),
    "sync types": (command("--psgd", "foo"), f", SynchronizedSGD, {', '.join(sync_forms())}; or write"),
    "assignment": (command("--block-assignment", "duplicat"), "did you mean 'DuplicateAssignment'?|did you mean 'duplicate'?"),
    "assignment with a number": (command("--block-assignment", "fixd:4"), "; did you mean 'fixed:BLOCKS'?"),
    "rule": (command("--gradient-descent", "adm"), "did you mean 'ADAMOptimizer'?"),
    "optimizer": (command("--optimizer", "psdg"), "did you mean 'PSGDOptimizer'?"),
    "callback": (command("--callback", "early_stopping:patience=3"), "unknown; did you mean 'EarlyStopping'?"),
    "argument of a callback": (command("--callback", "EarlyStopping:patienc=3"), "did you mean 'patience'?"),
    "writer": (command("--writer", "tensorbord:directory=tb"), "did you mean 'tensorboard'?"),
    "file of a table": (lambda: make_dataset("rows.parquet"), "takes what pandas.read_parquet('rows.parquet') reads"),
    "csv file": (lambda: make_dataset("a/rows.csv.gz"), "got 'a/rows.csv.gz', a file; write csv:path=a/rows.csv.gz,label="),
    "tsv file": (lambda: make_dataset("rows.tsv"), r"a file; write csv:path=rows.tsv,label=COLUMN,delimiter=\t"),
    "folder": (lambda: make_dataset(str(ROOT / "docs")), "a folder; images in folders, one per class, are imagefolder:path="),
    "data set": (lambda: make_dataset("digit"), "did you mean 'Digits'?"),
    "transform": (lambda: make_transform("shufle"), "did you mean 'Shuffle'?"),
    "policy": (lambda: checked_policy("restrat"), "got 'restrat'; did you mean 'restart'?"),
    "policy of a group": (lambda: Restarts().agree("restrat", 3), "got 'restrat'; did you mean 'restart'?"),
    "fault": (lambda: FaultPlan.parse("kil 1@e1.b3"), "got 'kil'; did you mean 'kill'."),
    "launcher": (lambda: launcher_of("slrum:/tmp"), "got 'slrum:/tmp'; did you mean 'slurm'."),
    "allreduce": (lambda: check_op("maen"), "got 'maen'; did you mean 'mean'?"),
    "layer": (lambda: by_variable({"dense1": Plain}, ["dense_1/kernel"]), "the layers dense_1; did you mean 'dense_1'?"),
    "what is sent": (lambda: Codec.of(compose.AllToAll(), send="weight"), "got 'weight'; did you mean 'weights'?"),
    "where to split": (lambda: classifier().split("dense1"), "got 'dense1'; did you mean 'dense_1'?"),
    "column": (lambda: history()["val_los"], "did you mean 'val_Loss'?"),
    "result": (
        lambda: EarlyStopping("val_Los", mode="min").monitor.value({"Loss": 1.0, "val_Loss": 1.0}),
        "did you mean 'val_Loss'?",
    ),
    "mode": (lambda: EarlyStopping("Loss", mode="mim"), "'mode' must be one of auto, min, max, got 'mim'; did you mean 'min'?"),
    "word": (lambda: nn.dataset.SimData("regresion"), "got 'regresion'; did you mean 'regression'?"),
}


@pytest.mark.parametrize("case", NEAR)
def test_it_is_suggested(case: str) -> None:
    call, message = NEAR[case]
    with pytest.raises((ValueError, KeyError)) as caught:
        call()
    assert any(each in str(caught.value) for each in message.split("|")), str(caught.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--epohcs", "3"], "unrecognized arguments: --epohcs 3; did you mean --epochs?"),
        (["--codec-parms=bits=4"], "unrecognized arguments: --codec-parms=bits=4; did you mean --codec-params?"),
        (["--on-failure", "shrnk"], "; did you mean shrink?"),
        (["--xyz"], "unrecognized arguments: --xyz\n"),
        # words of other programs, which by their letters are near to options that mean another thing
        (["--nodes", "w1.json"], "; did you mean --workers FILE, or -n N for some of it?"),
        *(([word, "w1.json"], "; did you mean --workers FILE?") for word in ("--hosts", "--hostfile", "--machinefile")),
        *(
            ([word, "4"], "; did you mean --local N for workers on this machine, or -n N for some of the node file?")
            for word in ("--np", "--nproc-per-node", "--nproc_per_node", "--num-workers", "--num_processes", "--world-size")
        ),
        (["--n", "4"], "unrecognized arguments: --n 4; did you mean -n?"),
        (["--worker", "4"], "unrecognized arguments: --worker 4; did you mean --worker-count N or --workers FILE?"),
        (["--w=4"], "; did you mean --worker-count N, --workers FILE, --wait SECONDS or --writer NAME[:KEY=VALUE,..]?"),
        (
            ["--workers", "2"],
            "must be a node file, got '2'; -n 2 takes so many workers of it, --local 2 starts as many on this machine",
        ),
        (["--bs", "8"], "; did you mean --batch-size?"),
        (["--num-epochs", "8"], "; did you mean --epochs?"),
        (["--random-state", "8"], "; did you mean --seed?"),
        (["--lr", "0.1"], "; did you mean --learn-rate?"),
        (["--train-data", "x.csv"], "; did you mean --dataset?"),
        (["--metrics", "accuracy"], "unrecognized arguments: --metrics accuracy\n"),
    ],
)
def test_options_and_choices_of_a_command(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        make_parser().parse_args(["-m", "dnn.model", *words])
    printed = capsys.readouterr().err
    assert message in printed and len(printed.splitlines()) == 3, printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["launch", "--np", "4", "train.py"], "; did you mean -n N?"),
        (["launch", "--hostfile", "hosts", "train.py"], "; did you mean --workers FILE?"),
        (["jobs", "--hosts", "w1.json"], "; did you mean --workers FILE?"),
        (["sweep", "study.toml", "--num-workers", "4"], "; did you mean -n N?"),
        (["verify", "--n", "4"], "unrecognized arguments: --n; did you mean -n?"),
        (["run", "--n", "4", "runs/a"], "did you mean -n?"),
        (["runs", "--delet", "a"], "did you mean --delete?"),
        (["jobs", "--workers", "3"], "must be a node file, got '3'; -n 3 takes so many workers of it ("),
        *(
            (
                ["sweep", "study.toml", word, "3"],
                "; did you mean 'seeds', their number or a list of them, at the top of the sweep",
            )
            for word in ("--seed", "--seeds", "--random-state")
        ),
        (["sweep", "study.toml", "--title", "a"], "; did you mean 'title' at the top of the sweep file?"),
        (["sweep", "study.toml", "--dataset", "digits"], "; did you mean 'dataset' at the top of the sweep file?"),
        (["sweep", "study.toml", "--learn-rate", "0.1"], "; did you mean 'gd_params' in [options] of the sweep file?"),
        (["sweep", "study.toml", "--lr", "0.1"], "; did you mean 'gd_params' in [options] of the sweep file?"),
        (["sweep", "study.toml", "--batch-size", "8"], "; did you mean 'block_size' in [options] of the sweep file?"),
    ],
)
def test_words_of_other_programs_are_answered_by_every_command(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        psgd_main(words)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_no_beginning_stands_for_an_option(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`verify --n 4`, for `-n 4`, was `--no-code`; `--all-my`, a right to run code."""
    parser, _ = make_commands(name)[1][name]
    options = {text for action in parser._actions for text in action.option_strings if text.startswith("--")}
    for action in parser._actions:
        action.required = False
    for text in sorted(options):
        for length in range(3, len(text)):
            if text[:length] in options:
                continue
            with pytest.raises(SystemExit, match=r"^2$"):
                parser.parse_args([text[:length]])
            assert "unrecognized arguments" in (said := capsys.readouterr().err) and "did you mean -" in said, said


def test_words_that_follow_a_script_are_its_own() -> None:
    """Also where they are the beginning of several options of ours."""
    parser, _ = make_commands("launch")[1]["launch"]
    given = parser.parse_args(["train.py", "--w", "3", "--n", "4"])
    assert (given.script, given.arguments) == ("train.py", ["--w", "3", "--n", "4"])


def test_options_of_the_worker(capsys: pytest.CaptureFixture[str]) -> None:
    code = "from rpc.agent.cli import main; main(['--log-lvel', 'INFO', '--from', 'slrum'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "did you mean slurm?" in done.stderr
    assert worker.__module__ == "rpc.agent.cli" and not capsys.readouterr().err


def test_names_of_a_package() -> None:
    """Python says so itself, going by what `dir()` shows."""
    code = "import parallel_sgd; parallel_sgd.ParalelSGD"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr.rstrip().endswith("Did you mean: 'ParallelSGD'?")


@pytest.mark.parametrize(
    ("package", "name", "here"),
    [
        (nn, "load_model", "nn.model.Model.load"),
        (nn, "SGD", "nn.gradient_descent.SGDOptimizer"),
        (nn.gradient_descent, "Adam", "nn.gradient_descent.ADAMOptimizer"),
        (nn.gradient_descent, "RMSprop", "nn.gradient_descent.RMSPropOptimizer"),
        (parallel_sgd, "train", r"parallel_sgd.ParallelSGD\(model, data, transform\).parallel\(nodes\)"),
        (parallel_sgd, "local", "parallel_sgd.local_workers"),
        (nn, "utils", r"nn.dataset.transforms.OneHot\(\) for to_categorical\(\), .*"),
        (nn.dataset, "load_digits", r"nn.dataset.Digits\(\).load\(\)"),
        (parallel_sgd, "StaleSynchronous", "parallel_sgd.batch_sync.StaleSynchronous"),
        (parallel_sgd, "Codec", "parallel_sgd.codec.Codec"),
        (parallel_sgd, "check_codec", "parallel_sgd.testing.check_codec"),
        (parallel_sgd, "ErrorFeedback", "parallel_sgd.codec.pipeline.ErrorFeedback"),
        (parallel_sgd, "rank", r"parallel_sgd.elastic.rank\(\)"),
        (parallel_sgd, "get_world_size", r"parallel_sgd.elastic.size\(\)"),
        (parallel_sgd, "DistributedOptimizer", r"parallel_sgd.ParallelSGD\(model, data, transform\).parallel\(nodes\)"),
        (parallel_sgd, "DistributedSampler", "parallel_sgd.elastic.ElasticSampler"),
        (parallel_sgd, "start_simulation", r"parallel\(nodes, clients=parallel_sgd.Clients\(..\)\) of a ParallelSGD"),
        (parallel_sgd.elastic, "world_size", r"size\(\)"),
        (parallel_sgd.elastic, "init", r"nothing: launch\(\) starts and ends the group"),
        (executor, "Client", "executor.ClusterExecutor"),
        (executor, "LocalCluster", "executor.local_nodes"),
        (executor, "as_completed", "concurrent.futures.as_completed"),
    ],
)
def test_names_of_other_libraries_are_answered(package: Any, name: str, here: str) -> None:
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'; here it is {here}$"):
        getattr(package, name)


@pytest.mark.parametrize(
    ("kind", "name", "here"),
    [
        (executor.ClusterExecutor, "gather", "[future.result() for future in futures]"),
        (executor.ClusterExecutor, "scatter", "broadcast(value)"),
        (executor.ClusterExecutor, "close", "shutdown()"),
        (executor.ClusterExecutor, "starmap", "map(fn, ..)"),
        (Communication, "Get_rank", "rank"),
        (Communication, "recv", "get_one()"),
        (JobResult, "model", "models[0]"),
        (JobResult, "predict", "models[0].predict()"),
    ],
)
def test_attributes_of_other_libraries_are_answered(kind: type[Any], name: str, here: str) -> None:
    # The error asks the class alone.
    item = kind.__new__(kind)
    with pytest.raises(
        AttributeError, match=rf"^'{kind.__name__}' object has no attribute '{name}'; here it is {re.escape(here)}$"
    ):
        getattr(item, name)
    with pytest.raises(AttributeError, match=rf"^'{kind.__name__}' object has no attribute 'quite_unknown'$"):
        item.quite_unknown  # noqa: B018


def test_the_way_that_is_told_is_there() -> None:
    """Of each name that an answer for an attribute is made of."""
    for module in (cluster, communication, run, parallel_sgd.elastic):
        kind = {cluster: executor.ClusterExecutor, communication: Communication, run: JobResult}.get(module)
        for here in module._MEANT.values():
            for word in re.findall(r"(?<![\w.])([a-z]\w+)\(", here):
                offered = (kind, parallel_sgd.elastic, concurrent.futures.Future, Collection)
                assert any(hasattr(each, word) for each in offered), here
            for path in re.findall(r"\b((?:executor|concurrent)\.[\w.]+)", here):
                attrgetter(path.partition(".")[2])(import_module(path.partition(".")[0]))


def test_a_result_has_the_words_of_keras() -> None:
    result = JobResult({0: {"Loss": 0.5}}, {}, {}, {}, "job")
    assert result["loss"] == result["Loss"] == result.get("loss") == 0.5 and "loss" in result and list(result) == ["Loss"]
    with pytest.raises(KeyError, match="no result 'acc'; there are Loss"):
        result["acc"]


@pytest.mark.parametrize(
    ("name", "here"),
    [("test_size", "test_fraction"), ("random_state", "seed"), ("target", "label"), ("drop", "index"), ("sep", "delimiter")],
)
def test_arguments_of_other_libraries_are_answered(name: str, here: str) -> None:
    """Where the callable has an argument for it; another one lists its own."""
    with pytest.raises(TypeError, match=f"^CSVDataset has no argument '{name}', but path, .*; did you mean '{here}'\\?$"):
        nn.dataset.CSVDataset("x.csv", "y", **{name: 1})
    with pytest.raises(TypeError, match=rf"^Dense has no argument '{name}', but units, [^;]*$"):
        nn.layer.Dense(1, **{name: 1})


@pytest.mark.parametrize("name", ["Plian", "plain", "PLAIN", "x", "", "Plain" * 10_000])
def test_both_halves_suggest_the_same(name: str) -> None:
    """`nn` knows none of the other packages, so it has a function of its own; there are no more than these two."""
    known = ["Plain", "QSGD", "SyncPS"]
    assert did_you_mean(name, known) == arguments.did_you_mean(name, known)


def _uses(tree: ast.Module, name: str) -> list[str]:
    return [
        f"line {node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom) and "difflib" in ast.dump(node)
    ]


def test_there_are_no_more_of_them() -> None:
    assert {found.split()[0] for found in findings(library_files(), _uses)} == {"network/names.py", "nn/extension.py"}


@pytest.mark.parametrize(
    ("program", "module", "told"),
    [
        ("from nn.layers import Dense", "nn.layers", "; here it is nn.layer"),
        ("import nn.layers.core", "nn.layers", "; here it is nn.layer"),
        ("from nn.models import Sequential", "nn.models", "; here it is nn.model"),
        ("import nn.optimizers as optimizers", "nn.optimizers", "; here it is nn.gradient_descent"),
        ("import nn.layer.dense", "nn.layer.dense", "; here it is nn.layer.Dense"),
        ("import nn.layr", "nn.layr", "; did you mean 'layer'?"),
        ("from nn.dataset.mnst import MNIST", "nn.dataset.mnst", "; did you mean 'mnist'?"),
        ("import nn.Variable", "nn.Variable", "; 'from nn import Variable' takes it, which is no module"),
        ("import nn.qwertz", "nn.qwertz", ""),
        ("import nn._x", "nn._x", ""),
        ("import network.sesion", "network.sesion", "; did you mean 'session'?"),
        ("import network.faults.plann", "network.faults.plann", "; did you mean 'plan'?"),
        ("import parallel_sgd.QSGD", "parallel_sgd.QSGD", "; here it is parallel_sgd.codec.QSGD"),
        ("import parallel_sgd.codecs.compose", "parallel_sgd.codecs", "; did you mean 'codec'?"),
        ("import rpc.Coordinator", "rpc.Coordinator", "; 'from rpc import Coordinator' takes it, which is no module"),
        ("import executor.jobs", "executor.jobs", "; did you mean 'job'?"),
    ],
)
def test_a_module_that_a_package_lacks_is_answered(program: str, module: str, told: str) -> None:
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError) as caught:
            exec(program, {})
        assert (str(caught.value), caught.value.name) == (f"No module named {module!r}{told}", module)
    # none of it is an answer to the question whether there is one
    assert find_spec(module) is None and module not in sys.modules


def test_modules_of_others_have_the_words_of_python() -> None:
    for name in ("nnn.layers", "nn_layers", "email.layers"):
        with pytest.raises(ModuleNotFoundError, match=rf"^No module named '{name.removesuffix('.layers')}(\.layers)?'$"):
            import_module(name)


KERAS = {
    "Sequential": "nn.model.SequentialModel",
    "layers": "nn.layer",
    "Dense": "nn.layer.Dense",
    "optimizers": "nn.gradient_descent",
}


def test_a_spelling_of_keras_is_answered_with_the_name_here() -> None:
    for name, here in KERAS.items():
        with pytest.raises(AttributeError, match=rf"^module 'nn' has no attribute '{name}'; here it is {here}$"):
            getattr(nn, name)
    with pytest.raises(AttributeError, match=r"^module 'nn.model' has no attribute 'Sequential'; here it is nn.model.Seq"):
        nn.model.Sequential  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"^module 'nn' has no attribute 'quite_unknown'$"):
        nn.quite_unknown  # type: ignore[attr-defined]  # noqa: B018


def test_every_layer_is_found_from_nn_and_every_answer_exists() -> None:
    answers = {}
    for name in {*nn.layer.__all__, *KERAS, "BatchNormalization", "MaxPooling2D", "EarlyStopping", "losses"}:
        with pytest.raises(AttributeError) as raised:
            getattr(nn, name)
        answers[name] = str(raised.value).partition("; here it is nn.")[2]
    assert all(answers.values()), answers
    for answer in answers.values():
        attrgetter(answer)(nn)


def test_a_new_layer_is_found_from_nn_without_another_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nn.layer, "__all__", [*nn.layer.__all__, "BrandNew"])
    with pytest.raises(AttributeError, match=r"^module 'nn' has no attribute 'BrandNew'; here it is nn.layer.BrandNew$"):
        nn.BrandNew  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(nn, "__wrapped__")


@pytest.mark.parametrize("name", ["a.b", "batch_sync.Ring.x", "", "two words", "1"])
def test_what_is_no_name_is_an_attribute_that_there_is_not(name: str) -> None:
    """Tools ask for such ones: `mock.patch`, `pkgutil`, a debugger."""
    for package in (nn, parallel_sgd, network, rpc):
        assert not hasattr(package, name)


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("batch_size", "block_size"),
        ("optimizer", "gd_type"),
        ("learning_rate", r"gd_params=\(0.01,\)"),
        ("num_workers", r"nodes=local_workers\(N\)"),
        ("world_size", r"nodes=local_workers\(N\)"),
        ("bs", "block_size"),
        ("hostfile", r"nodes=parse_worker\(N, filename=FILE\)"),
        ("data", r"ParallelSGD\(model, data\)"),
        ("metrics", r"model.setup\(loss, metrics\)"),
    ],
)
def test_an_argument_of_keras_is_answered_with_the_option(name: str, here: str) -> None:
    job = ParallelSGD(classifier(), nn.dataset.Digits())
    with pytest.raises(TypeError, match=rf"has no argument '{name}'; did you mean {here}\?$"):
        job.parallel(in_process(1), **{name: 1})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: parallel_sgd.ParallelSGD(),
            "^ParallelSGD needs the argument 'model'; its arguments are model, data, transform$",
        ),
        (
            lambda: parallel_sgd.ParallelSGD(classifier(), nn.dataset.Digits(), [Shuffle(), ImageCls()]),  # type: ignore[arg-type]
            r"^ParallelSGD 'transform' must be one transform, got list: write Shuffle\(\).add\(ImageCls\(\)\)$",
        ),
        (
            lambda: parallel_sgd.local_workers(workers=2),
            r"^local_workers\(\) has no argument 'workers', but count, ps, work_dir",
        ),
        (lambda: parallel_sgd.in_process(), r"^in_process\(\) needs the argument 'count'; its arguments are count, ps$"),
        (lambda: parallel_sgd.simulated(2, sead=1), r"^simulated\(\) has no argument 'sead', .*did you mean 'seed'"),
        (lambda: parallel_sgd.sweep(), r"^sweep\(\) needs the argument 'job'; its arguments are job, grid, seeds"),
        (lambda: parallel_sgd.Clients(sampel=1), "^Clients has no argument 'sampel', .*did you mean 'sample'"),
        (
            lambda: parallel_sgd.profiles.FixedBlockAssignment.of(block=8),
            r"^FixedBlockAssignment.of\(\) has no argument 'block', but blocks; did you mean 'blocks'",
        ),
    ],
)
def test_a_call_that_does_not_fit_is_answered_with_the_arguments(call: Callable[[], object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


def test_what_a_job_has_in_place_of_fit() -> None:
    job = digits_job()
    with pytest.raises(
        AttributeError, match=r"^'ParallelSGD' object has no attribute 'fit'; a job trains by parallel\(nodes, \.\.\)$"
    ):
        _ = job.fit  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"^'ParallelSGD' object has no attribute 'colour'$"):
        _ = job.colour  # type: ignore[attr-defined]
    assert not hasattr(job, "_repr_png_")
