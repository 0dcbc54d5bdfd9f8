"""Identity of a run: what decides about its result changes it, and nothing else does."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from nn.dataset.transforms import ImageCls, Shuffle
from nn.model import Model
from parallel_sgd import ParallelSGD, in_process, simulated
from parallel_sgd.codec import Codec, Plain
from parallel_sgd.codec.compose import AllToAll
from parallel_sgd.codec.pipeline import ErrorFeedback, TopK
from parallel_sgd.sweeps.runs import DONE, FAILED, INTERRUPTED, found_runs
from rpc.shipping import content_hash
from tests.parallel_sgd.networks import mlp
from tests.parallel_sgd.sweeps.planned import Plan
from tests.processes.training.jobs import digits_job, line_data
from tests.statements import covers


def identity(**given: Any) -> str:
    return Plan(**given).identities[0]


def sparse(share: float) -> type[Codec]:
    return Codec.of(AllToAll(), up=ErrorFeedback(TopK(share)), name="Sparse")


class Mine(Plain):
    """A codec of the user's own."""

    def get_result(self) -> np.ndarray:
        return np.asarray(super().get_result()) * 0.5


OTHERS: dict[str, dict[str, Any]] = {
    "option": {"block_size": 64},
    "epochs": {"epoch": 2},
    "parameter of the rule": {"gd_params": {"learn_rate": 0.5}},
    "codec": {"codec": "int8"},
    "codec of one's own": {"codec": Mine},
    "composed codec": {"codec": sparse(0.1)},
    "parameter of it": {"codec": sparse(0.2)},
    "seed": {"seeds": [1]},
    "weights": {"new_weights": False},
    "model": {"job": digits_job(mlp(units=16))},
    "data": {"job": ParallelSGD(mlp(), nn.dataset.Digits(), ImageCls())},
    "workers": {"nodes": in_process(4)},
    "simulated": {"nodes": simulated(2)},
    "platform": {"nodes": simulated(2, "star 1Mbit/s 1ms")},
    "times": {"nodes": simulated(2, compute="5ms")},
    "other times": {"nodes": simulated(2, compute="6ms")},
}


@covers("RES-8")
def test_all_that_decides_about_the_result_changes_it() -> None:
    found = {name: identity(**given) for name, given in OTHERS.items()} | {"itself": identity()}
    assert len(set(found.values())) == len(found)


def test_nothing_else_does(tmp_path: Path) -> None:
    """Title, place, what is written and shown, a new object of the same settings, the word for a class."""
    assert identity(mission_title="other", directory=tmp_path, keep_data=0, checkpoint_every="epoch") == identity()
    assert identity(job=digits_job(), nodes=in_process(2)) == identity()
    assert identity(codec="plain") == identity(codec=Plain) == identity(grid={"codec": [Plain]})
    assert identity(codec=sparse(0.1)) == identity(codec=sparse(0.1))
    assert identity(nodes=simulated(4, compute="5ms"), grid={"workers": [2]}) == identity(nodes=simulated(2, compute="5ms"))


def test_data_of_arrays_is_known_by_its_content() -> None:
    def of(seed: int) -> str:
        model = nn.model.SequentialModel([-1, 2], [nn.layer.Dense(1)])
        model.setup("mse")
        return identity(job=ParallelSGD(model, line_data(seed=seed)), block_size=4)

    assert of(0) == of(0) != of(1)


_CODE = """
from parallel_sgd.codec import Plain
FACTOR = {factor}
def halved(value): return value * FACTOR
class Mine(Plain):
    def get_result(self): return halved(super().get_result())
"""


