"""What `run` calls in which order and what it lets through; what states keep, give back, send, and what is kept of them on
disk: whole or not there, and nothing but data.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

import nn
from network.values import decode, encode
from network.wire import unpack
from nn.gradient_descent import ADAMOptimizer, MomentumOptimizer, SGDOptimizer
from nn.gradient_descent.schedule import StepDecay
from parallel_sgd.checkpoint.store import Disk
from parallel_sgd.elastic import (
    ElasticSampler,
    HostsUpdatedInterrupt,
    HostUpdateResult,
    ModelState,
    ObjectState,
    State,
    WorkerRemoved,
    WorkersLostError,
    run,
)
from parallel_sgd.elastic.group import Alone, Listener, current, using
from parallel_sgd.elastic.job import StateFile

from ...statements import covers


class Peers(Alone):
    """A group as one worker sees it. `asks` is what others say to whether they need the state, `told` what rank 0 sends, which
    is encoded as it travels; `lost`: its sender dies. It begins with `content` that was kept, and keeps all."""

    def __init__(
        self, rank: int = 0, size: int = 1, *, asks: bool = False, told: Any = None, lost: bool = False, content: Any = None
    ) -> None:
        self.rank, self.size, self.sequence = rank, size, 0
        self.asks, self.told, self.lost, self.content = asks, told, lost, content
        self.calls: list[str] = []
        self.held: list[bool] = []
        self.kept: list[Any] = []
        self.listeners: list[Listener] = []

    def allreduce(self, array: Any, op: str = "mean") -> Any:
        return np.maximum(array, float(self.asks))

    def broadcast(self, value: Any, root: int = 0) -> Any:
        if self.lost:
            raise WorkersLostError("rank 0")
        if self.rank == 0:
            tree, arrays = encode(value)
            self.told = decode(unpack(msgpack.packb(tree)), [array.copy() for array in arrays])
            return value
        return self.told

    def reform(self, holds: bool) -> None:
        self.calls.append("reform")
        self.held.append(holds)
        self.size += 1

    def keep(self, content: Any) -> None:
        self.kept.append(content())

    def take_kept(self) -> Any:
        return self.content

    def subscribe(self, listener: Listener) -> None:
        self.listeners.append(listener)

    def unsubscribe(self, listener: Listener) -> None:
        self.listeners.remove(listener)


class Traced(State):
    """A state that writes down what is asked of it; the first `losses` times that it synchronises, a peer is lost."""

    def __init__(self, calls: list[str], losses: int = 0) -> None:
        super().__init__(lambda value: value, lambda: 0)
        self.calls, self.losses = calls, losses

    def save(self) -> None:
        self.calls.append("save")

    def restore(self) -> None:
        self.calls.append("restore")

    def sync(self) -> None:
        self.calls.append("sync")
        if self.losses:
            self.losses -= 1
            raise WorkersLostError

    def reset(self) -> None:
        self.calls.append("reset")


def trace(*interruptions: BaseException, asks: bool = False, losses: int = 0) -> tuple[Peers, Callable[[], Any]]:
    """A training function that meets one interruption each time it is called."""
    group = Peers(asks=asks)
    calls, coming = group.calls, iter(interruptions)
    state = Traced(calls, losses)
    state.register_reset_callbacks([lambda: calls.append(f"first {current().size}"), lambda: calls.append("second")])

    @run
    def train(state: Traced, result: str, *, more: int) -> tuple[str, int]:
        calls.append("func")
        assert len(group.listeners) == 1
        for interruption in coming:
            raise interruption
        return result, more

    def call() -> Any:
        with using(group):
            return train(state, "done", more=3)

    return group, call


def reset(size: int) -> list[str]:
    return ["reform", "reset", f"first {size}", "second"]


LOSS, CHANGE, REMOVAL = WorkersLostError("a peer"), HostsUpdatedInterrupt(), HostsUpdatedInterrupt(skip_sync=True)
BEGIN = ["sync", "func"]


@covers("EL-1", "EL-2", "EL-3", "EL-13")
@pytest.mark.parametrize(
    ("interruptions", "options", "held", "expected"),
    [
        ([], {}, [], BEGIN),
        ([LOSS], {}, [True], [*BEGIN, "restore", *reset(2), *BEGIN]),
        ([CHANGE], {}, [True], [*BEGIN, *reset(2), *BEGIN]),
        ([REMOVAL], {}, [True], [*BEGIN, *reset(2), "func"]),
        # somebody who needs the state: a newcomer, or one that saw a loss
        ([REMOVAL], {"asks": True}, [True], [*BEGIN, *reset(2), *BEGIN]),
        # a skipped sync is skipped once
        ([REMOVAL, LOSS, CHANGE], {}, 3 * [True], [*BEGIN, *reset(2), "func", "restore", *reset(3), *BEGIN, *reset(4), *BEGIN]),
        # a loss during sync is one like any other; a worker that never had the state says that it holds none
        ([], {"losses": 2}, 2 * [False], ["sync", "restore", *reset(2), "sync", "restore", *reset(3), *BEGIN]),
    ],
)
def test_the_order_of_calls(
    interruptions: list[BaseException], options: dict[str, Any], held: list[bool], expected: list[str]
) -> None:
    """A loss goes back to the commit; callbacks come in order, with the new size; a pure removal needs no state. The value of
    the function is returned, and the listener is removed."""
    group, call = trace(*interruptions, **options)
    assert call() == ("done", 3)
    assert group.calls == expected and group.held == held and group.listeners == []


@covers("EL-4", "EL-1")
@pytest.mark.parametrize(
    "error", [ValueError("mine"), WorkerRemoved("a[0] has been removed"), KeyboardInterrupt(), SystemExit(3)]
)
def test_any_other_exception(error: Any) -> None:
    """It leaves unchanged, and the listener is removed all the same."""
    group, call = trace(error)
    with pytest.raises(type(error)) as caught:
        call()
    assert caught.value is error and group.calls == BEGIN and group.listeners == []


@covers("EL-2", "EL-5", "EL-13", "EL-14")
@pytest.mark.parametrize(
    "script",
    [
        # pure removals skip the sync, and nothing else; several changes before one check are one interruption
        *("1- skip quiet", "1- 2- skip quiet", "1+ sync quiet", "1* sync quiet", "1- 2+ sync quiet", "1+ 2- sync quiet"),
        "4+ 4+ sync 4+ 3- quiet",  # a notice counts once, by its number, however often it is told, and never again
        "1+ reset quiet",  # changes that led to the reset are done
    ],
)
def test_changes_of_hosts(script: str) -> None:
    """`1+` tells of hosts that were added, by notice 1. A commit saves first; when the check raises, the save has happened."""
    state = Traced([])
    for word in script.split():
        if word[0].isdigit():
            state.on_hosts_updated(int(word[0]), HostUpdateResult("-+*".index(word[1]) + 1))
        elif word == "reset":
            state.on_reset()
        else:
            state.calls.clear()
            try:
                state.commit()
                heard = "quiet"
            except HostsUpdatedInterrupt as interrupt:
                heard = "skip" if interrupt.skip_sync else "sync"
            assert heard == word and state.calls == ["save"]


@covers("EL-2", "EL-14")
def test_a_change_that_came_too_late_for_the_new_group_still_counts() -> None:
    """The group takes account of 2; the driver repeats what it thinks was lost."""
    group, state = Peers(), ObjectState()
    group.sequence = 2
    with using(group):
        state.on_hosts_updated(2, HostUpdateResult.added)
        state.on_hosts_updated(3, HostUpdateResult.removed)
        state.on_reset()
        with pytest.raises(HostsUpdatedInterrupt) as caught:
            state.check_host_updates()
        assert caught.value.skip_sync
        state.on_hosts_updated(2, HostUpdateResult.added)
        state.check_host_updates()


def test_by_itself() -> None:
    """A program that was started by itself is a group of one, which makes all exchanges and is never interrupted."""
    state = ObjectState(total=np.zeros(2))

    @run
    def train(state: ObjectState) -> float:
        for _ in range(3):
            state.total += current().allreduce(np.ones(2))
            state.commit()
        current().barrier()
        current().reform(True)
        return float(state.total.sum())

    assert train(state) == 6.0


# ---- values


def model(rule: Any = ADAMOptimizer, seed: int = 0, units: int = 3) -> nn.model.Model:
    made = nn.model.SequentialModel(
        [-1, 4], [nn.layer.Dense(units), nn.layer.BatchNorm(), nn.layer.Dropout(0.5), nn.layer.Dense(2)], seed=seed
    )
    made.setup(nn.loss.Cross_Entropy_With_Softmax())
    made.compile(rule)
    return made


def step(trained: nn.model.Model) -> float:
    rng = np.random.default_rng(5)
    x, label = rng.normal(size=(8, 4)), rng.integers(0, 2, 8)
    loss, _ = trained.compute_gradients(x, label, lambda variable: trained.optimizer.gradient_ready(variable, 0))
    trained.apply_gradients()
    return float(loss)


def bits(state: ModelState) -> tuple[bytes, bytes]:
    return state.model.store.values.tobytes(), state.model.store.buffer_values.tobytes()


def sent(state: ObjectState) -> Any:
    """What rank 0 sends in `sync`, as it comes off the wire."""
    group = Peers(size=2)
    with using(group):
        state.sync()
    return group.told


@covers("EL-6", "EL-7")
def test_restore_gives_what_was_constructed_and_then_what_was_committed() -> None:
    """Also of arrays, lists, dicts and what is in them that were changed in place, again and again. Two names of one array stay
    one."""
    array = np.arange(3.0)
    state = ObjectState(epoch=0, array=array, alias=array, rows=[1], nested={"a": [np.ones(2)]})
    for epoch, expected in ((0, 0.0), (4, 7.0)):
        for _ in range(2):
            state.epoch = 9
            state.array[:] = 9
            state.rows.append(2)
            state.nested["a"][0][:] = 9
            state.nested["b"] = 1
            state.restore()
            assert (state.epoch, state.array[0], state.rows, list(state.nested)) == (epoch, expected, [1], ["a"])
            assert state.array is state.alias
            np.testing.assert_array_equal(state.nested["a"][0], 1)
        state.epoch = 4
        state.array[:] = 7
        state.commit()


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
    """Weights, statistics, slots and the counter behind dropout: after restore the same steps give the same bits. A commit
    copies the weights into memory that it has: two copies, used in turns."""
    state = ModelState(model(rule), batch=0)
    values, begun = state.model.store.values, bits(state)
    for committed in (0, 2):
        for _ in range(committed):
            step(state.model)
        if committed:
            state.commit()
        runs = []
        for _ in range(2):
            runs.append(([step(state.model) for _ in range(3)], bits(state)))
            state.restore()
        assert runs[0] == runs[1]
        assert committed or bits(state)[0] == begun[0]
    assert state.model.store.values is values
    places = set()
    for _ in range(6):
        step(state.model)
        state.commit()
        places.add(id(state._saved["model"]["values"]))
    assert len(places) == 2


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
    with using(Peers(1, 2, told=sent(old))):
        new.sync()
    assert new.model is mine and new.rng is generator and bits(new) == bits(old)
    assert new.batch == 3 and new.seen["x"] == (1, 2.5, None) and new.seen[1].tolist() == [0, 1, 2]
    assert new.rng.normal() == old.rng.normal()
    assert [step(new.model) for _ in range(3)] == [step(old.model) for _ in range(3)]
    new.restore()
    assert new.batch == 3 and bits(old)[0] != bits(new)[0]


@covers("EL-2", "EL-6")
def test_what_fails_harms_no_commit() -> None:
    """A peer lost while rank 0 sends, or a value that cannot be copied, met after the weights were, leaves the last commit
    whole, model and values of one moment."""

    class Stubborn:
        def __deepcopy__(self, memo: Any) -> Any:
            raise RuntimeError("not me")

    state = ModelState(model(), batch=0)
    step(state.model)
    state.batch = 1
    state.commit()
    committed = bits(state)
    step(state.model)
    state.batch = 2
    for rank in (0, 1):
        with using(Peers(rank, 2, lost=True)), pytest.raises(WorkersLostError):
            state.sync()
    for _ in range(2):
        step(state.model)
        state.batch = Stubborn()
        with pytest.raises(RuntimeError, match="not me"):
            state.save()
    state.restore()
    assert state.batch == 1 and bits(state) == committed


@covers("EL-8")
def test_what_a_state_refuses() -> None:
    """States that differ in kind are named, not mixed up; so is what a state cannot hold."""
    taken = [
        (lambda name=name: ObjectState(**{name: 1}), f"a value called '{name}': that") for name in ("sync", "commit", "_saved")
    ]
    bare = nn.model.SequentialModel(layers=[nn.layer.Dense(3)])
    for kind, make, message in (
        *((ValueError, make, f"ObjectState cannot hold {words} name is its own") for make, words in taken),
        (TypeError, lambda: ObjectState(net=bare), r"cannot synchronise the model 'net'; use ModelState\(net, \.\.\.\)"),
        (TypeError, lambda: ModelState(3), "ModelState 'model' must be an instance of Model"),
        (ValueError, lambda: ModelState(bare), "'model' must have its variables; give it an input_shape"),
        (AttributeError, lambda: ObjectState(a=1, b=2).c, "ObjectState has no attribute 'c'; it holds a, b"),
        (TypeError, lambda: Traced([]).load({}), "Traced is no state that can begin with a checkpoint"),
    ):
        with pytest.raises(kind, match=message):
            make()
    for theirs, mine, name in (
        (ObjectState(a=1, b=2), ObjectState(a=1), "b"),
        (ObjectState(a=np.random.default_rng(1)), ObjectState(a=1), "a"),
        (ModelState(model(), a=1), ModelState(model(), a=1, b=2), "b"),
    ):
        words = f"{type(mine).__name__} must hold the same values on all workers; '{name}' is not that of rank 0"
        with using(Peers(1, 2, told=sent(theirs))), pytest.raises(ValueError, match=words):
            mine.sync()
    other = r"its values are \d+ of float32 here, rank 0 has others"
    with using(Peers(1, 2, told=sent(ModelState(model(units=5))))), pytest.raises(ValueError, match=other):
        ModelState(model(units=3)).sync()


# ---- what is kept on disk


@covers("EL-12")
def test_a_state_begins_with_what_was_kept() -> None:
    """`run` loads it before it synchronises; each save, and each commit, may be kept, and is a copy."""

    @run
    def train(state: Any) -> Any:
        state.seen.append(3)
        state.commit()
        state.seen.append(4)
        return state.seen

    group = Peers(content={"plain": {"seen": [1, 2]}, "kept": {}})
    with using(group):
        assert train(ObjectState(seen=[])) == [1, 2, 3, 4]
    assert [content["plain"]["seen"] for content in group.kept] == [[1, 2], [1, 2], [1, 2, 3]]
    group = Peers(content={"plain": {"other": 1}, "kept": {}})
    with using(group), pytest.raises(ValueError, match=r"not of this program's state: .*other"):
        train(ObjectState(seen=[]))


CONTENT: dict[str, Any] = {
    "plain": {"step": 3, "table": np.arange(50_000.0)},
    "kept": {"sampler": {"epoch": 1, "processed": 40}},
}


def test_what_is_kept_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "state"
    state_file = StateFile(path)
    assert state_file.content is None and not path.exists()
    assert state_file.keep({"old": 1}) and state_file.keep(CONTENT)
    assert (path.stat().st_mode & 0o777, os.listdir(tmp_path)) == (0o600, ["state"])
    found = StateFile(path).content
    np.testing.assert_array_equal(found["plain"].pop("table"), CONTENT["plain"]["table"])
    assert found == {"plain": {"step": 3}, "kept": CONTENT["kept"]}


@pytest.mark.parametrize("place", [25, 60, 100_000, -1])
def test_a_damaged_file_is_no_state(tmp_path: Path, place: int) -> None:
    """Each flipped bit, and each missing byte, is noticed before anything starts. Another file is not overwritten."""
    path = tmp_path / "state"
    StateFile(path).keep(CONTENT)
    data = path.read_bytes()
    flipped = bytearray(data)
    flipped[place] ^= 1
    for damaged in (flipped, data[:place]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"The checkpoint .*state is damaged"):
            StateFile(path)
    path.write_text("Chapter 1")
    with pytest.raises(ValueError, match=r"'checkpoint' must be a file that elastic\.launch has written, or none yet; .*state"):
        StateFile(path)


class FullDisk(Disk):
    def replace(self, source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_that_refuses(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The job goes on; what was kept before stays."""
    path = tmp_path / "state"
    StateFile(path).keep(1)
    state_file = StateFile(path, FullDisk())
    assert not state_file.keep(2) and state_file.content == 1
    assert "No space left on device" in caplog.text
    assert os.listdir(tmp_path) == ["state"] and StateFile(path).content == 1
