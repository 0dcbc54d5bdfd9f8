"""A file that hides a package of Parallel-SGD, or an installed project that has overwritten one, is told with the remedy."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import _psgd_packages

from .programs import python
from .sources import PACKAGES, ROOT
from .test_layering import ALLOWED

SENTENCE = "{file} hides the package {name!r} of Parallel-SGD, which is in {own}: rename this {kind}, or start the program"


def sentence(folder: Path, name: str, kind: str = "file") -> str:
    file = folder / (f"{name}.py" if kind == "file" else name)
    return SENTENCE.format(file=file, name=name, own=ROOT / name, kind=kind)


def hide(folder: Path, name: str, kind: str = "file") -> None:
    if kind == "folder":
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("layers = 3\n")
    else:
        (folder / f"{name}.py").write_text("layers = 3\n")


def test_the_check_knows_what_each_package_imports() -> None:
    assert {name: set(needed) for name, needed in _psgd_packages.NEEDED.items()} == ALLOWED
    assert all(_psgd_packages._MARK in (ROOT / name / "__init__.py").read_bytes() for name in PACKAGES)


@pytest.mark.parametrize("kind", ["file", "folder"])
@pytest.mark.parametrize("name", ["network", "nn", "rpc"])
def test_a_file_of_the_user_is_named_at_the_first_import(name: str, kind: str, tmp_path: Path) -> None:
    hide(tmp_path, name, kind)
    finished = python(tmp_path, "-c", "import parallel_sgd")
    assert finished.returncode == 2 and finished.stderr.startswith(sentence(tmp_path, name, kind)), finished.stderr
    assert finished.stderr.count("\n") == 1, "a traceback leads to no fault"


@pytest.mark.parametrize(
    "program",
    [
        "import rpc",
        "import executor",
        "import nn, parallel_sgd",
        "import network\nimport parallel_sgd",  # when the user's is loaded already
        "from parallel_sgd import local_workers",
        "import psgd",
    ],
)
def test_every_import_tells_it(program: str, tmp_path: Path) -> None:
    hide(tmp_path, "network")
    (tmp_path / "mine.py").write_text(program)
    finished = python(tmp_path, "mine.py")
    assert finished.returncode == 2 and finished.stderr.startswith(sentence(tmp_path, "network")), finished.stderr


@pytest.mark.parametrize(
    ("library", "program"),
    [
        ("numpy", "import nn\nnn.layer.Dense"),
        ("numpy", "import network"),
        ("numpy", "import parallel_sgd"),
        ("numpy", "import numpy\nimport parallel_sgd"),
        ("tqdm", "import parallel_sgd"),
    ],
)
def test_a_file_that_hides_a_library_is_told(library: str, program: str, tmp_path: Path) -> None:
    (tmp_path / f"{library}.py").write_text("layers = 3\n")
    (tmp_path / "mine.py").write_text(program)
    finished = python(tmp_path, "mine.py")
    told = f"{tmp_path / library}.py hides the library '{library}', which Parallel-SGD needs: rename this file"
    assert finished.returncode == 2 and finished.stderr.startswith(told) and finished.stderr.count("\n") == 1, finished.stderr


def test_a_program_may_catch_it(tmp_path: Path) -> None:
    """It is an ImportError as any other, and errors that follow have their tracebacks."""
    hide(tmp_path, "network")
    caught = "try:\n    import parallel_sgd\nexcept ImportError as error:\n    print(type(error).__name__)\n1 / 0\n"
    finished = python(tmp_path, "-c", caught)
    assert (finished.returncode, finished.stdout) == (1, "HiddenPackage\n")
    assert finished.stderr.startswith("Traceback ") and finished.stderr.endswith("ZeroDivisionError: division by zero\n")


def test_an_interactive_python_goes_on(tmp_path: Path) -> None:
    hide(tmp_path, "network")
    finished = python(tmp_path, "-i", "-c", "import parallel_sgd")  # standard input is empty
    assert finished.returncode == 0 and finished.stderr.startswith(sentence(tmp_path, "network"))


@pytest.mark.parametrize("door", ["worker.py", "job_submit.py", "-m psgd", "-m psgd submit", "-m psgd worker"])
@pytest.mark.parametrize("name", ["network", "nn", "rpc", "parallel_sgd"])
def test_a_command_tells_it_in_one_line_and_ends_with_2(door: str, name: str, tmp_path: Path) -> None:
    hide(tmp_path, name)
    if door.endswith(".py"):
        shutil.copy(ROOT / door, tmp_path)  # Python looks beside the program first
    finished = python(tmp_path, *door.split())
    assert (finished.returncode, finished.stdout) == (2, "")
    assert finished.stderr.startswith(sentence(tmp_path, name)) and finished.stderr.count("\n") == 1


@pytest.mark.long
@pytest.mark.processes
def test_a_script_of_psgd_launch_is_not_in_the_way(tmp_path: Path) -> None:
    """The folder of the script comes onto the path of a worker that has loaded the packages already."""
    for name in ("network", "nn", "rpc"):
        hide(tmp_path, name)
    (tmp_path / "script.py").write_text("import nn, parallel_sgd\nprint(nn.layer.Dense)\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    finished = python(elsewhere, "-m", "psgd", "launch", tmp_path / "script.py")
    assert finished.returncode == 0 and "[0] <class 'nn.layer." in finished.stdout, finished.stderr


@pytest.mark.processes
@pytest.mark.parametrize("after", ["from executor import ClusterExecutor", "import executor\nexecutor.ClusterExecutor"])
def test_a_script_of_psgd_launch_that_asks_its_own_file_for_a_name_of_ours_is_told(after: str, tmp_path: Path) -> None:
    hide(tmp_path, "executor")
    (tmp_path / "script.py").write_text(f"import nn\n{after}\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    finished = python(elsewhere, "-m", "psgd", "launch", tmp_path / "script.py")
    told = f"{tmp_path / 'executor.py'} hides the package 'executor' of Parallel-SGD, which is in executor: rename this file"
    assert finished.returncode == 1 and told in finished.stderr, finished.stderr  # paths of ours are short in a worker's report


NOTEBOOK = """
import nbclient, nbformat
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("import parallel_sgd")])
try:
    nbclient.NotebookClient(book, timeout=60, resources={"metadata": {"path": "."}}).execute()
