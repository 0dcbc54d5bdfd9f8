import numpy as np
import pytest

import nn
from nn.initializer import Uniform
from nn.layer import Embedding
from nn.random import keyed
from nn.value import Placeholder
from tests.nn.graphs import Compiled


def test_vectors_of_ids() -> None:
    layer = Embedding(5, 3)
    compiled = Compiled(layer, (4,))
    ids = np.array([[0, 4, 1, 1], [2, 2, 2, 3]])
    assert compiled.graph.output.shape == (-1, 4, 3)
    np.testing.assert_array_equal(compiled.value(ids), layer.embeddings.value[ids])
    assert layer.embeddings.name == "embedding/embeddings"


def test_a_large_id_is_exact_in_float32() -> None:
    compiled = Compiled(Embedding(1_000_003, 1), (1,), np.float32)
    table = compiled.store.variables[0].value
    assert compiled.value(np.array([[1_000_002], [999_999]]))[:, 0].tolist() == [
        table[1_000_002].tolist(),
        table[999_999].tolist(),
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (5, r"Embedding 'words': ids must be from 0 to 4, got 5$"),
        (-1, r"ids must be from 0 to 4, got -1$"),
        (1e30, r"ids must be from 0 to 4, got 1e\+30$"),
        (np.nan, r"ids must be from 0 to 4, got nan$"),
        (np.inf, r"ids must be from 0 to 4, got inf$"),
        (0.4, r"Embedding 'words': ids must be whole numbers, got 0\.4$"),
        (4.25, r"Embedding 'words': ids must be whole numbers, got 4\.25$"),
        (3.9999998, r"Embedding 'words': ids must be whole numbers, got 3\.9999998$"),
    ],
)
def test_ids_that_are_no_rows_are_named(wrong: float, message: str) -> None:
    compiled = Compiled(Embedding(5, 3, name="words"), (3,), np.float32)
    ids = np.zeros((2, 3))
    ids[1, 2] = wrong
    with pytest.raises(ValueError, match=message):
        compiled.value(ids)


def test_a_model_trains_from_integers() -> None:
    model = nn.model.SequentialModel([-1, 2], [Embedding(4, 8), nn.layer.Flatten(), nn.layer.Dense(2)])
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    model.compile(nn.gradient_descent.ADAMOptimizer(0.05))
    ids = np.array([[a, b] for a in range(4) for b in range(4)])
    labels = np.array([0, 1, 1, 0])[ids[:, 1]]
    model.fit(ids, labels, epoch=60, batch_size=16, verbose=0)
    assert model.evaluate(ids, labels)["accuracy"] == 1
    with pytest.raises(ValueError, match=r"Embedding 'embedding_1': ids must be from 0 to 3, got 4$"):
        model.predict([[0, 4]])


def test_the_first_vectors_are_small() -> None:
    compiled = Compiled(Embedding(100, 20), (1,))
    values = compiled.store.values
    assert values.min() >= -0.05
    assert values.max() < 0.05
    assert values.std() == pytest.approx(0.1 / np.sqrt(12), rel=0.05)


def test_uniform() -> None:
    drawn = Uniform(2, 3)((1000,), keyed(0, "uniform"))
    assert 2 <= drawn.min() < 2.01 < 2.99 < drawn.max() < 3
    assert repr(Uniform()) == "Uniform(low=-0.05, high=0.05)"
    with pytest.raises(ValueError, match=r"Uniform 'high' must be a number >= 1, got 0"):
        Uniform(1, 0)


def test_single_ids() -> None:
    assert Embedding(5, 3)(Placeholder([-1])).shape == (-1, 3)
