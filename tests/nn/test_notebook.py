"""What a model and its training show in a notebook, and outside of one."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from nn.layer import Dense
from nn.model import History, SequentialModel
from tests.nn.model.models import classifier, samples


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A kernel, as far as it is asked: everything that is shown."""
    shown: list[dict[str, Any]] = []
    shell, display = ModuleType("IPython"), ModuleType("IPython.display")
    monkeypatch.setattr(shell, "get_ipython", lambda: SimpleNamespace(kernel=object()), raising=False)
    monkeypatch.setattr(shell, "version_info", (9, 0), raising=False)  # matplotlib asks for it
    monkeypatch.setattr(display, "display", lambda content, raw: shown.append(content), raising=False)
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return shown


def history() -> History:
    made = History()
    made.add(1, {"Loss": 2.0})
    made.add(2, {"Loss": 1.0})
    return made


def test_pictures_without_a_path_are_shown(notebook: list[dict[str, Any]]) -> None:
    classifier().plot()
    assert [list(picture) for picture in notebook] == [["image/svg+xml"]]
    assert notebook[0]["image/svg+xml"].startswith("<svg ") and "dense_1" in notebook[0]["image/svg+xml"]


def test_curves_without_a_path_are_shown(notebook: list[dict[str, Any]]) -> None:
    pytest.importorskip("matplotlib")
    history().plot()
    assert "<svg " in notebook[0]["image/svg+xml"] and "Loss" in notebook[0]["image/svg+xml"]


def test_outside_a_notebook_they_need_a_path() -> None:
    with pytest.raises(ValueError, match=r"plot\(\) needs a 'path' outside a notebook, such as 'model.svg', got None"):
        classifier().plot()
    pytest.importorskip("matplotlib")
    with pytest.raises(ValueError, match=r"History.plot\(\) needs a 'path' outside a notebook, such as 'history.png'"):
        history().plot()


def test_epochs_are_told_with_the_output_of_the_cell(
    notebook: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Not on stderr, which stands on red ground there."""
    classifier().fit(*samples(10), epoch=1)
    printed = capsys.readouterr()
    assert printed.out.startswith("Epoch 1/1: Loss ") and printed.err == "" and not notebook


def test_models_histories_and_nodes_are_tables() -> None:
    """Whole HTML, in which names of the user are texts; a model that is not built is shown as it prints."""
    assert SequentialModel(layers=[Dense(3)])._repr_html_() is None
    model = SequentialModel([-1, 4], [Dense(3, name="a<b>")])
    model.setup("mse")
    shown = str(model._repr_html_())
    assert "a&lt;b&gt;" in shown and "Total parameters: 15" in shown and "<svg " in shown and "a<b>" not in shown
    style = shown.partition("<style>")[2].partition("</style>")[0]
    assert all(rule.startswith(".psgd-model ") for rule in style.split("}") if rule)  # it stands in a page with others
    long = History()
    for epoch in range(1, 41):
        long.add(epoch, {"Loss": 1 / epoch, **({"<x>": 2.0} if epoch > 38 else {})})
    shown = long._repr_html_()
    assert shown.count("<tr>") == 11 and "40 epochs, 10 of them" in shown and "&lt;x&gt;" in shown and "0.025" in shown
    assert history()._repr_html_().count("<tr>") == 3
    for html in (shown, str(model._repr_html_())):
        ElementTree.fromstring(f"<div>{html}</div>")
