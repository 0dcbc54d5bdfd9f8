"""One's own arrays: what is accepted, and how what is not accepted is named."""

import datetime
from decimal import Decimal

import numpy as np
import pandas
import pytest

import nn
from nn.dataset import ArrayDataset

X, Y = np.zeros((6, 3)), np.zeros(6, int)


def test_arrays_come_back_unchanged_and_read_only():
    data = ArrayDataset(X, Y, [[1, 2, 3]], [1])
    arrays = data.load()
    assert arrays[0].dtype == X.dtype
    assert np.shares_memory(arrays[0], X)
    assert X.flags.writeable
    assert arrays[2].tolist() == [[1, 2, 3]]
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


@pytest.mark.parametrize("dtype", ["?", "u1", "i8", "f2", "f4", "f8"])
def test_every_usual_number(dtype):
    assert ArrayDataset(X.astype(dtype), Y, X.astype(dtype), Y).load()[0].dtype == dtype


@pytest.mark.parametrize(
    ("arrays", "error", "text"),
    [
        ((X, Y[:5], X, Y), ValueError, "'y' must have the length of 'x', 6, got 5"),
        ((X, Y, X, Y[:5]), ValueError, "'test_y' must have the length of 'test_x', 6, got 5"),
        ((X, Y, X[:, :2], Y), ValueError, r"'test_x' must have the sample shape of 'x', \(3,\), got \(2,\)"),
        ((X, Y, X, X), ValueError, r"'test_y' must have the label shape of 'y', \(\), got \(3,\)"),
        ((X[:0], Y[:0], X, Y), ValueError, r"'x' must hold at least one sample, got shape \(0, 3\)"),
        ((X, Y, X[:0], Y[:0]), ValueError, "'test_x' must hold at least one sample"),
        ((X, 3, X, Y), ValueError, r"'y' must hold at least one sample, got shape \(\)"),
        ((X, None, X, Y), TypeError, "'y' must hold booleans, integers or floats of at most 64 bits, got dtype object"),
        (
            (X, ["a"] * 6, X, Y),
            ValueError,
            "'y': row 0, column 'y' must be a number, as other cells of the column are, got str 'a'",
        ),
        (([["a"]] * 6, Y, X, Y), TypeError, "'x' must hold .* got dtype <U1"),
        ((X.astype(complex), Y, X, Y), TypeError, "'x' must hold .* got dtype complex128"),
        ((X.astype(np.longdouble), Y, X, Y), TypeError, "'x' must hold .* got dtype"),
        (([[1], [1, 2]], Y, X, Y), ValueError, "'x' must be a rectangular array"),
    ],
)
def test_what_does_not_fit_is_named(arrays, error, text):
    with pytest.raises(error, match=f"ArrayDataset {text}"):
        ArrayDataset(*arrays)


FRAME = pandas.DataFrame(
    {
        "area": [50, 60, 70, 80],
        "garden": [True, False, True, True],
        "city": ["Bern", "Genf", "Bern", "Chur"],
        "kind": pandas.Categorical(["b", "a", "b", "b"], categories=["b", "a", "z"]),
        "built": pandas.to_datetime(["1970-01-02", "1970-01-03", "2001-05-01", "1970-01-01"]),
    },
    index=[7, 7, 3, 1],
)


def test_frames_of_several_types():
    """Categories of both parts, in the order of their type or sorted; the index does not count."""
    data = ArrayDataset(FRAME[:3], FRAME["area"][:3] * 10.0, FRAME[3:], FRAME["area"][3:] * 10.0)
    x, y, test_x, test_y = data.load()
    assert data.columns == [
        "area", "garden", "city=Bern", "city=Chur", "city=Genf", "kind=b", "kind=a", "kind=z", "built",
    ]  # fmt: skip
    assert x.dtype == np.float32
    assert x.tolist() == [[50, 1, 1, 0, 0, 1, 0, 0, 1], [60, 0, 0, 0, 1, 0, 1, 0, 2], [70, 1, 1, 0, 0, 1, 0, 0, 11443]]
    assert test_x.tolist() == [[80, 1, 0, 1, 0, 1, 0, 0, 0]]
    assert (y.tolist(), test_y.tolist()) == ([500, 600, 700], [800])
    assert data.classes is None


