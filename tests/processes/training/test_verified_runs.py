"""`psgd verify` of honest runs on real processes: their kernels, faults, fewer workers."""

from __future__ import annotations

import csv
import json
import logging
import time
from pathlib import Path
from typing import Any

from psgd import cli

import pytest

from nn.optimizer import ParameterAveragingOptimizer
from parallel_sgd import JobResult, Parameter_Server, local_workers
from parallel_sgd.codec import BlockWeight, GlobalSettings, TopK
from parallel_sgd.record.identity import parts_of
from parallel_sgd.record.job_file import JobFile
from parallel_sgd.record.run import RunManifest
from rpc.agent import kernel_sets
from tests.statements import covers

from ..harness import cluster
from .jobs import FOUR_BLOCKS, digits_job, said, some

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
@pytest.mark.long
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


def rows_of(run: Path) -> list[tuple[str, str, str]]:
    with (run / "identities.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["Attempt", "Node", "Computes with"]
    return [(attempt, node, text) for attempt, node, text in rows]


@covers("RUN-1")
@pytest.mark.long
def test_each_node_of_each_attempt_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what it told when the attempt started: also one that was lost with its files, and those that were numbered anew. The
    submitter has other threads."""
    monkeypatch.chdir(tmp_path)
    with local_workers(3) as nodes:
        options = {"on_failure": "shrink", "min_workers": 1, "fault": "kill 1@e2.b3"}
        result = digits_job().parallel(nodes, epoch=2, assignment_type=FOUR_BLOCKS, blas_threads=2, **options)
    run = Path("runs/latest").resolve()
    rows = rows_of(run)
    assert result.restarts == 1
    assert [row[:2] for row in rows] == [("1", "0"), ("1", "1"), ("1", "2"), ("2", "0"), ("2", "1")]
    (text,) = {row[2] for row in rows}
    assert {"Parallel-SGD", "Python", "NumPy", "OpenBLAS kernels", "threads"} <= parts_of(text).keys()
    assert parts_of(text)["threads"] == "2"
    assert JobFile.read(run).nodes == {0: [text], 1: [text], 2: [text]}
    manifest = RunManifest.read(run)
    assert manifest.nodes == {"0": [text], "1": [text], "2": [text]} and "identities.csv" in manifest.files
    assert json.loads((run / "outcome.json").read_text())["environment"]["the nodes compute with"] == text


@covers("RUN-3", "RUN-4")
@pytest.mark.parametrize(
    ("ps", "options"),
    [(False, {}), (True, {}), (False, {"on_failure": "restart"}), (False, {"on_failure": "restart", "fault": "kill 1@e2.b3"})],
    ids=["plain", "server", "restart", "restarted"],
)
@pytest.mark.long
def test_a_run_that_was_fetched_is_equal(
    ps: bool, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has what its nodes keep of it; the submitter's own has more."""
    with cluster(tmp_path / "cluster") as made:
        made.start(2 + ps)
        nodes = made.nodes(2, ps)
        result = digits_job().parallel(nodes, epoch=2, assignment_type=FOUR_BLOCKS, directory=tmp_path, **options)
        workers = tmp_path / "worker.json"
        addresses = [str(agent.address) for agent in made.agents]
        workers.write_text(json.dumps({"Worker": addresses[:2], **({"PS": addresses[2]} if ps else {})}))
        (tmp_path / "fetched").mkdir()
        monkeypatch.chdir(tmp_path / "fetched")
        assert cli.main(["fetch", "--workers", str(workers), "--key-file", str(made.key_file), "-q"]) == 0
    for run in (Path("runs/latest"), result.folder):
        code = cli.main(["verify", str(run)])
        told = capsys.readouterr()
        assert code == 0 and "the folder agrees with itself" in told.out, told
        # rows of steps are other ones where an attempt went on with those of another
        assert ("TR-*.csv" in told.out) == ("fault" in options), told


@pytest.mark.long
@covers("RUN-1")
@needs_choice
def test_nodes_with_different_kernels_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a parameter server; on agents that have no kernels in common."""
    with cluster(tmp_path / "cluster") as made:
        made.start(2, OPENBLAS_CORETYPE="Haswell")
        made.start(1, OPENBLAS_CORETYPE="Sandybridge")
        workers = made.nodes(2)
        workers.add(Parameter_Server, made.agents[2].address)
        digits_job().parallel(workers, epoch=1, assignment_type=FOUR_BLOCKS, directory=tmp_path)
        run = (tmp_path / "runs" / "latest").resolve()
        kernels = {node: parts_of(text)["OpenBLAS kernels"] for _, node, text in rows_of(run)}
        assert kernels == {"-2": "Sandybridge", "0": "Haswell", "1": "Haswell"}
        assert list(JobFile.read(run).nodes) == [-2, 0, 1]
        environment = json.loads((run / "outcome.json").read_text())["environment"]
        assert "Sandybridge" in environment["node -2 computes with"] and "Haswell" in environment["node 1 computes with"]
        fetched = tmp_path / "fetched"
        fetched.mkdir()
        named = tmp_path / "worker.json"
        addresses = [str(agent.address) for agent in made.agents]
        named.write_text(json.dumps({"Worker": addresses[:2], "PS": addresses[2]}))
        monkeypatch.chdir(fetched)
        assert cli.main(["fetch", "--workers", str(named), "--key-file", str(made.key_file), "-q"]) == 0
        assert list(JobFile.read(Path("runs/latest")).nodes) == [-2, 0, 1], capsys.readouterr()
    code = cli.main(["verify", str(run)])
    told = capsys.readouterr().out
    assert code == 0 or (code == 2 and "OpenBLAS kernels Haswell and Sandybridge (here " in told), told


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
@pytest.mark.share(6)
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


@covers("RUN-3")
@pytest.mark.parametrize(
    "options", [{"codec": "TopK"}, {"codec": "LocalSGD", "op_type": ParameterAveragingOptimizer}], ids=["memory", "models"]
)
def test_a_run_that_began_anew_with_fewer_workers_is_not_accused(
    options: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What workers with states of their own have lost when they became fewer is lost to the computation, too."""
    monkeypatch.chdir(tmp_path)
    with local_workers(3) as nodes:
        result = digits_job().parallel(
            nodes, epoch=2, block_size=128, gd_type="sgd", on_failure="shrink", min_workers=1, fault="kill 1@e2.b3", **options
        )
    assert result.restarts == 1
    code, told = verified(result, capsys)
    assert code == 0 and "went on with the state of one worker" in told and "the folder agrees with itself" in told, told


class Unhurried(TopK):
    """Codec with a memory of each worker; it goes slowly until the file `hurry` is there."""

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        if not Path(GlobalSettings.get_params("hurry")).exists():
            time.sleep(0.05)
        return super().update_blocks(block_weight)


@covers("RUN-3")
@pytest.mark.parametrize("every", ["epoch", None], ids=["with its states", "afresh"])
def test_a_run_that_grew_is_equal(
    every: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Hosts are found by a function, which stands in no file; with no checkpoint the later workers begin from the start."""
    caplog.set_level(logging.INFO)
    hurry = tmp_path / "hurry"
    options = {
        "min_workers": 2,
        "max_workers": 3,
        "checkpoint_every": every,
        "codec": Unhurried,
        "assignment_type": FOUR_BLOCKS,
    }
    with local_workers(3) as agents:

        def hosts() -> list[str]:
            """A third one as soon as two are at work."""
            attempts = sum(line.startswith("Waiting for (") for line in said(caplog.records))
            if attempts > 1:
                hurry.touch()
            return [str(agents[node]) for node in range(3 if attempts else 2)]

        result = digits_job().parallel(
            some(agents, 2), epoch=4, block_size=32, gd_type="sgd", discovery=hosts, directory=tmp_path,
            codec_extra_parameters={"hurry": str(hurry)}, **options,
        )  # fmt: skip
    assert hurry.exists() and {attempt for attempt, *_ in rows_of(result.folder)} >= {"1", "2"}
    code, told = verified(result, capsys, "--allow-code")
    assert code == 0 and "the folder agrees with itself" in told, told
