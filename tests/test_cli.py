"""`job_submit.py` and `worker.py` as a person at a terminal meets them: options, exit codes, what is printed where."""

from __future__ import annotations

import argparse
import ast
import json
import re
import runpy
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nn
import parallel_sgd
from network import VERSION
from nn.dataset.transforms import ImageCls, Shuffle
from nn.gradient_descent import SGDOptimizer
from nn.model import Model
from parallel_sgd import ParallelSGD, in_process, local_workers
from parallel_sgd.__main__ import main
from parallel_sgd.commands import output
from parallel_sgd.commands.options import make_parser
from parallel_sgd.nodes import LocalNodes
from parallel_sgd.profiles import FixedBlockAssignment
from rpc.agent import cli as agent_cli
from tests.parallel_sgd.networks import mlp

from .programs import python
from .statements import covers

pytestmark = pytest.mark.processes
ROOT = Path(__file__).parents[1]
SUBMIT, WORKER = ROOT / "job_submit.py", ROOT / "worker.py"
OPTIONS = [
    *("--model", "--worker-count", "--workers", "--local", "--ps", "--key-file", "--wait", "--dataset", "--transform"),
    *("--epochs", "--batch-size", "--redundancy", "--block-assignment", "--psgd", "--ssgd-timeout", "--optimizer"),
    *("--sync-type", "--op-type"),
    *("--gradient-descent", "--learn-rate", "--gd-params", "--seed", "--codec", "--server-codec", "--codec-params"),
    *("--on-failure", "--stall-timeout", "--min-workers", "--max-restarts", "--checkpoint-every", "--resume", "--fault"),
    "--commit-every",
    *("--discovery", "--max-workers", "--launch"),
    *("--network-bandwidth", "--blas-threads", "--title", "--json", "--retrieve", "--post-mortem", "--version"),
    *("--jobs", "--attach", "--stop"),
]
WORKER_OPTIONS = [
    *("--listen", "--port", "--key-file", "--new-key", "--work-dir", "--slots", "--log-level"),
    *("--no-shipped-code", "--allow-code"),
    *("--from", "--rendezvous", "--advertise", "--grace", "--announce", "--end-with-parent", "--key-stdin", "--temporary"),
    *("--doctor", "--json"),
]


@pytest.fixture(scope="module")
def agents() -> Iterator[LocalNodes]:
    with local_workers(2) as nodes:
        yield nodes