except nbclient.exceptions.CellExecutionError as error:
    print(error.ename, error.evalue)
"""


@pytest.mark.processes
@pytest.mark.long
def test_a_notebook_tells_it(tmp_path: Path) -> None:
    pytest.importorskip("nbclient")
    hide(tmp_path, "network")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "run.py").write_text(NOTEBOOK)
    # a kernel looks in PYTHONPATH before its own folder, in which it looks before installed packages
    finished = python(tmp_path, "elsewhere/run.py", PYTHONPATH="")
    assert finished.stdout.startswith(f"HiddenPackage {sentence(tmp_path, 'network')}"), finished.stdout + finished.stderr


@pytest.mark.parametrize("program", ["parallel_sgd.py", "mine.py"])
@pytest.mark.parametrize("after", ["import parallel_sgd\nparallel_sgd.ParallelSGD", "from parallel_sgd import ParallelSGD"])
def test_a_file_of_the_name_of_the_project_is_told_by_the_first_of_our_packages(
    program: str, after: str, tmp_path: Path
) -> None:
    """Before Python's error about a circular import, or a name that is missing, which is raised by no line of ours."""
    hide(tmp_path, "parallel_sgd")
    (tmp_path / program).write_text(f"import nn\n{after}\n")
    finished = python(tmp_path, program)
    assert finished.returncode == 1 and finished.stderr.count(sentence(tmp_path, "parallel_sgd")) == 1, finished.stderr
    assert finished.stderr.index("hides") < finished.stderr.index("Traceback")


