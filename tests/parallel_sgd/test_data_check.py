"""Model, data set and transform are tried against each other before anything is sent."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from nn.dataset import AbsDataset, ArrayDataset, CSVDataset, Digits, NpzDataset, checksum_of
from nn.dataset.transforms import AbsTransformer, ImageCls, OneHot, Shuffle, True_Non_IID
from parallel_sgd import ParallelSGD, in_process, local_workers, sweep
from parallel_sgd.options import compatibility
from parallel_sgd.options.compatibility import check_data
from parallel_sgd.profiles import IIDBlockAssignment
from parallel_sgd.record.job_file import JobFile
from tests.parallel_sgd.digits_job import plan_of

from ..statements import covers

ROWS = np.random.default_rng(0).normal(size=(60, 4))
KINDS = np.arange(60) // 20  # sorted: the first batch holds one class only


class Own(AbsTransformer):
    """A transform of the user's, which does what it is told."""

    def __init__(self, act: Any) -> None:
        self.act = act

    def __call__(self, train_x: Any, train_y: Any, test_x: Any, test_y: Any, seed: int = 0) -> Any:
        return self.act(train_x, train_y, test_x, test_y)


def refuse(*arrays: Any, error: Exception = LookupError("no such table")) -> Any:  # noqa: B008
    raise error


def of(inputs: list[int], outputs: int = 3, loss: nn.loss.Loss | None = None) -> nn.model.Model:
    model = nn.model.SequentialModel(input_shape=[-1, *inputs])
    if len(inputs) > 1:
        model.add(nn.layer.Flatten())
    model.add(nn.layer.Dense(outputs))
    model.setup(loss or nn.loss.Cross_Entropy_With_Softmax())
    return model


def check(model: nn.model.Model, data: Any, transform: AbsTransformer | None = None, weights: Any = None) -> None:
    check_data(model, data, transform, plan_of(IIDBlockAssignment(2), block_size=4, class_weight=weights))


def parts(x: Any = ROWS, y: Any = KINDS) -> Any:
    return x, y, x[:6], y[:6]


