"""The ledger of a run that was fetched later is that of the extent which its workers tell, with nothing inferred."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parallel_sgd.record.fetched_run import _grid, _results
from parallel_sgd.record.job_file import JobFile
from parallel_sgd.record.ledger import Extent, Grid
from rpc.support.files import RESULT_FILE, write_result
from tests.parallel_sgd.record.runs import folder_of, train

TOLD: dict[str, Any] = {"batches": 8, "epochs": 2, "sizes": [[1, 3], [2, 2]], "before": 1}


def test_workers_tell_it_with_their_results(tmp_path: Path) -> None:
    result = train(directory=tmp_path)
    run = folder_of(result)
    file = JobFile.read(run)
    files: dict[int, list[Path]] = {node: list(paths) for node, paths in result.files.items()}
    inferred = _grid(file, result.history, _results(files))
    assert inferred == Grid(epochs=2, batches=8, blocks=2)
    for node in files:
        path = run / f"Node-{node}-Retrieve" / RESULT_FILE
        write_result(path, TOLD, ())
        files[node].append(path)
    told = _grid(file, result.history, _results(files))
    assert told == Grid(epochs=2, batches=8, blocks=2, before=1, sizes={1: 3, 2: 2})
    # what is half written, or no result of a worker, tells nothing
    files[0][-1].write_bytes(b"half")
    write_result(files[1][-1], ["anything"], ())
    assert _grid(file, result.history, _results(files)) == inferred


@pytest.mark.parametrize(
    ("wrong", "kept"),
    [
        ({"batches": "8"}, None),
        ({"batches": -1}, None),
        ({"epochs": 1.5}, Extent(8, None, {1: 3, 2: 2}, 1)),
        ({"sizes": [[1, 3], [2]]}, Extent(8, 2, {}, 1)),
        ({"sizes": [[1, 1 << 40]]}, Extent(8, 2, {}, 1)),
        ({"before": None}, Extent(8, 2, {1: 3, 2: 2}, 0)),
    ],
)
def test_anything_may_stand_in_a_result(wrong: dict[str, Any], kept: Extent | None) -> None:
    if kept is None:
        with pytest.raises(ValueError, match="empty"):
            Extent.told({0: {**TOLD, **wrong}})
    else:
        assert Extent.told({0: {**TOLD, **wrong}, -2: {"before": 9}}) == kept