def test_a_file_of_another_name_of_ours_is_nothing_to_a_program_of_nn(tmp_path: Path) -> None:
    for name in ("network", "rpc", "executor", "psgd"):
        hide(tmp_path, name)
    finished = python(tmp_path, "-c", "import nn")
    assert (finished.returncode, finished.stderr) == (0, "")


@pytest.mark.parametrize("program", ["executor.py", "mine.py"])
@pytest.mark.parametrize(
    "after",
    [
        "from executor import local_nodes, ClusterExecutor",
        "import executor\nexecutor.ClusterExecutor",
        "from executor.parallel import Context",
        "import executor.parallel",
    ],
)
def test_a_program_of_nn_that_asks_a_hidden_package_for_a_name_of_ours_is_told(
    program: str, after: str, tmp_path: Path
) -> None:
    """Behind Python's error, which is raised by no line of ours."""
    hide(tmp_path, "executor")
    (tmp_path / program).write_text(f"import nn\n{after}\n")
    finished = python(tmp_path, program)
    assert finished.returncode == 1 and finished.stderr.count(sentence(tmp_path, "executor")) == 1, finished.stderr
    assert finished.stderr.startswith("Traceback ") and finished.stderr.splitlines()[-1].startswith(str(tmp_path))


def test_one_whose_own_name_its_own_file_lacks_is_told_nothing_of_ours(tmp_path: Path) -> None:
    hide(tmp_path, "executor")
    for after in ("from executor import mistyped", "import executor; executor.mistyped", "import executor.mistyped", "1 / 0"):
        finished = python(tmp_path, "-c", f"import nn\n{after}")
        assert finished.returncode == 1 and "hides the package" not in finished.stderr, finished.stderr


def test_a_ctrl_c_that_was_told_has_no_traceback_beside_a_hidden_package(tmp_path: Path) -> None:
    hide(tmp_path, "executor")
    program = "import nn\nfrom rpc.submit.terminal import interrupted\nraise interrupted()"
    finished = python(tmp_path, "-W", "ignore", "-c", program)
    assert (finished.returncode, finished.stderr) == (-signal.SIGINT, "")


def test_a_finder_in_the_style_of_before_is_passed_over(tmp_path: Path) -> None:
    """As `import` passes over it: `six` had one without `find_spec` until 2021."""
    finder = "type('Old', (), {'find_module': lambda self, name, path=None: None})()"
    finished = python(
        tmp_path, "-W", "ignore::ImportWarning", "-c", f"import sys; sys.meta_path.insert(0, {finder}); import nn"
    )
    assert (finished.returncode, "AttributeError" in finished.stderr) == (0, False), finished.stderr


@pytest.mark.parametrize("program", ["import psgd, parallel_sgd, rpc", "import nn, parallel_sgd; parallel_sgd.ParallelSGD"])
def test_one_that_is_not_needed_is_warned_of_once(program: str, tmp_path: Path) -> None:
    hide(tmp_path, "executor")
    finished = python(tmp_path, "-c", f"{program}; print('runs')")
    assert finished.stdout == "runs\n" and finished.stderr.count(sentence(tmp_path, "executor")) == 1


@pytest.mark.parametrize(
    ("program", "lacking"),
    [
        (("worker.py",), "numpy, tqdm and msgpack"),
        (("job_submit.py",), "numpy, tqdm and msgpack"),
        (("tutorial_psgd.py",), "numpy, tqdm and msgpack"),
        (("-c", "import parallel_sgd"), "numpy, tqdm and msgpack"),
        (("-c", "import nn; nn.layer.Dense(3)"), "numpy and tqdm"),
        (("-c", "from nn.layer import Dense"), "numpy and tqdm"),
        (("-c", "import network"), "numpy and msgpack"),
    ],
)
def test_a_python_without_our_libraries_is_told_which_one_to_take(program: tuple[str, ...], lacking: str) -> None:
    """`-S`: without what is installed, as the system's Python beside a virtual environment."""
    finished = subprocess.run(
        [sys.executable, "-S", *program], cwd=ROOT, capture_output=True, text=True, timeout=250, check=False
    )
    assert finished.returncode == 2 and finished.stderr == (
        f"{lacking}, which Parallel-SGD needs, are not installed in {sys.executable}: take the Python in which Parallel-SGD is "
        "installed (in a checkout '. .venv/bin/activate'), or install it in this one ('pip install .' in the checkout), with "
        "all that it needs\n"
    )


