"""The programs in examples/executor run as their first lines say."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources import ROOT

pytestmark = pytest.mark.processes
FOLDER = ROOT / "examples" / "executor"


@pytest.mark.long
def test_the_examples(tmp_path: Path) -> None:
    """All of them at the same time: they end well and print what they should."""
    words = tmp_path / "words"
    words.mkdir()
    (words / "one.txt").write_text("the fox\nThe end", "utf-8")
    (words / "two.txt").write_text("the dog, the end.\n", "utf-8")
    runs = {
        "helloworld.py": ([], "sums: 45 4950 499500"),
        "pi.py": (["--tasks", "6"], "pi is about 3.1"),
        "word_count.py": ([str(words)], "       4 the\n       2 end\n       1 dog\n       1 fox\n"),
        "matrix_product.py": (["--size", "90", "--workers", "1"], "the largest difference from NumPy's product is"),
        "hyper_parameter_search.py": (
            ["--epochs", "3", "--workers", "1"],
            "units     rate 0.0003   rate 0.001   rate 0.003    rate 0.01\n    8 ",
        ),
    }
    assert set(runs) == {path.name for path in FOLDER.glob("*.py")}
    if importlib.util.find_spec("joblib") is None:
        del runs["hyper_parameter_search.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "error", str(FOLDER / name), *options],
            cwd=tmp_path,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for name, (options, _) in runs.items()
    ]
    try:
        for process, (name, (_, expected)) in zip(started, runs.items(), strict=True):
            printed, errors = process.communicate(timeout=90)
            assert process.returncode == 0, f"{name}: {errors}"
            assert expected in printed, name
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
                process.communicate()
