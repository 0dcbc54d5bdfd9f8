"""Code that a folder names: reading runs none of it, and what runs some says so before, by file and hash."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from parallel_sgd.options import names
from parallel_sgd.options.job_options import options
from parallel_sgd.record.door import Door
from parallel_sgd.record.job_file import JobFile
from tests.statements import covers

from .runs import folder_of, psgd, train

CODE = """
from pathlib import Path
from nn.dataset import SimData
from parallel_sgd.codec import Plain
Path(__file__).with_name("ran").touch()
class Mine(Plain):
    pass
class Data(SimData):
    pass
"""
EVIL = "from pathlib import Path\nPath({mark!r}).touch()\n"
NAMING = ("codec", "ps_codec", "sync_type", "op_type", "gd_type", "assignment_type", "callbacks", "writers")
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose codec is a class of a file beside its project."""
    place = tmp_path_factory.mktemp("project")
    (place / "own_codec_of_test.py").write_text(CODE)
    sys.path.insert(0, str(place))
    try:
        import own_codec_of_test  # type: ignore[import-not-found]

        return folder_of(train(directory=place, codec=own_codec_of_test.Mine))
    finally:
        sys.path.remove(str(place))
        del sys.modules["own_codec_of_test"]


@pytest.fixture
def run(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of it all; nothing has been imported, and the mark of the import is gone."""
    path, modules = list(sys.path), set(sys.modules)
    project = Path(shutil.copytree(finished.parent.parent, tmp_path / "project"))
    (project / "ran").unlink()
    monkeypatch.chdir(project)
    yield project / "runs" / finished.name
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith(("own_codec", "evil")):
            del sys.modules[name]


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def edited(run: Path, old: str, new: str, *, fetched: bool = False) -> None:
    """Change `job.toml`, and let the manifest fit the files that it names, as an attacker does."""
    file, manifest = run / "job.toml", run / "manifest.json"
    text = file.read_text()
    assert re.search(old, text, re.MULTILINE)
    text = re.sub(old, lambda _: new, text, count=1, flags=re.MULTILINE)
    file.write_text("fetched = true\n" * fetched + text)
    content = json.loads(manifest.read_text())
    content["settings"] = Door(run).toml("job.toml")
    content["files"] = {name: digest(run / name) for name in content["files"]}
    manifest.write_text(json.dumps(content))


@pytest.mark.share(2)
@covers("RUN-6")
@pytest.mark.parametrize("command", [("verify",), ("run", "--local", "2", "-q")])
def test_code_outside_of_the_folder_that_the_manifest_lists_runs_and_is_told(
    run: Path, command: tuple[str, ...], capsys: Capture
) -> None:
    file = run.parent.parent / "own_codec_of_test.py"
    code, out, err = psgd(capsys, command[0], run, "--no-code")
    assert (code, out) == (2, "") and f"'codec': {file} (SHA-256 {digest(file)}). --no-code refuses it." in err
    assert not Path("ran").exists()
    code, _, err = psgd(capsys, command[0], run, *command[1:])
    assert code == 0 and f"needs code for 'codec': {file} (SHA-256 {digest(file)}).\n" in err and Path("ran").exists()


@covers("RUN-6")
@pytest.mark.parametrize("command", ["verify", "run"])
def test_code_in_the_folder_or_not_in_the_manifest_needs_a_word(run: Path, command: str, capsys: Capture) -> None:
    file = run.parent.parent / "own_codec_of_test.py"
    file.write_text(f"{CODE}# changed\n")
    code, out, err = psgd(capsys, command, run)
    assert (code, out) == (2, "") and f"{digest(file)}), which the manifest of the run does not list" in err
    inside = run / "evil_one.py"
    inside.write_text(CODE)  # with a hash that the manifest lists
    edited(run, r"^codec = .*", 'codec = "./evil_one.py:Mine"')
    code, out, err = psgd(capsys, command, run)
    assert (code, out) == (2, "") and "which lies in the folder of the run. Look at it, then give --allow-code" in err
    assert f"{inside} (SHA-256 {digest(inside)})" in err
    assert not Path("ran").exists() and not (run / "ran").exists()
    if command == "verify":
        code, out, err = psgd(capsys, command, run, "--allow-code")
        assert (run / "ran").exists() and f"needs code for 'codec': {inside} (SHA-256 {digest(inside)}).\n" in err
        assert code == 0 and "equal" in out
    with pytest.raises(SystemExit, match="2"):
        psgd(capsys, command, run, "--allow-code", "--no-code")
    assert "not allowed with" in capsys.readouterr().err


@covers("RUN-6")
@pytest.mark.parametrize("name", ["evil:Mine", "evil:1", "evil: E=1", "evil.py:Mine", "os:PathLike", "evil.deep:Mine"])
@pytest.mark.parametrize(
    "option",
    ["codec", "ps_codec", "sync_type", "op_type", "gd_type", "assignment_type", "callbacks", "writers", "data", "steps"],
)
@pytest.mark.share(16)
def test_what_nodes_have_told_imports_nothing(run: Path, option: str, name: str, capsys: Capture) -> None:
    """Not by any option, whatever its syntax; and a file that was not fetched imports nothing before it is allowed."""
    mark = run / "mark"
    for folder in (Path(), run, run / "Node-0-Retrieve"):
        (folder / "evil.py").write_text(EVIL.format(mark=str(mark)))
    written = f'["{name}"]' if option in ("callbacks", "writers") else f'"{name}"'
    key = {"data": "dataset", "steps": "transform"}.get(option, option)
    edited(run, r"^codec = .*\n", "")
    edited(run, rf"^{key} = .*\n|\Z", "")
    table = "data" if option in ("data", "steps") else "options"
    edited(run, rf"^\[{table}\]", f"[{table}]\n{key} = {written}")
    for command in ("run", "verify") if name == "evil:Mine" else ("run",):
        for fetched in (True, False) if name in ("evil:Mine", "evil.py:Mine") else (True,):
            text = (run / "job.toml").read_text()
            edited(run, r"\A(fetched = true\n)?", "fetched = true\n" if fetched else "")
            code, out, err = psgd(capsys, command, run)
            left_out = option == "writers" and (fetched or command == "verify")  # no result depends on writers
            unlisted = (
                command == "verify" and code == 1 and "evil.py lies in the folder, but is not listed in manifest.json" in out
            )
            assert (code, out) == (2, "") or unlisted or left_out, (command, fetched, err)
            assert not mark.exists() and not Path("ran").exists(), (command, fetched)
            (run / "job.toml").write_text(text)


def test_every_option_that_may_name_code_is_among_these() -> None:
    from parallel_sgd.options.forms import Callbacks, Parts

    named = {name for name, about in options() if about.flag is not None and isinstance(about.form, (Parts, Callbacks))}
    assert named == set(NAMING)  # and the data set, and its transform


@covers("RUN-6")
def test_a_script_of_discovery_needs_a_word_too(run: Path, capsys: Capture) -> None:
    script = run / "hosts.sh"
    script.write_text(f"#!/bin/sh\ntouch {run / 'mark'}\n")
    script.chmod(0o755)
    edited(run, r"^\[options\]", '[options]\ndiscovery = "./hosts.sh"\non_failure = "shrink"')
    for more, said in (((), "which lies in the folder of the run"), (("--no-code",), "--no-code refuses it")):
        code, out, err = psgd(capsys, "run", run, *more)
        assert (code, out) == (2, "") and f"'discovery': {script} (SHA-256 {digest(script)})" in err and said in err
        assert not (run / "mark").exists()


@pytest.mark.share(2)
@covers("RUN-6")
@pytest.mark.parametrize("command", ["report", "page"])
def test_reading_imports_nothing_that_a_folder_names(run: Path, command: str) -> None:
    """Python itself tells of each import, in a process of its own whose directory is the folder."""
    edited(run, r"^codec = .*", 'codec = "evil:Mine"')
    for folder in (run, run / "Node-0-Retrieve", run.parent.parent):
        for name in ("evil", "sitecustomize_evil", "csv_extra", "own_codec_of_test"):
            (folder / f"{name}.py").write_text(EVIL.format(mark=str(run / "mark")))
    watched = (
        "import sys, os\n"
        f"below = {str(run.parent.parent)!r}\n"
        "def hook(event, args):\n"
        "    if event == 'exec' and str(getattr(args[0], 'co_filename', '')).startswith(below): os._exit(77)\n"
        "    if event in ('subprocess.Popen', 'os.system', 'os.exec', 'os.posix_spawn'): os._exit(78)\n"
        "sys.addaudithook(hook)\n"
        "from psgd import cli\n"
        f"sys.exit(cli.main([{command!r}, {str(run)!r}]))\n"
    )
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen(
        [sys.executable, "-c", watched], cwd=run, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if command == "page":
            process.terminate()
        code, errors = process.wait(60), process.stderr.read() if process.stderr else ""
    assert line.startswith("http://" if command == "page" else "./report.html"), errors
    assert code == (-15 if command == "page" else 0) and not (run / "mark").exists()


@covers("RUN-6")
def test_help_and_the_guide_tell(capsys: Capture) -> None:
    for command in ("run", "verify"):
        with pytest.raises(SystemExit):
            psgd(capsys, command, "--help")
        out = " ".join(capsys.readouterr().out.split())
        assert "--allow-code" in out and "--no-code" in out and "SHA-256" in out
    guide = Path(__file__).parents[3] / "docs" / "security.md"
    assert "--allow-code" in guide.read_text() and "--no-code" in guide.read_text()


def test_the_files_of_a_place_are_found_without_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil_pack").mkdir()
    for file in ("evil_pack/__init__.py", "evil_pack/part.py"):
        (tmp_path / file).write_text("raise SystemExit(99)")
    assert names.files_of("evil_pack.part") == [tmp_path / "evil_pack/__init__.py", tmp_path / "evil_pack/part.py"]
    assert names.files_of("evil_pack/part.py") == [tmp_path / "evil_pack/part.py"]
    assert names.files_of("nowhere_at_all") == names.files_of("evil_pack.none") == names.files_of("sys") == []
    (tmp_path / "own_codec_hidden").mkdir()
    (tmp_path / "own_codec_hidden/__init__.py").write_text("raise SystemExit(99)")
    (tmp_path / "own_codec_hidden.py").write_text("C = int")
    with pytest.raises(names.UnknownName, match="nothing beside it hides"):  # the package would be imported in its place
        names.find_class("own_codec_hidden.py:C", object, {}, "--codec")


def test_the_job_file_lists_its_code(run: Path) -> None:
    file = run.parent.parent / "own_codec_of_test.py"
    assert dict(JobFile.read(run).code) == {"../../own_codec_of_test.py": digest(file)}
