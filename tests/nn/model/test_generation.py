"""Sequences continued position by position: the scores are those of the whole, and draws are what they should be."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.layer import GLU, Add, Dense, Embedding, GlobalAveragePool, Layer, MultiHeadAttention, RMSNorm
from nn.model import CachedDecoder, Model, Transformer
from nn.model.decoder import Picker
from nn.operation import Attention
from nn.random import keyed
from nn.value import Value

LENGTH, VOCABULARY = 13, 11


def ready(model: Any) -> Any:
    """A model with weights none of which is 0 or 1."""
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    model.store.values += 0.1 * keyed(1, "noise").standard_normal(model.store.values.shape).astype(model.dtype)
    return model


def transformer(**options: Any) -> Transformer:
    made: Transformer = ready(Transformer(VOCABULARY, LENGTH, features=8, heads=2, dropout=0.1, **options))
    return made


class ByPosition(Layer):
    """A factor for each position, computed of a variable."""

    def build(self, input_shape: Any) -> None:
        self.factor = self.add_variable("factor", (LENGTH, 1))

    def call(self, x: Value) -> Value:
        return x * (2 * self.factor + 1)


def functional(norm: Any = RMSNorm, end: Any = None, **attention: Any) -> Model:
    x = nn.Input([-1, LENGTH])
    h = ByPosition()(Embedding(VOCABULARY, 6)(x)) * np.linspace(0.5, 1.5, LENGTH)[:, None]
    h = Add()([h, MultiHeadAttention(2, 4, **{"causal": True, "rotary_base": 100.0, **attention})(norm()(h))])
    h = Dense(VOCABULARY)(GLU()(Dense(6)(nn.activation.SiLU()(h))))
    made: Model = ready(Model(x, h if end is None else end(h)))
    return made


class TwiceAttention(Attention):
    """Attention of a class of one's own, with means of another size."""

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        super().forward(inputs, out)
        np.multiply(out, 2, out=out)


MODELS = {
    "learned": transformer,
    "rotary and tied": lambda: transformer(rotary=True, tied=True),
    "float64": lambda: transformer(rotary=True, dtype="float64"),
    "functional": functional,
    "with dropout": lambda: functional(dropout=0.3),
}


@pytest.mark.parametrize("kind", MODELS)
def test_scores_are_those_of_the_whole_sequence(kind: str) -> None:
    """In parts of any lengths, and again after `restart`, for other ids and after an update of the weights."""
    model = MODELS[kind]()
    decoder = CachedDecoder(model, 3)
    for seed, parts in enumerate(([1] * LENGTH, [5, 1, 7], [LENGTH], [2, 3, 1, 4], [6, 2, 5])):
        ids = keyed(seed, "ids").integers(0, VOCABULARY, (3, LENGTH))
        expected = model.predict(ids)
        tolerance = (1e-6 if expected.dtype == np.float32 else 1e-13) * abs(expected).max()
        for part in parts:
            start = decoder.done
            found = decoder.scores(ids[:, start : start + part])
            assert decoder.done == start + part
            np.testing.assert_allclose(found, expected[:, decoder.done - 1], rtol=0, atol=tolerance)
        model.store.values *= 1.1
        decoder.restart()


def test_ids_that_are_refused_leave_no_trace() -> None:
    model = transformer()
    decoder, ids = CachedDecoder(model), keyed(0, "ids").integers(0, VOCABULARY, (1, LENGTH))
    decoder.scores(ids[:, :4])
    with pytest.raises(ValueError, match="ids must be from 0 to 10, got 11"):
        decoder.scores([[1, 2, VOCABULARY]])
    assert decoder.done == 4
    np.testing.assert_allclose(decoder.scores(ids[:, 4:9]), model.predict(ids)[:, 8], rtol=0, atol=1e-5)


def test_the_best_id_again_and_again_and_half_of_the_sequence_when_it_is_full() -> None:
    model = transformer(rotary=True)
    beginnings = keyed(0, "ids").integers(0, VOCABULARY, (2, 4))
    found = model.generate(beginnings, 20, temperature=0)
    assert found.dtype == np.int32 and found.shape == (2, 24) and np.array_equal(found[:, :4], beginnings)
    for ids in found:
        first = 0
        for place in range(4, 24):
            if place - first > LENGTH:
                first = place - LENGTH // 2
            window = np.zeros((1, LENGTH), int)
            window[0, : place - first] = ids[first:place]
            assert ids[place] == model.predict(window)[0, place - first - 1].argmax()
    assert np.array_equal(model.generate(beginnings[1], 20, temperature=0), found[1])
    assert np.array_equal(model.generate(beginnings, 0), beginnings)


