"""Networks as estimators: scikit-learn's own suite, its tools that take an estimator, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas
import pytest

import nn
from nn import callback, gradient_descent, layer
from nn.model import Model, SequentialModel

base = pytest.importorskip("sklearn.base", reason="scikit-learn is not installed (extra sklearn)")
from scipy import sparse  # noqa: E402
from sklearn.datasets import load_iris, make_regression  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402

from nn.sklearn import NeuralClassifier, NeuralRegressor, TableEncoder  # noqa: E402

Estimator = type[NeuralClassifier] | type[NeuralRegressor]
BOTH = pytest.mark.parametrize("kind", [NeuralClassifier, NeuralRegressor])
X, Y = load_iris(return_X_y=True)
QUICK: dict[str, Any] = {"hidden": 12, "learn_rate": 0.02, "epochs": 30, "random_state": 0}


@BOTH
@pytest.mark.long
def test_scikit_learns_own_suite(kind: Estimator) -> None:
    """Every check passes; the one that is left out asks SciPy for a mode that is switched on by a variable."""
    results = check_estimator(kind(), on_skip=None)
    left_out = [found["check_name"] for found in results if found["status"] != "passed"]
    assert left_out in ([], ["check_array_api_input"]) and len(results) > 50


@pytest.mark.share(5)
@BOTH
@pytest.mark.parametrize("form", ["csr_matrix", "csr_array", "csc_matrix", "coo_array"])
@pytest.mark.parametrize("more", [{}, {"validation_fraction": 0.2}])
def test_sparse_samples_give_the_bits_of_dense_ones(kind: Estimator, form: str, more: dict[str, Any]) -> None:
    """A batch is dense at a time, and the order is that of arrays."""
    generator = np.random.default_rng(0)
    x = generator.random((1100, 20)) * (generator.random((1100, 20)) < 0.3)
    y, weight = (x.sum(axis=1) > x.sum(axis=1).mean()).astype(int), generator.random(1100)
    made = getattr(sparse, form)(x)
    few = {**QUICK, "epochs": 2, **more}
    dense, thin = kind(**few).fit(x, y, sample_weight=weight), kind(**few).fit(made, y, sample_weight=weight)
    assert np.array_equal(dense.predict(x), thin.predict(made))
    assert dense.model_.to_bytes() == thin.model_.to_bytes()


def test_pipelines_searches_and_scores() -> None:
    """In a pipeline, cloned, searched, copied: the same numbers for the same random state."""
    chain = make_pipeline(StandardScaler(), NeuralClassifier(**QUICK))
    scores = cross_val_score(chain, X, Y, cv=3)
    assert scores.min() > 0.85 and np.array_equal(scores, cross_val_score(base.clone(chain), X, Y, cv=3))
    grid = {"neuralclassifier__hidden": [1, 12], "neuralclassifier__optimizer": ["sgd", gradient_descent.ADAMOptimizer]}
    search = GridSearchCV(chain, grid, cv=3).fit(X, Y)
    assert search.best_params_["neuralclassifier__optimizer"] is gradient_descent.ADAMOptimizer
    best = search.best_estimator_
    again = pickle.loads(pickle.dumps(best))
    np.testing.assert_array_equal(again.predict_proba(X), best.predict_proba(X))
    np.testing.assert_allclose(best.predict_proba(X).sum(axis=1), 1, rtol=1e-12)


def test_texts_as_classes_weights_and_one_epoch_after_the_other() -> None:
    names = np.array(["setosa", "versicolor", "virginica"])[Y]
    estimator = NeuralClassifier(**QUICK)
    for _ in range(30):
        estimator.partial_fit(X, names, classes=np.unique(names))
    assert estimator.score(X, names) > 0.9 and estimator.n_iter_ == 30 and len(estimator.history_) == 30
    assert estimator.predict_proba(X[:2]).shape == (2, 3)
    # weights count by their ratios; a class of weight 0 is never learned
    balanced = NeuralClassifier(**QUICK, class_weight="balanced").fit(X, Y)
    plain = NeuralClassifier(**QUICK).fit(X, Y, np.full(len(X), 7.0))
    np.testing.assert_array_equal(balanced.predict_proba(X), plain.predict_proba(X))
    without = NeuralClassifier(**QUICK, class_weight={2: 0.0}).fit(X, Y)
    assert set(without.predict(X)) == {0, 1}


def test_regression_of_several_outputs_in_the_type_of_the_samples() -> None:
    x, y = make_regression(80, 5, n_targets=2, random_state=1)
    x, y = x.astype(np.float32), y / 100
    estimator = NeuralRegressor(hidden=[], loss="mse", learn_rate=0.05, epochs=60, random_state=2).fit(x, y)
    assert estimator.predict(x).shape == (80, 2) and estimator.predict(x).dtype == np.float32
    assert estimator.score(x, y) > 0.99 and estimator.model_.dtype == np.float32
    one = NeuralRegressor(hidden=[], epochs=1, random_state=2).fit(x, y[:, 0])
    assert one.predict(x).shape == (80,)


def test_a_network_of_ones_own_stopped_early() -> None:
    """Callbacks go by a share of the samples that is set aside, and are not changed: they are the user's."""

    def make(features: int, outputs: int) -> Model:
        layers = [layer.Dense(8, "tanh"), layer.Dropout(0.1), layer.Dense(outputs, "softmax")]
        return SequentialModel([-1, features], layers)

    stop = callback.EarlyStopping(patience=2, min_delta=10.0)
    estimator = NeuralClassifier(model=make, validation_fraction=0.2, callbacks=[stop], random_state=3).fit(X, Y)
    assert estimator.n_iter_ == 3 and "val_Loss" in estimator.history_.columns() and stop.stopped_epoch is None
    np.testing.assert_allclose(estimator.predict_proba(X).sum(axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hidden": [0]}, "NeuralClassifier 'hidden' must be a list of positive integers, got"),
        ({"activation": "relo"}, r"NeuralClassifier 'activation' must be one of elu, .*; did you mean 'relu'\?"),
        ({"optimizer": "adm"}, r"NeuralClassifier 'optimizer' must be one of .*; did you mean 'adam'\?"),
        ({"optimizer": gradient_descent.SGDOptimizer(0.1), "learn_rate": 0.2}, "'learn_rate' is for an 'optimizer' given by"),
        ({"loss": "msee"}, r"NeuralClassifier 'loss' must be one of .*; did you mean 'mse'\?"),
        ({"epochs": 0}, "NeuralClassifier 'epochs' must be a positive integer, got 0"),
        ({"validation_fraction": 1.0}, "NeuralClassifier 'validation_fraction' must be a number >= 0 and < 1, got 1.0"),
        ({"model": nn.model.DNN()}, r"'model' must be a function \(features, outputs\) that makes a model, got"),
        ({"model": lambda features, outputs: 3}, "NeuralClassifier 'model' must be an instance of Model, got int 3"),
    ],
)
def test_what_is_refused(arguments: dict[str, Any], message: str) -> None:
    """When it is fitted, as scikit-learn has it; of which argument, and what came."""
    with pytest.raises((ValueError, TypeError), match=message):
        NeuralClassifier(**arguments).fit(X, Y)


