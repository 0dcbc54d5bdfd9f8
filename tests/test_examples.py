"""The programs in examples/nn, examples/codecs and examples/training/split_learning.py run as their first lines say, and
end well on Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .programs import environment, python
from .statements import covers

pytestmark = pytest.mark.processes
ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
CODECS = sorted(path for path in (EXAMPLES / "codecs").glob("*.py") if path.name != "digits_job.py")
PROGRAMS = [*sorted((EXAMPLES / "nn").glob("*.py")), *CODECS, EXAMPLES / "training" / "split_learning.py"]


def run(folder: Path, program: str, *options: str) -> subprocess.CompletedProcess[str]:
    return python(folder, "-W", "error", EXAMPLES / program, *options)


# several programs in one process, so that they share what they import: the code with which each ends, and what it says
IN_ONE_PROCESS = """
import contextlib, io, json, runpy, sys
from pathlib import Path

ended = []
for path, *options in json.loads(sys.argv[1]):
    sys.argv, sys.path[0] = [path, *options], str(Path(path).parent)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = 0
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as error:
            code = error.code
    ended.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(ended))
"""


def run_in_one_process(folder: Path, *commands: list[str]) -> list[tuple[int, str, str]]:
    """Exit codes, outputs and errors."""
    finished = python(folder, "-W", "error", "-c", IN_ONE_PROCESS, json.dumps(commands))
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def test_help_and_the_ways_to_run_it(tmp_path: Path) -> None:
    """Every command in the first lines names the file where it is, and options that exist."""
    for path, (code, said, _) in zip(
        PROGRAMS, run_in_one_process(tmp_path, *([str(path), "--help"] for path in PROGRAMS)), strict=True
    ):
        assert code == 0 and said.startswith("usage:"), path
        commands = re.findall(r"^python (\S+)(.*?)(?:   .*)?$", path.read_text("utf-8").split('"""')[1], re.MULTILINE)
        assert commands, path
        for program, arguments in commands:
            assert ROOT / program == path
            assert all(option in said for option in re.findall(r"(?<!\S)--?\w+", arguments)), path


