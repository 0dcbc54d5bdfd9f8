"""Networks as estimators of scikit-learn: for `Pipeline`, `cross_val_score`, `GridSearchCV` and all else that takes one.

Nothing else imports this module; it needs scikit-learn, the extra `sklearn`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
    from sklearn.model_selection import train_test_split
    from sklearn.utils import check_random_state, compute_class_weight
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError("nn.sklearn needs scikit-learn 1.6 or later: pip install 'scikit-learn>=1.6'") from error

from nn import arguments
from nn.activation import ActivationName
from nn.activation.activation import Activation
from nn.arguments import class_of, part
from nn.arrays import Array, is_rows
from nn.callback.callback import Callback
from nn.dataset.array import ArrayDataset
from nn.dataset.plan.plan import Plan
from nn.dataset.transforms.normalize import Normalize
from nn.gradient_descent import OptimizerName
from nn.gradient_descent.interface import IGradientDescent
from nn.layer.core import Dense
from nn.loss import LossName
from nn.loss.cross_entropy import Cross_Entropy_With_Softmax
from nn.loss.loss import Loss
from nn.loss.regression import MSELoss
from nn.model.inputs import probabilities
from nn.model.model import Model
from nn.model.sequential import SequentialModel
from nn.random import keyed

__all__ = ["NeuralClassifier", "NeuralRegressor", "TableEncoder"]

MakeModel: TypeAlias = Callable[[int, int], Model]
#: Rows of a sparse matrix that are dense at a time, for predictions.
_ROWS = 1024


def _is_sparse(x: Any) -> bool:
    """Tell a matrix or array of SciPy, which nothing here imports."""
    return hasattr(x, "tocsr")


class _SparseBatches:
    """Batches of a sparse matrix, of which one is dense at a time, in the order in which `Model.fit` deals arrays.

    Args:
        data: the samples, a CSR matrix or array of shape (samples, features), labels, and weights or None.
        size: samples of a batch.
        model: the model with the seed and epoch that give the order; None keeps that of the rows.
    """

    def __init__(self, data: tuple[Any, Array, Array | None], size: int, model: Model | None = None) -> None:
        self._data, self._size, self._model = data, size, model

    def __len__(self) -> int:
        return -(-int(self._data[0].shape[0]) // self._size)

    def __iter__(self) -> Iterator[tuple[Array, ...]]:
        x, y, weight = self._data
        order = np.arange(x.shape[0])
        if self._model is not None:
            # The key of `fit` for arrays: dense and sparse samples come in one order.
            order = keyed(self._model.seed, "order", self._model.epochs_trained).permutation(len(order))
        for start in range(0, len(order), self._size):
            rows = order[start : start + self._size]
            batch = (x[rows].toarray(), y[rows])
            yield batch if weight is None else (*batch, weight[rows])


def plan_of(x: Any, y: Any = None, **how: Any) -> Plan:
    """Return the plan of a DataFrame, by all of its rows, with the column of the labels where `y` names one.

    Args:
        x: the features.
        y: the labels, a Series for a name.
        how: arguments of `ArrayDataset`.
    """
    # A plan needs labels; zeros stand for them.
    labels = np.zeros(len(x)) if y is None else y
    return ArrayDataset(x, labels, x, labels, **how).plan


class TableEncoder(TransformerMixin, BaseEstimator):
    """The numbers of a DataFrame with texts, categories, dates and gaps, by a plan of columns, for a pipeline.

    `fit` makes the plan by all rows, as `nn.dataset.ArrayDataset` does, and `transform` goes by it, for columns by name.
    After `fit` there is `plan_`; ``pipeline[-1].model_.save(path, inputs=pipeline[0].plan_)`` keeps it in the model file.

    Args:
        missing: treatment of a missing cell: "error", "nan" or "fill".
        unknown: treatment of a category that `fit` has not seen: "error", or "none" of the categories.
        categories: columns to take as texts, even if all cells look like numbers or dates.
        dates: columns of dates, a dict of their forms or a list of names.
        numbers: columns to take as numbers; a cell that is none is missing.
        normalize: whether mean 0 and standard deviation 1 are made of each number.
        plan: a plan to go by, in place of one that `fit` makes.

    >>> import pandas
    >>> rows = pandas.DataFrame({"city": ["Bern", "Chur"], "area": [50, 60]})
    >>> TableEncoder().fit(rows).transform(rows).tolist()
    [[1.0, 0.0, 50.0], [0.0, 1.0, 60.0]]
    """

    def __init__(
        self,
        missing: str = "error",
        unknown: str = "error",
        categories: Sequence[str] | None = None,
        dates: Any = None,
        numbers: Sequence[str] | None = None,
        normalize: bool = False,
        plan: Any = None,
    ) -> None:
        self.missing = missing
        self.unknown = unknown
        self.categories = categories
        self.dates = dates
        self.numbers = numbers
        self.normalize = normalize
        self.plan = plan

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Make the plan of these rows.

        Args:
            X: a DataFrame ``(rows, columns)``.
            y: labels ``(rows,)``, which do not change the plan of x.

        Raises ValueError naming row and column of a cell that it does not take.
        """
        if not hasattr(X, "iloc") or getattr(X, "ndim", 0) != 2:
            raise TypeError(f"TableEncoder 'X' must be a DataFrame, got {type(X).__name__}")
        if self.plan is None:
            how = {"missing": self.missing, "unknown": self.unknown, "categories": self.categories}
            try:
                plan = plan_of(X, y, dates=self.dates, numbers=self.numbers, **how)
            except (TypeError, ValueError) as error:
                # The words of the data set, which the caller does not see.
                said = str(error).replace("ArrayDataset 'x'", "TableEncoder 'X'").replace("ArrayDataset", "TableEncoder")
                raise (TypeError if isinstance(error, TypeError) else ValueError)(said) from error
        else:
            plan = arguments.instance(self, "plan", self.plan, Plan)
        # A plan that was given may normalise already.
        if self.normalize and not plan.steps:
            x = plan.encode(X)
            plan = plan.followed_by(Normalize().fitted(x, x))
        self.plan_ = plan
        # Names that scikit-learn looks for after `fit`.
        self.n_features_in_ = X.shape[1]
        self.feature_names_in_ = np.array(list(map(str, X.columns)), object)
        return self

    def transform(self, X: Any) -> Array:
        """Return the numbers ``(rows, numbers)`` of X, a DataFrame.

        Raises ValueError naming row and column of a cell that does not fit the plan.
        """
        check_is_fitted(self)
        encoded: Array = self.plan_.apply(X)
        return encoded

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the numbers; `input_features` is there for scikit-learn and does not count."""
        check_is_fitted(self)
        return np.array(self.plan_.names, object)


class NeuralEstimator(BaseEstimator):
    """Common part of both estimators. Arguments are stored as they come; `fit` checks them, as scikit-learn asks.

    The arguments are those of `NeuralRegressor`: `activation`, `optimizer`, `epochs`, `batch_size`, `callbacks`, `verbose` and
    the others.
    """

    def __init__(
        self,
        hidden: int | Sequence[int] = (100,),
        activation: Activation | ActivationName = "relu",
        model: MakeModel | None = None,
        optimizer: IGradientDescent | type[IGradientDescent] | OptimizerName = "adam",
        learn_rate: float | None = None,
        loss: Loss | LossName | None = None,
        epochs: int = 100,
        batch_size: int = 32,
        validation_fraction: float = 0.0,
        callbacks: Iterable[Callback] | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        # As they come: `clone` and `set_params` compare them with what was given.
        self.hidden = hidden
        self.activation = activation
        self.model = model
        self.optimizer = optimizer
        self.learn_rate = learn_rate
        self.loss = loss
        self.epochs = epochs
        self.batch_size = batch_size
        self.validation_fraction = validation_fraction
        self.callbacks = callbacks
        self.random_state = random_state
        self.verbose = verbose

    def _make(self, features: int, outputs: int, dtype: np.dtype[Any], loss: Loss) -> Model:
        """Return the untrained model, set up and compiled."""
        # One draw gives the seed; equal `random_state` gives equal models.
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        if self.model is None:
            units = (self.hidden,) if isinstance(self.hidden, Integral) else self.hidden
            sizes = arguments.shape(self, "hidden", units)
            activation = part(self, "activation", self.activation, Activation, "nn.activation")
            # Each layer has a copy: scikit-learn asks that `fit` leaves its arguments as they are.
            layers = [Dense(size, deepcopy(activation)) for size in sizes]
            model: Model = SequentialModel([-1, features], [*layers, Dense(outputs)], seed=seed, dtype=dtype.name)
        else:
            if not callable(self.model) or isinstance(self.model, Model):
                raise TypeError(
                    f"{type(self).__name__} 'model' must be a function (features, outputs) that makes a model, "
                    f"got {arguments.short(self.model)}"
                )
            model = arguments.instance(self, "model", self.model(features, outputs), Model)
            if model.built:
                raise ValueError(f"{type(self).__name__} 'model' must make a model without setup(), got one with variables")
            model.seed, model.dtype = seed, dtype
        model.inputs = self._plan
        model.compile(self._rule(), part(self, "loss", loss if self.loss is None else deepcopy(self.loss), Loss, "nn.loss"))
        return model

    def _rule(self) -> Any:
        rule: Any = self.optimizer
        if isinstance(rule, str):
            rule = class_of(self, "optimizer", rule, "nn.gradient_descent")
        if self.learn_rate is None:
            return rule
        if isinstance(rule, IGradientDescent):
            raise ValueError(
                f"{type(self).__name__} 'learn_rate' is for an 'optimizer' given by its class or its word, got {rule}, which "
                "has a rate"
            )
        return rule(self.learn_rate)

    def _train(self, x: Array, y: Array, weight: Array | None, stratify: Array | None) -> None:
        """Train `model_` as the arguments say."""
        validation: Any = None
        fraction = arguments.number(self, "validation_fraction", self.validation_fraction, 0, 1)
        if fraction:
            parts = [x, y] if weight is None else [x, y, weight]
            split = train_test_split(*parts, test_size=fraction, random_state=self.model_.seed, stratify=stratify)
            # Parts to train on and to validate with come in turns.
            x, y, *weights = split[::2]
            weight, validation = (weights[0] if weights else None), tuple(split[1::2])
            if _is_sparse(x):
                validation = _SparseBatches((*validation, None)[:3], _ROWS)
        epochs = arguments.integer(self, "epochs", self.epochs, minimum=1)
        # Callbacks keep state, and a second `fit` begins afresh.
        self._fit(x, y, weight, epochs, validation_data=validation, callbacks=deepcopy(self.callbacks))

    def _fit(self, x: Array, y: Array, weight: Array | None, epochs: int, **how: Any) -> None:
        size = arguments.integer(self, "batch_size", self.batch_size, minimum=1)
        how = {**how, "epochs": epochs, "batch_size": size, "verbose": self.verbose}
        if _is_sparse(x):
            self.history_ = self.model_.fit(_SparseBatches((x, y, weight), size, self.model_), **how)
        else:
            self.history_ = self.model_.fit(x, y, sample_weight=weight, **how)
        self.n_iter_ = self.model_.epochs_trained

    def _weights(self, sample_weight: Any, x: Array) -> Array | None:
        """Return the weights of the samples with a mean of 1, so that only their ratios count; None where all are equal."""
        if sample_weight is None:
            return None
        weight: Array = self.model_.loss.check_weights(sample_weight, x.shape[0], x.dtype)
        if not weight.any():
            raise ValueError(f"{type(self).__name__} 'sample_weight' must hold a weight above zero, got zeros only")
        # Else larger weights would act as a larger learning rate.
        scaled: Array = weight / weight.mean()
        return scaled

    @classmethod
    def from_model(cls, model: Model) -> Any:
        """Return a fitted estimator for a trained model, such as that of a job or of a file.

        It predicts rows of a table as the model does, by the plan in `model.inputs`, in a pipeline of scikit-learn, too.

        Args:
            model: trained; it is not copied.

        >>> x, y = np.eye(4), np.array([0, 1, 0, 1])
        >>> trained = NeuralClassifier(hidden=[4], epochs=2, random_state=0).fit(x, y).model_
        >>> NeuralClassifier.from_model(trained).predict(x).shape
        (4,)
        """
        made = cls()
        made.model_ = arguments.instance(cls.__name__, "model", model, Model)
        made.n_features_in_ = int(np.prod(model.graph.placeholder.shape[1:]))
        made.history_, made.n_iter_ = model.fit_history(), model.epochs_trained
        made._take(model)
        return made

    def _take(self, model: Model) -> None:
        """Take over the facts that the estimator needs beside the model."""

    def _rows(self, x: Any) -> bool:
        """Tell whether these are rows of a table that a plan makes numbers of."""
        plan = self.model_.inputs
        return plan is not None and bool(plan.columns) and is_rows(x)

    def _encoded(self, x: Any, y: Any, reset: bool) -> Any:
        """Return samples as they came; of a DataFrame with texts, categories or dates the numbers that a plan makes."""
        if not hasattr(x, "iloc") or getattr(x, "ndim", 0) != 2 or all(getattr(d, "kind", "") in "biuf" for d in x.dtypes):
            # Numbers need no plan; that of an earlier `fit` must not stay.
            self._plan = None if reset else getattr(self, "_plan", None)
            return x
        if reset:
            try:
                self._plan = plan_of(x, y)
            except ValueError as error:
                raise ValueError(f"{error}; nn.sklearn.TableEncoder, before it in a pipeline, takes such arguments") from error
        if self._plan is None:
            raise ValueError(
                f"{type(self).__name__} 'X' must hold numbers, as in the first call, got texts, categories or dates"
            )
        return self._plan.encode(x)

    def _output(self, x: Any) -> Array:
        check_is_fitted(self)
        if self._rows(x):
            rows: Array = self.model_.predict(x)
            return rows
        x = validate_data(self, x, dtype=[np.float64, np.float32], accept_sparse="csr", reset=False)
        if not _is_sparse(x):
            found: Array = self.model_.predict(x)
            return found
        parts = [self.model_.predict(x[start : start + _ROWS].toarray()) for start in range(0, x.shape[0], _ROWS)]
        return np.concatenate(parts)

    def _samples(self, x: Any, y: Any, reset: bool, **how: Any) -> tuple[Array, Array]:
        x = self._encoded(x, y, reset)
        samples, labels = validate_data(self, x, y, dtype=[np.float64, np.float32], accept_sparse="csr", reset=reset, **how)
        return samples, labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class NeuralRegressor(RegressorMixin, NeuralEstimator):
    """A network that predicts numbers, as an estimator of scikit-learn.

    `fit`, `partial_fit` (one more epoch), `predict`, `score`; `y` (samples,) or (samples, outputs). It computes in float32
    where `X` is of that type, else in float64. Standardise `X` and `y`, as for every network:
    `TransformedTargetRegressor(make_pipeline(StandardScaler(), NeuralRegressor()), transformer=StandardScaler())`.

    Args:
        hidden: units of each hidden layer.
        activation: the activation behind each of them.
        model: in place of both a function (features, outputs) that makes a `Model` without `setup`.
        optimizer: a rule, its class or its word.
        learn_rate: its rate, by default its own.
        loss: by default `MSELoss`.
        epochs, batch_size, callbacks, verbose: as in `Model.fit`.
        validation_fraction: share of the samples, drawn at random, for the `val_...` results, by which callbacks such as
            `EarlyStopping` go. `partial_fit` has neither.
        random_state: of weights, order of samples, dropout and that draw.

    After `fit` there are `model_`, `history_`, `n_iter_` (epochs), `n_features_in_`, and `feature_names_in_` of a DataFrame.

    >>> x = np.linspace(-1, 1, 60).reshape(-1, 1)
    >>> estimator = NeuralRegressor(hidden=[16], activation="tanh", learn_rate=0.05, random_state=0)
    >>> estimator.fit(x, x[:, 0] ** 2).score(x, x[:, 0] ** 2) > 0.9
    True
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NeuralRegressor:
        """Train a new model.

        Args:
            X: samples ``(samples, features)``, an array, a sparse matrix or a DataFrame.
            y: numbers to predict ``(samples,)`` or ``(samples, outputs)``.
            sample_weight: weights of the samples ``(samples,)``, which multiply their losses; None: all 1.

        Raises ValueError for data and arguments that do not fit.
        """
        x, labels = self._labelled(X, y, reset=True)
        self._begin(x, labels)
        self._train(x, labels.reshape(x.shape[0], -1), self._weights(sample_weight, x), None)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> NeuralRegressor:
        """Train for one epoch on these samples, with the model so far; the first call makes it.

        Args:
            X, y, sample_weight: as of `fit`.
        """
        new = not hasattr(self, "model_")
        x, labels = self._labelled(X, y, reset=new)
        if new:
            self._begin(x, labels)
        self._fit(x, labels.reshape(x.shape[0], -1), self._weights(sample_weight, x), 1)
        return self

    def predict(self, X: Any) -> Array:
        """Return the predictions, of the shape of the `y` that `fit` was given."""
        found = self._output(X)
        if self.model_.inputs is not None:
            found = self.model_.inputs.restore(found)
        # `y` was a vector, and so are the predictions.
        return found.reshape(len(found)) if self._flat else found

    def _take(self, model: Model) -> None:
        self._flat = model.graph.output.shape[-1] == 1

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _labelled(self, x: Any, y: Any, reset: bool) -> tuple[Array, Array]:
        samples, labels = self._samples(x, y, reset, multi_output=True, y_numeric=True)
        return samples, labels.astype(samples.dtype, copy=False)

    def _begin(self, x: Array, y: Array) -> None:
        self._flat = y.ndim == 1
        self.model_ = self._make(x.shape[1], 1 if self._flat else y.shape[1], x.dtype, MSELoss())