def test_frames_of_one_type_stay_what_they_are():
    frame = pandas.DataFrame({"a": [1, 2, 3], "b": [4, 5, 6]})
    swapped = frame[["b", "a"]]
    data = ArrayDataset(frame, frame["a"] > 1, swapped, frame["a"] > 2)
    assert data.load()[0].dtype == np.int64
    assert data.load()[2].tolist() == data.load()[0].tolist()
    assert data.load()[1].dtype == bool
    assert data.load()[1].shape == (3,)
    assert ArrayDataset(frame, frame[["a"]], frame, frame[["a"]]).load()[1].shape == (3, 1)
    nullable = frame.astype("Int64")
    assert ArrayDataset(nullable, nullable["a"], nullable, nullable["a"]).load()[0].tolist() == frame.to_numpy().tolist()


def test_labels_that_are_texts():
    data = ArrayDataset(FRAME[["area"]], FRAME["city"], FRAME[["area"]][:1], FRAME["city"][:1])
    assert data.load()[1].tolist() == [0, 2, 0, 1]
    assert data.load()[1].dtype == np.int64
    assert data.classes == ["Bern", "Chur", "Genf"]
    assert ArrayDataset(FRAME[["area"]], FRAME["kind"], FRAME[["area"]], FRAME["kind"]).classes == ["b", "a", "z"]


def test_samples_are_set_aside():
    x = np.arange(10.0)[:, None]
    train_x, train_y, test_x, test_y = ArrayDataset(x, x[:, 0], test_fraction=0.3, seed=1).load()
    assert (len(train_x), len(test_x)) == (7, 3)
    assert sorted(np.concatenate([train_y, test_y])) == x[:, 0].tolist()
    assert not test_x.flags.writeable
    assert len(ArrayDataset(FRAME, FRAME["city"], test_fraction=0.5).load()[2]) == 2


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"area": [1.0, None, 3, 4]}, ValueError, "'x' must hold finite .*: row 1, column 'area' is missing; fillna"),
        ({"city": ["a", "b", "c", None]}, ValueError, "row 3, column 'city' is missing"),
        (
            {"area": [1.0, 2, np.inf, 4]},
            ValueError,
            "row 2, column 'area' is inf|row 2, column 'area' must be a finite number, got 'inf'",
        ),
        ({"area": [1j] * 4}, TypeError, "column 'area' must hold numbers, texts, categories or dates, got dtype complex128"),
    ],
)
def test_cells_that_cannot_be_taken(change, error, text):
    frame = FRAME.assign(**change)
    with pytest.raises(error, match=text):
        ArrayDataset(frame, FRAME["area"], FRAME, FRAME["area"])


def test_frames_that_do_not_go_together():
    with pytest.raises(ValueError, match=r"columns of 'x', got \['aera'\] beyond these and no \['area'\]"):
        ArrayDataset(FRAME, FRAME["area"], FRAME.rename(columns={"area": "aera"}), FRAME["area"])
    with pytest.raises(TypeError, match="'test_x' must be of pandas as 'x' is, or none of them, got ndarray"):
        ArrayDataset(FRAME, FRAME["area"], np.ones((4, 5)), FRAME["area"])
    with pytest.raises(ValueError, match="'y' must be one column where it holds texts, got 2"):
        ArrayDataset(FRAME, FRAME[["city", "kind"]])
    with pytest.raises(ValueError, match="'test_x' and 'test_y' must be given together"):
        ArrayDataset(FRAME, FRAME["area"], FRAME)


def test_other_rows_are_encoded_alike():
    data = ArrayDataset(FRAME, FRAME["area"], test_fraction=0.5, seed=1)
    rows = FRAME.iloc[::-1]
    both = ArrayDataset(FRAME, FRAME["area"], rows, rows["area"])
    assert np.array_equal(data.encode(FRAME), both.load()[0])
    assert np.array_equal(data.encode(rows[list(rows.columns[::-1])]), both.load()[2])
    assert data.encode(FRAME).dtype == np.float32
    with pytest.raises(ValueError, match="'rows': row 1, column 'city' must be one of Bern, Chur, Genf, got 'Geneva'"):
        data.encode(FRAME.replace("Genf", "Geneva"))
    with pytest.raises(ValueError, match=r"encode\(\) 'rows' must name columns .* got 'area'; did you mean 'aera'"):
        data.encode(FRAME.rename(columns={"area": "aera"}))
    with pytest.raises(ValueError, match="row 2, column 'city' is missing"):
        data.encode(FRAME.assign(city=["Bern", "Chur", None, "Genf"]))
    with pytest.raises(TypeError, match="'rows' must be a DataFrame with the columns of x, got ndarray"):
        data.encode(np.ones((2, 9)))
    with pytest.raises(TypeError, match=r"encode\(\) is for samples given as a DataFrame"):
        ArrayDataset(X, Y).encode(FRAME)