def test_no_folder_of_examples_hides_a_package(tmp_path: Path) -> None:
    """Python looks first in a program's own folder: that of survive_a_crash.py has a folder `rpc`, and no PYTHONPATH helps."""
    assert (EXAMPLES / "rpc").is_dir() and (EXAMPLES / "nn").is_dir()
    environ = {name: value for name, value in environment(tmp_path).items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", "import executor, nn, rpc; print(executor.__file__, nn.__file__, rpc.__file__)"]
    finished = subprocess.run(command, cwd=EXAMPLES, env=environ, capture_output=True, text=True, check=True)
    assert finished.stdout.split() == [str(ROOT / name / "__init__.py") for name in ("executor", "nn", "rpc")]


def test_linear_regression(tmp_path: Path) -> None:
    finished = run(tmp_path, "nn/linear_regression.py")
    assert finished.returncode == 0, finished.stderr
    assert re.search(r"^Trained: +y = 3\.0\d\d x -[12]\.\d+\nLeast squares: y = 3\.0", finished.stdout, re.MULTILINE)
    assert run(tmp_path, "nn/linear_regression.py", "--slope", "0.5", "--noise", "1").returncode == 0
    assert run(tmp_path, "nn/linear_regression.py", "--epochs", "1").returncode == 1


@pytest.mark.long
def test_mnist_cnn_without_mnist(tmp_path: Path) -> None:
    finished = run(tmp_path, "nn/mnist_cnn.py", "--save", "cnn.model")
    assert finished.returncode == 0, finished.stderr
    assert "MNIST is not on this machine" in finished.stdout
    assert re.search(r"^Accuracy on images it has not seen: 0\.9\d+$", finished.stdout, re.MULTILINE)
    assert finished.stderr.count("Epoch ") == 6
    assert (tmp_path / "cnn.model").is_file()


def test_mnist_cnn_says_where_it_looked(tmp_path: Path) -> None:
    finished = run(tmp_path, "nn/mnist_cnn.py", "--directory", ".")
    assert finished.returncode == 2
    assert "error: MNIST needs 4 files in one directory" in finished.stderr and "Traceback" not in finished.stderr


@pytest.mark.long
def test_the_character_transformer_writes(tmp_path: Path) -> None:
    (tmp_path / "rhyme.txt").write_text("round and round the garden like a teddy bear, one step, two step. " * 400, "utf-8")
    finished = run(tmp_path, "nn/character_transformer.py", "rhyme.txt", "--epochs", "12", "--characters", "200")
    assert finished.returncode == 0, finished.stderr
    bits = re.search(r"^(\d\.\d\d) bits per character on text it has not seen \(4\.\d\d before", finished.stdout, re.MULTILINE)
    assert bits and float(bits[1]) < 1
    written = finished.stdout.rpartition("-" * 80 + "\n")[2]
    assert len(written) == 201 and "two step. round" in written


@pytest.mark.long
def test_the_language_model_beats_bigrams_and_two_workers_have_its_bits(tmp_path: Path) -> None:
    """In the tune each note has several that follow it, which the note before tells apart."""
    (tmp_path / "tune.txt").write_text("do re mi do fa re so mi la do ti so fa re la ti mi so. " * 900, "utf-8")
    options = ["--vocabulary", "290", "--length", "32", "--features", "32", "--epochs", "8", "--rate", "0.02", "--write", "30"]
    finished = run(tmp_path, "nn/language_model.py", "tune.txt", *options)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    # Both train by the rule of the example, of which a job was not told.
    assert "warning" not in finished.stdout + finished.stderr
    assert "The weights of 2 workers are equal to the last bit." in finished.stdout
    losses = re.search(r"it has not seen: (\d\.\d+), of the best bigram model (\d\.\d+)\.$", finished.stdout, re.MULTILINE)
    assert losses and float(losses[1]) < float(losses[2]) - 0.1
    written = finished.stdout.rpartition("-" * 80 + "\n")[2]
    notes = re.findall(r"\b[a-z]+", written)[1:-1]
    assert len(notes) > 15 and {*notes} <= {"do", "re", "mi", "fa", "so", "la", "ti"}


@pytest.mark.long
@pytest.mark.parametrize("at", [pytest.param("dropout_1", marks=pytest.mark.long), "dense_2"])
def test_split_learning_equals_the_whole(tmp_path: Path, at: str) -> None:
    finished = run(tmp_path, "training/split_learning.py", "--local", "2", "--epochs", "2", "--at", at)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.endswith("The weights equal those of the undivided network, trained in one process.\n")


@pytest.mark.long
@pytest.mark.parametrize("name", [pytest.param("hello_world", marks=pytest.mark.long), "dc_asgd"])
def test_codecs_train_on_local_workers(tmp_path: Path, name: str) -> None:
    """A codec of the program's own, and one with a server and without batches in common; `compare.py` runs them all."""
    finished = run(tmp_path, f"codecs/{name}.py", "--local", "2", "--epochs", "5")
    assert finished.returncode == 0, finished.stderr
    assert re.search(r"2 workers, 80 steps in .*: accuracy 0\.[89]\d+ .*\n[\d,]+ bytes per worker and step", finished.stdout)
    assert ("before a gradient arrived" in finished.stdout) == (name == "dc_asgd")


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ([], 2, "argument -n: The node file worker.json does not exist"),
        (
            ["-n", "1"],
            1,
            "No worker is reached at 127.0.0.1:1 for node 0: Connection refused. Start one on this machine with "
            "'psgd worker --port 1'. With --local 1 the program",
        ),
    ],
)
@pytest.mark.parametrize("program", ["codecs/hello_world.py", "rpc/helloworld.py"])
@pytest.mark.share(8)
def test_who_has_no_workers_reads_a_sentence(tmp_path: Path, program: str, options: list[str], code: int, message: str) -> None:
    if "-n" in options:
        (tmp_path / "worker.json").write_text('{"Worker": ["127.0.0.1:1"]}')
    key = ["-c", f"from network.key_files import create_key_file; create_key_file({str(tmp_path / 'config/psgd/key')!r})"]
    subprocess.run([sys.executable, *key], env=environment(tmp_path), check=True)
    finished = run(tmp_path, program, *options)
    assert finished.returncode == code
    last = finished.stderr.splitlines()[-1]
    assert last.startswith(f"{Path(program).name}: error: {message}") and "Traceback" not in finished.stderr


WRONG = {
    f"codecs/compare.py --picture {'x' * 300}/codecs.png": "argument --picture: must be a file in a directory that exists",
    "codecs/top_k.py --directory file": "argument --directory: must be a directory, there or not yet there, got 'file'",
    "executor/helloworld.py --workers 3": "unrecognized arguments: --workers 3",
    "executor/pi.py --tasks 0": "argument --tasks: must be a positive integer, got '0'",
    "nn/character_transformer.py none.txt": "CharacterText finds no file 'none.txt'",
    "nn/language_model.py none.txt": "[Errno 2] No such file or directory: 'none.txt'",
    "executor/pi.py --tasks": "argument --tasks: needs a value, as in '--tasks TASKS', got none",
    "nn/language_model.py --workers two": "argument --workers: must be an integer, got 'two'",
    "nn/language_model.py --workers 7": "argument --workers: must be one of 0, 1, 2, got 7",
    "training/split_learning.py -n 3": "argument -n: must be one of 2, got 3",
    "nn/language_model.py --features 12": "argument --features: must be a multiple of 8, got 12",
    "nn/language_model.py --vocabulary 255": "argument --vocabulary: must be at least 256, got 255",
    "rpc/reduce_sum.py --local two": "argument --local: must be a positive integer, got 'two'",
    "training/split_learning.py --local 2 --at none": "argument --at: split() 'at' must be one of the layers dense_1,",
}


