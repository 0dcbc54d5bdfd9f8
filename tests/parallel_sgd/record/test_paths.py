"""A run that is passed on tells no home of anybody, and finds its files where they are."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from parallel_sgd.options.forms import Unnamed, object_text
from parallel_sgd.record.job_file import JobFile
from parallel_sgd.record.paths import as_seen, found_paths, missing_code, told_path
from rpc.support.places import data_without_places, without_places
from tests.sources import ROOT
from tests.statements import covers

from .runs import model

_CODEC = "from parallel_sgd.codec import Plain\n\nclass Mine(Plain):\n    pass\n"
_CALLBACK = (
    "from nn.callback import Callback\n\nclass Say(Callback):\n    def on_epoch_end(self, epoch, logs):\n        pass\n"
    "    def get_config(self):\n        return {}\n"
)
_PROGRAM = """
import sys
from pathlib import Path

import mycodec
import numpy as np

from network.nodes import NodeAssignment
from nn.dataset import ArrayDataset, CSVDataset
from nn.model import Model
from parallel_sgd import ParallelSGD, in_process, local_workers


class Broken(mycodec.Mine):
    def update_blocks(self, *_):
        raise RuntimeError("not today")


if __name__ == "__main__":
    here = Path.cwd()
    job = ParallelSGD(Model.load("m.model"), CSVDataset(here / "d.csv", "label"))
    options = {"epoch": 1, "directory": here, "codec": mycodec.Mine}
    with in_process(2) as nodes:
        job.parallel(nodes, job_title="inside", **options)
    x = np.random.default_rng(0).normal(size=(200, 6))
    with local_workers(2) as nodes:
        agents = NodeAssignment(nodes.key_file)
        for node, address in nodes.items():
            agents.add(node, address)
        arrays = ParallelSGD(Model.load("m.model"), ArrayDataset(x, (x[:, 0] > 0).astype(int)))
        arrays.parallel(agents, job_title="agents", checkpoint_every="epoch", on_failure="restart", **options)
        try:
            job.parallel(nodes, job_title="broken", **{**options, "codec": Broken})
        except Exception as error:
            print(type(error).__name__)