def test_other_rows_of_frames_of_numbers():
    data = ArrayDataset(FRAME[["area"]], FRAME["area"])
    assert data.encode(pandas.DataFrame({"more": [0], "area": [1.5]})).tolist() == [[1.5]]
    series = ArrayDataset(FRAME["area"].astype("f4"), FRAME["area"])
    assert series.encode(FRAME["area"] + 0.5).tolist() == [50.5, 60.5, 70.5, 80.5]
    assert series.encode(FRAME).dtype == np.float32


@pytest.mark.parametrize(
    "of",
    [
        list,
        tuple,
        np.array,
        pandas.Index,
        pandas.Categorical,
        pandas.Series,
        lambda texts: np.array(texts, object),
        lambda texts: pandas.array(texts, "string"),
    ],
)
def test_texts_are_labels_in_whatever_holds_them(of):
    texts = ["b", "c", "a", "b", "c", "a"]
    data = ArrayDataset(X, of(texts), X[:2], texts[:2])
    assert data.classes == ["a", "b", "c"]
    assert (data.load()[1].tolist(), data.load()[3].tolist()) == ([1, 2, 0, 1, 2, 0], [1, 2])
    assert data.load()[1].dtype == np.int64
    assert ArrayDataset(X, of(texts)).classes == data.classes


def test_an_index_of_several_levels_is_no_labels():
    with pytest.raises(TypeError, match="'y' must hold booleans, integers or floats of at most 64 bits, got dtype object"):
        ArrayDataset(X, pandas.MultiIndex.from_tuples([("a", 1)] * 6))


def test_an_index_of_numbers_is_labels():
    assert ArrayDataset(X, pandas.RangeIndex(6), X, np.arange(6)).load()[1].tolist() == list(range(6))


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ([1, 2, "x", 4], "'x': row 2, column 'a' must be a number, as other cells of the column are, got str 'x'"),
        (["a", 1.5, "b", None], "'x': row 1, column 'a' must be a text, as other .*, got float '1.5'"),
        ([[1], [2], [3], [4]], r"'x': row 0, column 'a' must be a number, a text or a date, got list '\[1\]'"),
        ([1, 2, 3, (4, 5)], r"'x': row 3, column 'a' must be a number, .* got tuple '\(4, 5\)'"),
        (["a", "b", b"c", "d"], "'x': row 2, column 'a' must be a text, .* got bytes"),
    ],
)
def test_mixed_columns_are_refused(cells, text):
    frame = pandas.DataFrame({"a": pandas.Series(cells, dtype=object)})
    with pytest.raises(ValueError, match=text):
        ArrayDataset(frame, Y[:4])


def test_a_row_of_the_other_part_is_named():
    x, test_x = pandas.DataFrame({"a": [1, 2, 3]}), pandas.DataFrame({"a": ["4", 5]}, dtype=object)
    with pytest.raises(ValueError, match=r"ArrayDataset 'test_x': row 0, column 'a' must be a number, .* got str '4'"):
        ArrayDataset(x, Y[:3], test_x, Y[:2])


def test_objects_of_one_kind_are_taken():
    days = [datetime.date(1970, 1, 2), None, datetime.datetime(1970, 1, 3), pandas.Timestamp("1970-01-04")]
    frame = pandas.DataFrame({"n": pandas.Series([1, 2.5, True, Decimal("0.5")], dtype=object), "d": days})
    frame["d"] = frame["d"].astype(object).where(frame["d"].notna(), datetime.date(1970, 1, 1))
    assert ArrayDataset(frame, Y[:4], frame, Y[:4]).load()[0].tolist() == [[1, 1], [2.5, 0], [1, 2], [0.5, 3]]


def test_a_repeated_column_is_named():
    frame = pandas.DataFrame(np.ones((4, 3)), columns=["a", "b", "a"])
    with pytest.raises(ValueError, match=r"different column names, got more than once: \['a'\]"):
        ArrayDataset(frame, Y[:4])


def test_fit_leads_a_frame_of_texts_here():
    model = nn.model.SequentialModel(input_shape=[-1, 5])
    model.add(nn.layer.Dense(1))
    model.setup(nn.loss.MSELoss())
    with pytest.raises(
        ValueError, match=r"'x' must hold numbers, got object; nn\.dataset.ArrayDataset makes numbers of its texts"
    ):
        model.fit(FRAME, FRAME["area"])
