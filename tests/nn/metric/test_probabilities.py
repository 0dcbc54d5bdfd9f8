"""Metrics beside models that end in scores: they get the probabilities that the loss makes of them."""

import numpy as np
import pytest

import nn

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((400, 5))
Y = (RANDOM.random(400) < 1 / (1 + np.exp(-X @ [1, 0.5, -0.5, 0.2, 0]))).astype(int)
NAMES = ("accuracy", "precision", "recall", "f1", "auc")


def model(activation: str | None, loss: nn.loss.Loss, units: int = 1) -> nn.model.SequentialModel:
    made = nn.model.SequentialModel([-1, 5], [nn.layer.Dense(units, activation)], seed=1, dtype="float64")
    made.compile("adam", loss, list(NAMES))
    return made


@pytest.mark.parametrize("trained", [False, True])
def test_scores_and_sigmoid_have_equal_results(trained: bool) -> None:
    scores, sigmoid = (model(end, nn.loss.Binary_Cross_Entropy()) for end in (None, "sigmoid"))
    if trained:
        histories = [each.fit(X, Y, epochs=3, verbose=0).rows for each in (scores, sigmoid)]
        assert histories[0] == histories[1]
    results = scores.evaluate(X, Y)
    assert results == sigmoid.evaluate(X, Y)
    assert results["accuracy"] == np.mean((scores.predict(X)[:, 0] > 0) == Y)
    assert scores.predict(X).min() < 0  # what a model predicts stays what it ends in


def test_two_scores_are_two_probabilities() -> None:
    made = nn.model.SequentialModel([-1, 5], [nn.layer.Dense(2)], seed=1)
    made.compile("adam", nn.loss.Cross_Entropy_With_Softmax(), ["auc", "precision"])
    z = made.predict(X)
    taken = z[:, 1] > z[:, 0]
    assert made.evaluate(X, Y)["precision"] == pytest.approx(np.mean(Y[taken]))


def test_a_threshold_of_scores_is_refused_and_one_in_an_older_file_is_that_of_probabilities() -> None:
    made = nn.model.SequentialModel([-1, 5], [nn.layer.Dense(1)])
    with pytest.raises(ValueError, match=r"'threshold' must be a probability, > 0 and < 1.*got 0"):
        made.setup(nn.loss.Binary_Cross_Entropy(), nn.metric.Precision(0.0))
    made.setup(nn.loss.Binary_Cross_Entropy(), nn.metric.Precision(0.5))
    results = made.evaluate(X, Y)
    vars(made.metrics[0])["threshold"] = 0.0
    assert nn.model.Model.from_bytes(made.to_bytes()).evaluate(X, Y) == results


def test_a_softmax_of_one_unit_is_refused() -> None:
    for loss in (nn.loss.Binary_Cross_Entropy(), nn.loss.MSELoss(), nn.loss.Cross_Entropy_With_Softmax()):
        made = nn.model.SequentialModel([-1, 5], [nn.layer.Dense(1, "softmax")])
        with pytest.raises(ValueError, match="ends in Softmax of one output, which is always 1"):
            made.setup(loss)
        assert not made.built