def test_what_partial_fit_refuses() -> None:
    with pytest.raises(ValueError, match="'classes' must name all classes in the first call, got None"):
        NeuralClassifier().partial_fit(X, Y)
    with pytest.raises(ValueError, match="'class_weight' cannot be 'balanced'"):
        NeuralClassifier(class_weight="balanced").partial_fit(X, Y, [0, 1, 2])
    begun = NeuralClassifier().partial_fit(X, Y, [0, 1, 2])
    with pytest.raises(ValueError, match=r"'classes' must be those of the first call, \[0, 1, 2\], got \[0, 1\]"):
        begun.partial_fit(X, Y, [0, 1])
    with pytest.raises(ValueError, match=r"'y' must hold classes of the first call, \[0, 1, 2\], got 3"):
        begun.partial_fit(X, Y + 1)


def test_a_refused_frame_names_the_estimator_that_takes_the_remedy() -> None:
    frame = pandas.DataFrame({"code": ["01067", "50667"] * 6, "size": range(12)})
    labels = ["a", "b"] * 6
    with pytest.raises(ValueError, match=r"categories=\['code'\] keeps them.*TableEncoder, before it in a pipeline, takes"):
        NeuralClassifier(**QUICK).fit(frame, labels)
    pipeline = make_pipeline(TableEncoder(categories=["code"]), NeuralClassifier(**QUICK)).fit(frame, labels)
    assert pipeline.score(frame, labels) == 1.0
