import csv
from pathlib import Path

import pytest

from nn.callback import CSVLogger
from nn.model import Model
from tests.nn.model.models import classifier, samples

X, Y = samples(30)


def test_one_line_per_epoch_with_all_bits(tmp_path: Path) -> None:
    model, path = classifier(), tmp_path / "log.csv"
    history = model.fit(X, Y, epoch=3, validation_split=0.2, callbacks=[CSVLogger(path)], verbose=0)
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["epoch", "Loss", "accuracy", "val_Loss", "val_accuracy"]
    assert [{name: float(value) for name, value in row.items()} for row in rows] == history.rows
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]


def test_a_new_run_replaces_the_file_and_append_continues_it(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    for append in (False, False, True):
        model = classifier()
        model.fit(X, Y, epoch=2, callbacks=[CSVLogger(path, append=append)], verbose=0)
        assert [line.split(",")[0] for line in path.read_text().splitlines()] == ["epoch", "1", "2"]
    model.fit(X, Y, epoch=2, callbacks=[CSVLogger(path, append=True)], verbose=0)
    assert [line.split(",")[0] for line in path.read_text().splitlines()] == ["epoch", "1", "2", "3", "4"]


def test_a_trained_model_goes_on_in_its_log_unless_told_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("of another run\n")
    model = classifier()
    model.fit(X, Y, epoch=2, callbacks=[CSVLogger(path)], verbose=0)
    loaded = Model.from_bytes(model.to_bytes())
    loaded.fit(X, Y, epoch=1, callbacks=[CSVLogger(path)], verbose=0)
    assert [line.split(",")[0] for line in path.read_text().splitlines()] == ["epoch", "1", "2", "3"]
    loaded.fit(X, Y, epoch=1, callbacks=[CSVLogger(path, append=False)], verbose=0)
    assert [line.split(",")[0] for line in path.read_text().splitlines()] == ["epoch", "4"]


def test_what_a_killed_run_left_is_cut_off(tmp_path: Path) -> None:
    path, model = tmp_path / "log.csv", classifier()
    model.fit(X, Y, epoch=2, callbacks=[CSVLogger(path)], verbose=0)
    whole = path.read_text()
    path.write_text(whole + "3,0.5,0.5\n4,0.25,0.")
    model.fit(X, Y, epoch=0, callbacks=[CSVLogger(path, append=True)], verbose=0)
    assert path.read_text() == whole


@pytest.mark.parametrize("content", ["", "epoch,Lo"])
def test_a_file_without_a_whole_header_begins_anew(tmp_path: Path, content: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(content)
    classifier().fit(X, Y, epoch=1, callbacks=[CSVLogger(path, append=True)], verbose=0)
    assert path.read_text().startswith("epoch,Loss,accuracy\n1,")


def test_mistakes_are_named(tmp_path: Path) -> None:
    path, model = tmp_path / "log.csv", classifier()
    path.write_text("name,value\na,1\n")
    with pytest.raises(ValueError, match=r"CSVLogger can continue a file that begins with the column 'epoch', got '.*log.csv'"):
        model.fit(X, Y, epoch=1, callbacks=[CSVLogger(path, append=True)], verbose=0)
    path.write_text("epoch,Loss\n")
    with pytest.raises(ValueError, match=r"CSVLogger writes the columns epoch, Loss to '.*', got epoch, Loss, accuracy"):
        model.fit(X, Y, epoch=1, callbacks=[CSVLogger(path, append=True)], verbose=0)
    with pytest.raises(TypeError, match="CSVLogger 'path' must be the path of a file, got None"):
        CSVLogger(None)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="No such file or directory"):
        model.fit(X, Y, epoch=1, callbacks=[CSVLogger(tmp_path / "none" / "log.csv")], verbose=0)