@pytest.mark.parametrize("example", sorted((ROOT / "examples").rglob("*.py")), ids=lambda path: path.name)
def test_an_example_under_a_python_without_our_libraries_is_told_the_same(example: Path, tmp_path: Path) -> None:
    """Python looks in an example's own folder, from which the checkout is not seen."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    finished = subprocess.run(
        [sys.executable, "-S", example], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=250, check=False
    )
    assert (finished.returncode, finished.stderr.count("\n")) == (2, 1), finished.stderr
    assert finished.stderr.startswith("numpy, tqdm and msgpack, which Parallel-SGD needs, are not installed in ")


def test_nothing_is_said_where_nothing_is_hidden(tmp_path: Path) -> None:
    (tmp_path / "network").mkdir()  # without an __init__.py: what comes later on the path goes before it
    (tmp_path / "mine.py").write_text("import nn, executor, parallel_sgd, psgd, rpc")
    finished = python(tmp_path, "-W", "error", "mine.py")
    assert (finished.returncode, finished.stderr) == (0, "")


def site(folder: Path, name: str) -> Path:
    """An environment like one in which the project `name` was installed after Parallel-SGD, over its package of that name."""
    place = folder / "site-packages"
    place.mkdir()
    for each in (*PACKAGES, "_psgd_packages.py"):
        if each != name:
            (place / each).symlink_to(ROOT / each)
    shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    (place / name / "__init__.py").write_text("__version__ = '23.2'\n")
    about = place / f"{name}-23.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 23.2\n")
    (about / "RECORD").write_text(f"{name}/__init__.py,,\n{name}-23.2.dist-info/METADATA,,\n{name}-23.2.dist-info/RECORD,,\n")
    return place


@pytest.mark.parametrize("name", ["network", "executor"])
def test_a_project_that_has_overwritten_a_package_is_named(name: str, tmp_path: Path) -> None:
    # the check of this checkout goes by the place of its file, so the environment has a copy
    place = site(tmp_path, name)
    (place / "_psgd_packages.py").unlink()
    shutil.copy(ROOT / "_psgd_packages.py", place)
    finished = python(tmp_path, "-c", "import parallel_sgd", PYTHONPATH=str(place))
    told = f"{place / name / '__init__.py'} is not that of Parallel-SGD: another installed project has overwritten the package"
    remedy = (
        f"'pip uninstall {name}', then install Parallel-SGD again, as you did it, with 'pip install --force-reinstall --no-deps"
    )
    assert finished.returncode == (0 if name == "executor" else 2)  # this program does not need it
    assert f"{told} {name!r}." in finished.stderr and remedy in finished.stderr, finished.stderr

    os.unlink(place / name / "__init__.py")  # as pip does when it removes the other project
    finished = python(tmp_path, "-c", "import parallel_sgd", PYTHONPATH=str(place))
    assert f"The package {name!r} of Parallel-SGD has no __init__.py in {place / name}" in finished.stderr, finished.stderr


def test_a_project_of_another_folder_is_named(tmp_path: Path) -> None:
    place = site(tmp_path, "nn")
    elsewhere = tmp_path / "work"
    elsewhere.mkdir()
    finished = python(elsewhere, "-c", "import parallel_sgd", PYTHONPATH=f"{place}{os.pathsep}{ROOT}")
    told = f"{place / 'nn'} hides the package 'nn' of Parallel-SGD, which is in {ROOT / 'nn'}: 'pip uninstall nn', or give"
    assert finished.returncode == 2 and told in finished.stderr, finished.stderr
