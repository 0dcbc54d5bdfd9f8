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
from rpc.agent import kernel_probe
from rpc.agent.settings import AgentSettings

from ..harness import Cluster, cluster, make_key, wait_for
from .jobs import FOUR_BLOCKS, digits_job, hearing, only_weights

FLAGS = kernel_probe.cpu().get("flags", "").split()
HAS_AVX2 = "avx2" in FLAGS and bool(kernel_probe.library_name())
OLDER = {"OPENBLAS_CORETYPE": "Sandybridge", "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX2 FMA3 AVX512F AVX512_SKX"}
NEWER = {"OPENBLAS_CORETYPE": "Haswell"}
pytestmark = pytest.mark.skipif(not HAS_AVX2, reason="takes a CPU with AVX2, and NumPy from a wheel")


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


def test_portable_bits_are_the_same_on_all_kernels(pair: Cluster, tmp_path: Path) -> None:
    """Without, they differ; with two nodes of different kernels a warning says so."""
    found = {}
    for bits in (None, "portable"):
        for number, agent in enumerate(pair.agents):
            nodes = NodeAssignment(key_file=pair.key_file).add(0, agent.address)
            result = train(nodes, tmp_path / f"{bits}-{number}", bits=bits)
            told = computed(pair, number, result)
            assert told["bits"] == bits
            assert f"OpenBLAS kernels {'Haswell' if bits or number else 'Sandybridge'}, 1 thread(s)" in told["numerics"]
            assert bits is None or not any(word in told["numerics"] for word in ("AVX512", "X86_V4"))
            found[bits, number] = only_weights(result)
    assert found["portable", 0] == found["portable", 1]
    assert found[None, 0] != found[None, 1]
    assert {found["portable", 0]} == {only_weights(train(pair.nodes(), tmp_path / "both", bits="portable"))}


def test_all_nodes_of_a_job_have_one_set(tmp_path: Path) -> None:
    """That which they have in common, here one that was measured and one that was given; later attempts have it, too."""
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    if kernel_probe.needs_measuring(cache):  # else there is no choice on this CPU
        measured = kernel_probe.place_of(cache)
        measured.parent.mkdir(parents=True)
        measured.write_text('{"microseconds": "SkylakeX=100 Haswell=80"}')
    lines: list[str] = []
    with cluster(tmp_path / "cluster") as made, hearing(lines.append):
        made.start(1, PSGD_KERNEL_PROBE="on", **cache)
        made.start(1, **NEWER)
        options = {"on_failure": "restart", "fault": "kill 1@e1.b3"}
        result = train(made.nodes(), tmp_path / "run", **options)
        assert result.restarts == 1
        for number in range(2):
            assert "OpenBLAS kernels Haswell, 1 thread(s)" in computed(made, number, result)["numerics"]
    assert not any("their bits are not comparable" in line for line in lines if "AVX512" not in line)


@pytest.mark.slow
def test_kernels_are_measured_once(tmp_path: Path) -> None:
    """By the first agent on a CPU, beside its work; whoever comes later knows it. A measurement that fails is none."""
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    if not kernel_probe.needs_measuring(cache):
        pytest.skip("OpenBLAS has one set of kernels for this CPU")
    place = kernel_probe.place_of(cache)
    with cluster(tmp_path / "cluster") as made:
        (first,) = made.start(1, PSGD_KERNEL_PROBE="on", **cache)
        wait_for(lambda: kernel_probe.remembered(cache), "the kernels to be measured", 60.0)
        before = place.stat()
        (second,) = made.start(1, PSGD_KERNEL_PROBE="on", **cache)
        wait_for(lambda: not first.job_pids() and not second.job_pids(), "the agents to be alone")
        with made.request() as com:
            caps = [session.caps["kernels"] for session in com.sessions.values()]
        assert place.stat().st_mtime_ns == before.st_mtime_ns and place.stat().st_mode & 0o777 == 0o600
    times = kernel_probe.remembered(cache)
    assert times is not None and len(times) >= 1 and "Haswell" in times and min(times.values()) > 0
    assert caps == [" ".join(f"{name}={time}" for name, time in times.items())] * 2


def test_a_node_without_them_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything starts; and in a process whose NumPy is loaded already with other kernels."""
    monkeypatch.setattr(kernel_probe, "cpu", lambda: {"flags": "sse2 sse4_2 avx"})
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
