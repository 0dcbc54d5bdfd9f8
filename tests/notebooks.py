"""`make notebooks`: the notebooks of examples/notebooks, run anew and stored with their outputs and pictures.

What a notebook says anew and what is stored are compared without what no two runs have alike: seconds and their shares, ids
of jobs, ports. Numbers may differ by a little, since their last digits depend on the CPU. An output that says the same stays
as it is stored, so that the command changes what has changed, and nothing else.

With the picture of a report its sentences are stored: a picture is taken anew when the page says something else.

Two tags of a cell say more: of a cell that is `timed` all numbers and the order of its words are left out, since both are a
matter of seconds; of one that `varies` the kinds of its outputs alone are compared.
"""

from __future__ import annotations

import asyncio
import base64
import html
import re
import socket
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from tests.browser.pictures import shoot, without_host
from tests.programs import environment
from tests.sources import ROOT

FOLDER: Final = ROOT / "examples" / "notebooks"
TIMED, VARIES = "timed", "varies"
SENTENCES: Final = "sentences"
"""Key of the metadata of an output below which the sentences of a picture are."""
NEAR: Final = 0.05
"""Share by which two numbers may differ."""
SECTIONS: Final = {"4-stragglers-and-redundancy": "#result,#time", "6-reading-a-report": "#result,#time"}
OTHERS: Final = "#result,#curves,#story"
"""Parts of a report that stand in a stored notebook in place of the frame that shows all of it, by notebook; of all others."""
ALIKE: Final = (
    (r"<[^>]*>", " "),  # a table is its words
    (r"\d{8}-\d{6}-[0-9a-f]{8}", "JOB"),
    (r"\d{4}-\d\d-\d\d", "DATE"),
    (r"\d\d:\d\d:\d\d", "TIME"),
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"\bon \S+, process \d+|\bprocess \d+ on [\w.-]+", "PROCESS"),
    (r"(?m)^\d+ workers share \d+ core.*\n", ""),  # on a machine with few cores
    (r"(?m)^\d+ workers.* one alone would have needed .*$", "ALONE"),
    (r"(?m)computing \d+ %, exchanging \d+ %, waiting \d+ %", "SHARES"),
    (r"\d+(?:\.\d+)? (?:m|µ)?s\b", "SECONDS"),
    (r"\|█*[^|]*\|", "BAR"),
    (r"(?m)^blocks thrown away: \d+$", "THROWN AWAY"),  # whether one worker was a batch ahead when another died
    (r" *\(figures of \d+ training steps? lost with a worker\)", ""),  # those of less than a second
    (r"(?m)^Training figures: .* lost with a worker\.$", ""),
)
_LEFT_OUT: Final = re.compile(
    r"<(script|style|nav|noscript|details)\b.*?</\1>"
    r'|<(ul|ol) class="(?:cards|causes)">.*?</\2>'
    r'|<span class="whole"><abbr.*?</span>',
    re.DOTALL,
)
"""Parts of a page that a picture does not show, or that differ from run to run: cards, causes, kinds of work."""
_TOLD: Final = re.compile(r"(?m)(?:^(?:epoch \d|error |warning ).*\n)+")
NUMBER: Final = re.compile(r"(?<![\w.])(-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)(?![\w])")
Cell: TypeAlias = Any
Notebook: TypeAlias = Any


