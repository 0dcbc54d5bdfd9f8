"""The list of a release finds what is lacking, and runs its commands once for each commit."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from network import VERSION

from . import release
from .browser.pictures import lacking
from .sources import ROOT


def project(folder: Path, **changes: str) -> Path:
    """Make a repository that could be released, but for the `changes`, text by name of a file with `_` for `/` and `.`."""
    files = {
        "network/__init__.py": 'VERSION = "1.2.0"\n',
        "CHANGELOG.md": "# Changes\n\n## 1.2.0 (2026-12-01)\n\n## 1.1.0 (2026-11-01)\n",
        "CITATION.cff": "version: 1.2.0\ndate-released: 2026-12-01\n",
        "tests/equivalence/test_release.py": 'RESULTS = {("1.2.0", "2.4.6"): ""}\n',
        ".gitignore": ".venv/\nran\n",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(changes.get(re.sub(r"\W", "_", name), text))
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=me", "-c", "user.email=me@here", "commit", "-qm", "Begin")
    return folder


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True)


def commit(folder: Path) -> None:
    git(folder, "-c", "user.name=me", "-c", "user.email=me@here", "commit", "-q", "--allow-empty", "-m", "Go on")


@pytest.mark.parametrize(
    ("changes", "lacks"),
    [
        ({}, ""),
        (
            {"CHANGELOG_md": "## 1.2.0 (unreleased)\n"},
            "CHANGELOG.md begins with '## 1.2.0 (unreleased)', not '## 1.2.0 (DATE)'",
        ),
        ({"network___init___py": 'VERSION = "1.2"\n'}, "VERSION '1.2'"),
        (
            {"CITATION_cff": "version: 1.1.0\ndate-released: 2026-11-01\n"},
            "'date-released: 2026-12-01', got '1.1.0' and '2026-11-01'",
        ),
        ({"CHANGELOG_md": "## 1.2.0 (2026-11-31)\n"}, "CHANGELOG.md has the date 2026-11-31: "),
        ({"tests_equivalence_test_release_py": "RESULTS = {}\n"}, "has no row of 1.2.0"),
    ],
)
def test_what_is_lacking_is_told(
    changes: dict[str, str], lacks: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = release.unmet(project(tmp_path, **changes))
    assert any(lacks in each for each in found) if lacks else found == []
    assert capsys.readouterr().out.count("[ ]") == len(found)


def test_what_is_not_committed_or_tagged_already_is_told(tmp_path: Path) -> None:
    place = project(tmp_path)
    git(place, "tag", "v1.2.0")
    commit(place)
    (place / "new.txt").write_text("new")
    assert release.unmet(place) == ["the tag v1.2.0 is there: raise VERSION", "git status tells changes"]


def test_a_tag_of_this_commit_is_no_other_release(tmp_path: Path) -> None:
    place = project(tmp_path)
    git(place, "tag", "v1.2.0")
    assert release.unmet(place) == []
    commit(place)
    assert release.unmet(place) == ["the tag v1.2.0 is there: raise VERSION"]
    git(place, "tag", "-d", "v1.2.0")
    git(place, "tag", "v1.10.0", "HEAD~1")
    git(place, "tag", "v1.9.9", "HEAD~1")
    assert release.unmet(place) == ["v1.10.0 is later than VERSION '1.2.0'"]


def steps(*commands: str) -> list[release.Step]:
    return [release.Step(command) for command in commands]


def test_commands_run_once_for_a_commit_and_end_at_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = project(tmp_path)
    (place / "ran").mkdir()
    listed = steps(f"{sys.executable} -c pass", "mkdir ran/first", "mkdir ran/absent/second", "mkdir ran/third")
    assert release.walk(place, listed, run=False) == 4 and not (place / "ran/first").exists()
    assert release.walk(place, listed, run=True) == 2 and (place / "ran/first").exists()
    (place / "ran/absent").mkdir()
    assert release.walk(place, listed, run=True) == 0  # `mkdir ran/first` would fail, were it run again
    printed = capsys.readouterr().out
    assert re.search(r"^\[ \] mkdir ran/absent/second: exit code 1 after \d+\.\d minutes: (\S+)$", printed, re.MULTILINE)
    assert "[ ] mkdir ran/third\n2 of 10 are left.\n" in printed, "what was not run is listed, too"
    assert (place / "ran/third").exists() and "All is done. Now: git tag -s v1.2.0 -m 'Release 1.2.0'" in printed
    assert re.search(r"^\[x\] mkdir ran/third: \d+\.\d minutes$", printed, re.MULTILINE)
    commit(place)
    assert release.walk(place, listed, run=False) == 4


def test_what_has_passed_elsewhere_is_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = project(tmp_path)
    (place / "ran").mkdir()
    listed = steps("mkdir ran/absent/first", "mkdir ran/second")
    assert release.walk(place, listed, run=True, elsewhere=["mkdir ran/absent/first"]) == 0
    assert "[x] mkdir ran/absent/first: on another machine\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "said"),
    [("touch new.txt", "git status tells changes"), ("git checkout -q HEAD~1", "HEAD is another commit now")],
)
def test_a_command_counts_for_the_commit_alone_that_it_has_tried(
    command: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = project(tmp_path)
    commit(place)
    assert release.walk(place, steps(command, "mkdir .venv/second"), run=True) == 2
    assert f"[ ] {command}: passed, but {said}: once more\n" in capsys.readouterr().out
    assert not (place / ".venv/second").exists()


def test_what_this_machine_lacks_is_told_before_anything_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = project(tmp_path)
    listed = [*steps("mkdir ran"), release.Step("mkdir page", lambda: "a browser is not here")]
    assert release.walk(place, listed, run=True) == 2 and not (place / "ran").exists()
    assert "[ ] mkdir page: a browser is not here\nNothing was run: " in capsys.readouterr().out
    assert release.walk(place, listed, run=True, elsewhere=["mkdir page"]) == 0, "what has passed needs nothing more"


def test_what_can_be_run_is_run_where_one_fails_and_another_is_lacking(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All that is wrong with a commit is found in one walk; what is wrong with the walk itself ends it."""
    place = project(tmp_path, CHANGELOG_md="## 1.2.0 (unreleased)\n")
    (place / "ran").mkdir()
    page = release.Step("mkdir ran/page", lambda: "a browser is not here")
    listed = [page, *steps("mkdir ran/absent/first", "mkdir ran/second", "touch new.txt", "mkdir ran/third")]
    assert release.walk(place, listed, run=True) == 7 and not (place / "ran/second").exists()
    assert release.walk(place, listed, run=True, keep_going=True) == 6
    said = capsys.readouterr().out
    assert "[ ] mkdir ran/page: a browser is not here\n[ ] mkdir ran/absent/first: exit code 1 after" in said
    assert (
        "[ ] touch new.txt: passed, but git status tells changes: once more\n[ ] mkdir ran/third\n6 of 11 are left.\n" in said
    )
    assert (place / "ran/second").exists() and not any((place / "ran" / name).exists() for name in ("page", "third"))
    assert release.walk(place, listed, run=True, keep_going=True) == 7
    assert "Nothing was run" in capsys.readouterr().out, "what is not committed can not be told about a commit"