"""


class _User:
    """Somebody with a home, who trains in a folder of it."""

    def __init__(self, home: Path) -> None:
        self.home, self.place = home, home / "trials" / "mine"
        self.place.mkdir(parents=True)
        (home / "data").mkdir()

    def psgd(self, *arguments: object) -> tuple[int, str, str]:
        return self.python("-m", "psgd", *arguments)

    def python(self, *arguments: object, place: Path | None = None) -> tuple[int, str, str]:
        environment = {**os.environ, "HOME": str(self.home), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, *map(str, arguments)]
        done = subprocess.run(command, cwd=place or self.place, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> _User:
    """One with runs of many kinds."""
    made = _User(tmp_path_factory.mktemp("homes") / "ann")
    rows = np.random.default_rng(0).normal(size=(200, 6))
    text = "a,b,c,d,e,f,label\n" + "".join(",".join(map(str, row)) + f",{int(row.sum() > 0)}\n" for row in rows.round(3))
    for path, content in {
        "d.csv": text,
        "mycodec.py": _CODEC,
        "mycall.py": _CALLBACK,
        "program.py": _PROGRAM,
        "../../data/far.csv": text,
    }.items():
        (made.place / path).write_text(content)
    model().save(made.place / "m.model")
    home, place = made.home, made.place
    submit = ("submit", "-m", place / "m.model", "--local", 2, "--transform", "none", "-q")
    callbacks = ("--callback", "mycall.py:Say", "--callback", "CSVLogger:path=epochs.csv")
    own = ("--codec", "mycodec.py:Mine", *callbacks, "--title", "own", "--epochs", 1)
    for arguments in (
        (*submit, "--dataset", f"csv:path={home / 'data' / 'far.csv'},label=label", *own),
        (*submit, "--dataset", "csv:path=d.csv,label=label", "--resume", place / "runs/own-1", "--epochs", 2, "--title", "more",
         "--codec", place / "mycodec.py:Mine", *callbacks),
    ):  # fmt: skip
        code, out, err = made.psgd(*arguments)
        assert code == 0, out + err
    code, out, err = made.python("program.py")
    assert (code, out) == (0, "JobFailed\n"), out + err
    return made


NOWHERE = "which is neither where it was, nor beside the file, nor here"
KINDS = ("own-1", "more-1", "inside-1", "agents-1", "broken-1")


@pytest.mark.long
@covers("RUN-11")
@pytest.mark.processes
def test_no_file_of_a_run_names_a_home_or_a_folder_of_the_machine(user: _User) -> None:
    """Settings, manifest, logs, tracebacks and pages, of local workers, agents and this process, of good ends and bad ones."""
    runs = user.place / "runs"
    assert {path.name for path in runs.glob("[!.]*")} == {*KINDS, "latest"}
    places = [str(user.home.parent), str(ROOT), str(Path.home()), sys.prefix]
    found = []
    for path in sorted(runs.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8", "replace")
            found += [
                f"{path.relative_to(runs)}: {line[:300]}" for line in text.splitlines() for each in places if f"{each}/" in line
            ]
    assert found == []
    log = next((runs / "broken-1").glob("Node-0-Retrieve/Fit*.log")).read_text()
    assert 'File "~/trials/mine/program.py", line' in log and 'File "rpc/job/process.py", line' in log
    assert "Checkpoint after 1 epoch: ./checkpoints/" in next((runs / "own-1").glob("Node-0-Retrieve/Fit*.log")).read_text()


@covers("RUN-11")
@pytest.mark.processes
@pytest.mark.parametrize("name", KINDS[:-1])
@pytest.mark.share(4)
def test_a_run_finds_its_files_from_everywhere(user: _User, name: str, tmp_path: Path) -> None:
    """Its own folder stays where it is, and commands are called elsewhere."""
    code, out, err = user.python("-m", "psgd", "verify", user.place / "runs" / name, place=tmp_path)
    assert code == 0 and "all 4 variables equal" in out, out + err


@covers("RUN-11")
@pytest.mark.processes
@pytest.mark.long
def test_a_folder_that_moves_with_its_files_finds_them(user: _User, tmp_path: Path) -> None:
    """In the home of somebody else, and with the same relative path in the record of the run that repeats it."""
    other = _User(tmp_path / "bob")
    shutil.copytree(user.place, other.home / "got", symlinks=True)
    code, out, err = other.python("-m", "psgd", "verify", other.home / "got" / "runs" / "more-1")
    assert code == 0 and "all 4 variables equal" in out, out + err
    code, out, err = other.python("-m", "psgd", "run", "runs/inside-1", "-q", place=other.home / "got")
    assert code == 0 and "The weights equal those" in out, out + err
    text = (other.home / "got" / "runs" / "inside-2" / "job.toml").read_text()
    assert "path='../../d.csv'" in text and 'codec = "../../mycodec.py:Mine"' in text


@covers("RUN-11")
@pytest.mark.processes
@pytest.mark.long
def test_a_run_that_moves_alone_says_what_it_needs(user: _User, tmp_path: Path) -> None:
    """Its code, of which it has a copy, and its data; put beside it, or where the command is called, they are found."""
    other = _User(tmp_path / "bob")
    got = Path(shutil.copytree(user.place / "runs" / "own-1", other.place / "got"))
    copy = "Node-0-Retrieve/SOURCE-{}.py is a copy, to be looked at and put there"
    for name, option in (("mycodec", "codec"), ("mycall", "callbacks")):
        code, _, err = other.psgd("verify", "got")
        assert code == 2 and err.count("\n") == 1
        assert f"has no '{option}': it was the class " in err and f" of {name}.py, which is neither where it was" in err, err
        assert copy.format(name) in err
        shutil.copy(got / "Node-0-Retrieve" / f"SOURCE-{name}.py", other.place / f"{name}.py")
    code, _, err = other.psgd("verify", "got")
    assert code == 2 and "CSVDataset finds no file 'far.csv'. Put it there, or into a directory that PSGD_DATA names" in err
    shutil.copy(user.home / "data" / "far.csv", got)
    code, out, err = other.psgd("verify", "got", "--json")
    assert '"equal": true' in out, out + err


@pytest.mark.long
def test_the_record_is_read_as_it_was_written(user: _User) -> None:
    file = JobFile.read(user.place / "runs" / "more-1")
    assert f"path='{user.place / 'd.csv'}'" in str(file.dataset)
    assert file.options["codec"] == f"{user.place / 'mycodec.py'}:Mine"
    assert file.options["callbacks"] == [f"{user.place / 'mycall.py'}:Say", "CSVLogger:path='epochs.csv',append=None"]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("{home}/trials/runs/x-1/d.csv", "./d.csv"),
        ("{home}/trials/d.csv", "../../d.csv"),
        ("{home}/trials/it's, here/d.csv", "../../it's, here/d.csv"),
        ("{home}/data/d.csv", "~/data/d.csv"),
        ("{home}er/d.csv", "../../../../anner/d.csv"),
    ],
)
def test_paths_are_told_and_found(path: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "ann"
    monkeypatch.setenv("HOME", str(home))
    run, place = home / "trials" / "runs" / "x-1", Path(path.format(home=home))
    place.parent.mkdir(parents=True, exist_ok=True)
    place.touch()
    run.mkdir(parents=True, exist_ok=True)
    assert told_path(str(place), run) == told
    text = f"CSVDataset:path={told!r},label='../label',delimiter='/'"
    assert found_paths(f"CSVDataset:path={told!r},delimiter='/'", run) == f"CSVDataset:path={str(place)!r},delimiter='/'"
    assert found_paths(text, run, arguments=False) == text
    place.unlink()
    assert found_paths(f"CSVDataset:path={told!r}", run) == "CSVDataset:path='d.csv'"
    (run / "d.csv").touch()
    assert found_paths(f"CSVDataset:path={told!r}", run) == f"CSVDataset:path={str(run / 'd.csv')!r}"


@pytest.mark.share(2)
@pytest.mark.parametrize(
    "text",
    [
        "../\0.py:X",
        "../" + "x" * 5000 + ".py:X",
        "csv:path='../\\x'",
        "csv:path='../" + "y" * 5000 + "'",
        ",../" * 300_000,
        "='" * 300_000,
    ],
)
def test_texts_of_a_stranger_are_read_in_no_time(text: str, tmp_path: Path) -> None:
    begin = time.process_time()
    assert missing_code(found_paths(text, tmp_path), tmp_path) in ("", f"the class X of {'x' * 5000}.py, {NOWHERE}")
    assert time.process_time() - begin < 2


def test_an_argument_that_would_be_taken_for_a_path_has_no_text() -> None:
    class Odd:
        def __init__(self, label: str) -> None:
            pass

    with pytest.raises(Unnamed, match=r"Odd with label='\./x', which would be taken for a path"):
        object_text(Odd, {"label": "./x"}, str)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('File "/home/ann/codecs/mine.py", line 3', 'File "~/codecs/mine.py", line 3'),
        ("/root/x and /Users/ann/y.", "~/x and ~/y."),
        (f'File "{ROOT}/nn/plan/plan.py"', 'File "nn/plan/plan.py"'),
        (f'File "{os.path.dirname(os.path.dirname(np.__file__))}/numpy/x.py"', 'File "numpy/x.py"'),
        ("http://host/home/ann/x and a/root/b and /rooted and /homely/ann", None),
        ("in /data/runs/x-1/checkpoints/c, /data/runs/x-1: and /data/runs/x-10", "in ./checkpoints/c, .: and /data/runs/x-10"),
    ],
)
def test_texts_tell_no_home(text: str, told: str | None) -> None:
    assert without_places(text, "/data/runs/x-1") == (text if told is None else told)


def test_the_disk_is_asked_once_for_the_folder_of_many_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links in its path are looked up there, which for each of some fifty texts of a run took more than all else."""
    asked: list[str] = []
    look_up = os.path.realpath
    monkeypatch.setattr(os.path, "realpath", lambda path, **how: asked.append(str(path)) or look_up(path, **how))
    (tmp_path / "link").symlink_to(tmp_path)
    told = data_without_places({"a": [f"{tmp_path}/x", "none"] * 20, "b": ("b", 7, f"{tmp_path}/link/y")}, tmp_path / "link")
    assert told == {"a": ["./x", "none"] * 20, "b": ["b", 7, "./y"]}
    assert asked.count(str(tmp_path / "link")) == 1


def test_a_path_is_told_from_the_current_folder_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a whole where it lies elsewhere, and where another program has removed the current folder."""
    below, gone = tmp_path / "runs" / "a", tmp_path / "gone"
    monkeypatch.chdir(tmp_path)
    assert as_seen(below) == Path("runs", "a") and as_seen(tmp_path.parent) == tmp_path.parent
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert as_seen(below) == below
