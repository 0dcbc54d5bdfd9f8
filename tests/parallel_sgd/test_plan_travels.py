"""The plan of columns on its way: from a data set through a job into model files, to predictions of programs and commands."""

import copy
import csv
import json
import os
import random
import re
from pathlib import Path

from psgd.cli import main

import numpy as np
import pandas
import pytest

import nn
import parallel_sgd
from nn.dataset import ArrayDataset, CSVDataset, Digits
from nn.dataset.transforms import AbsTransformer, ImageCls, Normalize, NormalizeLabels, Shuffle, Windows
from nn.layer import Dense
from nn.model import Model
from parallel_sgd import ParallelSGD, in_process
from parallel_sgd.options.forms import Weights
from parallel_sgd.profiles import FixedBlockAssignment
from parallel_sgd.record.verification import rows_that_differ
from tests.parallel_sgd.record.test_certificate import edit, sealed_again
from tests.statements import covers

ROW = {"city": "Bern", "area": "120,5", "built": "1999-02-01", "kind": "small"}
SETTINGS = {"block_size": 16, "gd_params": (0.02,), "verbose": 0}


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_houses("houses.csv")
    Path("rows.csv").write_text("area;built;city\n120,5;1999-02-01;Bern\n;1999-02-01;Genf\n")


def write_houses(path, cities=("Bern", "Genf", "Chur")):
    draw = random.Random(0)
    lines = ['"";city;area;built;kind']
    for row in range(200):
        area = draw.randint(40, 160)
        cell = "?" if row % 40 == 0 else f"{area},5"
        day = f"{draw.randint(1950, 2020)}-{draw.randint(1, 12):02d}-{draw.randint(1, 28):02d}"
        lines.append(f"{row + 1};{draw.choice(cities)};{cell};{day};{'big' if area > 100 else 'small'}")
    Path(path).write_text("\n".join(lines) + "\n")


def houses(**more):
    how = {"delimiter": ";", "decimal": ",", "na_values": ["?"], "missing": "fill", **more}
    return CSVDataset("houses.csv", "kind", **how)


def network(features, outputs=2, loss="crossentropy"):
    model = nn.model.SequentialModel([-1, features], [nn.layer.Dense(8, "tanh"), nn.layer.Dense(outputs)])
    if loss == "crossentropy":
        model = nn.model.SequentialModel([-1, features], [nn.layer.Dense(8, "tanh"), nn.layer.Dense(outputs, "softmax")])
    model.setup(loss, *(["accuracy"] if loss == "crossentropy" else []))
    return model


def train(model, data, transform, nodes=2, epochs=20, **more):
    job = parallel_sgd.ParallelSGD(model, data, transform)
    with parallel_sgd.in_process(nodes) as where:
        return job.parallel(where, epochs=epochs, **{**SETTINGS, **more}).models[0]


def commanded(capsys, *arguments):
    code = main(list(map(str, arguments)))
    said = capsys.readouterr()
    return code, said.out, said.err


def test_predicted_columns_have_the_names_of_the_labels_and_scaled_figures_say_so(capsys):
    """Several labels were `prediction_0`, .., and a mean error of 0.09 of a price in hundreds of thousands told no unit."""
    draws = np.random.default_rng(0)
    x = draws.normal(size=(60, 2))
    lines = ["a,b,cheap,dear"] + [f"{a:.4f},{b:.4f},{100 * a:.3f},{5e5 + 1e5 * b:.1f}" for a, b in x]
    Path("prices.csv").write_text("\n".join(lines) + "\n")
    data = CSVDataset("prices.csv", ["cheap", "dear"], label_kind="number")
    model = nn.model.SequentialModel([-1, 2], [Dense(2)])
    model.setup("mse", "mae")
    scaled = NormalizeLabels.of(data)
    model.save("prices.model", inputs=[data, scaled])
    code, out, _ = commanded(capsys, "predict", "prices.model", "prices.csv")
    header, *rows = csv.reader(out.splitlines())
    assert code == 0 and header == ["cheap", "dear"]
    table = np.loadtxt("prices.csv", delimiter=",", skiprows=1)
    predicted = np.array(rows, float)
    sizes = np.asarray(scaled.std).reshape(-1)
    error = (np.abs(predicted - table[:, 2:]) / sizes).mean()
    code, out, _ = commanded(capsys, "evaluate", "prices.model", "prices.csv")
    first, second = out.splitlines()
    assert code == 0 and abs(float(first.rpartition("mae ")[2]) / error - 1) < 1e-4
    assert second == (
        f"They are of scaled labels, of which 1 is {sizes[0]:.6g} of 'cheap' and {sizes[1]:.6g} of 'dear'; 'psgd predict' "
        "gives values as the file has them."
    )
    model.save("plain.model", inputs=data)
    assert commanded(capsys, "evaluate", "plain.model", "prices.csv")[1].count("\n") == 1