def test_options_of_all_programs_are_read_in_one_way() -> None:
    """That of the commands, which says what is expected: argparse by itself tells the name of a type."""
    programs = [path.read_text() for path in EXAMPLES.rglob("*.py")]
    assert not [text[:80] for text in programs if "ArgumentParser(" in text]
    assert sum("psgd.OptionParser(" in text for text in programs) > 10


@pytest.mark.long
def test_a_wrong_option_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    commands = [[str(EXAMPLES / program), *options] for program, *options in map(str.split, WRONG)]
    for (path, *_), message, (code, out, err) in zip(
        commands, WRONG.values(), run_in_one_process(tmp_path, *commands), strict=True
    ):
        assert (code, out) == (2, ""), err
        assert err.splitlines()[-1].startswith(f"{Path(path).name}: error: {message}"), err
        assert "Traceback" not in err


@pytest.mark.long
def test_ctrl_c_is_quiet_while_programs_import(tmp_path: Path) -> None:
    """In the stead of what all import they find modules that are interrupted; no program can escape."""
    for name in ("numpy", "msgpack"):  # a worker needs NumPy for arrays only, which nobody sends it
        (tmp_path / f"{name}.py").write_text("raise KeyboardInterrupt")
    environ = environment(tmp_path, PYTHONPATH=os.pathsep.join((str(tmp_path), str(ROOT))))
    programs = [ROOT / "worker.py", ROOT / "job_submit.py", *sorted(EXAMPLES.rglob("*.py"))]
    for path in programs:
        finished = subprocess.run([sys.executable, str(path)], env=environ, cwd=tmp_path, capture_output=True, check=False)
        assert (finished.returncode, finished.stdout, finished.stderr) == (130, b"", b""), path


@pytest.mark.long
def test_a_late_and_a_killed_worker_change_nothing(tmp_path: Path) -> None:
    finished = run(tmp_path, "codecs/stragglers.py", "--local", "3", "--victim", "0", "--epochs", "2")
    assert finished.returncode == 0, finished.stderr
    assert re.search(r"slept for 1\.0 s in batch 20: .*; workers 0, 1, 2 have the same weights", finished.stdout)
    assert re.search(r"was killed in batch 20: .*; workers 1, 2 have the same weights", finished.stdout)


@pytest.mark.long
def test_every_codec_of_the_folder_is_compared(tmp_path: Path) -> None:
    finished = run(tmp_path, "codecs/compare.py", "--epochs", "1", "--workers", "3", "--picture", "all.svg")
    assert finished.returncode == 0, finished.stderr
    _, *rows, picture = finished.stdout.splitlines()
    assert len(rows) >= len(CODECS) - 1 and all(re.match(r"\w+ +0\.\d{4} +[\d,]+ +\d+\.\dx ", row) for row in rows)
    same = {row.split()[1] for row in rows if row.split()[0] in ("Plain", "SyncPS")}
    assert len(same) == 1
    assert (tmp_path / "all.svg").is_file() == picture.startswith("The picture")


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "options", "sign"),
    [
        ("nn/character_transformer.py", [], "Activations per sample"),
        pytest.param(
            "training/split_learning.py", ["--local", "2", "--epochs", "5000"], "Two workers train", marks=pytest.mark.long
        ),
        ("codecs/top_k.py", ["--local", "2", "--epochs", "1500"], "epoch "),
    ],
)
def test_ctrl_c_ends_it_without_a_traceback(tmp_path: Path, program: str, options: list[str], sign: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-u", str(EXAMPLES / program), *options],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if sign in line:
                break
        process.send_signal(signal.SIGINT)
        said += process.stdout.read()
        assert process.wait(60) == 130, said
    assert "Traceback" not in said, said


@covers("EL-19", "EL-28")
@pytest.mark.long
def test_four_workers_survive(tmp_path: Path) -> None:
    """One killed, one stopped, one to spare that comes in; the story is told without tracebacks of bystanders."""
    finished = run(tmp_path, "survive_a_crash.py")
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines()[-1] == "The final weights are equal to the last bit."
    told = finished.stderr
    assert told.count("Traceback") == 0 and len(told.splitlines()) < 80, told
    assert "epoch 2, batch 4: killed by signal 9 (SIGKILL)" in told
    assert "epoch 3, batch 2: stuck, silent for " in told


@covers("FD-1", "FD-18", "EL-19")
@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("callback.py", "accuracy"),
        ("loop.py", "stuck, silent for "),
        ("elastic.py", "a round began with 2 workers in epoch 1, 2 workers in epoch 2."),
    ],
)
@pytest.mark.share(3)
def test_recovery(tmp_path: Path, program: str, said: str) -> None:
    """The callback, the loop, and the elastic function."""
    finished = run(tmp_path, f"recovery/{program}")
    assert finished.returncode == 0, finished.stderr
    if program == "elastic.py":
        assert "Round 2 begins with 2 workers." in finished.stderr and "INFO" not in finished.stderr, finished.stderr
    assert said in finished.stdout