@pytest.fixture
def place(agents: LocalNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with worker.json and a saved model; the agents' key is the user's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PSGD_KEY_FILE", str(agents.key_file))
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("worker.json").write_text(json.dumps({"Worker": [str(address) for _, address in agents.items()]}))
    mlp().save("dnn.model")
    return tmp_path


def submit(*arguments: str) -> int:
    return main(["-m", "dnn.model", "--dataset", "digits", "--epochs", "1", *arguments])


def script(path: Path, *arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return python(cwd, path, *arguments, **environment)


def test_help_lists_every_option(tmp_path: Path) -> None:
    finished = script(SUBMIT, "--help", cwd=tmp_path)
    assert finished.returncode == 0 and not finished.stderr
    assert [option for option in OPTIONS if not re.search(rf"{option}\b", finished.stdout)] == []
    described = re.findall(
        r"(\d+) (?:done|the job failed|wrong|not started|a node|interrupted)", " ".join(finished.stdout.split())
    )
    assert described == ["0", "1", "2", "3", "4", "5", "74", "130"]


@covers("SUB-42")
def test_it_does_what_parallel_does(place: Path, agents: LocalNodes, capsys: pytest.CaptureFixture[str]) -> None:
    """The same result, the same weights; exit code 0; the dict on standard output, nothing else."""
    options = "-n 2 --epochs 2 --batch-size 16 --block-assignment fixed:4 --gradient-descent sgd --learn-rate 0.1 --seed 5"
    options += " --codec Plain --title Line --ssgd-timeout 20000 --network-bandwidth 1e7 --psgd ssgd --optimizer psgd"
    assert submit(*options.split()) == output.EXIT_OK
    printed = ast.literal_eval(capsys.readouterr().out)
    job = ParallelSGD(Model.load("dnn.model"), nn.dataset.Digits(), Shuffle().add(ImageCls()))
    with in_process(2) as nodes:
        result = job.parallel(
            nodes,
            epoch=2,
            block_size=16,
            assignment_type=FixedBlockAssignment.of(blocks=4),
            gd_type=SGDOptimizer,
            gd_params=(0.1,),
            seed=5,
            directory="here",
        )
    assert printed == result
    trained = Model.load("Node-1-Retrieve/MODEL-Line-N(1).model")
    assert trained.store.values.tobytes() == result.models[1].store.values.tobytes()


@pytest.mark.long
def test_parts_go_by_the_names_of_their_classes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert submit("--codec", "TopK", "--op-type", "LocalUpdate", "--sync-type", "SynchronizedSGD") == output.EXIT_OK
    assert submit("--codec", "asyncps", "--op-type", "gradientaveraging", "--sync-type", "stale:2") == output.EXIT_USAGE
    assert "--codec AsyncPS needs a parameter server among the nodes: --ps\n" in capsys.readouterr().err


def test_json_for_machines(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert submit("--json") == output.EXIT_OK
    printed = capsys.readouterr()
    content = json.loads(printed.out)
    assert "worker.json lists 2 workers; the first one alone trains, as -n is not given: -n 2 takes both.\n" in printed.err
    assert sorted(content) == ["files", "job", "result"]
    assert sorted(content["result"]) == ["Loss", "accuracy"]
    assert "runs/P-SGD-1/Node-0-Retrieve/EV-P-SGD-N(0).csv" in content["files"]["0"]
    assert submit("--json", "--codec", "none.Such") == output.EXIT_USAGE
    assert json.loads(capsys.readouterr().out)["error"].startswith("--codec")


OWN = """
import os, signal
import helper
from nn.dataset import Digits
from nn.dataset.transforms import ImageCls
from parallel_sgd.codec import GlobalSettings
from parallel_sgd.codec.plain import Plain

class Mine(Plain):
    def __init__(self, node_id):
        super().__init__(node_id)
        self.seen = 0
        self.record(f"{helper.GREETING} {GlobalSettings.get_params('times')} {GlobalSettings.get_params('word')}")

    def update_blocks(self, block_weight):
        self.seen += 1
        if self.seen == 3 and self.node_id == GlobalSettings.get_params("victim", -1):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.seen == 3 and self.node_id == GlobalSettings.get_params("broken", -1):
            raise ArithmeticError("no such quantum")
        return super().update_blocks(block_weight)

class MyDigits(Digits):
    pass
"""


@pytest.fixture
def own(place: Path) -> Iterator[Path]:
    """A folder with classes of the user's own."""
    folder = place / "folder"
    folder.mkdir()
    (folder / "my_parts.py").write_text(OWN)
    (folder / "helper.py").write_text("GREETING = 'good morning'\n")
    yield folder
    for name in ("my_parts", "helper"):
        sys.modules.pop(name, None)


@pytest.mark.long
def test_classes_of_ones_own(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From a file, whose neighbours come too, and from a module beside the user."""
    code = submit(
        *("--codec", "folder/my_parts.py:Mine", "--dataset", "folder/my_parts.py:MyDigits", "--codec-params", "times=3"),
        *("--codec-params", "word=hello", "--transform", "folder/my_parts.py:ImageCls"),
    )
    assert code == output.EXIT_OK, capsys.readouterr().err
    (log,) = Path("Node-0-Retrieve").glob("Fit-0*.log")
    assert "good morning 3 hello" in log.read_text("utf-8")
    sys.modules.pop("my_parts")
    assert submit("--codec", "my_parts.Mine") == output.EXIT_OK


@covers("FD-21")
def test_a_normal_end(place: Path) -> None:
    """Exit code 0, a last line that says so, no temporary file; the fixture for all tests finds processes and ports."""
    scratch = place / "scratch"
    scratch.mkdir()
    options = ["-m", "dnn.model", "--launch", "local:2", "--dataset", "digits", "--epochs", "1"]
    ended = script(SUBMIT, *options, cwd=place, TMPDIR=str(scratch))
    assert ended.returncode == 0, ended.stderr
    assert re.fullmatch(r"model {4}\./runs/P-SGD-1/Node-0-Retrieve/MODEL-.*\.model", ended.stderr.splitlines()[-1])
    assert list(scratch.iterdir()) == []


def test_a_job_that_failed(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, the cause, where the files are, and a post-mortem where one is asked for."""
    broken = ["--codec", "folder/my_parts.py:Mine", "--codec-params", "broken=1"]
    assert submit("-n", "2", *broken, "--json", "--post-mortem") == output.EXIT_FAILED
    printed = capsys.readouterr()
    content = json.loads(printed.out)
    assert "Node(1) failed: Mine.update_blocks raised ArithmeticError: no such quantum (" in content["error"]
    assert "Node(1) failed: Mine.update_blocks raised ArithmeticError: no such quantum (" in printed.err
    assert content["job"] and any("Fit-1" in path for path in content["files"]["1"])
    with zipfile.ZipFile(f"post-mortem-{content['job']}.zip") as archive:
        assert b"Node(1)" in archive.read("summary.txt") and b"ArithmeticError: no such quantum" in archive.read("summary.txt")
    assert submit("-n", "2") == output.EXIT_OK  # the next job works


@covers("SUB-42")
def test_a_node_that_could_be_spared(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The result is printed, but the exit code is not 0."""
    options = "-n 2 --codec folder/my_parts.py:Mine --codec-params victim=1 --redundancy 2 --block-assignment duplicate"
    assert submit(*options.split()) == output.EXIT_NODE_LOST
    assert ast.literal_eval(capsys.readouterr().out)["Loss"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "--codec qsgdd",
            r"--codec 'qsgdd' is unknown; did you mean 'QSGD'\? All 51 are in parallel_sgd\.codec; or write .*file.py:Class.",
        ),
        ("-m nowhere.model", r"The model file nowhere.model cannot be read: No such file or directory\."),
        ("--codec nowhere.py:Mine", r"--codec: the file nowhere.py does not exist"),
        (f"--codec {'x' * 300}.py:Mine", r"--codec: the file x{300}.py does not exist"),
        ("--codec nowhere.Mine", r"--codec: nowhere cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        ("--codec json.Mine", r"--codec: json has no 'Mine'"),
        ("--codec json.JSONDecoder", r"--codec: json.JSONDecoder must be a class derived from Codec"),
        ("--codec wrong.py:Mine", r"--codec: wrong.py cannot be imported: SyntaxError: "),
        ("--codec json.py:Mine", r"--codec: json.py has the name of another module, json; rename it"),
        ("--dataset imagenet", r"--dataset 'imagenet' is unknown.* Known: .*Digits.*MNIST"),
        (
            "--transform twist",
            r"--transform 'twist' is unknown.* Known: Augment, .*Dirichlet, ImageCls, .*Normalize, .*OneHot, Shuffle",
        ),
        ("--transform imagecls:flaten=false", r"--transform imagecls has no argument 'flaten'; did you mean 'flatten'\?"),
        ("--dataset csv", r"--dataset csv: missing a required argument: 'path'; write csv:path=..,label=.."),
        ("--psgd xsgd", r"--psgd 'xsgd' is unknown.* Known: .*SynchronizedSGD"),
        ("--psgd stale:some", r"--psgd stale: must be an integer, got 'some'"),
        ("--psgd stale:-1", r"StaleSynchronous 'staleness' must be an integer of at least 0, got -1"),
        ("--psgd stale:2", r": --psgd StaleSynchronous\(2\) cannot run --codec Plain, "),
        ("--psgd asgd", r": --psgd AsynchronizedSGD cannot run --codec Plain, "),
        ("--optimizer x", r"--optimizer 'x' is unknown.* Known: .*PSGDOptimizer"),
        ("--codec x", r"--codec 'x' is unknown.* Known: .*EFSign, .*FedAvg, .*Plain, .*QSGD, .*TopK"),
        ("--optimizer adam", r": --optimizer 'adam' is a rule of gradient descent: --gradient-descent adam$"),
        ("--gradient-descent psgd", r": --gradient-descent 'psgd' is an optimizer: --optimizer psgd$"),
        ("--block-size 0", r": --block-size must be a positive integer, got 0"),
        ("--checkpoint-every x", r": --checkpoint-every must be 'epoch', .*, or off, got 'x'"),
        ("--min-workers 1", r": --min-workers needs --on-failure shrink, got 'fail'"),
        ("--max-workers 3", r": --max-workers needs --discovery, which finds more workers, got 3 without one"),
        ("--on-failure redundant", r": --on-failure can be 'redundant' with --redundancy of 2 or more"),
        ("--bits portable --blas-threads 2", r": --bits 'portable' takes one BLAS thread, got --blas-threads 2"),
        (
            "--optimizer shardedpsgd --codec topk",
            r": --optimizer \w+ exchanges .* and takes no other --codec than Plain, got TopK",
        ),
        ("--optimizer gd", r"--optimizer 'gd' is unknown.* Known: .*PSGDOptimizer"),
        ("--gradient-descent x", r"--gradient-descent 'x' is unknown.* Known: .*ADAMOptimizer"),
        ("--block-assignment x", r"--block-assignment 'x' is unknown.* Known: .*IIDBlockAssignment"),
        ("--block-assignment fixed:many", r"--block-assignment fixed: must be an integer, got 'many'"),
        ("--class-weight 3", r"--class-weight must be CLASS=WEIGHT with commas between them, or balanced, got '3'"),
        ("--codec-params bits", r"--codec-params must be KEY=VALUE, got 'bits'"),
        ("--gd-params 0.9", r"--gd-params come after the learning rate"),
        ("--learn-rate 0.1 --gd-params a,b", r"--gd-params must be numbers with commas between them, got 'a,b'"),
        ("--learn-rate -1", r": ADAMOptimizer --learn-rate must be a number >= 0, got -1"),
        ("--epochs 0", r": --epochs must be a positive integer, got 0"),
        ("--batch-size 2000", r"at least one batch of 2000 samples"),
        ("-n 3", r"worker.json lists 2 workers, but 3 were asked for"),
        ("-n 0", r": -n must be a positive integer, got 0"),
        ("--workers none.json", r"The node file none.json does not exist"),
        ("--workers broken.json", r"The node file broken.json is no valid JSON"),
        ("--workers empty.json", r"The node file empty.json is empty; write {\"Worker\": "),
        ("--ps", r"worker.json cannot be used: it names no parameter server"),
        ("--local 2 -n 3", r"--local 2 and -n 3 disagree"),
        ("--local 0", r": --local must be a positive integer, got 0"),
        ("--launch pbs:x", r"A launcher is written name\[:where\], with the name local, ssh, .*, got 'pbs:x'"),
        ("--launch local:2 -n 3", r"local:2 and a count of 3 disagree"),
        ("--launch local:2 --local 2", r"--launch local:2 and --local 2 both say where the workers come from"),
        ("--launch local:2 --retrieve", r"--launch local:2 starts workers of its own, which know of no earlier job"),
        (
            "--launch local:2 --post-mortem 20261120-173000-9f86d081",
            r"--launch local:2 starts workers of its own, which know of no earlier job",
        ),
        ("--discovery launcher", r"--discovery launcher needs --launch"),
        ("--wait -1", r": --wait must be a number >= 0, got -1"),
        ("--title a/b", r": --title must be able to stand in a file name"),
        ("--blas-threads many", r"--blas-threads must be an integer or auto, got 'many'"),
        ("--redundancy 2", r"Assignment --redundancy must not exceed the number of workers, got 2 for 1"),
        ("-m none.model", r"none\.model"),
        ("-m worker.json", r"The model file worker.json cannot be used: "),
        ("--dataset arraydataset", r"--dataset 'arraydataset' is unknown"),
    ],
)
@pytest.mark.share(12)
def test_a_wrong_argument(place: Path, arguments: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and one line that says what is wrong; nothing on standard output."""
    Path("broken.json").write_text("{")
    Path("empty.json").write_text("\n")
    Path("wrong.py").write_text("class Mine(\n")
    Path("json.py").write_text("")
    assert submit(*arguments.split()) == output.EXIT_USAGE
    printed = capsys.readouterr()
    assert not printed.out and "Traceback" not in printed.err
    last = printed.err.splitlines()[-1]
    assert last.startswith("job_submit.py: ") and re.search(message, last), printed.err


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            "'codec' AsyncPS needs a parameter server: parse_worker(n, ps=True)",
            "--codec AsyncPS needs a parameter server: --ps",
        ),
        ("parallel() 'model' must be a Model", "--model must be a Model"),
        (
            "'max_workers' can be at most 2; use assignment_type=FixedBlockAssignment.of(blocks=4)",
            "--max-workers can be at most 2; use --block-assignment fixed:4",
        ),
        (
            "QSGD needs the parameter 'bits': pass codec_extra_parameters={'bits': ...}.",
            "QSGD needs the parameter 'bits': pass --codec-params bits=...",
        ),
        ("--psgd Stale(2) cannot run 'codec' Plain, whose", "--psgd Stale(2) cannot run --codec Plain, whose"),
        ("Known: X. 'sgd' is a word of 'gd_type'.", "Known: X. 'sgd' is a word of --gradient-descent."),
        ("the input of 'model' is (4,)", "the input of --model is (4,)"),
        (
            "--gradient-descent 'psgd' is an optimizer: op_type='psgd'",
            "--gradient-descent 'psgd' is an optimizer: --op-type psgd",
        ),
        ("so 'op_type' X, redundancy=1, or op_type=Y", "so --op-type X, --redundancy 1, or --op-type Y"),
        (
            "it had ended, or 'checkpoint_every' was None. Run 3 has one",
            "it had ended, or --checkpoint-every was off. Run 3 has one",
        ),
        (
            "wrong key. That key is from a; 'key_file' names another.",
            "wrong key. That key is from a; --key-file names another.",
        ),
        # values, arguments of parts, and words of others stay
        ("'checkpoint_every' must be 'epoch', got 'seed'", "--checkpoint-every must be 'epoch', got 'seed'"),
        ("'on_failure' must be one of 'fail', 'wait', got 'x'", "--on-failure must be one of 'fail', 'wait', got 'x'"),
        ("QSGD 'bits' must be 2, 4 or 8, got 3", "QSGD 'bits' must be 2, 4 or 8, got 3"),
        ("--codec 'seed' is unknown", "--codec 'seed' is unknown"),
        ("--callback EarlyStopping has no argument 'seed'", "--callback EarlyStopping has no argument 'seed'"),
        ("a, such as count=100,seed=2, is", "a, such as count=100,seed=2, is"),
        ("Clients(seed=3) is wrong, and {'codec': 1} too", "Clients(seed=3) is wrong, and {'codec': 1} too"),
        ("sweep() 'epoch' must be 1", "sweep() 'epoch' must be 1"),
        ("one of 'epoch', as the run 'seed' of 2", "one of 'epoch', as the run 'seed' of 2"),
        *(
            (text, text)
            for text in (
                "The model file epoch=3.model cannot be read",
                "Searched: '/tmp/my seed=3.npz'",
                "nothing at (/a b/seed=3/x)",
                "input 'model' must have shape (4,)",
                "class 'page' has no samples",
                "The job file j.toml has no 'codec'",
            )
        ),
    ],
)
def test_an_error_of_parallel_goes_by_the_flags(error: str, said: str) -> None:
    options = make_parser().parse_args(["-m", "dnn.model", "--op-type", "psgd"])
    assert output.by_flags(error, options) == said
    assert output.by_flags("'epoch' must be 3", argparse.Namespace(json=False)) == "'epoch' must be 3", (
        "a sweep has no such flag"
    )


def test_what_code_of_the_user_says_stays(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = """raise ValueError("'seed' must be 7")"""
    Path("mine.py").write_text(f"from nn.dataset import Digits\nclass Mine(Digits):\n    def load(self):\n        {wrong}\n")
    assert submit("--dataset", "mine.py:Mine") == output.EXIT_USAGE
    assert capsys.readouterr().err.endswith("job_submit.py: 'seed' must be 7\n")


def test_a_model_or_a_data_set_that_is_not_there(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["-n", "1"]) == output.EXIT_USAGE
    assert "Give -m FILE" in capsys.readouterr().err
    monkeypatch.setenv("PSGD_DATA", str(place))
    Path("t10k-images-idx3-ubyte").touch()
    assert submit("--dataset", "mnist") == output.EXIT_USAGE
    assert "it lacks train-images-idx3-ubyte" in capsys.readouterr().err


def test_nodes_that_do_not_answer(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 4 for nobody there and for a wrong key; 2 for a key file that is none."""
    assert script(WORKER, "--new-key", "--key-file", "other", cwd=place).returncode == 0
    for key, code in (("other", output.EXIT_NETWORK), ("none", output.EXIT_USAGE)):
        assert submit("--key-file", key) == code
        assert ("key" if key == "other" else key) in capsys.readouterr().err
    Path("worker.json").write_text('{"Worker": ["127.0.0.1:1"]}')
    assert submit() == output.EXIT_NETWORK
    assert "127.0.0.1:1" in capsys.readouterr().err


@covers("SUB-15")
def test_jobs_are_listed_and_attached_to(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What runs where; a job that is over tells its outcome and hands over its files."""
    assert submit("-n", "2", "--json", "--title", "Listed") == output.EXIT_OK
    job = json.loads(capsys.readouterr().out)["job"]
    assert main(["--jobs", "--json"]) == output.EXIT_OK
    newest = json.loads(capsys.readouterr().out)["jobs"][-2:]
    shown = [(entry["job"], entry["title"], entry["node"], entry["state"], entry["outcome"]) for entry in newest]
    assert shown == [(job, "Listed", node, "done", "done") for node in (0, 1)]
    assert main(["--jobs"]) == output.EXIT_OK
    head, *_, last = capsys.readouterr().out.splitlines()
    assert head.split() == ["JOB", "TITLE", "NODE", "ADDRESS", "STATE", "SINCE", "ATTEMPT", "DRIVEN", "BY"]
    assert last.split()[:3] == [job, "Listed", "1"] and last.split()[-2:] == ["1", "-"]
    agents = json.loads(Path("worker.json").read_text())["Worker"]
    Path("one.json").write_text(json.dumps({"Worker": [agents[0], "127.0.0.1:1"]}))  # the other agent has died
    assert main(["--jobs", "--workers", "one.json"]) == output.EXIT_OK
    one, lost = (line.split() for line in capsys.readouterr().out.splitlines()[-2:])
    assert one[:5] == [job, "Listed", "0", agents[0], "done"] and lost[:6] == [job, "Listed", "1", "-", "not", "reached"]
    assert main(["--attach", "--json"]) == output.EXIT_OK  # the newest
    told = json.loads(capsys.readouterr().out)
    assert (told["job"], told["outcome"]) == (job, "done")
    assert "runs/Listed-1/Node-1-Retrieve/MODEL-Listed-N(1).model" in told["files"]["1"]  # where they were already
    assert main(["--attach", "20200101-000000-00000000"]) == output.EXIT_USAGE


def test_the_newest_job_is_that_of_all_workers(
    place: Path, agents: LocalNodes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a worker has no part in it, no older job of that worker is fetched in its place."""
    for count, title in (("2", "Both"), ("1", "Alone")):
        assert submit("-n", count, "--json", "--title", title) == output.EXIT_OK
    workers = Path("worker.json").read_text()
    (place / "elsewhere").mkdir()
    monkeypatch.chdir(place / "elsewhere")
    Path("worker.json").write_text(workers)
    capsys.readouterr()
    assert main(["--retrieve", "-n", "2", "--json", "--key-file", str(agents.key_file)]) == output.EXIT_OK
    told = json.loads(capsys.readouterr().out)["files"]
    assert [path for paths in told.values() for path in paths if "Both" in path] == [] and told["0"]
    assert sorted(path.name for path in Path("runs").glob("[A-Z]*-*")) == ["Alone-1"]


@covers("SUB-15")
def test_files_can_be_fetched_later(place: Path, agents: LocalNodes, capsys: pytest.CaptureFixture[str]) -> None:
    """The newest job, or one by id, from another process, which has no run of it yet."""
    jobs = []
    for title in ("First", "Second"):
        assert submit("-n", "2", "--json", "--title", title) == output.EXIT_OK
        jobs.append(json.loads(capsys.readouterr().out)["job"])
    for arguments, title in ((["--retrieve"], "Second"), (["--retrieve", jobs[0]], "First")):
        folder = place / f"fetched-{title}"
        folder.mkdir()
        (folder / "worker.json").write_text(Path("worker.json").read_text())
        key = ["--key-file", str(agents.key_file)]
        finished = script(SUBMIT, *arguments, "-n", "2", "--json", *key, cwd=folder)
        assert finished.returncode == 0, finished.stderr
        files = json.loads(finished.stdout)["files"]
        assert f"runs/{title}-1/Node-1-Retrieve/MODEL-{title}-N(1).model" in files["1"]
        mine = f"runs/{title}-1/Node-1-Retrieve/MODEL-{title}-N(1).model"
        trained = Model.load(folder / f"Node-1-Retrieve/MODEL-{title}-N(1).model")
        assert trained.store.values.tobytes() == Model.load(mine).store.values.tobytes()
    assert main(["--retrieve", "20200101-000000-00000000"]) == output.EXIT_USAGE
    assert "20200101-000000-00000000" in capsys.readouterr().err


# `job_submit.py` that waits for long for a second Ctrl-C, so that it may come as late as it likes
PATIENT = """
import os, runpy, sys

sys.argv[:1] = []
sys.path[0] = os.path.dirname(sys.argv[0])
from rpc.submit import completion

completion.LEAVE_SECONDS = 100.0
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def running(place: Path, *arguments: str) -> subprocess.Popen[str]:
    """It, with a long job, once its workers train."""
    options = ["-m", "dnn.model", "--dataset", "digits", "--epochs", "6000", *arguments]
    process = subprocess.Popen(
        [sys.executable, "-c", PATIENT, str(SUBMIT), *options],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "Current progress" in line or line.startswith("epoch "):
            return process
    process.communicate()
    raise AssertionError("the job did not start")


@covers("SUB-44")
def test_ctrl_c_ends_local_workers(place: Path) -> None:
    """The job is stopped, the agents are gone (a fixture looks), exit code 130; what was done is not lost."""
    process = running(place, "--local", "2")
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert not printed and "Traceback" not in errors
    # of both: one may have saved an epoch more than the other, and the job goes on with the newest state
    saved = [int(path.name.split("-")[1]) for path in place.glob("runs/latest/agent-*/*/checkpoints/*.safetensors")]
    # the line to go on, as it is but for an end
    (again,) = (line.removeprefix("go on    ") for line in errors.splitlines() if line.startswith("go on    "))
    ended = subprocess.run(
        f"{again} --epochs {max(saved) + 1}", shell=True, cwd=place, capture_output=True, text=True, check=False
    )
    assert ended.returncode == output.EXIT_OK and str(SUBMIT) in again, (again, ended)
    rows = Path("runs/P-SGD-2/Node-0-Retrieve/EV-P-SGD-N(0).csv").read_text().splitlines()
    assert [row.rpartition(",")[2] for row in rows[1:]] == [str(epoch) for epoch in range(1, max(saved) + 2)]


@pytest.mark.long
def test_ctrl_c_twice_stops_the_job(place: Path, agents: LocalNodes) -> None:
    """Once leaves it running, twice stops it; the nodes are free at once."""
    process = running(place, "-n", "2")
    assert process.stderr is not None
    process.send_signal(signal.SIGINT)
    lines = iter(process.stderr)
    assert any("Press Ctrl-C again to stop it on all nodes." in line for line in lines)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "The job was stopped by Ctrl-C." in errors and "error" not in errors.lower(), errors
    assert submit("-n", "2") == output.EXIT_OK


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--port 70000", "The port must be a number from 0 to 65535, got 70000"),
        ("--slots 0", "The number of slots must be 1 or more, got 0"),
        ("--allow-code none", "--allow-code must name a file, got 'none'"),
        (
            f"--allow-code {ROOT / 'nn/dataset/digits.npz'}",
            "--allow-code must name a list of hashes that can be read, got '/.*/digits.npz': byte 0x.* is no UTF-8 text",
        ),
        (f"--allow-code {'x' * 300}", f"--allow-code must name a file, got '{'x' * 300}'"),
        ("--listen 0.0.0.0 --port 0", "key"),
        ("--temporary --work-dir here", "--temporary makes a work directory of its own, got --work-dir 'here' too"),
    ],
)
@pytest.mark.share(6)
def test_a_worker_that_cannot_start(tmp_path: Path, options: str, message: str) -> None:
    finished = script(WORKER, *options.split(), cwd=tmp_path)
    assert finished.returncode == 2
    assert re.search(rf"worker\.py: .*{message}", finished.stderr), finished.stderr


def test_the_help_of_the_worker_and_a_new_key(tmp_path: Path) -> None:
    finished = script(WORKER, "--help", cwd=tmp_path)
    assert finished.returncode == 0
    assert [option for option in WORKER_OPTIONS if option not in finished.stdout] == []
    finished = script(WORKER, "--new-key", "--key-file", "key", cwd=tmp_path)
    assert finished.returncode == 0 and "A new key is in key" in finished.stdout
    key = (tmp_path / "key").read_bytes()
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    finished = script(WORKER, "--new-key", "--key-file", "key", cwd=tmp_path)  # a key in use is not replaced
    assert finished.returncode == 2 and "exists" in finished.stderr
    assert (tmp_path / "key").read_bytes() == key


def test_versions_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the programs, of the package, and of the package run as a module."""
    assert parallel_sgd.__version__ == VERSION
    monkeypatch.setattr(sys, "argv", ["parallel_sgd", "--version"])
    monkeypatch.delitem(sys.modules, "parallel_sgd.__main__")  # a process of its own has not imported it
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("parallel_sgd", run_name="__main__")
    assert ended.value.code == 0
    versions: set[Any] = {script(path, "--version", cwd=tmp_path).stdout for path in (SUBMIT, WORKER)}
    assert len(versions) == 1 and re.fullmatch(r"\d+\.\d+.*\n", versions.pop())


@pytest.mark.parametrize(
    ("called", "name"),
    [
        ("/usr/bin/psgd-submit", "psgd-submit"),
        ("/lib/parallel_sgd/__main__.py", "python -m parallel_sgd"),
        ("job_submit.py", "job_submit.py"),
    ],
)
@pytest.mark.share(3)
def test_the_program_goes_by_the_name_by_which_it_was_called(
    called: str, name: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Errors, the help, and the example in it; an argument of Python goes by the name of its option."""
    monkeypatch.setattr(sys, "argv", [called])
    assert submit("--codec", "SyncPS", "-n", "2") == output.EXIT_USAGE
    assert f"{name}: --codec SyncPS needs a parameter server among the nodes: --ps\n" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: {name} -m FILE") and f"Example: {name} -m" in " ".join(shown.split())


def test_the_worker_goes_by_the_name_by_which_it_was_called(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for called, name in (("/usr/bin/psgd-worker", "psgd-worker"), ("worker.py", "worker.py")):
        monkeypatch.setattr(sys, "argv", [called])
        assert agent_cli.main(["--rendezvous", "/r"]) == output.EXIT_USAGE
        assert capsys.readouterr().err.startswith(f"{name}: --rendezvous needs --from")