def test_equal_seeds_give_equal_ids() -> None:
    model = transformer()
    found = [model.generate([1, 2], 30, seed=seed).tolist() for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2] and found[0][:2] == [1, 2]
    assert model.generate([1, 2], 30).tolist() == found[0]  # the seed of the model


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({}, [0, 1, 2, 3]),
        ({"temperature": 0.5}, [0, 1, 2, 3]),
        ({"top_k": 2}, [1, 3]),
        ({"top_p": 0.75}, [1, 3]),
        ({"top_p": 0.5}, [3]),
        ({"top_k": 3, "top_p": 0.9}, [1, 3, 0]),
        ({"top_k": 9}, [0, 1, 2, 3]),
    ],
    ids=str,
)
def test_draws_have_the_chances_of_the_scores(options: dict[str, Any], allowed: list[int]) -> None:
    chances = np.array([0.15, 0.25, 0.05, 0.55])
    pick = Picker(**{"temperature": 1.0, "top_k": None, "top_p": 1.0, **options}, random=keyed(0, "draws"))
    count = 20_000
    found = np.bincount(pick(np.broadcast_to(np.log(chances) + 3, (count, 4))), minlength=4) / count
    expected = np.where(np.isin(np.arange(4), allowed), chances ** (1 / options.get("temperature", 1.0)), 0)
    expected /= expected.sum()
    np.testing.assert_allclose(found, expected, rtol=0, atol=5 * 0.5 / count**0.5)
    assert not found[expected == 0].any()


def test_scores_of_any_size_are_drawn_from() -> None:
    pick = Picker(1e-3, None, 0.9, keyed(0, "draws"))
    assert pick(np.array([[1e30, 0, -1e30], [-1e4, 3e4, 0]], np.float32)).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda: CachedDecoder(Transformer(5, 4)), "Transformer is not built yet"),
        (
            lambda: CachedDecoder(functional(causal=False)),
            "Attention in MultiHeadAttention 'multiheadattention_1' is not known",
        ),
        (lambda: CachedDecoder(functional(end=lambda h: h - h.mean(axis=1, keepdims=True))), "Mean in Functional is not known"),
        (lambda: CachedDecoder(functional(end=GlobalAveragePool())), r"must take ids .* got a model that makes \(-1, 11\) of"),
        (lambda: CachedDecoder(functional(norm=lambda: lambda h: h[:, ::-1])), "Index in .* is not known to be such"),
        (lambda: CachedDecoder(transformer()).scores([1, 2]), r"must be whole numbers \(1, steps\), got int64 \(2,\)"),
        (lambda: CachedDecoder(transformer()).scores([[1.5]]), r"must be whole numbers .* got float64 \(1, 1\)"),
        (lambda: CachedDecoder(transformer()).scores([[1] * 14]), "at most 13 positions, got 14 more behind 0"),
        (lambda: CachedDecoder(transformer()).scores([[VOCABULARY]]), "ids must be from 0 to 10, got 11"),
        (
            lambda: transformer().generate([], 3),
            r"generate\(\) 'ids' must be whole numbers .* at least one, got float64 \(0,\)",
        ),
        (lambda: transformer().generate([1], -1), r"generate\(\) 'count' must be an integer of at least 0, got -1"),
        (lambda: transformer().generate([1], 1, temperature=-1), r"generate\(\) 'temperature' must be a number >= 0, got -1"),
        (lambda: transformer().generate([1], 1, top_k=0), r"generate\(\) 'top_k' must be a positive integer, got 0"),
        (lambda: transformer().generate([1], 1, top_p=1.5), r"generate\(\) 'top_p' must be a number > 0 and <= 1, got 1.5"),
    ],
)
def test_what_does_not_fit_is_named(use: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        use()


def test_attention_of_a_class_of_ones_own_is_not_taken_for_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nn.layer.attention.Attention", TwiceAttention)
    with pytest.raises(ValueError, match=r"TwiceAttention in MultiHeadAttention .* is not known to be such"):
        CachedDecoder(functional())


@pytest.mark.parametrize("temperature", [0, 1.0])
@pytest.mark.parametrize("scores", [[np.nan, 1, 0], [0, np.inf, 1], [-np.inf] * 3])
def test_scores_that_are_not_finite_pick_nothing(temperature: float, scores: list[float]) -> None:
    pick = Picker(temperature, None, 1.0, keyed(0, "draws"))
    with pytest.raises(FloatingPointError, match=r"generate\(\) must have finite scores .* got -?(nan|inf) .* of sample 1"):
        pick(np.array([[0.0, 1, 2], scores]))
    assert pick(np.array([[-np.inf, 0, -np.inf]])).tolist() == [1]
