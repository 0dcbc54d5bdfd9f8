"""`psgd verify` of honest runs on real processes: their kernels, faults, fewer workers."""

from __future__ import annotations

import json
from pathlib import Path

from psgd import cli

import pytest

from parallel_sgd import JobResult, local_workers
from rpc.agent import kernel_sets
from tests.statements import covers

from ..harness import cluster
from .jobs import FOUR_BLOCKS, digits_job

needs_choice = pytest.mark.skipif(
    "Haswell" not in kernel_sets.runnable(), reason="takes a CPU with AVX2, and NumPy from a wheel"
)


def verified(result: JobResult, capsys: pytest.CaptureFixture[str], *options: object) -> tuple[int, str]:
    (path, *_), *_ = result.files.values()
    code = cli.main(["verify", str(path.resolve().parent.parent), *map(str, options)])
    told = capsys.readouterr()
    return code, told.out + told.err


@needs_choice
@covers("RUN-1", "RUN-3")
def test_a_run_on_agents_with_other_kernels_is_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its files name the kernels of the nodes, which are not those of this process, and verify and run take them."""
    with cluster(tmp_path / "cluster") as made:
        made.start(2, OPENBLAS_CORETYPE="Sandybridge" if len(kernel_sets.runnable()) == 1 else "Haswell")
        result = digits_job().parallel(made.nodes(), epoch=2, assignment_type=FOUR_BLOCKS, directory=tmp_path)
        run = result.files[0][0].resolve().parent.parent
        wanted = "Sandybridge" if len(kernel_sets.runnable()) == 1 else "Haswell"
        assert (run / "job.toml").read_text().count(f"OpenBLAS kernels {wanted}") == 2
        workers = tmp_path / "worker.json"
        workers.write_text(json.dumps({"Worker": [str(agent.address) for agent in made.agents]}))
        code, told = verified(result, capsys, "--workers", workers, "-n", 2, "--key-file", made.key_file)
        assert code == 0, told
    if wanted == "Haswell":
        code, told = verified(result, capsys)
        assert code == 0 and "the folder agrees with itself" in told, told
        assert cli.main(["run", str(run), "--local", "1", "-q"]) == 0
        assert "The weights equal those of" in capsys.readouterr().out


@covers("RUN-3", "RUN-4")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"on_failure": "restart", "fault": "kill 1@e2.b3"},
        {"on_failure": "shrink", "min_workers": 1, "fault": "kill 1@e2.b3"},
        {"redundancy": 2, "fault": "kill 1@e2.b3", "assignment_type": "duplicate"},
        {"blas_threads": 2},
        {"bits": "Haswell"},
    ],
    ids=["calm", "restarted", "shrunk", "redundant", "threads", "bits"],
)
def test_a_run_on_local_workers_is_equal(
    options: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if "bits" in options and not kernel_sets.runnable():
        pytest.skip("takes a CPU with AVX2, and NumPy from a wheel")
    monkeypatch.chdir(tmp_path)
    with local_workers(2) as nodes:
        result = digits_job().parallel(nodes, epoch=2, **{"assignment_type": FOUR_BLOCKS, **options})
    code, told = verified(result, capsys)
    assert code == 0 and "the folder agrees with itself" in told, told
