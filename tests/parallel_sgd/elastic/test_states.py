"""What states keep, give back, and send."""

from __future__ import annotations

import random
from typing import Any

import msgpack
import numpy as np
import pytest

import nn
from network.values import decode, encode
from network.wire import unpack
from nn.gradient_descent import ADAMOptimizer, MomentumOptimizer, SGDOptimizer
from nn.gradient_descent.schedule import StepDecay
from parallel_sgd.elastic import ElasticSampler, ModelState, ObjectState, WorkersLostError
from parallel_sgd.elastic.group import Alone, using

from ...statements import covers


class Copying(Alone):
    """Rank `rank` of a group in which `told` is what rank 0 sends; what is sent really is encoded as it travels."""

    size = 2

    def __init__(self, rank: int, told: Any = None, lost: bool = False) -> None:
        self.rank, self.told, self.lost = rank, told, lost

    def broadcast(self, value: Any, root: int = 0) -> Any:
        if self.lost:
            raise WorkersLostError("rank 0")
        if self.rank == 0:
            tree, arrays = encode(value)
            self.told = (tree, [array.copy() for array in arrays])
            return value
        return self.told


def model(rule: Any = ADAMOptimizer, seed: int = 0, units: int = 3) -> nn.model.Model:
    made = nn.model.SequentialModel(
        [-1, 4], [nn.layer.Dense(units), nn.layer.BatchNorm(), nn.layer.Dropout(0.5), nn.layer.Dense(2)], seed=seed
    )
    made.setup(nn.loss.Cross_Entropy_With_Softmax())
    made.compile(rule)
    return made


def step(trained: nn.model.Model, key: tuple[int, ...] | None = None) -> float:
    rng = np.random.default_rng(5)
    x, label = rng.normal(size=(8, 4)), rng.integers(0, 2, 8)
    loss, _ = trained.compute_gradients(x, label, lambda variable: trained.optimizer.gradient_ready(variable, 0), key=key)
    trained.apply_gradients()
    return float(loss)


def sent(state: ObjectState) -> Any:
    """What rank 0 sends in `sync`, as it comes off the wire."""
    group = Copying(0)
    with using(group):
        state.sync()
    tree, arrays = group.told
    return decode(unpack(msgpack.packb(tree)), arrays)


@covers("EL-6")
def test_restore_gives_what_was_constructed_and_then_what_was_committed() -> None:
    state = ObjectState(epoch=0, name="first")
    state.epoch, state.name = 3, "second"
    state.restore()
    assert (state.epoch, state.name) == (0, "first")
    state.epoch = 4
    state.commit()
    state.epoch = 5
    state.restore()
    assert (state.epoch, state.name) == (4, "first")
    state.restore()
    assert state.epoch == 4


@covers("EL-7")
def test_values_changed_in_place() -> None:
    """Arrays, lists, dicts and what is in them, before and after commits, again and again."""
    array, rows, nested = np.arange(3.0), [1], {"a": [np.ones(2)]}
    state = ObjectState(array=array, rows=rows, nested=nested)
    for expected in (0.0, 7.0):
        for _ in range(2):
            state.array[:] = 9
            state.rows.append(2)
            state.nested["a"][0][:] = 9
            state.nested["b"] = 1
            state.restore()
            assert state.array[0] == expected
            assert state.rows == [1] and list(state.nested) == ["a"]
            np.testing.assert_array_equal(state.nested["a"][0], 1)
        state.array[:] = 7
        state.commit()


@covers("EL-7")
def test_two_names_of_one_array_stay_one() -> None:
    shared = np.zeros(2)
    state = ObjectState(a=shared, b=shared)
    state.restore()
    assert state.a is state.b


@covers("EL-7")
@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.Philox, np.random.MT19937, np.random.SFC64])
def test_random_generators(kind: Any) -> None:
    """What was drawn after the commit is drawn again, from the same object."""
    generator, python = np.random.Generator(kind(1)), random.Random(1)
    state = ObjectState(generator=generator, python=python)
    generator.normal(size=3), python.random()
    state.commit()
    drawn = generator.normal(), python.random()
    state.restore()
    assert (generator.normal(), python.random()) == drawn
    assert state.generator is generator and state.python is python


@covers("EL-7")
def test_samplers_and_rules() -> None:
    """What tells its state is given it back, and stays the object that it is."""
    sampler, rule, weights = ElasticSampler(10, 2), MomentumOptimizer(0.1), np.ones(3)
    state = ObjectState(sampler=sampler, rule=rule, weights=weights)
    rule.update(state.weights, np.ones(3))
    next(iter(sampler))
    sampler.record_batch()
    state.commit()
    after = state.weights.copy()
    rule.update(state.weights, np.ones(3))
    set_aside = state.weights.copy()
    sampler.set_epoch(3)
    state.restore()
    assert (sampler.epoch, sampler.processed) == (0, 2)
    np.testing.assert_array_equal(state.weights, after)
    rule.update(state.weights, np.ones(3))
    np.testing.assert_array_equal(state.weights, set_aside)
    assert state.rule is rule and state.sampler is sampler