def test_code_is_known_by_what_it_does_wherever_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First compiled, then loaded as bytecode, then with other lines above it; but not where what it calls has changed."""
    monkeypatch.syspath_prepend(tmp_path)

    def of(text: str) -> str:
        (tmp_path / "codecs_of_mine.py").write_text(text)
        monkeypatch.delitem(sys.modules, "codecs_of_mine", raising=False)
        importlib.invalidate_caches()
        return content_hash({"codec": importlib.import_module("codecs_of_mine").Mine})

    first = of(_CODE.format(factor=0.5))
    assert of(_CODE.format(factor=0.5)) == first and of("\n# a line\n\n" + _CODE.format(factor=0.5)) == first
    assert of(_CODE.format(factor=0.25)) != first


def test_objects_of_equal_content_have_equal_hashes() -> None:
    def made(text: str) -> Any:
        # equal texts that are one object, or two
        return {"first": text, "second": "".join(list(text))}

    assert content_hash({"a": made("a long text")}) == content_hash({"a": {"first": "a long text", "second": "a long text"}})


@covers("RES-8")
def test_a_seed_has_the_weights_of_a_model_with_this_seed() -> None:
    def start(model: Model, **given: Any) -> np.ndarray:
        from parallel_sgd.sweeps.sweep import _begun, _copied

        return _begun(_copied(model), **given).store.values.copy()

    def fresh(seed: int) -> Model:
        model = nn.model.SequentialModel([-1, 64], [nn.layer.Dense(8, "tanh"), nn.layer.Dense(10, "softmax")], seed=seed)
        model.setup("crossentropy_with_softmax", "accuracy")
        return model

    given = fresh(3)
    before = given.store.values.copy()
    assert np.array_equal(start(given, seed=7, new_weights=True), fresh(7).store.values)
    assert np.array_equal(start(given, seed=7, new_weights=False), before)
    assert np.array_equal(given.store.values, before), "the model of the job is not changed"


@covers("RES-8")
def test_runs_are_found_again_with_their_state(tmp_path: Path) -> None:
    """One that is done, also beside a newer one that is not; one that failed; one whose process was killed."""

    class Fails(Plain):
        def get_result(self) -> np.ndarray:
            raise RuntimeError("a bug")

    plan = Plan({"codec": ["plain", Fails, "int8"]}, directory=tmp_path)
    done = plan.train(0).folder
    with pytest.raises(Exception, match="a bug"):
        plan.train(1)
    killed = plan.train(2).folder
    assert done is not None and killed is not None
    (killed / "outcome.json").unlink()  # a process that is killed writes none
    found = found_runs(tmp_path, plan.identities)
    assert [found[each].state for each in plan.identities] == [DONE, FAILED, INTERRUPTED]
    assert [found[each].folder for each in plan.identities] == ["digits-1", "digits-2", "digits-3"]
    assert "a bug" in found[plan.identities[1]].message
    again = plan.train(0).folder
    assert again is not None and again.name == "digits-4", "numbering goes on"
    (again / "outcome.json").write_text("{")  # cut off
    assert found_runs(tmp_path, plan.identities)[plan.identities[0]].folder == "digits-1"
    assert found_runs(tmp_path, ["0" * 64]) == {} == found_runs(tmp_path / "absent", plan.identities)


@covers("RES-8")
def test_a_run_that_does_not_agree_with_its_manifest_is_not_done(tmp_path: Path) -> None:
    """One that was killed before it had a manifest, and one of which a file was changed, or taken away, since."""
    plan = Plan(directory=tmp_path)
    done = plan.train().folder
    assert done is not None
    run, table = done.resolve(), "Node-1-Retrieve/EV-digits-N(1).csv"

    def found() -> tuple[str, str]:
        told = found_runs(tmp_path, plan.identities)[plan.identities[0]]
        assert told.folder == "digits-1" and bool(told.figures) == bool(told.points) == (told.state == DONE)
        return told.state, told.message

    changes: list[tuple[str, Callable[[str], str] | None, str]] = [
        ("outcome.json", lambda text: text.replace('"accuracy": 0.', '"accuracy": 0.9'), "is not the one of the manifest.json"),
        (table, lambda text: text.replace("0.", "0.9", 1), "is not the one of the manifest.json"),
        (table, None, "is not the one of the manifest.json"),
        ("manifest.json", None, "is missing"),
        ("manifest.json", lambda text: text.replace('"outcome.json"', '"other.json"'), "is not the one of the manifest.json"),
    ]
    assert found() == (DONE, "")
    for name, change, said in changes:
        text = (run / name).read_text()
        if change is None:
            (run / name).unlink()
        else:
            assert change(text) != text, name
            (run / name).write_text(change(text))
        state, message = found()
        assert state == INTERRUPTED and said in message, (name, message)
        (run / name).write_text(text)
        assert found() == (DONE, "")


@pytest.mark.parametrize(
    "nodes", [in_process(2), simulated(2, "star 10Mbit/s 1ms", compute="5ms")], ids=["measured", "simulated"]
)
def test_a_run_tells_bytes_and_seconds_at_the_end_of_each_epoch(nodes: Any, tmp_path: Path) -> None:
    plan = Plan(
        nodes=nodes, epoch=2, directory=tmp_path, job=ParallelSGD(mlp(), nn.dataset.Digits(), Shuffle().add(ImageCls()))
    )
    result = plan.train()
    told = found_runs(tmp_path, plan.identities)[plan.identities[0]]
    first, second = told.points
    assert (first.epoch, second.epoch, told.epochs) == (1, 2, 2) and told.figures == dict(result)
    # Plain: each of 2 workers sends the gradients to the other one in each batch
    parameters = result.models[0].store.values.size
    batches = -(-1500 // 256)
    assert told.bytes == second.bytes == 2 * (first.bytes or 0)
    assert first.bytes is not None and 0 <= first.bytes - 2 * 4 * parameters * batches < 0.1 * first.bytes
    assert told.seconds == second.seconds and (first.seconds or 0) < (second.seconds or 0)
    assert told.clock == ("simulated" if nodes.simulated else "measured")
    if result.simulated is not None:
        assert told.seconds is not None and told.seconds == pytest.approx(result.simulated.seconds, rel=0.2)