def test_samples_that_a_transform_makes_are_counted(capsys, caplog):
    """Windows of 24 of 80 rows are 57, of which 800 said nothing; `verify` takes runs of releases that told the rows alone."""
    caplog.set_level("INFO")
    Path("tides.csv").write_text("hour,level\n" + "".join(f"{5 + hour},{hour % 12 / 6 - 1}\n" for hour in range(100)))
    data = CSVDataset("tides.csv", "level", label_kind="number", split="last")
    model = nn.model.SequentialModel([-1, 24, 2], [nn.layer.Flatten(), Dense(1)])
    model.setup("mse")
    job = ParallelSGD(model, data, Windows(24, past=True).add(Normalize()))
    result = job.parallel(in_process(2), epochs=1, block_size=8)
    made = Windows(24, past=True)(*data.load())
    words = f"80 training and 20 test samples ({len(made[0])} and {len(made[2])} after the transform)"
    assert words.startswith("80 training and 20 test samples (56 and 20")
    assert sum(words in each for each in caplog.messages) == 1
    assert len(result.history.steps) == -(-len(made[0]) // 16)
    told = json.loads((result.folder / "outcome.json").read_text())["settings"]["data"]
    assert told.endswith(f", {words}")
    assert commanded(capsys, "verify", "runs/latest")[0] == 0
    edit(result.folder / "outcome.json", lambda content: content["settings"].update(data=told.partition(" (")[0]))
    sealed_again(result.folder)
    code, _, said = commanded(capsys, "verify", "runs/latest")
    assert code == 0, said


@covers("DAT-2")
def test_a_job_keeps_the_plan_and_commands_predict_by_it(capsys):
    data = houses()
    model = train(network(len(data.columns)), data, Shuffle().add(Normalize()))
    assert [name for name, _ in model.inputs.steps] == ["Normalize"]
    assert model.inputs.agrees_with(data.plan) == ""
    fitted = Normalize(**model.inputs.steps[0][1])
    encoded = fitted.apply(data.encode([ROW]))
    assert np.array_equal(model.predict(ROW), model.predict(encoded))
    model.save("houses.model")
    Path("houses.csv").rename("moved.csv")  # a model needs no file
    loaded = Model.load("houses.model")
    assert np.array_equal(loaded.predict(ROW), model.predict(encoded))
    assert loaded.inputs.rows == data.row_checksums()  # which tell that plan and data belong together
    code, out, _ = commanded(capsys, "predict", "houses.model", "rows.csv")
    rows = list(csv.reader(out.splitlines()))
    assert (code, rows[0]) == (0, ["kind", "kind=big", "kind=small"])
    assert rows[1][0] in ("big", "small")
    assert np.array_equal(np.array(rows[1][1:], float), loaded.predict(ROW)[0].astype(float))
    assert commanded(capsys, "predict", "houses.model", "rows.csv", "--out", "out.csv")[:2] == (0, "")
    assert Path("out.csv").read_text() == out
    for read in ("rows.csv", "houses.model"):
        before = Path(read).read_bytes()
        code, _, said = commanded(capsys, "predict", "houses.model", "rows.csv", "--out", f"./{read}")
        assert code == 2 and "--out must be another file than those that are read" in said and Path(read).read_bytes() == before
    told = json.loads(commanded(capsys, "predict", "houses.model", "rows.csv", "--json")[1])
    assert told["predictions"][0][0] == rows[1][0]
    # a run, by its name or folder, stands for the model that it has trained
    for run, more in (("P-SGD-1", []), ("runs/latest", ["-q"])):
        again, text, said = commanded(capsys, "predict", run, "rows.csv", *more)
        assert (again, text) == (0, out), said
        assert said == ("" if more else "model    runs/P-SGD-1/Node-0-Retrieve/MODEL-P-SGD-N(0).model\n")
    code, out, _ = commanded(capsys, "evaluate", "houses.model", "moved.csv", "--json")
    figures = json.loads(out)
    labelled = pandas.read_csv("moved.csv", sep=";", dtype=str, keep_default_na=False)
    assert (code, figures.pop("rows"), figures) == (0, 200, loaded.evaluate(labelled))
    assert figures["accuracy"] > 0.9


@covers("DAT-2")
def test_rows_that_a_model_does_not_take_are_named_by_line_and_column(capsys):
    data = houses()
    model = network(len(data.columns))
    model.save("houses.model", inputs=data)
    good = "120,5;1999-02-01;Bern\n"
    for text, complaint in (
        ("area;built;city\n" + good + "120.5;1999-02-01;Bern\n", "'bad.csv' line 3, column 'area' must be a finite number"),
        ("area;built;city\n" + good * 4 + "1;1999-02-01;Basel\n", "'bad.csv' line 6, column 'city' must be one of Bern, Chur"),
        (
            "aera;built;city\n" + good,
            "'bad.csv' must have the column 'area' of the model's plan, it has .*aera.*; did you mean 'aera'",
        ),
        ("area;built;city\n" + good + "1;2\n", "'bad.csv' line 3 must have 3 cells"),
        ("area;built;city\n", "'bad.csv' must have rows"),
    ):
        Path("bad.csv").write_text(text)
        code, out, error = commanded(capsys, "predict", "houses.model", "bad.csv")
        assert (code, out) == (2, "")
        assert re.search(complaint, error), error
    Path("bad.csv").write_text("area;built;city\n1;1999-02-01;Basel\n")
    assert commanded(capsys, "predict", "houses.model", "bad.csv", "--unknown", "none")[0] == 0
    assert "has no column" not in commanded(capsys, "evaluate", "houses.model", "rows.csv")[2]
    assert commanded(capsys, "evaluate", "houses.model", "rows.csv")[0] == 2
    network(3).save("none.model")
    assert "has no plan of columns" in commanded(capsys, "predict", "none.model", "rows.csv")[2]
    assert "There is no file" in commanded(capsys, "predict", "houses.model", "nowhere.csv")[2]
    assert ": . is a folder, and no file." in commanded(capsys, "predict", "houses.model", ".")[2]
    for option, value, wanted in (
        ("delimiter", "ab", "one character"),
        ("delimiter", "", "one character"),
        ("encoding", "x", "the name of one"),
    ):
        code, out, error = commanded(capsys, "evaluate", "houses.model", "rows.csv", f"--{option}", value)
        assert (code, out) == (2, "") and f": The table's '{option}' must be {wanted}, " in error


@pytest.mark.long
@covers("DAT-2")
@pytest.mark.processes
def test_two_workers_leave_a_model_that_predicts_raw_rows():
    data = houses()
    here = train(network(len(data.columns)), data, Shuffle().add(Normalize()))
    job = parallel_sgd.ParallelSGD(network(len(data.columns)), data, Shuffle().add(Normalize()))
    with parallel_sgd.local_workers(2) as nodes:
        result = job.parallel(nodes, epochs=20, **SETTINGS)
    for model in result.models.values():
        assert model.inputs == here.inputs
        assert np.array_equal(model.predict(ROW), here.predict(ROW))


class EndOnce(nn.callback.Callback):
    """Ends the process of a worker after its second epoch, the first time."""

    def __init__(self, mark):
        self.mark = mark

    def on_epoch_end(self, epoch, logs=None):
        if epoch == 1 and not Path(self.mark).exists():
            Path(self.mark).touch()
            os._exit(3)


@pytest.mark.long
@covers("DAT-2")
@pytest.mark.processes
def test_samples_that_were_left_as_they_came_are_warned_of():
    """Arrays of floats are taken as they are, so those of `load` give nonsense where the job has normalised them."""
    data = houses()
    trained = train(network(len(data.columns)), data, Normalize(), epochs=1)
    x, y = data.load()[2:]
    said = r"as they were before Normalize, by which the model was trained: .* a DataFrame, or Normalize.of\(data\).apply\(x\)"
    for ask in (trained.predict, lambda raw: trained.evaluate(raw, y)):
        with pytest.warns(UserWarning, match=said):
            ask(x)
    trained.predict(Normalize.of(data).apply(x))
    trained.predict(np.full_like(x, 1e9))  # strange in both ways, which says nothing


def test_restarted_and_resumed_jobs_and_checkpoints_of_callbacks_keep_the_plan():
    data, mark = houses(), str(Path("ended").resolve())

    def run(nodes, **more):
        job = parallel_sgd.ParallelSGD(network(len(data.columns)), data, Shuffle().add(Normalize()))
        return job.parallel(nodes, **{**SETTINGS, "epochs": 4, **more})

    with parallel_sgd.local_workers(2) as nodes:
        calm = run(nodes, callbacks=[nn.callback.ModelCheckpoint("best.model", monitor="Loss")], job_title="calm")
        restarted = run(nodes, checkpoint_every="epoch", on_failure="restart", callbacks=[EndOnce(mark)])
        first = run(nodes, epochs=2, checkpoint_every="epoch", job_title="first")
        resumed = run(nodes, resume=first.job_id, job_title="first")
    assert Path(mark).exists()
    files = sorted(Path("runs").rglob("best.model"))
    assert len(files) >= 2
    plan, answer = calm.models[0].inputs, calm.models[0].predict(ROW)
    for model in (*restarted.models.values(), *resumed.models.values()):
        assert model.inputs == plan
        assert np.array_equal(model.predict(ROW), answer)
    assert all(Model.load(file).inputs == plan for file in files)


def test_a_job_never_applies_the_plan_of_its_model():
    """Integer samples of a job are those of the data set, whatever plan the model brings along."""
    data = Digits()
    x, y, test_x, test_y = data.load()
    plain, planned = network(64, 10), network(64, 10)
    planned.inputs = [data, ImageCls()]
    arrays = ArrayDataset(x.reshape(len(x), 64), y, test_x.reshape(len(test_x), 64), test_y)
    models = [train(model, arrays, None, epochs=1) for model in (plain, planned)]
    flat = test_x.reshape(-1, 64).astype(float)
    assert np.array_equal(models[0].predict(flat), models[1].predict(flat))
    scaled = train(network(64, 10), data, Shuffle().add(ImageCls()), epochs=1)
    assert np.array_equal(scaled.predict(test_x), scaled.predict(ImageCls()(x, y, test_x, test_y)[2]))


def test_arrays_that_a_plan_has_made_complete_it():
    """As in a run that is trained again from the samples that it has kept."""
    data = houses()
    arrays = ArrayDataset(*data.load())
    model = network(5)
    model.inputs = data
    trained = train(model, arrays, Shuffle().add(Normalize()))
    assert np.array_equal(trained.predict(ROW), train(network(5), data, Shuffle().add(Normalize())).predict(ROW))
    again = train(trained, ArrayDataset(trained.inputs.apply([ROW] * 64), np.zeros(64, int)), Shuffle(), epochs=1)
    assert again.inputs == trained.inputs
    assert train(trained, arrays, Normalize(), epochs=1).inputs.columns == ()


def test_going_on_with_other_columns_is_refused():
    model = train(network(5), houses(), Shuffle().add(Normalize()), epochs=1)
    write_houses("houses.csv", ("Bern", "Genf", "Basel"))
    with pytest.raises(ValueError, match=r"'city=Chur' became 'city=Basel'; CSVDataset\(.., plan=model.inputs\)"):
        train(model, houses(), Normalize(), epochs=1)
    write_houses("houses.csv", ("Bern", "Genf"))
    again = CSVDataset("houses.csv", "kind", plan=model.inputs)
    assert train(model, again, Normalize(), epochs=1).inputs.names == model.inputs.names


def test_rows_tell_whether_plan_and_data_belong_together():
    data = houses()
    plan = train(network(5), data, Normalize(), epochs=1).inputs
    assert all(rows_that_differ(plan.rows[name], text) == "" for name, text in data.row_checksums().items())
    write_houses("houses.csv", ("Chur", "Genf", "Bern"))
    other = CSVDataset("houses.csv", "kind", plan=plan)
    assert any(rows_that_differ(plan.rows[name], text) for name, text in other.row_checksums().items())


class Twice(AbsTransformer):
    """Doubles all samples, and does not say what it does at prediction."""

    def __call__(self, train_x, train_y, test_x, test_y, seed=0):
        return train_x * 2, train_y, test_x * 2, test_y


class TwiceAtPrediction(Twice):
    """Says what it does at prediction, but is not built in."""

    def fitted(self, train_x, train_y):
        return self


@pytest.mark.parametrize("kind", [Twice, TwiceAtPrediction])
def test_a_transform_of_ones_own_leaves_no_wrong_plan(kind):
    model = train(network(5), houses(), kind(), epochs=1)
    assert model.inputs is None
    with pytest.raises(ValueError, match="without a plan of columns"):
        model.predict(ROW)


@covers("DAT-8")
def test_class_weights_of_a_job_by_name_and_balanced():
    data = houses(split="stratified")
    y = data.load()[1]
    exact = {number: len(y) / (2 * int((y == number).sum())) for number in (0, 1)}
    named = dict(zip(data.classes, exact.values(), strict=True))
    found = [train(network(5), data, Normalize(), epochs=3, class_weight=weights) for weights in (exact, named, "balanced")]
    assert all(np.array_equal(found[0].predict(ROW), other.predict(ROW)) for other in found[1:])
    assert not np.array_equal(found[0].predict(ROW), train(network(5), data, Normalize(), epochs=3).predict(ROW))
    with pytest.raises(ValueError, match="'class_weight' must name classes, big, small, got 'bg'; did you mean 'big'"):
        train(network(5), data, Normalize(), class_weight={"bg": 2.0})
    with pytest.raises(
        TypeError,
        match="'class_weight' must map class numbers to weights, got 'even'; names of classes and 'balanced' are taken",
    ):
        train(network(5), data, Normalize(), class_weight="even")


@covers("DAT-8")
def test_class_weights_of_several_outputs_are_those_of_fit_and_stand_in_the_job_file(tmp_path):
    draws = np.random.default_rng(0)
    x, y = draws.normal(size=(48, 3)).astype(np.float32), {"yes": np.arange(48) % 5 > 3, "kind": np.arange(48) % 3}
    value = nn.Input([-1, 3])
    model = Model(value, [Dense(1, "sigmoid", name="yes")(value), Dense(3, "softmax", name="kind")(value)])
    model.compile("adam", {"yes": "binary_crossentropy", "kind": "sparse_categorical_crossentropy"})
    data = ArrayDataset(x, y, x[:8], {name: label[:8] for name, label in y.items()})
    weights = {"yes": "balanced", "kind": {0: 2.0, 2: 0.25}}
    found = []
    for count in (1, 2):
        with in_process(count) as nodes:
            job = ParallelSGD(copy.deepcopy(model), data)
            assigned = FixedBlockAssignment.of(blocks=2)
            run = {"directory": tmp_path / f"{count}", "verbose": 0, "shuffle": False, "assignment_type": assigned}
            result = job.parallel(nodes, epoch=2, block_size=8, class_weight=weights, **run)
            found += [result.models[0].store.values]
    assert np.array_equal(*found)
    plain = copy.deepcopy(model)
    plain.fit(x, y, epochs=2, batch_size=16, shuffle=False, class_weight=weights, verbose=0)
    np.testing.assert_allclose(found[0], plain.store.values, rtol=1e-5, atol=1e-7)
    form = Weights()
    balanced = {"yes": {0: 0.5, 1: 3.0}, "kind": "balanced"}
    for each in (weights, balanced):
        assert form.read("class_weight", form.write(each)) == each
    with pytest.raises(ValueError, match=r"'class_weight\[kind\]\[0\]' must be a number >= 0, got -1"):
        ParallelSGD(model, data).parallel(in_process(1), class_weight={"kind": {0: -1}})
    with pytest.raises(ValueError, match="'class_weight' must have parts for yes, kind only, got 'kin'; did you mean 'kind'"):
        ParallelSGD(model, data).parallel(in_process(1), class_weight={"kin": {0: 1.0}})


@covers("DAT-8")
def test_class_weights_on_the_command_line_name_any_class():
    form = Weights()
    for text, weights in (
        ("0=0.5,7=4", {0: 0.5, 7: 4.0}), ('"Loft, big"=2, small = 3', {"Loft, big": 2.0, "small": 3.0}),
        ("007=2", {"007": 2.0}), ('"7"=2', {"7": 2.0}), ("a=b=2", {"a=b": 2.0}), ('"a ""b"""=2', {'a "b"': 2.0}),
    ):  # fmt: skip
        assert form.read("--class-weight", text) == weights
        assert form.read("", form.write(weights)) == weights
    for text in ("", "=2", "a", "a=", "a=x", '"a=2', "a=1,,b=2"):
        with pytest.raises(ValueError, match="--class-weight must be CLASS=WEIGHT with commas between them, or balanced, got"):
            form.read("--class-weight", text)
    model = network(5)
    model.compile("adam")
    with pytest.raises(ValueError, match=r"got 'big': nothing names the classes, as a plan does: model[.]inputs"):
        model.fit(np.zeros((4, 5)), [0, 1, 0, 1], class_weight={"big": 2})


def test_values_to_predict_come_back_and_series_are_cut_into_windows(capsys):
    Path("series.csv").write_text("t,y\n" + "".join(f"{row + 5},{1000 + 10 * (row % 8)}\n" for row in range(120)))
    data = CSVDataset("series.csv", "y", features=["t"], label_kind="number", split="last")
    model = nn.model.SequentialModel([-1, 8, 2], [nn.layer.Flatten(), nn.layer.Dense(8, "tanh"), nn.layer.Dense(1)])
    model.setup("mse")
    transform = NormalizeLabels().add(Windows(8, past=True)).add(Normalize()).add(Shuffle())
    trained = train(model, data, transform, epochs=60)
    trained.save("series.model")
    code, out, _ = commanded(capsys, "predict", "series.model", "series.csv")
    rows = out.splitlines()
    assert (code, rows[0], len(rows)) == (0, "y", 1 + 120 - 7)
    assert abs(float(rows[-1]) - 1000) < 15  # after row 119, where the row mod 8 is 7
    drawn = CSVDataset("series.csv", "y", features=["t"], label_kind="number")
    for wrong, text in ((drawn, "'split' of CSVDataset must be 'last', got 'random'"), (data, "must come before Shuffle")):
        order = transform if wrong is drawn else Shuffle().add(transform)
        with pytest.raises(ValueError, match=text):
            train(model, wrong, order)


@pytest.mark.filterwarnings("ignore:fit.. 'x'. Samples are far")
@covers("DAT-2")
def test_a_pipeline_of_scikit_learn_predicts_the_same_numbers():
    pipelines = pytest.importorskip("sklearn.pipeline")
    from nn.sklearn import NeuralClassifier, NeuralRegressor, TableEncoder

    data = houses()
    model = train(network(len(data.columns)), data, Shuffle().add(Normalize()))
    rows = pandas.DataFrame([ROW, {**ROW, "city": "Genf"}])
    pipeline = pipelines.make_pipeline(NeuralClassifier.from_model(model))
    assert np.array_equal(pipeline.predict_proba(rows), model.predict(rows))
    assert set(pipeline.predict(rows)) <= {"big", "small"}
    frame = pandas.read_csv("houses.csv", sep=";", decimal=",", na_values="?")
    x, y = frame.drop(columns="kind"), frame["kind"]
    whole = pipelines.make_pipeline(
        TableEncoder(missing="fill", normalize=True), NeuralClassifier([8], epochs=30, learn_rate=0.02, random_state=0)
    )
    assert whole.fit(x, y).score(x, y) > 0.9
    encoder, network_ = whole[0], whole[-1].model_
    assert list(encoder.get_feature_names_out()) == encoder.plan_.names == data.columns
    network_.save("pipeline.model", inputs=encoder.plan_)
    assert np.array_equal(Model.load("pipeline.model").predict(x)[:5], network_.predict(encoder.transform(x))[:5])
    alone = NeuralClassifier([4], epochs=2, random_state=0).fit(x.drop(columns="area"), y)
    assert alone.model_.inputs.classes == ["big", "small"]
    assert np.array_equal(alone.predict_proba(x), alone.model_.predict(x)) or alone.predict_proba(x).shape == (200, 2)
    values = NeuralRegressor([4], epochs=2, random_state=0).fit(x.drop(columns="area"), np.arange(200.0))
    assert values.predict(x).shape == (200,)
