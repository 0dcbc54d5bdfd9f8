"""The notebooks in examples/notebooks run from top to bottom in a kernel of this interpreter, and say what is stored."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from .browser.pictures import HOST, without_host
from .notebooks import (
    SENTENCES,
    TIMED,
    VARIES,
    Cell,
    code_cells,
    difference,
    execute,
    execute_all,
    names,
    read,
    read_pages,
)
from .sources import ROOT

BAR = '<progress value="100"'
PLOT = "<dc:title>Matplotlib"
REPORT = "report.html"
SHOWN = {
    "1-first-network": ("Total parameters: 4,810", "History: 8 epochs", "<svg ", BAR, "equal: True", REPORT),
    "2-codec-in-twenty-lines": (
        "all workers must have the same results", "HalfPrecision: 6 laws hold", BAR, "16 bits", "<Figure", REPORT
    ),
    "3-compare-codecs": ("terngrad", "on the line", "<Figure", REPORT),
    "4-stragglers-and-redundancy": ("ParallelSGD", BAR, "<Figure", "180 of 180", "equal to the last bit: True", REPORT),
    "5-a-worker-dies": ("killed by signal 9 (SIGKILL)", BAR, "restarts: 1", "[True, True]", PLOT, "problems: none", REPORT),
    "6-reading-a-report": ("JobHistory: 3 epochs", BAR, "<Figure", "worker 1 computed longer than the others", REPORT),
}  # fmt: skip

IN_THE_GATE = ("1-first-network", "5-a-worker-dies")  # which call what the others call, too


def shown(cells: Iterable[Cell]) -> str:
    """All outputs, in all of their forms."""
    outputs = [output for cell in cells for output in cell.outputs]
    return "\n".join(output.get("text") or "\n".join(map(str, output.data.values())) for output in outputs)


@pytest.mark.processes
@pytest.mark.timeout(300)  # one after the other
@pytest.mark.parametrize(
    "chosen",
    [IN_THE_GATE, pytest.param(sorted({*SHOWN} - {*IN_THE_GATE}), marks=pytest.mark.long)],
    ids=["gate", "others"],
)
def test_notebooks(chosen: Sequence[str], tmp_path: Path) -> None:
    """Each runs without an error, shows what it is about, and says what is stored. The kernel starts once for all of them."""
    books = {name: read(name) for name in chosen}
    stored = copy.deepcopy(books)
    execute_all(books, tmp_path)
    for name, book in books.items():
        for text in SHOWN[name]:
            assert text in shown(code_cells(book)), text
        for was, now in zip(code_cells(stored[name]), code_cells(book), strict=True):
            assert not difference(was, now), f"`make notebooks` stores it: {name}, {was.id} {difference(was, now)}"
            assert shown([now]).count("<progress ") <= 1, "one bar for a job, however often it starts again"


def test_nothing_that_is_stored_names_a_machine() -> None:
    """Text, and pages before a picture is taken of them; scripts of a page stay what they are."""
    told = re.compile(r"Node\(-?\d+\) on ([^\s,]+), process")
    texts = [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md"), *(ROOT / "examples" / "notebooks").glob("*.ipynb")]
    found = {(path.name, name) for path in texts for name in told.findall(path.read_text("utf-8"))}
    assert {name for _, name in found} == {HOST}, found
    page = "<dd>(process 7 on vm).</dd><td>vm</td> Worker-vm@05:00 vm's svm vm-2 a.vm <script>vm(1)</script>"
    kept = "<dd>(process 7 on host).</dd><td>host</td> Worker-host@05:00 host's svm vm-2 a.vm <script>vm(1)</script>"
    assert without_host(page, "vm") == kept


@pytest.mark.parametrize("name", names())
def test_a_stored_notebook_has_all_of_its_outputs(name: str) -> None:
    """With them a browser of the repository shows what was printed, pictures, and in the end the report."""
    cells = code_cells(read(name))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), "make notebooks"
    for text in SHOWN[name]:
        assert text in shown(cells), text
    pictures = [cell for cell in cells if any("image/png" in output.get("data", {}) for output in cell.outputs)]
    assert pictures and pictures[-1].source.endswith(".show_report()") and pictures[-1] in cells[-2:]
    assert "<iframe" not in shown(cells), "a frame shows nothing where the run is not"
    told = [output.metadata.get(SENTENCES, []) for output in pictures[-1].outputs]
    assert any("Result" in sentences for sentences in told), "the sentences of the picture, by which its age is seen"


def test_all_notebooks_are_tried() -> None:
    assert sorted(SHOWN) == names()


def cell(*outputs: str | dict[str, str], tag: str = "") -> Cell:
    """A cell with outputs: texts were printed, others are data by MIME type."""
    made = nbformat.v4.new_code_cell("1")
    made.metadata.tags = [tag] if tag else []
    made.outputs = [
        nbformat.v4.new_output("stream", text=each) if isinstance(each, str) else nbformat.v4.new_output("display_data", each)
        for each in outputs
    ]
    return made


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (cell("done in 2.4 s: computing 33 %, exchanging 21 %, waiting 46 %\n"),) * 2,
        (cell("job 20261128-225145-7e47c0ad\n"), cell("job 20270101-000000-00000000\n")),
        (cell("2 workers share 1 core of this machine and take turns: more of them are not faster.\nx\n"), cell("x\n")),
        (cell("Node(1) on host, process 7, attempt 1\n"), cell("Node(1) on vm, process 8816, attempt 1\n")),
        (cell("Loss 0.4387   accuracy 0.8788\n"), cell("Loss 0.4391   accuracy 0.8754\n")),
        (
            cell("2 workers took 0.81 s; one alone would have needed at most 0.54 s: more workers are not faster here.\n"),
            cell("2 workers took 0.5 s; one alone would have needed at most 1.3 s: together up to 2.6 times as fast.\n"),
        ),
        (
            cell("error Node(1)\nwarning All\nepoch 1/3\nepoch 2/3\ndone\n"),
            cell("epoch 1/3\nerror Node(1)\nwarning All\nepoch 2/3\ndone\n"),
        ),
        (cell("blocks that count: 180\nblocks thrown away: 0\n"), cell("blocks that count: 180\nblocks thrown away: 2\n")),
        (cell("a 1.0\nb 2.0\n", tag=TIMED), cell("b 7.0\na 3.5\n")),
        (cell("Connection reset\n", tag=VARIES), cell("closed\n")),
        (cell({"text/html": "<b>1</b>"}, "x\n"), cell("x\n", {"text/html": "<b>1</b>"})),
    ],
)
def test_what_differs_from_run_to_run_is_no_difference(one: Cell, other: Cell) -> None:
    assert difference(one, other) == ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (cell("equal: True\n"), cell("equal: False\n")),
        (cell("Loss 0.4387\n"), cell("Loss 0.5387\n")),
        (cell("Loss 0.4387\n"), cell("loss 0.4387\n")),
        (cell("epoch 1/8\n"), cell("epoch 1/8\nepoch 2/8\n")),
        (cell("error a\nwarning b\n"), cell("warning b\nerror a\n")),
        (cell("epoch 1/8\nepoch 2/8\n"), cell("epoch 2/8\nepoch 1/8\n")),
        (cell("180 of 180\n"), cell("180 of 160\n")),
        (cell("killed by signal 9\n"), cell("killed by signal 6\n")),
        (cell("a 1.0\n", tag=TIMED), cell("c 1.0\n")),
        (cell("x\n", tag=VARIES), cell()),
        (cell({"text/html": "<td>topk</td>"}), cell({"text/html": "<td>plain</td>"})),
        (cell({"image/svg+xml": "<!-- epoch -->"}), cell({"image/svg+xml": "<!-- batch -->"})),
        (cell({"image/png": "", "text/plain": "<Figure 1>"}), cell({"text/plain": "<Figure 1>"})),
    ],
)
def test_another_content_is_a_difference(one: Cell, other: Cell) -> None:
    assert difference(one, other)


def report(folder: Path, took: str, lost: str = "No batch, only 0.25 s") -> Cell:
    """A cell that shows a frame with a report, whose sentences are known."""
    page = (
        "<script><p>No</p></script><header><h1>a</h1>"
        f"<p>Job 20261128-225145-7e47c0ad, took {took}.</p><nav><p>No</p></nav></header>"
        '<section id="result"><ul class="cards"><li>≤ 0.5 ×</li></ul>'
        "<ul><li>2 workers took 0.5 s; one alone would have needed at most 1 s: no. "
        "They spent it computing 41 %, exchanging 4 %, waiting 55 %.</li></ul><details><p>No</p></details></section>"
        f'<section id="time"><p>No</p></section><section id="story"><dl><dt>Lost</dt><dd>{lost} &amp; more.</dd></dl></section>'
    )
    folder.joinpath("report.html").write_text(page, "utf-8")
    made = cell({"text/html": "<iframe></iframe>", "text/plain": "report.html"})
    read_pages(made, folder, "#result,#story")
    return made


def test_the_picture_of_a_report_is_as_old_as_its_sentences(tmp_path: Path) -> None:
    """Seconds differ from run to run; another word means that the page has changed since the picture was taken."""
    new = report(tmp_path, "1.7 s")
    assert new.outputs[0].metadata[SENTENCES] == [
        "a",
        "Job 20261128-225145-7e47c0ad, took 1.7 s.",
        "2 workers took 0.5 s; one alone would have needed at most 1 s: no.",
        "They spent it computing 41 %, exchanging 4 %, waiting 55 %.",
        "Lost",
        "No batch, only 0.25 s & more.",
    ]
    assert not difference(report(tmp_path, "2.01 s", "No batch, only 73 ms"), new)
    assert "with start and end" in difference(report(tmp_path, "1.7 s"), report(tmp_path, "1.7 s with start and end"))
    assert difference(report(tmp_path, "1.7 s", "Nothing, for 0.25 s"), new)
    picture = cell({"image/png": "", "text/plain": "report.html"})
    assert difference(picture, new), "a picture whose sentences nothing tells"
    assert not difference(picture, cell({"text/html": "<iframe></iframe>", "text/plain": "report.html"})), "a run without pages"


@pytest.mark.processes
def test_a_cell_that_fails_leaves_no_worker(tmp_path: Path) -> None:
    """Neither its kernel nor the agents that it has started, as every test is asked."""
    failing = nbformat.v4.new_code_cell("import parallel_sgd\nnodes = parallel_sgd.local_workers(1)\n1 / 0")
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        execute(nbformat.v4.new_notebook(cells=[failing]), tmp_path)
