from collections.abc import Mapping

import numpy as np
import pytest

import nn
from tests.nn.model.models import classifier, samples


def test_training_learns() -> None:
    model, (x, y), test = classifier(), samples(500), samples(200, seed=1)
    history = model.fit(x, y, epoch=30, batch_size=32, validation_data=test, verbose=0)
    assert history["Loss"][-1] < 0.2 < history["Loss"][0]
    assert history["val_accuracy"][-1] > 0.9
    assert model.evaluate(*test)["accuracy"] == history["val_accuracy"][-1]
    assert history is model.fit_history()
    assert history["epoch"] == list(range(1, 31))


def test_every_sample_weighs_the_same_whatever_the_batches() -> None:
    model, (x, y) = classifier(), samples(101)
    whole = model.evaluate(x, y, batch_size=1000)
    for size in (1, 7, 100):
        parts = model.evaluate(x, y, batch_size=size)
        assert parts["Loss"] == pytest.approx(whole["Loss"], rel=1e-6)
        assert parts["accuracy"] == whole["accuracy"]
    assert model.predict(x, batch_size=10).shape == (101, 3)
    np.testing.assert_allclose(model.predict(x, batch_size=10), model.predict(x), rtol=1e-5)
    assert all(type(value) is float for value in whole.values())


def test_results_of_an_epoch_are_means_over_samples_not_batches() -> None:
    """With a rule that changes nothing, training sees what evaluate sees; 101 is no multiple of 8."""
    model, (x, y) = classifier(), samples(101)
    model.compile(nn.gradient_descent.SGDOptimizer(0))
    row = model.fit(x, y, epoch=1, batch_size=8, verbose=0).rows[0]
    expected = model.evaluate(x, y)
    assert row["Loss"] == pytest.approx(expected["Loss"], rel=1e-6)
    assert row["accuracy"] == expected["accuracy"]


def test_one_batch_of_everything_is_one_step_of_the_rule() -> None:
    model, (x, y) = classifier(dtype="float64"), samples(50)
    model.compute_gradients(x, y)
    expected = model.store.values.copy()
    nn.gradient_descent.ADAMOptimizer(0.01).update(expected, model.store.gradients)
    model.fit(x, y, epoch=1, batch_size=1000, shuffle=False, verbose=0)
    np.testing.assert_allclose(model.store.values, expected, rtol=1e-12)


def test_the_gradient_of_a_batch_is_the_mean_of_its_blocks() -> None:
    model, (x, y) = classifier(dtype="float64"), samples(60)
    model.compute_gradients(x, y)
    whole, total = model.store.gradients.copy(), np.zeros(model.store.gradients.shape)
    for block in range(4):
        model.compute_gradients(x[block * 15 : block * 15 + 15], y[block * 15 : block * 15 + 15])
        total += model.store.gradients
    np.testing.assert_allclose(total / 4, whole, rtol=1e-10, atol=1e-14)


def test_a_seed_repeats_a_run_bit_for_bit_and_is_recorded() -> None:
    x, y = samples()

    def weights(seed: int | None) -> np.ndarray:
        model = classifier(dropout=0.3)
        assert model.fit(x, y, epoch=3, batch_size=16, verbose=0, seed=seed).seed == (seed or 0)
        return model.store.values

    assert np.array_equal(weights(5), weights(5))
    assert not np.array_equal(weights(5), weights(6))
    assert np.array_equal(weights(None), weights(0))


def test_samples_of_other_types_are_converted() -> None:
    model, (x, y) = classifier(), samples()
    pixels = (x * 20).astype(np.int16)
    expected = model.predict(pixels.astype(np.float32))
    assert np.array_equal(model.predict(pixels), expected)
    assert model.evaluate(pixels, y) == model.evaluate(pixels.astype(np.float32), y)
    model.fit(pixels.astype(np.float64), y.astype(np.uint8), epoch=1, verbose=0)
    first = model.store.values.copy()
    again = classifier()
    again.fit(pixels.astype(np.float32), y, epoch=1, verbose=0)
    assert np.array_equal(again.store.values, first)


def test_more_shapes_than_plans_are_kept() -> None:
    model, (x, y) = classifier(), samples()
    first = model.compute_gradients(x[:1], y[:1])[0]
    for size in range(1, 30):
        model.compute_gradients(x[:size], y[:size])
    assert model.compute_gradients(x[:1], y[:1])[0] == first


