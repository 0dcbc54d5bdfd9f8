import math
from pathlib import Path

import numpy as np
import pytest

from nn.model import History, Model
from tests.nn.model.models import classifier, samples


def history() -> History:
    made = History()
    made.add(1, {"Loss": 2.0, "accuracy": 0.25})
    made.add(2, {"Loss": math.nan, "accuracy": 0.5, "val_Loss": 1.5})
    return made


def test_it_is_a_table() -> None:
    pytest.importorskip("pandas")
    frame = history().to_frame()
    assert list(frame.columns) == ["Loss", "accuracy", "val_Loss"]
    assert frame.index.name == "epoch"
    assert list(frame.index) == [1, 2]
    assert frame["accuracy"].tolist() == [0.25, 0.5]
    assert np.isnan(frame["val_Loss"][1])
    assert frame["val_Loss"][2] == 1.5


def test_no_epoch_is_an_empty_table() -> None:
    pytest.importorskip("pandas")
    assert len(History().to_frame()) == 0


def test_curves(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("curves.png", "curves.svg"):
        history().plot(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"History.plot\(\) needs matplotlib: pip install parallel-sgd\[plot\]"):
        history().plot(tmp_path / "curves.png")


def test_there_is_nothing_to_draw_before_the_first_epoch() -> None:
    with pytest.raises(ValueError, match=r"History.plot\(\) needs at least one epoch, got none"):
        History().plot("curves.png")


def test_a_model_file_holds_it() -> None:
    model, (x, y) = classifier(), samples(40)
    model.fit(x, y, epoch=1, verbose=0)
    model.fit(x, y, epoch=2, validation_split=0.25, verbose=0)
    again = Model.from_bytes(model.to_bytes())
    assert again.fit_history().rows == model.fit_history().rows
    assert list(again.fit_history().rows[2]) == list(model.fit_history().rows[2])
    assert type(again.fit_history().rows[0]["epoch"]) is int