@covers("EL-7")
@pytest.mark.parametrize("rule", [SGDOptimizer(0.1), MomentumOptimizer(0.1), ADAMOptimizer(1e-2)])
def test_a_model_goes_on_bit_for_bit(rule: Any) -> None:
    """Weights, statistics, slots and the counter behind dropout: after restore the same steps give the same bits."""
    trained = model(rule)
    state = ModelState(trained, batch=0)
    values = trained.store.values
    begun = values.copy()
    for committed in (0, 2):
        for _ in range(committed):
            step(trained)
        if committed:
            state.commit()
        runs = []
        for _ in range(2):
            losses = [step(trained) for _ in range(3)]
            runs.append((losses, values.tobytes(), trained.store.buffer_values.tobytes()))
            state.restore()
        assert runs[0] == runs[1]
        assert committed or values.tobytes() == begun.tobytes()
    assert trained.store.values is values


@covers("EL-7")
def test_the_learning_rate_and_the_history() -> None:
    """a learning rate that was set is part of the state, a schedule is not; so are epochs and their results."""
    trained = model()
    state = ModelState(trained)
    assert trained.rule is not None
    trained.rule.learn_rate = 0.5
    trained.fit(np.eye(4), [0, 1, 0, 1], epoch=2, verbose=0)
    state.commit()
    trained.rule.learn_rate = 0.7
    trained.fit(np.eye(4), [0, 1, 0, 1], epoch=1, verbose=0)
    state.restore()
    assert trained.rule.learn_rate == 0.5
    assert trained.epochs_trained == 2 and trained.fit_history()["epoch"] == [1, 2]
    scheduled = model(SGDOptimizer(StepDecay(0.1, 2)))
    ModelState(scheduled).restore()
    assert scheduled.rule is not None and scheduled.rule.schedule is not None


@covers("EL-8")
def test_sync_takes_over_every_bit() -> None:
    """a worker that has just come gets rank 0's values as they are, committed or not, and keeps its objects."""
    old = ModelState(model(), batch=0, rng=np.random.default_rng(1), seen={1: np.arange(3), "x": (1, 2.5, None)})
    for _ in range(3):
        step(old.model)
    old.rng.normal()
    old.batch = 3
    new = ModelState(model(seed=9), batch=0, rng=np.random.default_rng(2), seen={})
    mine, generator = new.model, new.rng
    with using(Copying(1, sent(old))):
        new.sync()
    assert new.model is mine and new.rng is generator
    assert new.model.store.values.tobytes() == old.model.store.values.tobytes()
    assert new.model.store.buffer_values.tobytes() == old.model.store.buffer_values.tobytes()
    assert new.batch == 3 and new.seen["x"] == (1, 2.5, None) and new.seen[1].tolist() == [0, 1, 2]
    assert new.rng.normal() == old.rng.normal()
    assert [step(new.model) for _ in range(3)] == [step(old.model) for _ in range(3)]
    new.restore()
    assert new.batch == 3 and old.model.store.values.tobytes() != new.model.store.values.tobytes()


@covers("EL-2", "EL-6")
def test_a_sync_that_fails_harms_no_commit() -> None:
    """a peer lost while rank 0 sends leaves the last commit whole, model and values of one moment."""
    state = ModelState(model(), batch=0)
    step(state.model)
    state.batch = 1
    state.commit()
    committed = state.model.store.values.tobytes()
    step(state.model)
    state.batch = 2
    for rank in (0, 1):
        with using(Copying(rank, lost=True)), pytest.raises(WorkersLostError):
            state.sync()
    state.restore()
    assert state.batch == 1 and state.model.store.values.tobytes() == committed


@covers("EL-6")
def test_a_save_that_fails_harms_no_commit() -> None:
    """a value that cannot be copied, met after the weights were."""

    class Stubborn:
        def __deepcopy__(self, memo: Any) -> Any:
            raise RuntimeError("not me")

    state = ModelState(model(), extra=0)
    state.commit()
    committed = state.model.store.values.tobytes()
    for _ in range(2):
        step(state.model)
        state.extra = Stubborn()
        with pytest.raises(RuntimeError, match="not me"):
            state.save()
    state.restore()
    assert state.extra == 0 and state.model.store.values.tobytes() == committed


def test_commits_use_the_same_memory() -> None:
    """A commit copies the weights into memory that it has: two copies, used in turns."""
    state = ModelState(model())
    places = set()
    for _ in range(6):
        step(state.model)
        state.commit()
        places.add(id(state._saved["model"]["values"]))
    assert len(places) == 2


@covers("EL-8")
def test_other_values_than_rank_zero() -> None:
    """States that differ in kind are named, not mixed up."""
    with using(Copying(1, sent(ObjectState(a=1, b=2)))), pytest.raises(ValueError, match="'b' is not that of rank 0"):
        ObjectState(a=1).sync()
    with (
        using(Copying(1, sent(ModelState(model(units=5))))),
        pytest.raises(ValueError, match=r"its values are \d+ of float32 here, rank 0 has others"),
    ):
        ModelState(model(units=3)).sync()


def test_what_a_state_cannot_hold() -> None:
    for name in ("sync", "commit", "_saved"):
        with pytest.raises(ValueError, match=f"ObjectState cannot hold a value called '{name}': that name is its own"):
            ObjectState(**{name: 1})
    with pytest.raises(TypeError, match=r"cannot synchronise the model 'net'; use ModelState\(net, \.\.\.\)"):
        ObjectState(net=model())
    with pytest.raises(TypeError, match="ModelState 'model' must be an instance of Model"):
        ModelState(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'model' must have its variables; give it an input_shape"):
        ModelState(nn.model.SequentialModel(layers=[nn.layer.Dense(3)]))
    with pytest.raises(AttributeError, match="ObjectState has no attribute 'c'; it holds a, b"):
        ObjectState(a=1, b=2).c  # noqa: B018 - reading it is the test