class ThisInterpreter(KernelSpecManager):
    """One kernel, whatever others the user has."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """Return IPython in the interpreter that runs this."""
        return KernelSpec(argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], language="python")


def execute(book: Notebook, folder: Path) -> None:
    """Run the cells in `folder`; the outputs are in the notebook then.

    Raises: CellExecutionError.
    """
    # else matplotlib writes the date into a picture, and draws names in it by lot
    settings = folder / "matplotlib"
    settings.mkdir(parents=True, exist_ok=True)
    (settings / "matplotlibrc").write_text("svg.hashsalt: psgd\n", "utf-8")
    environ = environment(folder, IPYTHONDIR=str(folder / "ipython"), MATPLOTLIBRC=str(settings), SOURCE_DATE_EPOCH="0")
    with tempfile.TemporaryDirectory() as sockets:  # a short path: that of a socket has at most 107 characters
        kernel = AsyncKernelManager(
            kernel_spec_manager=ThisInterpreter(), transport="ipc", connection_file=f"{sockets}/kernel.json"
        )
        # the kernel may send a line in two parts
        client = NotebookClient(book, timeout=200, coalesce_streams=True, record_timing=False)
        client.km = kernel  # as its own: it ends the kernel, whatever happens
        asyncio.run(client.async_execute(cwd=str(folder), env=environ))


def execute_all(books: Mapping[str, Notebook], folder: Path) -> None:
    """Run notebooks in one kernel, which forgets between them what they have defined; each in a folder of its own, by name."""
    cells: list[Cell] = []
    for name, book in books.items():
        (folder / name).mkdir()
        own = code_cells(book)
        enter = f"import os\nos.chdir({str(folder / name)!r})"
        cells += [nbformat.v4.new_code_cell(enter), *own, nbformat.v4.new_code_cell("%reset -f")]
    names = [cell.id for cell in cells]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"  # they are numbered within each notebook
    execute(nbformat.v4.new_notebook(cells=cells), folder)
    for name, cell in zip(names, cells, strict=True):
        cell.id = name
    for book in books.values():
        for number, cell in enumerate(code_cells(book), 1):
            cell.execution_count = number
            for output in cell.outputs:
                if output.output_type == "execute_result":
                    output.execution_count = number


def code_cells(book: Notebook) -> list[Cell]:
    """Return the cells that run."""
    return [cell for cell in book.cells if cell.cell_type == "code"]


def read(name: str) -> Notebook:
    """Return a notebook as it is stored."""
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def names() -> list[str]:
    """Return the names of all notebooks, in the order in which they are read."""
    return sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def sentences(page: str, sections: str) -> list[str]:
    """Return the sentences that a picture of a report shows.

    Args:
        page: the report, as HTML.
        sections: what the picture shows below the head of the page, as in "#result,#curves".
    """
    page = _LEFT_OUT.sub("", page)
    names = "|".join(section.removeprefix("#") for section in sections.split(","))
    shown = re.findall(rf'<header>.*?</header>|<section id="(?:{names})">.*?</section>', page, re.DOTALL)
    texts = re.findall(r"<(h\d|p|li|dt|dd|figcaption)\b[^>]*>(.*?)</\1>", "".join(shown), re.DOTALL)
    lines = (re.sub(r" \([ ,]*\)", "", html.unescape(re.sub(r"<[^>]*>", "", text))) for _, text in texts)
    return [" ".join(sentence.split()) for line in lines for sentence in re.split(r"(?<=\.) +(?=[A-Z])", line)]


def said(cell: Cell) -> list[tuple[str, str]]:
    """Return what the outputs of a cell say: of each its kind and its text.

    All that was printed is one output, since the kernel may show a table in the midst of it.
    """
    found: list[tuple[str, str]] = []
    printed = "".join(output.text for output in cell.outputs if output.output_type == "stream")
    for output in (output for output in cell.outputs if output.output_type != "stream"):
        data = output.data
        if "iframe" in data.get("text/html", "") or "report.html" in data.get("text/plain", ""):
            found.append(("report", data["text/plain"]))
        elif "image/svg+xml" in data:
            found.append(("curves", "\n".join(re.findall(r"<!-- (.*?) -->", data["image/svg+xml"]))))
        elif "image/png" in data:
            found.append(("picture", data["text/plain"]))
        else:
            found.append(("text", data.get("text/html") or data["text/plain"]))
    return sorted(found) + ([("printed", printed)] if printed else [])


def of_pages(cell: Cell) -> list[tuple[str, str]]:
    """Return the sentences of the reports that a cell shows, in the form of `said`, where they are known: see `read_pages`."""
    return [
        ("page", "\n".join(output.metadata[SENTENCES])) for output in cell.outputs if SENTENCES in output.get("metadata", {})
    ]


def read_pages(cell: Cell, folder: Path, sections: str) -> None:
    """Keep with each frame of a cell that has run the sentences of the page that it shows.

    Args:
        cell: the cell.
        folder: where the notebook ran.
        sections: what a picture of the page shows.
    """
    for output in cell.outputs:
        if "iframe" in output.get("data", {}).get("text/html", ""):
            page = (folder / output.data["text/plain"]).read_text("utf-8")
            output.metadata[SENTENCES] = sentences(without_host(page), sections)


def difference(stored: Cell, new: Cell) -> str:
    """Return in what the outputs of a cell differ from those that are stored, "" where they say the same.

    Sentences of reports count where those of the new ones are known, as they are where pictures are taken.
    """
    tags = stored.metadata.get("tags", ())
    was, now = said(stored), said(new)
    if of_pages(new):
        was, now = was + of_pages(stored), now + of_pages(new)
    if [kind for kind, _ in was] != [kind for kind, _ in now]:
        return f"there were {[kind for kind, _ in was]}, now there are {[kind for kind, _ in now]}"
    if VARIES in tags:
        return ""
    for (_, before), (_, after) in zip(was, now, strict=True):
        one, other = parts(before), parts(after)
        if TIMED in tags:
            one, other = (sorted(word for word in words if not NUMBER.fullmatch(word)) for words in (one, other))
        if len(one) != len(other) or not all(map(near, one, other)):
            return f"was\n{before}\nis\n{after}"
    return ""


def parts(text: str) -> list[str]:
    """Return the words and numbers of a text, without what differs from run to run."""
    text = _TOLD.sub(_epochs_last, text)
    for pattern, word in ALIKE:
        text = re.sub(pattern, word, text)
    return [word for part in NUMBER.split(text) for word in ([part] if NUMBER.fullmatch(part) else part.split())]


def _epochs_last(told: re.Match[str]) -> str:
    """Put the lines of epochs behind those of failures between them: nodes tell of both, each in its time."""
    return "".join(sorted(told[0].splitlines(keepends=True), key=lambda line: line.startswith("epoch ")))


def near(one: str, other: str) -> bool:
    """Return whether two words are equal, or two numbers close to each other."""
    if not (NUMBER.fullmatch(one) and NUMBER.fullmatch(other)):
        return one == other
    a, b = (float(word.replace(",", "")) for word in (one, other))
    return abs(a - b) <= NEAR * max(abs(a), abs(b))


def store(name: str, new: Notebook, folder: Path, anew: bool = False) -> list[str]:
    """Write a notebook with the outputs of a new run, where these say something else than the stored ones.

    Args:
        name: name of the notebook.
        new: its cells with their new outputs.
        folder: where it ran.
        anew: whether all outputs are stored, also those that say the same: pages look another way, or take other seconds.

    Returns: ids of the cells whose outputs are new.
    """
    book, changed = read(name), []
    for cell, made in zip(code_cells(book), code_cells(new), strict=True):
        cell.execution_count = made.execution_count
        if not cell.outputs and not made.outputs:
            continue
        sections = SECTIONS.get(name, OTHERS)
        read_pages(made, folder, sections)
        if anew or difference(cell, made):
            cell.outputs = [kept(output, folder, sections) for output in made.outputs]
            changed.append(cell.id)
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = made.execution_count
    text = nbformat.writes(book, indent=1) + "\n"
    for place in (str(ROOT), str(folder), str(Path.home()), socket.gethostname() + ","):
        if place in text:
            raise ValueError(f"{name} shows {place!r}, which is a name of this machine")
    (FOLDER / f"{name}.ipynb").write_text(text, "utf-8")
    return changed


def kept(output: Any, folder: Path, sections: str) -> Any:
    """Return an output as it is stored: without the name of the machine; of a frame that shows a report, a picture."""
    if output.output_type == "stream":
        output.text = without_host(output.text)
    elif "iframe" in output.data.get("text/html", ""):
        page = output.data["text/plain"]
        (shot,) = shoot(folder / page, folder, [sections])
        picture = base64.b64encode(shot.read_bytes()).decode()
        output.data = nbformat.from_dict({"image/png": picture, "text/plain": page})
    elif "text/html" in output.data:  # the run is not where the notebook is read
        output.data["text/html"] = re.sub(r'<a href="runs/[^>]*>(.*?)</a>', r"\1", output.data["text/html"])
    return output


def main(chosen: Iterable[str] = ()) -> int:
    """Run the notebooks, all or the `chosen` ones, and store them; with `--anew` among these all their outputs."""
    given = [*chosen]
    anew = "--anew" in given
    books = {name: read(name) for name in [each for each in given if each != "--anew"] or names()}
    with tempfile.TemporaryDirectory() as place:
        execute_all(books, Path(place))
        for name, book in books.items():
            changed = store(name, book, Path(place) / name, anew)
            print(f"{name}: {', '.join(changed) if changed else 'says what is stored'}")
    print(f"The notebooks are in {FOLDER}: look at what is new.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
