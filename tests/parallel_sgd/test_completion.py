"""Completion of objects in notebooks and consoles: what a program uses of them, and nothing of the engine."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from rlcompleter import Completer
from typing import Any

import numpy as np
import pytest

from nn.callback import EarlyStopping
from nn.dataset import ArrayDataset
from nn.gradient_descent import ADAMOptimizer
from nn.layer import Dense
from nn.model import SequentialModel
from parallel_sgd import ParallelSGD, in_process
from parallel_sgd.codec import Codec, GlobalSettings, Plain, TopK
from parallel_sgd.profiles import IIDBlockAssignment
from tests.sources import ROOT

GUIDES = [ROOT / "README.md", ROOT / "nn" / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.py")]
CALLS = {"job": ParallelSGD, "model": SequentialModel}


def public(item: object) -> set[str]:
    return {name for name in dir(item) if not name.startswith("__")}


def completed(item: object) -> set[str]:
    """Return what Python's console completes, which asks the classes of an object, too."""
    completer = Completer({"item": item})
    found = (completer.complete("item.", place) for place in itertools.count())
    names = {str(text).removeprefix("item.").partition("(")[0] for text in itertools.takewhile(bool, found)}
    return {name for name in names if not name.startswith("__")}


def model() -> SequentialModel:
    made = SequentialModel([-1, 4], seed=1)
    made.add(Dense(3))
    made.compile("adam", "mse", ["mae"])
    return made


@pytest.fixture
def items(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return a model, its parts, a job and what it gives."""
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
    job = ParallelSGD(made := model(), ArrayDataset(x, x[:, :3], x, x[:, :3]))
    result = job.parallel(in_process(1), epoch=1, block_size=16, verbose=0)
    trained = result.models[0]
    with GlobalSettings.use(IIDBlockAssignment(1)):
        codec = TopK(0)
    parts = {"layer": made.layers[0], "loss": made.loss, "rule": ADAMOptimizer(), "callback": EarlyStopping()}
    return {"model": trained, "job": job, "result": result, "history": result.history, "codec": codec, **parts}


def test_no_private_name_is_offered_and_every_one_is_there(items: dict[str, Any]) -> None:
    for kind, item in items.items():
        assert not [name for name in public(item) if name.startswith("_")], kind
        missing = [name for name in public(item) if not hasattr(item, name)]
        assert missing in ([], ["params"]) and (kind == "callback" or not missing)  # `params` is there while a model is trained


def test_a_model_offers_what_guides_use(items: dict[str, Any]) -> None:
    """Of all names that guides and programs use on a variable called `model`, none is missing; there are at most 45."""
    used = set()
    for path in GUIDES:
        used |= set(re.findall(r"\bmodel\.([a-z]\w*)\b(?=\()", path.read_text("utf-8")))
    made = items["model"]
    real = {name for name in used if hasattr(made, name)}
    assert {"fit", "predict", "save", "summary", "compile", "evaluate"} <= real
    assert not real - public(made)
    assert len(public(made)) <= 45


def test_a_model_offers_nothing_of_the_engine(items: dict[str, Any]) -> None:
    engine = {"adopt", "fit_history", "callback_states", "keyless_calls", "runner", "graph", "argument", "prepare", "outline"}
    made = items["model"]
    assert all(hasattr(made, name) for name in engine - {"adopt", "prepare", "outline"})
    assert not engine & (public(made) | completed(made))
    assert {"fit", "predict"} <= completed(made)


def test_a_job_offers_one_call_and_a_result_what_it_has(items: dict[str, Any]) -> None:
    assert public(items["job"]) == {"parallel"}
    fields = {
        "models",
        "files",
        "accounts",
        "job_id",
        "failures",
        "restarts",
        "ledger",
        "history",
        "report",
        "folder",
        "signature",
    }
    assert public(items["result"]) == fields | {"get", "items", "keys", "values", "copy"}
    assert {"history", "plot", "to_frame", "columns", "rows", "workers"} <= public(items["history"])


def test_a_codec_offers_the_names_for_authors_and_its_own(items: dict[str, Any]) -> None:
    names = public(Codec)
    assert {"update_blocks", "receive_blocks", "set_result", "get_result", "record", "of"} <= names
    assert public(TopK) >= names and not {"silent", "units", "wanted", "contribute", "post"} & (
        public(TopK) | public(items["codec"])
    )

    class Mine(Plain):
        def __init__(self, node_id: int) -> None:
            super().__init__(node_id)
            self.sent = 0

        def halve(self) -> None:
            """Halve."""

    with GlobalSettings.use(IIDBlockAssignment(1)):
        mine = Mine(0)
    assert {"halve", "sent"} <= public(mine) and "halve" in public(Mine)


def test_a_name_of_a_users_model_is_offered() -> None:
    class Mine(SequentialModel):
        def explain(self) -> str:
            return "mine"

    made = Mine([-1, 2])
    made.remark = "a name of the object"  # type: ignore[attr-defined]
    assert {"explain", "remark", "fit"} <= public(made)
