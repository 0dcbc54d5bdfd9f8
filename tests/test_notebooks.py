"""The notebooks in examples/notebooks run from top to bottom in a kernel of this interpreter, and show what they promise."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from .programs import environment
from .sources import ROOT

FOLDER = ROOT / "examples" / "notebooks"
BAR = '<progress value="100"'
PLOT = "<dc:title>Matplotlib"
SHOWN = {
    "1-first-network": ("Total parameters: 4,810", "History: 8 epochs", "<svg ", BAR, "equal: True"),
    "2-codec-in-twenty-lines": ("all workers must have the same results", "HalfPrecision: 6 laws hold", BAR, "16 bits", PLOT),
    "3-compare-codecs": ("terngrad", "s on 1 Mbit/s"),
    "4-stragglers-and-redundancy": ("ParallelSGD", BAR, "equal to the last bit: True"),
    "5-a-worker-dies": ("killed by signal 9 (SIGKILL)", BAR, "restarts: 1", "[True, True]", PLOT, "problems: none"),
    "6-reading-a-report": ("JobHistory: 3 epochs", BAR, "worker 1 computed longer than the others", "report.html"),
}
Notebook = Any


class ThisInterpreter(KernelSpecManager):
    """One kernel, whatever others the user has."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """IPython in the interpreter of this test."""
        return KernelSpec(argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], language="python")


def execute(book: Notebook, folder: Path) -> None:
    """Run the cells in `folder`; the outputs are in the notebook then.

    Raises: CellExecutionError.
    """
    with tempfile.TemporaryDirectory() as sockets:  # a short path: that of a socket has at most 107 characters
        kernel = AsyncKernelManager(
            kernel_spec_manager=ThisInterpreter(), transport="ipc", connection_file=f"{sockets}/kernel.json"
        )
        client = NotebookClient(book, timeout=200, coalesce_streams=True)  # the kernel may send a line in two parts
        client.km = kernel  # as its own: it ends the kernel, whatever happens
        asyncio.run(client.async_execute(cwd=str(folder), env=environment(folder, IPYTHONDIR=str(folder / "ipython"))))


def shown(cells: Iterable[Notebook]) -> str:
    """All outputs, in all of their forms."""
    outputs = [output for cell in cells if cell.cell_type == "code" for output in cell.outputs]
    return "\n".join(output.get("text") or "\n".join(map(str, output.data.values())) for output in outputs)


@pytest.mark.processes
@pytest.mark.timeout(300)  # one after the other
def test_notebooks(tmp_path: Path) -> None:
    """Each is kept without outputs, runs without an error, and shows what it is about. The kernel starts once for all of them,
    and forgets between them what they have defined."""
    books = {name: nbformat.read(FOLDER / f"{name}.ipynb", as_version=4).cells for name in SHOWN}
    books = {name: [cell for cell in cells if cell.cell_type == "code"] for name, cells in books.items()}
    assert not any(cell.outputs or cell.execution_count for cells in books.values() for cell in cells), (
        "clear it: jupyter nbconvert --clear-output --inplace"
    )
    cells = [cell for own in books.values() for cell in [*own, nbformat.v4.new_code_cell("%reset -f")]]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"  # they are numbered within each notebook
    execute(nbformat.v4.new_notebook(cells=cells), tmp_path)
    for name, own in books.items():
        for text in SHOWN[name]:
            assert text in shown(own), text
        assert all(shown([cell]).count("<progress ") <= 1 for cell in own), "one bar for a job, however often it starts again"


def test_all_notebooks_are_tried() -> None:
    assert sorted(SHOWN) == sorted(path.stem for path in FOLDER.glob("*.ipynb"))


@pytest.mark.processes
def test_a_cell_that_fails_leaves_no_worker(tmp_path: Path) -> None:
    """Neither its kernel nor the agents that it has started, as every test is asked."""
    cell = nbformat.v4.new_code_cell("import parallel_sgd\nnodes = parallel_sgd.local_workers(1)\n1 / 0")
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        execute(nbformat.v4.new_notebook(cells=[cell]), tmp_path)
