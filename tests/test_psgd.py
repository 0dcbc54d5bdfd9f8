"""The command `psgd`: what it takes, what it says, how it ends."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psgd
from psgd import cli

import pytest

from network import VERSION
from network.key_files import create_key_file
from parallel_sgd import local_workers
from parallel_sgd.commands import options
from parallel_sgd.nodes import LocalNodes
from parallel_sgd.options import checks as check
from tests.parallel_sgd.networks import mlp

from .programs import environment, python
from .sources import ROOT

DIGITS = ("-m", "dnn.model", "--dataset", "digits", "--epochs", "1")


@pytest.fixture(scope="module")
def agents() -> Iterator[LocalNodes]:
    with local_workers(2) as nodes:
        yield nodes


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a saved model, in which the command is called."""
    monkeypatch.chdir(tmp_path)
    mlp().save("dnn.model")
    Path("nodes.json").write_text('{"Worker": ["127.0.0.1:1"]}')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


@pytest.fixture
def cluster(place: Path, agents: LocalNodes, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, with a worker.json of two agents, whose key is the user's."""
    monkeypatch.setenv("PSGD_KEY_FILE", str(agents.key_file))
    Path("worker.json").write_text(json.dumps({"Worker": [str(address) for _, address in agents.items()]}))
    return place


@pytest.mark.parametrize(("begin", "places"), [("import psgd", 0), ("", 2)])
def test_a_program_ends_with_a_sentence_where_no_worker_is_reached(tmp_path: Path, begin: str, places: int) -> None:
    """One that is a command of ours with it alone; another one with its own line, and none of what lies behind `parallel()`."""
    lines = [begin, "from tests.processes.training.jobs import line_job", "from network import NodeAssignment"]
    create_key_file(tmp_path / "key")
    lines.append(
        f"line_job().parallel(NodeAssignment({str(tmp_path / 'key')!r}).add(0, '127.0.0.1:1'), verbose=0, block_size=8)"
    )
    ended = python(tmp_path, "-c", "\n".join(lines))
    assert ended.returncode == 1 and "No worker is reached at 127.0.0.1:1 for node 0: " in ended.stderr.splitlines()[-1], ended
    assert ended.stderr.count('  File "') == places and ("Traceback" in ended.stderr) == bool(places)


@pytest.mark.parametrize("prompt", ["-i", "-c"])
def test_a_session_at_the_prompt_goes_on(tmp_path: Path, prompt: str) -> None:
    """No worker is reached, or Ctrl-C: what the session has in memory stays. So it is where a program opens a prompt."""
    create_key_file(tmp_path / "key")
    typed = f"""import psgd
from network import NodeAssignment
from tests.processes.training.jobs import line_job
trained, nodes = 20, NodeAssignment({str(tmp_path / "key")!r}).add(0, "127.0.0.1:1")
line_job().parallel(nodes, verbose=0, block_size=8)
trained = trained + 1
raise KeyboardInterrupt
print(2 * trained)
"""
    opens = {"-i": ["-i"], "-c": ["-c", "import code; code.interact('')"]}[prompt]
    ended = subprocess.run(
        [sys.executable, *opens],
        cwd=tmp_path,
        env=environment(tmp_path),
        input=typed,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert ended.returncode == 0 and "42" in ended.stdout, ended
    assert "No worker is reached at 127.0.0.1:1 for node 0: " in ended.stderr and "Traceback" not in ended.stderr, ended


def test_help_lists_the_commands_and_each_tells_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    for name, command in cli.COMMANDS.items():
        with pytest.raises(SystemExit, match=r"^0$"):
            cli.main([name, "--help"])
        printed = capsys.readouterr().out
        assert name != "doctor" or "a free one" not in printed  # as only who listens can have it
        assert (printed.startswith(f"usage: psgd {name} ") and "Exit codes: 0" in printed) or name == "worker"
        with pytest.raises(SystemExit, match=r"^0$"):
            cli.main(["--help"])
        assert " ".join(command.help.split()) in " ".join(capsys.readouterr().out.split())
        # only what trains ends with 3
        assert ("not started" in " ".join(printed.split())) == (name in ("submit", "run", "sweep", "launch")), name
    documented = (ROOT / "docs" / "command.md").read_text("utf-8")
    assert set(re.findall(r"^\| `([a-z-]+)", documented, re.MULTILINE)) == set(cli.COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("sumbit", r"psgd: there is no command 'sumbit'; did you mean 'psgd submit'\?"),
        ("list", r"there is no command 'list'; did you mean 'psgd runs'\?"),
        ("diff a b", r"there is no command 'diff'; did you mean 'psgd compare'\?"),
        ("resume last", r"there is no command 'resume'; did you mean 'psgd run RUN --resume RUN --epochs N'\?"),
        ("export digits-1", r"there is no command 'export'; a program writes ONNX by nn.model.Model.load\(FILE\)"),
        ("rename a b", "there is no command 'rename'; a run keeps its name"),
        ("serve x.model", r"there is no command 'serve'; a program answers rows by nn.model.Model.load\(FILE\).predict"),
        ("latest", r"there is no command 'latest'; did you mean 'psgd show'\?"),
        (
            "evaluate --dataset a.csv",
            "required: DATA.CSV; --dataset is no option; did you mean the file without an option, as in",
        ),
        ("evaluate a b --dataset c", r"--dataset c; did you mean the file without .* 'psgd evaluate MODEL DATA.CSV'\?"),
        (
            "predict --model a b.csv --output c",
            r"--model --output c; did you mean the model, .* MODEL ROWS.CSV', --out\?",
        ),
        ("predict a b.csv --output c", r"--output c; did you mean --out\?"),
        ("xyzzy", r"there is no command 'xyzzy' \('psgd --help' tells"),
        ("submit --resume last", "Which model? .* 'psgd run runs/latest --resume last' goes on with model, data and options"),
        ("submit --resume a-1", r"'psgd run a-1 --resume a-1' goes on"),
        (
            "submit -m x --lr 0.1 --batch_size 8",
            "--lr 0.1 --batch_size 8; did you mean --learn-rate, --batch-size?",
        ),
        ("submit -m dnn.model --optimizer sgd", "--optimizer 'sgd' is a rule of gradient descent: --gradient-descent sgd"),
        ("logs", r"there is no command 'logs'; did you mean 'psgd fetch'\?"),
        ("submit -m x --dataste digits", "unrecognized arguments: --dataste digits; did you mean --dataset?"),
        ("submit --epochs many", "argument --epochs: must be an integer, got 'many'"),
        ("submit -m nowhere.model", "The model file nowhere.model cannot be read: No such file or directory."),
        ("submit -m dnn.model --local 0", "--local must be a positive integer, got 0"),
        ("submit -m dnn.model --local two", "argument --local: must be a positive integer, got 'two'"),
        ("submit -m dnn.model --local", "argument --local: needs a value, as in '--local N', got none"),
        ("submit -m dnn.model --learn-rate nan", "argument --learn-rate: must be a number, got 'nan'"),
        ("submit -m dnn.model --codec Plian", "--codec 'Plian' is unknown; did you mean 'Plain'?"),
        ("submit -m dnn.model --sync-type assd", "--sync-type 'assd' is unknown"),
        ("submit -m dnn.model --psgd assd", "--psgd 'assd' is unknown"),
        ("submit -m dnn.model --op-type psdg", "--op-type 'psdg' is unknown; did you mean 'PSGDOptimizer'?"),
        (f"submit -m {__file__}", "cannot be used: it is no file of a model or of weights"),
        (
            "run dnn.model",
            "must be the job.toml of a run, or its folder, and dnn.model is a model, which 'psgd submit -m dnn.model'",
        ),
        ("sweep .", r"The sweep file must be a text in TOML with a table \[grid\], and . is a folder\."),
        ("sweep dnn.model", "The sweep file must be .*, and dnn.model is a model"),
        ("jobs --watch 0", "argument --watch: must be a number > 0, got '0'"),
        ("jobs --workers none.json", "The node file none.json does not exist; "),
        ("attach --workers none.json", "workers to ask by --workers FILE. .* 'psgd runs' lists what they left"),
        ("post-mortem x --workers none.json", "workers to ask by --workers FILE"),
        ("calibrate --workers none.json", "Workers that are started for the job need none: .* --local 2"),
        ("jobs --local 2", "unrecognized arguments: --local 2"),
        ("jobs --workers .", r"The node file \. cannot be read: Is a directory\."),
        ("jobs --workers nodes.json -n 0", "-n must be a positive integer, got 0"),
        ("jobs --workers nodes.json -n 3", "The node file nodes.json lists 1 worker, but 3 were asked for"),
        ("jobs --launch slurm:. -n 0", "-n must be a positive integer, got 0"),
        ("jobs --launch slurm:dnn.model", "The launcher 'slurm' needs the folder in which .*, got a file, 'dnn.model'"),
        ("calibrate --workers nodes.json", "'nodes' must be at least 2 workers, whose link is measured, got 1; --local 2"),
        ("compare a b -o .", r"argument -o/--output: must be a file in a directory that exists, got '\.'"),
        ("predict dnn.model rows.csv --out none/x.csv", "argument --out: must be a file in a directory that exists, got 'none"),
        ("worker --work-dir dnn.model --port 0", "The work directory /[^ ]*/dnn.model cannot be used: it is no directory"),
        ("worker --new-key --key-file dnn.model/key", "Key file dnn.model/key cannot be written: dnn.model is no directory; "),
        ("stop", "the following arguments are required: JOB"),
        ("stop ", "argument JOB: must be a job's id, as 'psgd jobs' shows it, got ''"),
        ("help runs", r"there is no command 'help'; did you mean 'psgd --help-all'\?"),
        ("version", r"there is no command 'version'; did you mean 'psgd --version'\?"),
        ("verify .", r": \. is no folder of a run: it has neither job.toml nor manifest.json"),
        ("runs --directory none", "--directory must be the directory with runs/, got 'none': there is none"),
        ("show --directory dnn.model", "--directory must be the directory with runs/, got 'dnn.model': it is a file"),
        ("doctor --workers none.json", ": The node file none.json cannot be used: No such file or directory"),
        ("page --port 65536", "argument --port: must be a number from 0 to 65535, got '65536'"),
        ("page --port -1", "argument --port: must be a number from 0 to 65535, got '-1'"),
        ("doctor --workers nodes.txt", "argument --workers: must be a node file, whose name ends in .json, got 'nodes.txt'"),
        ("doctor nowhere:x", ": HOST: The port of an address must be .*nowhere:x"),
        ("doctor nowhere --listen x", "--listen does not go with HOST or --rendezvous"),
        ("worker --slots 0", "The number of slots must be 1 or more, got 0"),
        ("worker --slots two", "argument --slots: must be a positive integer, got 'two'"),
        ("worker --port x", "argument --port: must be an integer, got 'x'"),
        ("worker --log-level lous", "argument --log-level: must be one of .*, got 'LOUS'"),
        ("launch", r"the following arguments are required: SCRIPT \("),
        ("launch none.py", "The script none.py cannot be read: No such file or directory."),
        ("launch dnn.model", "The script dnn.model is no program of Python: "),
        (f"launch -n 0 {__file__}", "-n must be a positive integer, got 0"),
        ("launch --min-worker 1 x.py", "did you mean --min-workers|cannot be read"),
        (f"launch --workers none.json {__file__}", "The node file none.json does not exist; .* leave --workers out"),
        ("worker --nonsense", r"unrecognized arguments: --nonsense \("),
        ("worker --doctor", "unrecognized arguments: --doctor"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(arguments: str, said: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, nothing on standard output, and one sentence that names the command."""
    try:
        code = cli.main(arguments.split(" "))
    except SystemExit as ended:
        code = int(ended.code or 0)
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert re.match(r"[a-z._-]+( [a-z]+)?: ", printed.err) and printed.err.count("\n") == 1
    assert re.search(said.replace("?", r"\?"), printed.err), printed.err


def test_a_command_that_is_not_complete_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """To its author: a row without its function, a function without the task, a task without its exit code."""
    rows = {
        "gone": (cli.Command("psgd.cli", "no_such", "a"), "COMMANDS names psgd.cli.no_such for 'gone', and there is no such"),
        "idle": (cli.Command(__name__, "_idle", "a"), r"_idle\(\) must return the task of 'idle', .* got None"),
        "mute": (cli.Command(__name__, "_mute", "a"), "the task of 'mute' must return its exit code, got None"),
    }
    monkeypatch.setattr(cli, "COMMANDS", {name: command for name, (command, _) in rows.items()})
    for name, (_, said) in rows.items():
        with pytest.raises(TypeError, match=said):
            cli.main([name])


def _idle(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Exit codes: 0"


def _mute(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], None]:
    return lambda given: None


TOLD = re.compile(r"(?:^\$ |`)psgd ([a-z][a-z-]*)((?: +[^`#|>&;()\n]+)?)", re.MULTILINE)


def test_commands_that_the_texts_tell_are_taken() -> None:
    """Each subcommand, and each option, in a line of a console or within a sentence."""
    _, tasks = cli.make_parser(None)
    found = 0
    guides = [path for path in (ROOT / "docs").glob("*.md") if path.name not in ("contract.md", "protocol.md")]
    for path in [*ROOT.glob("*/README.md"), *ROOT.glob("README*.md"), *guides, *(ROOT / "deploy").glob("*.*")]:
        for name, words in TOLD.findall(path.read_text("utf-8").replace("\\\n", " ")):
            assert name in tasks, f"{path.name}: psgd {name}"
            given = set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", words.partition(".py ")[0]))
            taken = {text for action in tasks[name][0]._actions for text in action.option_strings}
            assert given <= taken, f"{path.name}: psgd {name}{words}"
            found += 1
    assert found > 100


def test_the_help_of_a_job_file_tells_no_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    """The file has values in their place; those of the nodes are no part of it."""
    for command, told in (("run", {"worker.json", "in your configuration directory"}), ("submit", {"mnist", "10", "64"})):
        with pytest.raises(SystemExit, match=r"^0$"):
            cli.main([command, "--help-all"])
        defaults = set(re.findall(r"\(default: ([^)]*)\)", " ".join(capsys.readouterr().out.split())))
        assert defaults >= told and (command != "run" or defaults == {*told, *ASIDE}), defaults


# of arguments that `run` has beside the options of a job
ASIDE = {"only those that lie outside of the folder and whose hash its manifest lists"}


@pytest.mark.parametrize("command", ["submit", "run"])
def test_the_help_of_training_shows_what_one_needs_first(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Twelve options, and with --help-all each that the command takes; the usage names none of the rest."""
    shown = {}
    for asked in ("--help", "--help-all"):
        with pytest.raises(SystemExit, match=r"^0$"):
            cli.main([command, asked])
        printed = capsys.readouterr().out
        assert printed.startswith(f"usage: psgd {command} ") and "Exit codes: 0" in printed
        shown[asked] = set(re.findall(r"^  (?:-\w(?: \w+)?, )?(--[a-z-]+)", printed, re.MULTILINE)) - {"--help", "--help-all"}
    needed = {
        "model",
        "local",
        "worker-count",
        "dataset",
        "transform",
        "epochs",
        "batch-size",
        "learn-rate",
        "codec",
        "on-failure",
    }
    code = {"--allow-code", "--no-code"} if command == "run" else set()
    assert shown["--help"] == {f"--{name}" for name in (*needed, "resume", "title")} | code
    parser, _ = cli.make_parser(command)[1][command]
    taken = {
        next(t for t in action.option_strings if t.startswith("--")) for action in parser._actions if action.option_strings
    }
    assert shown["--help-all"] >= taken - {"--help", "--help-all", "--quiet", "--verbose"}


@pytest.mark.parametrize(
    ("file", "title"),
    [
        ("dnn.model", "dnn"),
        ("models/my net.v2.model", "my net.v2"),
        ("../-x..y*.model", "x-y"),
        ("\u6570\u5b57.model", "P-SGD"),
        ("\u00dcbung f\u00fcr Zo\u00eb.model", "Ubung fur Zoe"),
        ("a" * 300 + ".model", "a" * 64),
        ("", "P-SGD"),
    ],
)
def test_a_job_is_named_for_its_model_file(file: str, title: str) -> None:
    assert check.title("title", options.title_from(file)) == title


def test_it_starts_at_once_and_needs_no_command(tmp_path: Path) -> None:
    """`python -m psgd` is the same; its version loads neither nn nor NumPy."""
    finished = python(tmp_path, "-X", "importtime", "-m", "psgd", "--version")
    assert (finished.returncode, finished.stdout.strip()) == (0, VERSION)
    assert not re.search(r"\b(numpy|nn|parallel_sgd)$", finished.stderr, re.MULTILINE)
    asked = python(tmp_path, "-m", "psgd")
    assert asked.returncode == 2 and "usage: python -m psgd" in asked.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "found"),
    [("psgd su", {"submit"}), ("psgd submit --epo", {"--epochs"}), ("psgd doctor --js", {"--json"}), ("psgd submit dn", set())],
)
def test_a_shell_completes(words: str, found: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--completion", "bash"]) == 0
    asked = f'COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _psgd; echo "${{COMPREPLY[@]}}"'
    run = subprocess.run(
        ["bash", "-c", f"{capsys.readouterr().out}\n{asked}"], capture_output=True, text=True, timeout=60, check=True
    )
    assert set(run.stdout.split()) == found


@pytest.mark.processes
def test_a_job_from_submission_to_its_files(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["submit", *DIGITS, "-n", "2", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert cli.main(["jobs", "--json"]) == 0
    assert {entry["job"] for entry in json.loads(capsys.readouterr().out)["jobs"]} >= {result["job"]}
    assert cli.main(["stop", "20200101-000000-00000000"]) != 0


@pytest.mark.processes
@pytest.mark.parametrize("command", ["fetch", "attach", "stop"])
def test_agents_without_a_part_in_the_job_are_no_news(
    command: str, cluster: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Neither one that runs and had no part, nor one that is down; of one that is down and had a part it is told."""
    workers = json.loads(Path("worker.json").read_text())["Worker"]
    assert cli.main(["submit", *DIGITS, "-n", "1", "--json"]) == 0
    job = json.loads(capsys.readouterr().out)["job"]
    caplog.clear()
    Path("worker.json").write_text(json.dumps({"Worker": [*workers, "127.0.0.1:1"]}))
    assert cli.main([command, job]) == 0
    assert not capsys.readouterr().err and "Node(1)" not in caplog.text and "knows nothing" not in caplog.text
    Path("worker.json").write_text(json.dumps({"Worker": [workers[1], "127.0.0.1:1"]}))
    assert cli.main([command, job]) == 2
    assert "No worker is reached at 127.0.0.1:1 for node 1: " in capsys.readouterr().err


@pytest.mark.parametrize("command", ["fetch", "attach"])
@pytest.mark.share(2)
def test_a_run_is_fetched_as_if_it_had_been_waited_for(command: str, cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Elsewhere, where nothing of it is, and where its submitter has left it: `run`, `verify` and `report` go on from there."""
    callback = ("--callback", "CSVLogger:path=epochs.csv")
    assert cli.main(["submit", *DIGITS, "-n", "2", "--json", *callback]) == 0
    result = json.loads(capsys.readouterr().out)
    waited = Path("runs/latest").resolve()
    names = {str(path.relative_to(waited)) for path in waited.rglob("*")}
    figures = json.loads((waited / "outcome.json").read_text())["figures"]
    shutil.rmtree("runs")
    for _ in range(2):
        assert cli.main([command, result["job"], "--json"]) == 0
        fetched = json.loads(capsys.readouterr().out)["files"]
        assert fetched.keys() == {"0", "1"} and all(Path(path).is_file() for paths in fetched.values() for path in paths)
        run = Path("runs/latest").resolve()
        differs = {"identities.csv", *(f"Node-{node}-Retrieve/result.psgd" for node in range(2))}
        assert {str(path.relative_to(run)) for path in run.rglob("*")} ^ names == differs
        outcome = json.loads((run / "outcome.json").read_text())
        assert (outcome["state"], outcome["failures"], outcome["problems"]) == ("done", [], [])
        assert outcome["figures"] == pytest.approx(figures, rel=1e-6) and "dense_1" in outcome["model"]["summary"]
        assert (
            cli.main(["verify", str(run)]) == 0
            and "Epoch 1, computed again from the start on 2 workers: all" in capsys.readouterr().out
        )
        assert cli.main(["verify", str(run), "-n", "0"]) == 2
        assert "-n must be a positive integer, got 0" in capsys.readouterr().err
        (run / "outcome.json").write_text(json.dumps({**outcome, "state": "stopped", "message": "KeyboardInterrupt"}))
        (run / "manifest.json").unlink()  # as a submitter leaves it that goes before the job has ended
    # for eyes: where it lies
    assert cli.main([command, result["job"]]) == 0
    folder = f"./runs/{Path('runs/latest').resolve().name}"
    told = {"fetch": f"files    {folder}\nreport   {folder}/report.html", "attach": f"The job {result['job']} has ended: done."}
    assert capsys.readouterr().out == f"{told[command]}\n"


@pytest.mark.processes
def test_jobs_are_watched_until_ctrl_c(cluster: Path, agents: LocalNodes) -> None:
    command = [sys.executable, "-m", "psgd", "jobs", "--watch", "0.1", "--json"]
    environ = environment(cluster, PSGD_KEY_FILE=str(agents.key_file))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cluster, env=environ) as told:
        assert told.stdout is not None
        for _ in range(2):
            assert "jobs" in json.loads(told.stdout.readline())
        told.send_signal(signal.SIGINT)
        told.communicate(timeout=60)
    assert told.returncode == 130


def test_types_of_options_take_what_they_say(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert psgd.folder(str(tmp_path / "new" / "deep")) == tmp_path / "new" / "deep"
    assert (psgd.existing(str(file)), psgd.new_file(str(tmp_path / "new"))) == (file, tmp_path / "new")
    assert (psgd.positive("3"), psgd.number("-1e3"), psgd.above_0("0.5")) == (3, -1000.0, 0.5)
    for read, text in ((psgd.folder, file / "below"), (psgd.existing, "none"), (psgd.new_file, tmp_path), (psgd.number, "nan")):
        with pytest.raises(argparse.ArgumentTypeError, match="must be a"):
            read(str(text))


SCRIPT = """
import sys
import numpy
from parallel_sgd import elastic
from beside import said

if __name__ == "__main__":
    total = elastic.allreduce(numpy.ones(1), "sum")
    print(said, elastic.rank(), elastic.size(), int(total[0]), sys.argv[1:], open("data.txt").read())
    print("last", end="")
    if "fail" in sys.argv:
        raise KeyError("of the script")
    sys.exit(0)
"""


@pytest.mark.parametrize("command", ["launch -n 1 script.py", "page --job", "attach", "jobs", "doctor"])
def test_a_key_that_is_not_there(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Told at once by all commands, as any file that is missing."""
    monkeypatch.chdir(tmp_path)
    Path("script.py").touch()
    Path("worker.json").write_text('{"Worker": ["127.0.0.1:1"]}')
    name, *others = command.split()
    assert cli.main([name, "--key-file", "none", *([] if name == "doctor" else ["--workers", "worker.json"]), *others]) == 2
    told = capsys.readouterr().err
    assert re.fullmatch(r"\S+: Key file \S*none does not exist; copy it .*\n", told), told


@pytest.mark.processes
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.share(2)
def test_a_script_on_two_workers(tmp_path: Path, fails: bool) -> None:
    """Each runs it as its main program, in the folder of the command, with what lies there; what it prints has its rank."""
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "beside.py").write_text("said = 'hello'")
    (tmp_path / "data.txt").write_text("read")
    arguments = ["--fast", *(["fail"] if fails else [])]
    done = python(tmp_path, "-m", "psgd", "launch", "-n", "2", "-q", "script.py", *arguments)
    told = [f"[{rank}] hello {rank} 2 2 {arguments} read" for rank in range(2)]
    printed = done.stdout.splitlines()
    assert set(told) <= set(printed) if not fails else set(printed) <= {*told, "[0] last", "[1] last"}
    if fails:
        assert done.returncode == 1 and "KeyError: 'of the script'" in done.stderr and "script.py" in done.stderr
    else:
        assert (done.returncode, sorted(printed)) == (0, sorted([*told, "[0] last", "[1] last"])), done.stderr


def _ended(folder: Path, *arguments: str, redirect: str) -> tuple[int, str]:
    """How `psgd` ends with its standard output redirected by a shell, and what it says."""
    command = f"{sys.executable} -m psgd {' '.join(arguments)} {redirect}"
    environ = environment(folder, PSGD_KEY_FILE=os.environ["PSGD_KEY_FILE"])
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device refuses what is written")
@pytest.mark.parametrize("each", [6, pytest.param(1, marks=pytest.mark.long)])
def test_a_result_that_cannot_be_printed_has_an_exit_code_of_its_own(cluster: Path, each: int) -> None:
    """Of each command, as text and as JSON, closed, full and broken: what was done is done, and where it is, is told."""
    assert _ended(cluster, "submit", *DIGITS, "-n", "1", "-q", redirect="")[0] == 0
    (run,) = [path for path in (cluster / "runs").iterdir() if path.is_dir() and not path.is_symlink()]
    job = str(json.loads((run / "job.json").read_text())["job"])
    refused = "printed on standard output (No space left on device)"
    job_done = "The job is done, but its result could not be "
    commands = [
        (("submit", *DIGITS, "-n", "1", "-q"), job_done, "runs/dnn-2."),
        (("submit", *DIGITS, "-n", "1", "-q", "--json"), job_done, "runs/dnn-3."),
        (("run", str(run), "-q"), job_done, "runs/dnn-4."),
        (("verify", str(run)), "The run is verified, but its result could not be ", ""),
        (("runs",), "The runs are listed, but its result could not be ", ""),
        (("jobs",), "The jobs are listed, but its result could not be ", ""),
        (("jobs", "--json"), "The jobs are listed", ""),
        (("attach", job, "-q"), f"The job {job} has ended: done, but its result could not be ", "."),
        (("fetch", job, "--json"), "The files are saved, but its result could not be ", "."),
        (("post-mortem", job), "What is known of the job is collected", f"post-mortem-{job}.zip."),
        (("report", str(run)), "Not all could be ", ""),
        (("page", str(run)), "the address of the page cannot be ", ""),
        (("submit", "--help"), "Not all could be ", ""),
        (("--completion", "bash"), "Not all could be ", ""),
    ]
    for arguments, done, place in commands[::each]:
        code, told = _ended(cluster, *arguments, redirect=">/dev/full")
        assert code == 74 and done in told and refused in told and told.rstrip().endswith(place), (arguments, told)
    for redirect, why in ((">&-", "it was closed when the program began"), ("> >(true)", "Broken pipe")):
        code, told = _ended(cluster, "jobs", "--json", redirect=redirect)
        assert code == 74 and f"could not be printed on standard output ({why})" in told, told


@pytest.mark.processes
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device refuses what is written")
@pytest.mark.long
def test_a_failure_keeps_its_exit_code_where_nothing_can_be_printed(cluster: Path) -> None:
    assert _ended(cluster, "submit", *DIGITS, "-n", "1", "-q", redirect="")[0] == 0
    (run,) = [path for path in (cluster / "runs").glob("dnn-*") if not path.is_symlink()]
    wrong = [(("verify", "nowhere"), 2), (("fetch", "nothing", "--json"), 2), (("submit", "-m", "none.model", "--json"), 2)]
    for arguments, code in wrong:
        assert _ended(cluster, *arguments, redirect=">/dev/full")[0] == code
    with open(run / "job.toml", "a", encoding="utf-8") as file:
        file.write("# changed\n")
    code, told = _ended(cluster, "verify", str(run), redirect=">/dev/full")
    assert code == 1 and "The run has failed verification, but its result could not be printed" in told


@pytest.mark.processes
@pytest.mark.long
def test_texts_that_the_encoding_of_the_program_lacks_are_named(place: Path) -> None:
    """Where the locale is ASCII, Python reads other bytes of a command line as what cannot be written: option, encoding and
    what to do are told."""
    (place / "script.py").write_text("print('all')\n")
    ascii_only = {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    cases = [
        (("submit", *DIGITS, "--local", "1", "--title", "Zürich"), "--title must be at most 100 ASCII letters, "),
        (
            ("launch", "-n", "1", "--title", "Zürich", "script.py"),
            "--title must be text in the encoding of this program, ascii, ",
        ),
        (("launch", "-n", "1", "script.py", "Zürich"), "ARGUMENT must be text in the encoding of this program, ascii, "),
    ]
    for arguments, said in cases:
        done = python(place, "-m", "psgd", *arguments, **ascii_only)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and said in done.stderr, done.stderr
        assert ("the encoding of this program, ascii, cannot read" in done.stderr) == (arguments[0] == "submit")
        assert "PYTHONUTF8=1" in done.stderr or arguments[0] == "submit"
