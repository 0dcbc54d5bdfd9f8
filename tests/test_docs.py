"""The Python programs in the guides run as printed: each file from top to bottom, in one namespace and an empty folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .programs import python

pytestmark = pytest.mark.processes
ROOT = Path(__file__).parents[1]
GUIDES = [
    "README.md",
    "nn/README.md",
    "executor/README.md",
    "parallel_sgd/codec/README.md",
    "parallel_sgd/profiles/blockassignment/README.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md")),
]
# what these show stands in guides that remain, or is tested by itself
LONG = {
    f"docs/{name}.md"
    for name in (
        "clients",
        "codec-guide",
        "data",
        "elastic",
        "failure-detection",
        "gallery",
        "language-models",
        "launchers",
        "papers",
        "reliability",
        "simulation",
        "sweeps",
    )
} | {"executor/README.md"}
GUIDES_IN_TWO = ["README.md", "README.zh-CN.md"]
SAME = {"docs/gallery.md": ["gallery/model.svg"]}  # pictures in which are no seconds and no last digits
FIGURES = {"docs/codec-guide.md": " s of virtual time"}  # marks of printed lines whose figures the text of the guide tells
TABLES = {"docs/data.md": "column  kind"}  # the begin of a table that the guide shows as its program prints it
BLOCK = re.compile(r"^(<!-- not run: (?P<reason>.+) -->\n)?```python\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)


def program(text: str) -> tuple[str, int]:
    """All blocks that are to run as one program, every line where the guide has it, and the number of blocks."""
    found = [match for match in BLOCK.finditer(text) if match["reason"] is None]
    lines, place = "", 0
    for match in found:
        lines += "\n" * text.count("\n", place, match.start("code")) + match["code"]
        place = match.end("code")
    return lines, len(found)


def test_blocks_are_found_and_skipped() -> None:
    text = "# A\n```python\na = 1\n```\n\n<!-- not run: needs a cluster -->\n```python\nb = 2\n```\n```console\n$ c\n```\n"
    assert program(text) == ("\n\na = 1\n", 1)
    assert program(text + "```python\nd = 4\n```\n") == ("\n\na = 1\n" + "\n" * 10 + "d = 4\n", 2)


def test_the_guides_that_are_left_to_make_long_are_there() -> None:
    assert {*GUIDES} > LONG


def test_the_chinese_readme_shows_the_same_programs() -> None:
    """So what runs in one runs in the other."""
    blocks = [[match["code"] for match in BLOCK.finditer((ROOT / name).read_text("utf-8"))] for name in GUIDES_IN_TWO]
    assert blocks[0] == blocks[1]


@pytest.mark.parametrize("guide", [pytest.param(guide, marks=pytest.mark.long if guide in LONG else ()) for guide in GUIDES])
def test_the_programs_of_a_guide_run(guide: str, tmp_path: Path) -> None:
    code, count = program((ROOT / guide).read_text("utf-8"))
    if not count:
        assert guide.startswith("docs/"), f"{guide} shows no program"
        return
    (tmp_path / "guide.py").write_text(code, "utf-8")
    finished = python(tmp_path, "-W", "error", "guide.py")
    assert finished.returncode == 0, f"{guide}:\n{finished.stderr[-3000:]}"
    if guide in FIGURES:
        told = "\n".join(line for line in finished.stdout.splitlines() if FIGURES[guide] in line)
        figures = re.findall(r"\d+\.\d+", told)
        assert figures and not [each for each in figures if each not in (ROOT / guide).read_text("utf-8")], told
    if guide in TABLES:
        shown_as = (ROOT / guide).read_text("utf-8").partition(f"```console\n{TABLES[guide]}")[2].partition("```")[0]
        assert shown_as and f"{TABLES[guide]}{shown_as}" in finished.stdout, finished.stdout
    for picture in SAME.get(guide, ()):
        shown = (ROOT / guide).parent / picture
        assert (tmp_path / shown.name).read_bytes() == shown.read_bytes(), "`make gallery` makes the pictures anew"