def test_what_a_command_says_is_shown_kept_and_summed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also the numbers of tests, why some were skipped, and how long it took the last time, for the next commit."""
    place = project(tmp_path)
    (place / ".venv").mkdir()
    (place / ".venv/said.py").write_text(
        """
for part, skipped in (("one", 3), ("other", 0)):
    print(f"{part} | \u2713 ...")
    for line in range(2 if skipped else 0):
        print(f"{part} | SKIPPED [{line + 1}] tests/a/test_b.py:{line + 7}: onnxruntime is not installed: pip, or not")
    also = f", {skipped} skipped, 7 warnings" if skipped else ""
    print(f"{part} | 1204 passed{also} in 63.20s (0:01:03)")
""",
        "utf-8",
    )
    command = f"{sys.executable} .venv/said.py"
    assert release.walk(place, steps(command), run=True) == 0
    said = capsys.readouterr().out
    assert "one | \u2713 ...\n" in said and "one | \u2713" in release.Record(place).log(command).read_text("utf-8")
    counts = r"\d\.\d minutes; 2408 passed; 3 skipped\n      3 x onnxruntime is not installed: pip, or not\n"
    assert re.search(counts, said)
    assert release.walk(place, steps(command), run=False) == 0
    assert re.search(counts, capsys.readouterr().out), "the list tells it at any time"
    commit(place)
    assert release.walk(place, steps(command), run=False) == 1
    assert re.search(r"\[ \] \S+ .venv/said.py: the last time: \d\.\d minutes\n", capsys.readouterr().out)
    assert release.walk(place, steps(command), run=True) == 0
    assert re.search(r"said.py, at \d\d:\d\d; the last time: \d\.\d minutes\n", capsys.readouterr().out)


def test_a_process_that_a_command_leaves_behind_does_not_hold_the_walk(tmp_path: Path) -> None:
    """It has the output of the command open for as long as it lives."""
    place = project(tmp_path)
    (place / ".venv").mkdir()
    (place / ".venv/leaves.py").write_text(
        "import subprocess\nleft = subprocess.Popen(['sleep', '600'])\nopen('.venv/left', 'w').write(str(left.pid))\n"
    )
    try:
        assert release.walk(place, steps(f"{sys.executable} .venv/leaves.py"), run=True) == 0
        os.kill(int((place / ".venv/left").read_text()), 0)  # it lives
    finally:
        os.kill(int((place / ".venv/left").read_text()), signal.SIGKILL)


def test_programs_of_pictures_that_are_not_here_are_told_in_a_sentence(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path), "CHROMIUM": str(tmp_path / "chromium"), "PYTHONPATH": str(ROOT)}
    assert lacking(environ) == ["node", "npm", environ["CHROMIUM"]]
    told = subprocess.run(
        [sys.executable, "-m", "tests.browser.pictures"], env=environ, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stdout) == (1, "") and "Traceback" not in told.stderr
    assert f"not here: node, npm, {environ['CHROMIUM']}; Debian has them: apt-get install " in told.stderr
    for name in ("node", "npm", "chromium"):
        (tmp_path / name).touch(0o755)
    assert lacking(environ) == []


def test_ctrl_c_ends_the_walk_with_its_command(tmp_path: Path) -> None:
    """The command has the time that it takes to end, nothing of it is noted, and the walk goes on with it."""
    place = project(tmp_path)
    slow = """