class NeuralClassifier(ClassifierMixin, NeuralEstimator):
    """A network that predicts one of two or more classes, as an estimator of scikit-learn.

    `fit`, `partial_fit` (one more epoch; the first call names all `classes`), `predict`, `predict_proba`, `score`. Classes may
    be numbers or texts. Standardise `X`, as for every network: `make_pipeline(StandardScaler(), NeuralClassifier())`.

    With `validation_fraction` each class is in both parts. After `fit` there is `classes_`, too.

    Args:
        class_weight: {class: weight} or 'balanced', which multiplies the weights of the samples.
        model: as of `NeuralRegressor`; it ends in scores or in `Softmax`.
        loss: by default `Cross_Entropy_With_Softmax`.
        hidden, activation, optimizer, learn_rate, epochs, batch_size: as of `NeuralRegressor`.
        validation_fraction, callbacks, random_state, verbose: as there.

    >>> x = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] * 10)
    >>> y = np.array(["same", "other", "other", "same"] * 10)
    >>> estimator = NeuralClassifier(hidden=[16], learn_rate=0.01, random_state=0).fit(x, y)
    >>> estimator.predict(x[:4]).tolist(), estimator.predict_proba(x).shape
    (['same', 'other', 'other', 'same'], (40, 2))
    """

    def __init__(
        self,
        hidden: int | Sequence[int] = (100,),
        activation: Activation | ActivationName = "relu",
        model: MakeModel | None = None,
        optimizer: IGradientDescent | type[IGradientDescent] | OptimizerName = "adam",
        learn_rate: float | None = None,
        loss: Loss | LossName | None = None,
        epochs: int = 100,
        batch_size: int = 32,
        validation_fraction: float = 0.0,
        callbacks: Iterable[Callback] | None = None,
        random_state: Any = None,
        verbose: int = 0,
        class_weight: Mapping[Any, float] | str | None = None,
    ) -> None:
        super().__init__(
            hidden,
            activation,
            model,
            optimizer,
            learn_rate,
            loss,
            epochs,
            batch_size,
            validation_fraction,
            callbacks,
            random_state,
            verbose,
        )
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NeuralClassifier:
        """Train a new model.

        Args:
            X: samples ``(samples, features)``, an array, a sparse matrix or a DataFrame.
            y: classes ``(samples,)``, numbers or texts.
            sample_weight: weights of the samples ``(samples,)``, which multiply their losses; None: all 1.

        Raises ValueError for data and arguments that do not fit, and for a single class.
        """
        x, labels = self._samples(X, y, reset=True)
        check_classification_targets(labels)
        # Sorted, which `searchsorted` relies on.
        self._begin(x, np.unique(labels))
        places, weight = self._numbered(x, labels, sample_weight)
        self._train(x, places, weight, places)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> NeuralClassifier:
        """Train for one epoch on these samples, with the model so far; the first call makes it.

        Args:
            X, y, sample_weight: as of `fit`.
            classes: all classes, of which the first call makes the model.
        """
        new = not hasattr(self, "model_")
        if self.class_weight == "balanced":
            raise ValueError("NeuralClassifier.partial_fit() 'class_weight' cannot be 'balanced': not all samples are known")
        x, labels = self._samples(X, y, reset=new)
        check_classification_targets(labels)
        if new:
            if classes is None:
                raise ValueError("NeuralClassifier.partial_fit() 'classes' must name all classes in the first call, got None")
            self._begin(x, np.unique(classes))
        elif classes is not None and not np.array_equal(self.classes_, np.unique(classes)):
            raise ValueError(
                f"NeuralClassifier.partial_fit() 'classes' must be those of the first call, {self.classes_.tolist()}, "
                f"got {np.unique(classes).tolist()}"
            )
        places, weight = self._numbered(x, labels, sample_weight)
        self._fit(x, places, weight, 1)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, (samples, classes), in the order of `classes_`."""
        output = self._output(X)
        return probabilities(self.model_, output)

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each sample."""
        # The greatest score is the greatest probability, so no softmax is needed.
        places = self._output(X).argmax(axis=1)
        found: Array = self.classes_[places]
        return found

    def _take(self, model: Model) -> None:
        outputs = model.graph.output.shape[-1]
        if len(model.graph.output.shape) != 2 or outputs < 2:
            raise ValueError(f"NeuralClassifier 'model' must have an output for each class, got {model.graph.output.shape}")
        names = None if model.inputs is None else model.inputs.classes
        self.classes_ = np.arange(outputs) if names is None else np.array(names)

    def _begin(self, x: Array, classes: Array) -> None:
        if len(classes) < 2:
            raise ValueError(f"NeuralClassifier needs samples of at least two classes, got one class, {classes.tolist()}")
        self.classes_ = classes
        if self._plan is not None and len(self._plan.labels) == 1:
            label = replace(self._plan.labels[0], classes=tuple(map(str, classes.tolist())), dtype="int64")
            self._plan = replace(self._plan, labels=(label,))
        self.model_ = self._make(x.shape[1], len(classes), x.dtype, Cross_Entropy_With_Softmax())

    def _numbered(self, x: Array, labels: Array, sample_weight: Any) -> tuple[Array, Array | None]:
        """Return the numbers of the classes, and the weights of the samples."""
        # A class beyond the last one would have a place that does not exist; it is compared and refused like others.
        places = np.minimum(np.searchsorted(self.classes_, labels), len(self.classes_) - 1)
        strange = np.flatnonzero(self.classes_[places] != labels)
        if strange.size:
            raise ValueError(
                f"NeuralClassifier 'y' must hold classes of the first call, {self.classes_.tolist()}, "
                f"got {labels[strange[:1]].tolist()[0]!r}"
            )
        weight = self._weights(sample_weight, x)
        if self.class_weight is not None:
            of_class = compute_class_weight(self.class_weight, classes=self.classes_, y=labels)[places]
            # Again, so that their mean is 1 once more.
            weight = self._weights(of_class if weight is None else weight * of_class, x)
        return places, weight
