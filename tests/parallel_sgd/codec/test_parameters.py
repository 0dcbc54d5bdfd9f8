"""Parameters that a codec declares or is known to read; a name that none reads is refused, or told of at the end."""

from __future__ import annotations

import inspect
import logging
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nn.dataset import Digits
from nn.dataset.transforms import ImageCls
from nn.gradient_descent import SGDOptimizer
from parallel_sgd import ParallelSGD, Parameter_Server, codec, in_process
from parallel_sgd.codec import REQUIRED, Codec, GlobalSettings, Plain, Traits
from parallel_sgd.codec import compose as parts
from parallel_sgd.codec.parameters import reads
from parallel_sgd.codec.pipeline import Int8
from parallel_sgd.options.make_spec import exact_default
from parallel_sgd.profiles import IIDBlockAssignment
from rpc.support.logs import SUBMIT_LOGGER
from tests.parallel_sgd.networks import mlp
from tests.sources import library_files

from ...statements import covers

BUILT_IN = {name: kind for name in codec.__all__ if isinstance(kind := getattr(codec, name), type) and issubclass(kind, Codec)}


class Declared(Plain):
    """Reads what it declares."""

    traits = replace(Plain.traits, parameters=("rate", 2, ("x", -1)))

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.read = [GlobalSettings.get_params(key) for key in ("rate", 2, ("x", -1))]


class Below(Declared):
    """Inherits, and declares nothing of its own."""


class Formatted(Plain):
    def is_done(self) -> bool:
        return bool(GlobalSettings.get_params(f"rate_{self.node_id}", True)) and super().is_done()


class Required(Declared):
    """Cannot be made without a parameter."""

    traits = replace(Declared.traits, parameters=("rate", 2, ("x", -1), "needed"))

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        GlobalSettings.get_params("needed", REQUIRED)


def chosen() -> Int8:
    return Int8(int(GlobalSettings.get_params("bucket", 64)))


Composed = Codec.of(parts.AllToAll(), up=chosen, name="Composed")


@pytest.mark.parametrize("kind", [Below, Formatted, Composed])
def test_a_codec_of_a_user_that_declares_nothing_may_read_anything(kind: type[Codec]) -> None:
    assert reads(kind) is None


def test_a_declaration_counts_for_its_class() -> None:
    assert reads(Declared) == ("rate", 2, ("x", -1))
    declared = type("Own", (Composed,), {"traits": replace(Composed.traits, parameters=("bucket",)), "__module__": "own"})
    assert reads(declared) == ("bucket",)
    assert reads(exact_default(64, 1 << 20, 1).codec) == ()  # the default codec of many workers
    with pytest.raises(TypeError, match=r"Traits 'parameters' must be a tuple of keys or None, got str"):
        Traits(parameters="rate")  # type: ignore[arg-type]


@covers("SUB-46")
def test_what_built_in_codecs_read_is_known_and_all_that_the_package_asks_for() -> None:
    """So that a misspelt one is always refused with them."""
    found = {name: reads(kind) for name, kind in BUILT_IN.items()}
    assert [name for name, keys in found.items() if keys is None] == []
    sources = [path.read_text("utf-8") for path in library_files() if path.parent.name == "codec"]
    asked = {key for source in sources for key in re.findall(r'(?:get_params|(?<!\.)\bget)\("(\w+)"', source)}
    assert len(asked) > 20
    assert {key for keys in found.values() for key in keys or ()} == asked


@pytest.mark.parametrize("name", [name for name, kind in BUILT_IN.items() if not inspect.isabstract(kind)])
@pytest.mark.parametrize("given", [{}, {"adaptive": False, "staleness_aware": True}], ids=["none", "some"])
def test_a_built_in_codec_asks_for_no_other(name: str, given: dict[str, Any]) -> None:
    """When it is made, on a worker and on the server."""
    kind = BUILT_IN[name]
    with GlobalSettings.use(IIDBlockAssignment(5), given, values=[np.zeros(8)], rule=SGDOptimizer) as settings:
        for node in (0, *([Parameter_Server] if kind.traits.serves else [])):
            kind(node).dispose()
        assert settings.parameters.asked <= set(reads(kind) or ())


def train(tmp_path: Path, parameters: dict[Any, Any], kind: type[Codec] | dict[Any, Any], **settings: Any) -> dict[str, float]:
    settings = {"block_size": 256, "epoch": 1, **settings}
    with in_process(2, settings.pop("ps", False)) as nodes:
        return ParallelSGD(mlp(), Digits(), ImageCls()).parallel(
            nodes, codec=kind, codec_extra_parameters=parameters, directory=tmp_path / "out", **settings
        )


REFUSED: list[tuple[Any, dict[Any, Any], str]] = [
    (codec.QSGD, {"bitz": 4}, "got 'bitz'; did you mean 'bits'. QSGD reads 'bits' and 'bucket'.$"),
    (codec.QSGD, {"bits": 4, "Bucket": 64}, "got 'Bucket'; did you mean 'bucket'"),
    (
        {0: codec.QSGD},
        {"rho": 4},
        "got 'rho'. Plain reads none, QSGD reads 'bits' and 'bucket'.$|got 'rho'. QSGD .*, Plain reads none",
    ),
    (codec.TrimmedMean, {"faulty": 1}, "got 'faulty'. TrimmedMean reads 'trim'.$"),
    (Declared, {"rat": 1, 2: 0}, r"got 'rat'; did you mean 'rate'. Declared reads \('x', -1\) and 2 and 'rate'.$"),
]


@covers("SUB-46")
@pytest.mark.parametrize(("kind", "parameters", "message"), REFUSED)
def test_a_parameter_that_no_codec_reads_is_refused(
    kind: Any, parameters: dict[Any, Any], message: str, tmp_path: Path
) -> None:
    """Before anything is sent, with the names that exist."""
    with pytest.raises(ValueError, match=f"'codec_extra_parameters' must hold what the job's codecs read, {message}"):
        train(tmp_path, parameters, kind)
    assert not (tmp_path / "out").exists()


def test_the_codecs_of_the_parameter_server_count(tmp_path: Path) -> None:
    """Of the server alone, too."""
    train(tmp_path, {"QS": 8}, codec.LevelQuantizer, ps=True)
    with pytest.raises(ValueError, match=r"got 'QS'\. SyncPS reads none.$"):
        train(tmp_path, {"QS": 8}, {}, ps=True)


@covers("SUB-46")
def test_what_nobody_has_read_is_told_at_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where the code cannot tell; what one node has read, or somebody has read late, counts as read."""
    caplog.set_level(logging.INFO, SUBMIT_LOGGER)
    train(tmp_path, {"rate_1": 1, "rat_0": 1, "bitz": 2}, {0: Formatted, 1: codec.QSGD})
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert said == ["No codec has read these of 'codec_extra_parameters': 'rat_0', 'bitz'; did you mean 'bits'?"]
    caplog.clear()
    train(tmp_path, {"rate_1": 1, "rate_0": 1}, Formatted)
    assert not [record for record in caplog.records if record.levelno == logging.WARNING]