def test_evaluation_leaves_the_metrics_of_training_alone() -> None:
    model, (x, y) = classifier(), samples()
    model.metrics[0].reset()
    model.metrics[0].update(np.array([0]), np.array([[1.0, 0.0, 0.0]]))
    model.evaluate(x, y)
    assert model.metrics[0].result() == 1


def test_clear_returns_to_the_untrained_model() -> None:
    model, (x, y) = classifier(seed=4), samples()
    start = model.store.values.copy()
    model.fit(x, y, epoch=2, verbose=0)
    trained = model.store.values.copy()
    model.clear()
    assert np.array_equal(model.store.values, start)
    assert len(model.fit_history()) == 0
    model.fit(x, y, epoch=2, verbose=0)
    assert np.array_equal(model.store.values, trained)


class Diary(nn.callback.Callback):
    """Writes down every call."""

    def __init__(self, stop_after: int = 99) -> None:
        self.entries: list[str] = []
        self.batches: list[dict[str, float]] = []
        self.stop_after = stop_after

    def on_train_begin(self) -> None:
        self.entries.append("train begin")

    def on_epoch_begin(self, epoch: int) -> None:
        self.entries.append(f"epoch {epoch} begin")

    def on_batch_begin(self, batch: int) -> None:
        self.entries.append(f"batch {batch} begin")

    def on_batch_end(self, batch: int, logs: Mapping[str, float]) -> None:
        self.entries.append(f"batch {batch} end")
        self.batches.append(dict(logs))

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        self.entries.append(f"epoch {epoch} end {' '.join(logs)}")
        if epoch >= self.stop_after:
            self.model.stop_training = True

    def on_train_end(self, logs: Mapping[str, float]) -> None:
        self.entries.append("train end")


def test_callbacks_are_called_in_order() -> None:
    model, (x, y), diary = classifier(), samples(), Diary()
    model.fit(x, y, epoch=2, batch_size=60, validation_data=(x, y), callbacks=[diary], verbose=0)
    batches = ["batch 0 begin", "batch 0 end", "batch 1 begin", "batch 1 end"]
    results = "Loss accuracy val_Loss val_accuracy"
    assert diary.entries == [
        "train begin",
        *["epoch 0 begin", *batches, f"epoch 0 end {results}"],
        *["epoch 1 begin", *batches, f"epoch 1 end {results}"],
        "train end",
    ]
    assert diary.model is model
    assert diary.params == {"epoch": 2, "batch_size": 60, "steps": 2, "seed": 0}
    assert diary.batches[-1]["Loss"] == model.fit_history()["Loss"][-1]


def test_a_callback_may_stop_training() -> None:
    model, (x, y), diary = classifier(), samples(), Diary(stop_after=1)
    assert len(model.fit(x, y, epoch=10, callbacks=[diary], verbose=0)) == 2
    assert diary.entries[-1] == "train end"
    assert len(model.fit(x, y, epoch=1, verbose=0)) == 3


def test_until_epoch_counts_all_epochs() -> None:
    x, y = samples()
    whole, parts = classifier(dropout=0.3), classifier(dropout=0.3)
    whole.fit(x, y, epoch=5, verbose=0)
    for until, trained in ((2, 2), (5, 5), (5, 5), (3, 5), (0, 5)):
        assert len(parts.fit(x, y, until_epoch=until, verbose=0)) == trained
    assert np.array_equal(parts.store.values, whole.store.values)
    with pytest.raises(ValueError, match=r"fit\(\) takes 'epoch' \(more\) or 'until_epoch' \(in all\), got both, 1 and 6"):
        parts.fit(x, y, epoch=1, until_epoch=6, verbose=0)
    with pytest.raises(ValueError, match=r"fit\(\) 'until_epoch' must be an integer of at least 0, got -1"):
        parts.fit(x, y, until_epoch=-1, verbose=0)
    assert len(parts.fit(x, y, verbose=0)) == 9