import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: sys.exit('in order'))
print('on', flush=True)
time.sleep(60)
"""
    (place / ".venv").mkdir()
    (place / ".venv/slow.py").write_text(slow)
    program = f"""
import sys
from tests import release
release.ROOT = release.Path({str(place)!r})
release.STEPS = [release.Step("mkdir .venv/first"), release.Step({f"{sys.executable} .venv/slow.py"!r})]
sys.argv[1:] = ["--run"]
sys.exit(release.main())
"""
    walk = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert walk.stdout is not None
    while walk.stdout.readline() != "on\n":
        assert walk.poll() is None
    os.killpg(walk.pid, signal.SIGINT)  # as a terminal does
    said = walk.communicate(timeout=60)[0]
    assert walk.returncode == 130 and said.startswith("in order\n") and "Traceback" not in said, said
    ends = r"slow\.py: exit code 130 after \d+\.\d minutes: \S+slow-py\.log\nCalled again, it goes on with this command\.\n$"
    assert re.search(ends, said), said
    assert list(release.Record(place).passed) == ["mkdir .venv/first"]


def test_the_files_of_this_project_agree() -> None:
    assert release.version(ROOT) == VERSION == release.read(ROOT, "CITATION.cff", r"^version: (.+)$")
    assert release.read(ROOT, "CHANGELOG.md", r"^## ([\d.]+)") == VERSION
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert {step.command.split()[1] for step in release.STEPS} <= targets


@pytest.mark.parametrize(("flags", "keeps_going"), [((), False), (("-k",), True), (("VENV=.venv-k",), False)])
def test_make_k_keeps_going(flags: tuple[str, ...], keeps_going: bool) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    told = subprocess.run(
        ["make", "--dry-run", *flags, "release"], cwd=ROOT, env=environ, capture_output=True, text=True, check=True
    )
    assert told.stdout.splitlines()[-1].endswith("-m tests.release --run " + "--keep-going" * keeps_going)


def test_the_site_is_built_once_while_what_it_tells_of_stays(tmp_path: Path) -> None:
    """`make browser` after `make docs` looks at the site that is there."""
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text("utf-8"))
    requirements = {path.relative_to(ROOT).as_posix() for path in (ROOT / "requirements").glob("*.txt")}
    made = [f".venv/{name}" for name in (".made", ".base", ".dev", ".docs")]
    files = [
        "pyproject.toml",
        "mkdocs.yml",
        "docs/page.md",
        "docs/my notes: x.md",
        "nn/layer.py",
        *requirements,
        *made,
        "site/.built",
    ]
    for folder in ("examples", "deploy", "network", "rpc", "executor", "parallel_sgd", "psgd"):
        (tmp_path / folder).mkdir()
    for age, name in enumerate(files):  # each later than those before
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (1e9 + age, 1e9 + age))
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}

    def builds(target: str) -> bool:
        command = ["make", "--dry-run", target]
        told = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=True)
        return "mkdocs build" in told.stdout

    assert not builds("docs") and not builds("browser")
    for name in ("docs/page.md", "nn/layer.py", "mkdocs.yml"):
        os.utime(tmp_path / name, (2e9, 2e9))
        assert builds("docs") and builds("browser"), name
        os.utime(tmp_path / name, (1e9, 1e9))
    (tmp_path / "site" / ".built").unlink()
    assert builds("browser"), "there is no site"


def test_what_states_a_time_has_no_neighbour() -> None:
    """Tests with the mark `alone` run in no call of pytest that has several workers."""
    calls = re.findall(r"-m pytest (.*)", (ROOT / "Makefile").read_text("utf-8"))
    beside = [call for call in calls if re.search(r"-n \d", call)]
    assert len(beside) >= 4
    assert [call for call in beside if not re.search(r'-m "[^"]*\bnot (?:alone|processes)\b', call)] == []


def test_an_audit_that_could_not_ask_has_not_passed() -> None:
    """Without `--strict` pip-audit ends with 0 where the service knew none of the versions."""
    recipe = (ROOT / "Makefile").read_text("utf-8").partition("\naudit:")[2].partition("\n\n")[0]
    assert re.search(r"pip-audit .*--strict", recipe)
