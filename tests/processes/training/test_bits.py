"""On which kernels the nodes of a job compute, and that `bits="portable"` gives the same bits whatever their agents have."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from network import NodeAssignment
from parallel_sgd import JobResult, in_process
from rpc import Cohort, SubmissionError
from rpc.agent import kernel_sets
from rpc.agent.settings import AgentSettings
from rpc.job.kernels import KERNEL_VARIABLES
from rpc.support.logs import SUBMIT_LOGGER
from tests.statements import covers

from ..harness import Cluster, cluster, make_key
from .jobs import FOUR_BLOCKS, digits_job, hearing, only_weights

FLAGS = kernel_sets.cpu().get("flags", "").split()
HAS_AVX2 = "avx2" in FLAGS and bool(kernel_sets.library_name())
OLDER = {"OPENBLAS_CORETYPE": "Sandybridge", "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX2 FMA3 AVX512F AVX512_SKX"}
NEWER = {"OPENBLAS_CORETYPE": "Haswell"}
pytestmark = pytest.mark.skipif(not HAS_AVX2, reason="takes a CPU with AVX2, and NumPy from a wheel")


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernels are given to the agents by the environment of the tests."""
    for name in KERNEL_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    """Agents that were given kernels for an older CPU, and for a newer one."""
    with cluster(tmp_path / "cluster") as made:
        made.start(1, **OLDER)
        made.start(1, **NEWER)
        yield made


def train(nodes: NodeAssignment, directory: Path, **options: object) -> JobResult:
    return digits_job().parallel(nodes, epoch=1, assignment_type=FOUR_BLOCKS, directory=directory, **options)


def computed(made: Cluster, number: int, result: JobResult) -> dict[str, str]:
    """What the node on an agent says of its job: with what it computed, and which bits were asked for."""
    (path,) = (made.agents[number].work / "jobs").glob(f"{result.job_id}.*/configuration.json")
    content = json.loads(path.read_text())
    return {"numerics": content["versions"]["numerics"], "bits": content["settings"]["net_setting"]["options"]["bits"]}


@pytest.mark.long
def test_portable_bits_are_the_same_on_all_kernels(pair: Cluster, tmp_path: Path) -> None:
    """Without, they differ; with two nodes of different kernels a warning says so."""
    found = {}
    for bits in (None, "portable"):
        for number, agent in enumerate(pair.agents):
            nodes = NodeAssignment(key_file=pair.key_file).add(0, agent.address)
            result = train(nodes, tmp_path / f"{bits}-{number}", bits=bits)
            told = computed(pair, number, result)
            assert told["bits"] == bits
            assert f"OpenBLAS kernels {'Haswell' if bits or number else 'Sandybridge'}, 1 thread" in told["numerics"]
            assert bits is None or not any(word in told["numerics"] for word in ("AVX512", "X86_V4"))
            found[bits, number] = only_weights(result)
    assert found["portable", 0] == found["portable", 1]
    assert found[None, 0] != found[None, 1]
    assert {found["portable", 0]} == {only_weights(train(pair.nodes(), tmp_path / "both", bits="portable"))}


@pytest.mark.long
@pytest.mark.usefixtures("unset")
@covers("RUN-2")
def test_all_nodes_of_a_job_have_one_set(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The first of a fixed order that all have, here one that was given; later attempts have it, too, and the log names it."""
    lines: list[str] = []
    with cluster(tmp_path / "cluster") as made, caplog.at_level("INFO", SUBMIT_LOGGER), hearing(lines.append):
        made.start(1)
        made.start(1, **NEWER)
        options = {"on_failure": "restart", "fault": "kill 1@e1.b3"}
        result = train(made.nodes(), tmp_path / "run", **options)
        assert result.restarts == 1
        for number in range(2):
            assert "OpenBLAS kernels Haswell, 1 thread" in computed(made, number, result)["numerics"]
    assert any("BLAS kernels of all nodes: Haswell" in line for line in lines)
    assert not any("their bits are not comparable" in line for line in lines if "AVX512" not in line)


@covers("RUN-2")
@pytest.mark.long
@pytest.mark.usefixtures("unset")
def test_an_agent_offers_the_same_sets_at_its_start_and_later(tmp_path: Path) -> None:
    """Two fresh agents and the same two after a job: equal offers, equal bits, nothing written in a cache."""
    cache = tmp_path / "cache"
    with cluster(tmp_path / "cluster") as made:
        made.start(2, XDG_CACHE_HOME=str(cache))
        found = []
        for number in range(2):
            with made.request() as com:
                found.append([session.caps["kernels"] for session in com.sessions.values()])
            found[-1].append(only_weights(train(made.nodes(), tmp_path / str(number))))
    offer = " ".join(kernel_sets.KernelSets({}, own=False).offered)
    assert found[0] == found[1] and found[0][:2] == [offer] * 2 and "Haswell" in offer
    assert not list(cache.rglob("*.json"))


def test_a_node_without_them_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything starts; and in a process whose NumPy is loaded already with other kernels."""
    monkeypatch.setattr(kernel_sets, "cpu", lambda: {"flags": "sse2 sse4_2 avx"})
    make_key(tmp_path / "key")
    cohort = Cohort(AgentSettings(port=0, key_file=str(tmp_path / "key"), work_dir=str(tmp_path / "work")))
    thread = threading.Thread(target=cohort.slave_forever)
    thread.start()
    try:
        nodes = NodeAssignment(key_file=tmp_path / "key").add(0, cohort.address)
        words = r"Node\(0\) .* refuses the job: 'bits' portable takes a CPU with AVX2 and FMA, on Linux, and NumPy from a wheel"
        with pytest.raises(SubmissionError, match=f"{words}: this CPU"):
            train(nodes, tmp_path / "run", bits="portable")
        assert list((tmp_path / "work" / "jobs").iterdir()) == []
    finally:
        cohort.stop()
        thread.join()
    with in_process(1) as nodes, pytest.raises(ValueError, match="takes one BLAS thread, got blas_threads=2"):
        train(nodes, tmp_path / "run", bits="portable", blas_threads=2)