def test_callbacks_may_be_none_or_any_iterable() -> None:
    model, (x, y), diary = classifier(), samples(), Diary()
    model.fit(x, y, epoch=1, callbacks=None, verbose=0)
    model.fit(x, y, epoch=1, callbacks=(each for each in [diary]), verbose=0)
    assert diary.entries[-1] == "train end"
    with pytest.raises(TypeError, match=r"'callbacks' must be a list of callbacks, got EarlyStopping; write \[EarlyStopping\("):
        model.fit(x, y, callbacks=nn.callback.EarlyStopping(), verbose=0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"'callbacks' must be a list of callbacks, got str$"):
        model.fit(x, y, callbacks="early", verbose=0)  # type: ignore[arg-type]


def test_without_a_key_every_call_draws_another_mask() -> None:
    (x, y), models = samples(), [classifier(dropout=0.5, seed=2) for _ in range(2)]

    def gradients(model: nn.model.Model, key: tuple[int, ...] | None = None) -> np.ndarray:
        model.compute_gradients(x, y, key=key)
        return model.store.gradients.copy()

    drawn = [gradients(models[0]) for _ in range(3)]
    assert not np.array_equal(drawn[0], drawn[1])
    assert np.array_equal(gradients(models[1], (2, 0, 2, 0)), drawn[2])
    assert np.array_equal(gradients(models[1]), drawn[0])
    models[0].clear()
    assert np.array_equal(gradients(models[0]), drawn[0])


def test_the_halves_of_a_model_draw_alike_without_a_key() -> None:
    (x, y), whole = samples(), classifier(dropout=0.5)
    front, back = whole.split("dense_1")
    for _ in range(3):
        assert back.compute_gradients(front.forward(x), y)[0] == whole.compute_gradients(x, y)[0]


def test_progress_is_one_plain_line_per_epoch_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    model, (x, y) = classifier(), samples()
    model.fit(x, y, epoch=2, verbose=1)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert [line.split(":")[0] for line in shown.err.splitlines()] == ["Epoch 1/2", "Epoch 2/2"]
    assert "accuracy" in shown.err
    model.fit(x, y, epoch=1, verbose=1)
    assert capsys.readouterr().err.startswith("Epoch 3/3: Loss ")
    model.fit(x, y, epoch=2, verbose=0)
    assert capsys.readouterr() == ("", "")


def test_history_names_its_columns() -> None:
    model, (x, y) = classifier(), samples()
    history = model.fit(x, y, epoch=1, verbose=0)
    with pytest.raises(KeyError, match="no column 'f1'; there are Loss, accuracy, epoch"):
        history["f1"]
    assert repr(history).startswith("History(1 epochs, last {'epoch': 1, 'Loss': ")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"epoch": -1}, ValueError, r"fit\(\) 'epoch' must be an integer of at least 0, got -1"),
        ({"batch_size": 0}, ValueError, r"fit\(\) 'batch_size' must be a positive integer, got 0"),
        ({"seed": -1}, ValueError, r"fit\(\) 'seed' must be an integer of at least 0, got -1"),
        ({"callbacks": [Diary]}, TypeError, r"fit\(\) 'callbacks' must be an instance of Callback, got the class; write Diary"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, object], error: type[Exception], message: str) -> None:
    model, (x, y) = classifier(), samples()
    with pytest.raises(error, match=message):
        model.fit(x, y, verbose=0, **arguments)  # type: ignore[arg-type]


def test_models_do_not_share_a_rule() -> None:
    rule, (x, y) = nn.gradient_descent.ADAMOptimizer(0.01), samples()
    first, second, alone = classifier(), classifier(), classifier()
    for model in (first, second):
        model.compile(rule)
    for model in (first, second, alone):
        model.fit(x, y, epoch=1, verbose=0)
    assert np.array_equal(second.store.values, alone.store.values)
    assert rule.step == 0


def test_parallel_training_is_refused_with_the_way_out() -> None:
    model, (x, y) = classifier(), samples()
    model.compile(nn.optimizer.OpContainer(nn.optimizer.PSGDOptimizer, nn.gradient_descent.ADAMOptimizer))
    with pytest.raises(ValueError, match="needs an exchange; it runs in ParallelSGD"):
        model.fit(x, y, verbose=0)
    model.compile(nn.optimizer.OpContainer(nn.optimizer.GDOptimizer, nn.gradient_descent.SGDOptimizer, gd_params=(0.5,)))
    model.fit(x, y, epoch=1, verbose=0)
