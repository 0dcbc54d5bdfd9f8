"""docs/first-run.md, from top to bottom: its programs and its commands do and say what stands there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .programs import environment, python
from .sources import ROOT

BLOCK = re.compile(r"^(<!-- not run: .+ -->\n)?```(python|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


@pytest.mark.processes
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.long
def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    shell = f'psgd() {{ "{sys.executable}" -m psgd "$@"; }}\n'
    code, ran = "", 0
    for left_out, kind, text in BLOCK.findall((ROOT / "docs" / "first-run.md").read_text("utf-8")):
        if left_out:
            continue
        if kind == "python":
            code += text
            finished = python(tmp_path, "-c", code)
            assert finished.returncode == 0, finished.stderr
            continue
        for command, expected in COMMAND.findall(text):
            if command.startswith("pip "):
                continue
            done = subprocess.run(
                ["bash", "-c", shell + command],
                cwd=tmp_path,
                env=environment(tmp_path),
                capture_output=True,
                text=True,
                timeout=250,
                check=False,
            )
            assert done.returncode == ("exit code 1" in command), f"{command}\n{done.stderr}"
            ran += 1
            patterns = [re.escape(line).replace(r"\.\.", ".*") for line in expected.splitlines()]
            if patterns and ".*" not in patterns:  # the page shows all of it
                said = f"{done.stdout}{done.stderr}".splitlines()
                assert len(said) == len(patterns), f"{command}\n{done.stdout}\n{done.stderr}"
            for line, pattern in zip(expected.splitlines(), patterns, strict=True):
                assert re.search(f"^{pattern}", done.stdout + done.stderr, re.MULTILINE), (
                    f"{line}\n{done.stdout}\n{done.stderr}"
                )
    assert ran == 8