@covers("SUB-46")
@pytest.mark.parametrize("small", [0, 1 << 30])
@pytest.mark.parametrize(
    ("model", "data", "transform", "words"),
    [
        (of([3]), parts(), None, "'model' does not take train_x of the job: .* axis 1 must have length 3, got 4"),
        (of([4, 1, 1]), parts(), None, r"input_shape=\[-1, 4\] may begin with nn.layer.Reshape\(\[4, 1, 1\]\)"),
        (of([8, 8, 1], 10), Digits().load(), ImageCls(False), r"ImageCls\(flatten=False, channels=True\) adds it"),
        (of([64], 10), Digits().load(), ImageCls(False), r"the transform ImageCls\(\) makes images rows"),
        (of([4], 2), parts(), None, r"'model' does not go with train_y .* must lie in 0..1 for 2 outputs, got 0..2"),
        (of([4], 2), parts(), OneHot(), "the model has 2 outputs, the labels 3 columns"),
        (of([4], loss=nn.loss.MSELoss()), parts(y=ROWS[:, 0]), None, r"labels must have the shape \(.*, 3\) of the output"),
        (of([4]), (ROWS, KINDS, ROWS[:, :3], KINDS), None, "does not take test_x of the job"),
        (
            of([4]),
            (ROWS, KINDS[:50], ROWS, KINDS),
            None,
            r"as many labels, got train_x of shape \(60, 4\) and train_y of \(50,",
        ),
        (of([4]), parts(y=KINDS.astype(complex)), None, "must be integers"),
    ],
)
def test_what_does_not_fit_is_refused(
    model: Any, data: Any, transform: Any, words: str, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shapes, outputs, labels and types, of small data sets as of large ones, whose first rows are tried."""
    monkeypatch.setattr(compatibility, "_SMALL", small)
    with pytest.raises(ValueError, match=words):
        check(model, data, transform)


@covers("SUB-46")
@pytest.mark.parametrize("small", [0, 1 << 30])
@pytest.mark.parametrize(
    "transform",
    [
        None,
        OneHot(),  # the first batch has one class only
        Shuffle().add(True_Non_IID(batch_size=50)),  # needs more rows than a batch has
        Own(lambda x, y, *rest: (np.concatenate([x, x]), np.concatenate([y, y]), *rest)),
        Own(lambda *arrays: list(arrays)),
    ],
)
def test_what_fits_is_taken(transform: Any, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is refused that trains, though some rows alone would not do."""
    monkeypatch.setattr(compatibility, "_SMALL", small)
    check(of([4]), parts(), transform)


def test_only_some_rows_of_a_large_data_set_are_transformed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A transform that lacks something here is left to the workers."""
    with caplog.at_level("INFO"):
        check(of([3]), parts(), Own(partial(refuse, error=FileNotFoundError("statistics.npz"))))
    assert "checked on the workers: statistics.npz" in caplog.text
    seen: list[int] = []
    monkeypatch.setattr(compatibility, "_SMALL", 0)
    check(of([4]), parts(), Own(lambda *arrays: seen.append(len(arrays[0])) or arrays))
    assert seen == [10]  # a batch of 8, and a row of each class that it lacks


@covers("SUB-46")
@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        (lambda *arrays: None, TypeError, "'transform' Own must return four arrays, train_x, train_y, .* got NoneType"),
        (lambda *arrays: arrays[:2], TypeError, "four arrays, .* got 2 of them"),
        (lambda x, *rest: (x / 0.0, *rest), ValueError, "must be finite .*: after the transform sample 0 has .* at train_x"),
        (lambda x, *rest: (x.fill(0), *rest), ValueError, "read-only"),
        (lambda x, y, *rest: (x[:5], y[:5], *rest), ValueError, "at least one batch of 8 samples"),
        (refuse, LookupError, "no such table"),
    ],
)
@pytest.mark.filterwarnings("ignore:.* encountered:RuntimeWarning")
def test_what_a_transform_of_ones_own_does(act: Any, error: type[Exception], words: str) -> None:
    """Its errors come as they are, with the user's own frames."""
    with pytest.raises(error, match=words):
        check(of([4]), parts(), Own(act))


class Grid(AbsDataset):
    """Numbers, of which one may be masked."""

    def __init__(self, masked: bool) -> None:
        self.masked = masked

    def load(self, download: bool = True) -> Any:
        x = np.arange(64.0).reshape(32, 2)
        y = np.arange(32) % 2
        return np.ma.masked_equal(x, 7) if self.masked else x, y, x, y


@pytest.mark.parametrize("transform", [None, Own(lambda x, *rest: (np.ma.masked_equal(x, 7), *rest))])
def test_what_masks_numbers_starts_no_training(transform: Any, tmp_path: Path) -> None:
    job = ParallelSGD(of([2], 2), Grid(masked=transform is None), *([transform] if transform else []))
    with in_process(2) as nodes, pytest.raises(ValueError, match="must not be masked, got 1 masked of 64 numbers"):
        job.parallel(nodes, block_size=4, epoch=1, directory=tmp_path)


@covers("SUB-46")
def test_a_number_that_is_not_finite_is_named_with_its_row() -> None:
    """The row of the data set, whatever the transform does with the order."""
    x, y = ROWS.copy(), ROWS[:, :3].copy()
    x[17, 2], y[9, 1] = np.nan, np.inf
    with pytest.raises(ValueError, match=r"must be finite numbers: sample 17 has nan at train_x\[17, 2\]$"):
        check(of([4]), parts(x), Shuffle())
    with pytest.raises(ValueError, match=r"labels must be finite.*in the data set sample 9 has inf at train_y\[9, 1\]"):
        check(of([4], loss=nn.loss.MSELoss()), parts(y=y), Shuffle())
    x[17, 2] = 1e300
    with pytest.raises(ValueError, match=r"sample 17 has 1e\+300 at train_x\[17, 2\], which overflows in float32"):
        check(of([4]), parts(x))
    check(of([4]), parts(x), Own(lambda x, *rest: (np.minimum(x, 9), rest[0], np.minimum(rest[1], 9), rest[2])))  # mended there


def test_class_weights_are_for_classes_that_there_are() -> None:
    check(of([4]), parts(), weights={2: 3.0})
    with pytest.raises(ValueError, match="'class_weight' must name classes of the model, 0 to 2, got 3"):
        check(of([4]), parts(), weights={3: 1.0})
    with pytest.raises(ValueError, match="'class_weight' needs class numbers or one-hot rows as labels"):
        check(of([4], loss=nn.loss.MSELoss()), parts(y=ROWS[:, :3]), weights={1: 1.0})


@covers("SUB-46")
def test_nothing_is_begun(tmp_path: Path) -> None:
    """No folder of a run is made, no node is asked."""
    job = ParallelSGD(of([60], 10), Digits(), ImageCls())
    with in_process(2) as nodes, pytest.raises(ValueError, match="axis 1 must have length 60, got 64"):
        job.parallel(nodes, directory=tmp_path)
    assert not list(tmp_path.iterdir())


@covers("SUB-46")
@pytest.mark.parametrize(("row", "part"), [(0, "train"), (33, "train"), (4, "test"), (59, "test")])
def test_a_row_that_was_drawn_is_named_as_it_was_given(row: int, part: str, tmp_path: Path) -> None:
    """Parts that `test_fraction` draws from the samples given tell the row of these."""
    x = ROWS.astype(np.float32)
    x[row, 1] = np.nan
    np.savez(tmp_path / "own.npz", x=x, y=KINDS)
    lines = [
        ",".join("" if np.isnan(cell) else str(cell) for cell in (*cells, kind)) for cells, kind in zip(x, KINDS, strict=True)
    ]
    (tmp_path / "own.csv").write_text("\n".join(["a,b,c,d,kind", *lines]) + "\n")
    words = rf"has nan at {part}_x\[\d+, 1\]; 'test_fraction' drew {part}_x: this is row {row} of what was given$"
    for data in (
        ArrayDataset(x, KINDS, test_fraction=0.5, seed=38),
        NpzDataset(tmp_path / "own.npz", test_fraction=0.5, seed=38),
        CSVDataset(tmp_path / "own.csv", "kind", test_fraction=0.5, seed=38, missing="nan"),
    ):
        with in_process(1) as nodes, pytest.raises(ValueError, match=words):
            ParallelSGD(of([4]), data, Shuffle()).parallel(nodes, epoch=1, block_size=4)


def test_rows_of_given_parts_are_named_as_they_are() -> None:
    x = ROWS.copy()
    x[7, 1] = np.nan
    with in_process(1) as nodes, pytest.raises(ValueError, match=r"sample 7 has nan at test_x\[7, 1\]$"):
        ParallelSGD(of([4]), ArrayDataset(ROWS, KINDS, x, KINDS)).parallel(nodes, epoch=1, block_size=4)


def test_a_model_that_carries_states_is_refused() -> None:
    model = nn.model.SequentialModel([-1, 2, 2], [nn.layer.GRU(4, stateful=True), nn.layer.Dense(3, "softmax")])
    model.compile("sgd", "crossentropy")
    with in_process(2) as nodes, pytest.raises(ValueError, match=r"'model' must carry no states .* got GRU 'gru_1' .* fit\(\)"):
        ParallelSGD(model, ArrayDataset(ROWS.reshape(-1, 2, 2), KINDS)).parallel(nodes, epoch=1, block_size=4)


TABLE = ROWS * [1.0, 1.0, 0.0, 0.1] + [0.0, 3000.0, 7.0, 400.0]  # typical sizes 1, 3,000, 7 and 400
PRICES = 200_000.0 + 1000 * ROWS[:, :1]


@pytest.mark.parametrize("small", [0, 1 << 30])
@pytest.mark.parametrize(
    ("model", "data", "transform", "words"),
    [
        (
            of([4]),
            parts(TABLE),
            None,
            r"^Samples .* size: number 2 \(3,000\), number 4 \(400\)\. Normalization\(\) as the first layer",
        ),
        (of([4]), parts(TABLE), nn.dataset.transforms.Normalize(), ""),
        (of([4]), parts(TABLE + 9000), None, r"number 1 \(9,000\), number 2 \(12,000\), number 3 \(9,007\) and 1 more\."),
        (of([4]), parts(), None, ""),
        (
            nn.model.SequentialModel([-1, 4], [nn.layer.Embedding(9000, 2), nn.layer.Flatten(), nn.layer.Dense(3)]),
            parts(TABLE),
            None,
            "",
        ),
        (nn.model.SequentialModel([-1, 4], [nn.layer.BatchNorm(), nn.layer.Dense(3)]), parts(TABLE), None, ""),
        (
            of([4], 1, nn.loss.MSELoss()),
            parts(y=PRICES),
            None,
            r"^The values to predict .* (199|200),\d{3}\. The transform NormalizeLabels\(\)",
        ),
        (of([4], 1, nn.loss.MSELoss()), parts(y=PRICES), nn.dataset.transforms.NormalizeLabels(), ""),
        (of([4]), parts(1e-6 * ROWS), None, r"^Samples are far from .* number 1 \(\S+e-0[67]\), number 2 .* and 1 more\."),
        (of([4]), parts(1e-6 * ROWS), nn.dataset.transforms.Normalize(), ""),
        (of([4]), parts(ROWS * [1.0, 0.0, 1.0, 1.0]), None, ""),
        (
            of([4], 1, nn.loss.MSELoss()),
            parts(y=1e-8 * ROWS[:, :1] + 5e-9),
            None,
            r"^The values to predict .*: \S+e-0[89]\. The",
        ),
    ],
)
def test_numbers_that_are_too_large_are_told(
    monkeypatch: pytest.MonkeyPatch, small: int, model: nn.model.Model, data: Any, transform: Any, words: str
) -> None:
    monkeypatch.setattr(compatibility, "_SMALL", small)
    if not model.built or model.loss is None:
        model.setup(nn.loss.Cross_Entropy_With_Softmax())
    heard: list[str] = []
    check_data(model, data, transform, plan_of(IIDBlockAssignment(2), block_size=4), warn=heard.append)
    assert len(heard) == bool(words)
    assert re.search(words, "".join(heard)), heard


@pytest.mark.parametrize("small", [0, 1 << 30])
@pytest.mark.parametrize(
    ("model", "data", "transform", "words"),
    [
        (of([4]), parts(y=0 * KINDS + 2), None, "the same label, 2: a model learns nothing from them but to answer so."),
        (of([4]), parts(y=0 * KINDS), OneHot(3), "All 60 training samples have the same label, 0:"),
        (of([4]), parts(y=np.eye(3, dtype=np.float32)[0 * KINDS + 1]), None, "the same label, class 1:"),
        (of([4], 1, nn.loss.MSELoss()), parts(y=np.full((60, 1), 3.5)), None, "the same label, 3.5:"),
        (of([4], 2, nn.loss.MSELoss()), parts(y=np.full((60, 2), 0.5)), None, "have the same label: a model"),
        (of([4]), (ROWS, np.where(np.arange(60) == 59, 2, 0), ROWS, KINDS), None, ""),
        (of([4]), (ROWS, KINDS, ROWS, 0 * KINDS), None, ""),
    ],
)
def test_training_samples_of_one_class_are_told(
    monkeypatch: pytest.MonkeyPatch, small: int, model: nn.model.Model, data: Any, transform: Any, words: str
) -> None:
    """Loss and accuracy of such a job look better and better."""
    monkeypatch.setattr(compatibility, "_SMALL", small)
    heard: list[str] = []
    check_data(model, data, transform, plan_of(IIDBlockAssignment(2), block_size=2), warn=heard.append)
    assert len(heard) == bool(words) and words in "".join(heard), heard


def test_one_class_is_told_once_by_its_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = tmp_path / "fruit.csv"
    table.write_text("size,kind\n" + "".join(f"0.{row},good\n" for row in range(10, 90)))
    job = ParallelSGD(of([1], 2), CSVDataset(table, "kind"))
    with in_process(2) as nodes:
        job.parallel(nodes, epoch=2, block_size=8, directory=tmp_path)
    told = [record.getMessage() for record in caplog.records if "same label" in record.getMessage()]
    assert told == ["All 64 training samples have the same label, 'good': a model learns nothing from them but to answer so."]


def test_numbers_that_are_too_large_go_by_the_names_of_a_table(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = tmp_path / "people.csv"
    table.write_text("age,income,kind\n" + "".join(f"{20 + row % 50},{30_000 + row},{row % 2}\n" for row in range(80)))
    job = ParallelSGD(of([2], 2), CSVDataset(table, "kind"))
    with in_process(2) as nodes:
        job.parallel(nodes, epoch=1, block_size=8, directory=tmp_path)
    told = [record.getMessage() for record in caplog.records if "far from" in record.getMessage()]
    assert [message.partition(". ")[0] for message in told] == [
        "Samples are far from the range of -1 to 1 that a network learns well from, by their typical size: income (30,039)"
    ]


class Counted(ArrayDataset):
    """Arrays in memory that count how often they are loaded."""

    loads = 0

    def load(self, download: bool = True) -> Any:
        self.loads += 1
        return super().load(download)


@pytest.mark.parametrize("place", [in_process, pytest.param(local_workers, marks=pytest.mark.processes)])
@pytest.mark.parametrize("transform", [None, Shuffle()])
def test_samples_are_read_once_and_must_stay_those_of_the_checksum(tmp_path: Path, place: Any, transform: Any) -> None:
    """A run tells the checksum of what it has trained on, wherever its workers are."""
    x, y = np.random.default_rng(0).random((60, 4), np.float32), np.arange(60) % 3
    data = Counted(x, y, x[:30], y[:30])
    job = ParallelSGD(of([4]), data, transform)
    with place(1) as nodes:
        result = job.parallel(nodes, epoch=1, block_size=20, directory=tmp_path)
        assert data.loads == 1 and result.folder is not None
        assert JobFile.read(result.folder).data_sha256 == checksum_of(data.load()) == data.checksum()
        x[7] += 1
        with pytest.raises(ValueError, match=r"data set counted have another checksum .* Make another data set object"):
            job.parallel(nodes, epoch=1, block_size=20, directory=tmp_path)
    assert len([*tmp_path.glob("runs/P-SGD-*")]) == 1


def test_samples_of_a_sweep_must_stay_those_of_the_checksum(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).random((60, 4), np.float32), np.arange(60) % 3
    data = Counted(x, y, x[:30], y[:30])
    data.checksum()
    x[7] += 1
    with pytest.raises(ValueError, match=r"data set counted have another checksum"):
        sweep(ParallelSGD(of([4]), data), {"block_size": [10, 20]}, processes=1, epoch=1, directory=tmp_path)
