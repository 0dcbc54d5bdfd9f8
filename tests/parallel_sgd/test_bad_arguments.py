"""Each argument of each public part of `parallel_sgd`, and each option of `parallel()`, gets values of wrong kinds: an error of
ours names it, or the part takes the value; what must not be taken is refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
import parallel_sgd
from network import faults as network_faults
from network.faults import FaultPlan, LinkFault, ProcessFault, Step
from parallel_sgd import ParallelSGD, batch_sync, elastic, federated, in_process, profiles, simulation, writers
from parallel_sgd.codec import Codec, PacketTraits, SizeAdaptive, Traits, compose, netEncapsulation, pipeline
from parallel_sgd.options.job_options import options

from ..bad_arguments import BAD, Odd, arguments, faults

PACKAGES = (compose, pipeline, batch_sync, profiles, federated)
FURTHER: tuple[Callable[..., Any], ...] = (
    *(PacketTraits, SizeAdaptive, Traits, netEncapsulation, FaultPlan, LinkFault, ProcessFault),
    *(parallel_sgd.Clients, ParallelSGD, elastic.ElasticSampler, elastic.StallInspector, writers.WriterCallback),
    *(
        simulation.Platform,
        simulation.network_of,
        simulation.parse_platform,
        simulation.platform_of,
        simulation.platform_to_toml,
    ),
    *(parallel_sgd.in_process, parallel_sgd.simulated, parallel_sgd.parse_worker),
)
#: Of a base class for extensions, or of parts that only the engine makes.
LEFT_OUT = frozenset({"AsynchronizedSGD", "Composition", "Description", "Draw", "Estimate", "Reader", "Round", "Shard"})
LEFT_OUT |= {"SynchronizedSGD", "check", "describe", "estimate", "load_client"}
STAR = simulation.parse_platform("star 1Gbit/s 50us")
GIVEN: dict[str, Any] = {
    "alpha": 0.5,
    "big": pipeline.QSGD,
    "data": nn.dataset.ArrayDataset(np.eye(4), np.arange(4)),
    "given": "star 1Gbit/s 50us",
    "inner": pipeline.TopK(0.1),
    "kind": "kill",
    "model": nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)]),
    "momentum": 0.5,
    "mu": 0.1,
    "node_count": 4,
    "nodes": [0, 1],
    "platform": STAR,
    "rate": 0.5,
    "rho": 0.1,
    "rows": [[0, 1], [2]],
    "rule": nn.gradient_descent.SGDOptimizer(),
    "step": Step(0),
    "tau": 0.1,
    "text": "star 1Gbit/s 50us",
    "writer": None,
}
OF_PART: dict[str, dict[str, Any]] = {
    "BufferedSampler": {"concurrency": 4},
    "LinkFault": {"kind": "cut"},
    "Platform": {"bandwidth": 1e9, "latency": 1e-3},
    "SizeAdaptive": {"big": parallel_sgd.codec.QSGD},
    "WriterCallback": {},
}
#: Words by which errors name an argument that stands for something else.
TOGETHER = {
    ("Chain", "stages"): ("stages",),
    ("parse_platform", "text"): ("platform",),
    ("platform_of", "given"): ("platform",),
    ("simulated", "platform"): ("platform",),
    ("parse_worker", "filename"): ("node file",),
}


def parts() -> Iterator[Callable[..., Any]]:
    found = [getattr(package, name) for package in PACKAGES for name in sorted(package.__all__)]
    for kind in dict.fromkeys((*found, *FURTHER)):
        is_other = isinstance(kind, type) and issubclass(kind, (Codec, Exception))
        if callable(kind) and not (inspect.isabstract(kind) or is_other or kind.__name__ in LEFT_OUT):
            yield kind


def needed(kind: Callable[..., Any]) -> dict[str, Any]:
    """Return the arguments without which a part cannot be made."""
    parameters = inspect.signature(kind).parameters.values()
    required = [each.name for each in parameters if each.default is each.empty and each.name in arguments(kind)]
    return {**{name: GIVEN.get(name, 2) for name in required}, **OF_PART.get(kind.__name__, {})}


@pytest.mark.parametrize("kind", [*parts()], ids=lambda kind: kind.__name__)
def test_an_argument_of_a_wrong_kind_is_named(
    kind: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("worker.json").write_text('{"Worker": ["127.0.0.1", "127.0.0.2"]}')
    if kind is not writers.WriterCallback:
        kind(**needed(kind))  # else each answer would be to another argument
    found = [
        fault for name in arguments(kind) for fault in faults(kind, name, needed(kind), TOGETHER.get((kind.__name__, name), ()))
    ]
    assert not found, "\n".join(found)


@pytest.fixture(scope="module")
def job() -> ParallelSGD:
    model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)], seed=1)
    model.setup("mse")
    x = np.ones((4, 4), np.float32)
    return ParallelSGD(model, nn.dataset.ArrayDataset(x, x[:, :3]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("option", [name for name, _ in options()])
def test_an_option_of_a_wrong_kind_is_named(
    option: str, job: ParallelSGD, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is trained; of the values here two options take a text, which is a title or a folder."""
    monkeypatch.chdir(tmp_path)
    given = {"nodes": in_process(1), "epoch": 1, "block_size": 2, "directory": tmp_path, "verbose": 0}

    def parallel(**options: Any) -> None:
        job.parallel(**options)
        taken.append(options[option])

    taken: list[Any] = []
    found = list(faults(parallel, option, given))
    assert not found, "\n".join(found)
    assert taken == (["nonsense"] if option in ("mission_title", "job_title", "directory") else [])


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: compose.Gossip([[1.0, "x"], [0, 1]]), r"Gossip 'matrix' must be a number that is finite, got 'x'"),
        (lambda: compose.Gossip([[1.0], [0, 1]]), r"Gossip 'matrix' must be square, symmetric"),
        (lambda: compose.WeightedMean(3), r"WeightedMean 'weights' must be a list of numbers, got 3"),
        (lambda: pipeline.Chain("ab"), r"Chain 'stages' must be a list of stages, got 'ab'"),
        (lambda: pipeline.Pipeline(pipeline.TopK), r"Pipeline 'stage' must be an instance of Stage"),
        (lambda: pipeline.Tern(base3="no"), r"Tern 'base3' must be True or False, got 'no'"),
        (lambda: pipeline.tangent_levels(0), r"tangent_levels\(\) 'count' must be a positive integer, got 0"),
        (lambda: batch_sync.StaleSynchronous(0.5), r"StaleSynchronous 'staleness' must be an integer of at least 0, got 0.5"),
        (lambda: profiles.FixedBlocks("many"), r"FixedBlockAssignment 'blocks' must be a positive integer, got 'many'"),
        (lambda: elastic.ElasticSampler(4, 2, shuffle="no"), r"ElasticSampler 'shuffle' must be True or False, got 'no'"),
        (lambda: netEncapsulation("", 1), r"netEncapsulation 'targets' must be a node id or several, got ''"),
        (lambda: netEncapsulation(b"ab", 1), r"netEncapsulation 'targets' must be a node id or several, got b'ab'"),
        (lambda: FaultPlan(["kill 1@e1"]), r"FaultPlan 'faults' must be Fault objects, .* got 'kill 1@e1'"),
        (lambda: FaultPlan(seed=True), r"FaultPlan 'seed' must be an integer, got True"),
        (lambda: ProcessFault("kil", 0, Step(0)), r"ProcessFault 'kind' must be one of kill, .*, got 'kil'"),
        (lambda: ProcessFault("kill", 0, Step(0), seconds=-1), r"ProcessFault 'seconds' must be a number >= 0, got -1"),
        (lambda: LinkFault("lose", 0, 1, share=2), r"LinkFault 'share' must be a number from 0 to 1, got 2"),
        (lambda: simulation.network_of(STAR, [0, "ps"]), r"network_of\(\) 'nodes' must be an integer of at least -2, got 'ps'"),
        (lambda: simulation.network_of(STAR, [0, 1], seed="x"), r"network_of\(\) 'seed' must be an integer"),
        (lambda: simulation.platform_from_toml(3), r"platform_from_toml\(\) 'text' must be the text of a TOML file, got 3"),
    ],
)
def test_what_was_taken_or_told_in_the_words_of_python_is_refused_by_name(call: Callable[[], object], told: str) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        call()


def test_every_public_fault_is_tried() -> None:
    """`Proxy`, `Route` and `Shape` are of tests with sockets; `perform` and `InjectedFault` are the engine's."""
    left = {"Fault", "InjectedFault", "Proxy", "Route", "Shape", "Step", "perform"}
    assert {each.__name__ for each in FURTHER} >= set(network_faults.__all__) - left
    assert len(BAD) == 15 and repr(Odd()) == "Odd()"
