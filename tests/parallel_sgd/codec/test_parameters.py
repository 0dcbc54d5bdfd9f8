"""Which parameters a codec reads, found in its code; a name that nobody reads is refused, or told of at the end."""

from __future__ import annotations

import logging
import re
from collections.abc import Hashable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nn.dataset import Digits
from nn.dataset.transforms import ImageCls
from parallel_sgd import ParallelSGD, codec, in_process
from parallel_sgd.codec import REQUIRED, Codec, GlobalSettings, Plain
from parallel_sgd.codec import compose as parts
from parallel_sgd.codec.parameters import reads
from parallel_sgd.codec.pipeline import Int8
from rpc.logs import SUBMIT_LOGGER
from tests.parallel_sgd.networks import mlp
from tests.sources import library_files

from ...statements import covers

BUILT_IN = {name: kind for name in codec.__all__ if isinstance(kind := getattr(codec, name), type) and issubclass(kind, Codec)}
RATE = "rate"
read = GlobalSettings.get_params


def share() -> float:
    return float(GlobalSettings.get_params("share", 0.1))


def chosen() -> Int8:
    return Int8(int(GlobalSettings.get_params("bucket", 64) * share()))


def share_of(settings: Any) -> bool:
    return bool(settings.get_params("share"))


class Keys:
    most = "most"


class Given:
    """Knows only at run time what it reads."""

    def __init__(self, key: str) -> None:
        self.key = key

    def value(self) -> Any:
        return GlobalSettings.get_params(self.key, 1)


class Constants(Plain):
    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        get = GlobalSettings.get_params
        self.read = [get("one"), get(2, REQUIRED), get(("x", -1)), GlobalSettings.get_params(key="by name"), read("global")]
        self.read += [GlobalSettings.get_params(RATE), codec.GlobalSettings.get_params(Keys.most, get("default"))]
        self.nodes = GlobalSettings.get_default().node_count

    def update_blocks(self, block_weight: Any) -> Any:
        def later() -> Any:
            return GlobalSettings.get_params("within", None)

        return super().update_blocks(block_weight) if later() is None else None

    @property
    def shown(self) -> Any:
        return GlobalSettings.get_params("shown")

    receive = partial(read, "partial")
    helped = staticmethod(share)


class Below(Constants):
    """Inherits, and adds one."""

    def helper(self) -> float:
        return share() + float(GlobalSettings.get_params("below"))


def made(key: str) -> type[Codec]:
    class Made(Plain):
        def is_done(self) -> bool:
            return bool(GlobalSettings.get_params(key, True)) and super().is_done()

    return Made


class Formatted(Plain):
    def is_done(self) -> bool:
        return bool(GlobalSettings.get_params(f"rate_{self.node_id}", True)) and super().is_done()


class Looped(Plain):
    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.found = {RATE: GlobalSettings.get_params(RATE) for RATE in ("a", "b")}


class HandsOn(Plain):
    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.settings = GlobalSettings


class Keeps(Plain):
    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.get = GlobalSettings.get_params


class ByName(Plain):
    def is_done(self) -> bool:
        return bool(getattr(GlobalSettings, "get_params")("open", True)) and super().is_done()  # noqa: B009 - as users write


class Passes(Plain):
    def is_done(self) -> bool:
        return any(map(codec.GlobalSettings.get_params, ("open",))) or any(map(share_of, [codec.GlobalSettings]))


class Bound(Plain):
    get = staticmethod(GlobalSettings.get_params)

    def is_done(self) -> bool:
        return bool(self.get("open", True)) and super().is_done()


class Default(Plain):
    def is_done(self, get: Any = GlobalSettings.get_params) -> bool:
        return bool(get("open", True)) and super().is_done()


class Whole(Plain):
    def is_done(self) -> bool:
        return "open" not in GlobalSettings.current().parameters and super().is_done()


class Delegates(Plain):
    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.rate = Given("given").value()


typed_in: dict[str, Any] = {"Plain": Plain, "GlobalSettings": GlobalSettings, "__name__": __name__}
exec("class TypedIn(Plain):\n def is_done(self):\n  return GlobalSettings.get_params('rate', 1)", typed_in)

KNOWN: dict[str, tuple[type[Codec], set[Hashable]]] = {
    "nothing": (Plain, set()),
    "built in": (codec.QSGD, {"bits", "bucket"}),
    "one of two in a module": (codec.TrimmedMean, {"trim"}),
    "both ways": (codec.LevelQuantizer, {"QC", "QS"}),
    "constants": (
        Constants,
        {"one", 2, ("x", -1), "by name", "global", "rate", "most", "default", "within", "shown", "partial", "share"},
    ),
    "inherited": (made("late"), {"late"}),
    "parts": (Codec.of(parts.AllToAll(), up=chosen, name="Mine"), {"bucket", "share"}),
    "functions amid a call": (
        Codec.of(parts.AllToAll(), up=lambda: Int8(GlobalSettings.get_params("size", 64)), name="Also"),
        {"size"},
    ),
}
UNKNOWN = (Formatted, Looped, HandsOn, Keeps, ByName, Passes, Bound, Default, Whole, Delegates, typed_in["TypedIn"])


@pytest.mark.parametrize("case", KNOWN)
def test_constant_keys_are_found_wherever_the_code_can_go(case: str) -> None:
    kind, keys = KNOWN[case]
    found = reads(kind)
    assert (found.keys, found.all_known) == (keys, True)


def test_a_derived_class_reads_what_its_base_reads() -> None:
    assert reads(Below).keys == reads(Constants).keys | {"below"}


@pytest.mark.parametrize("kind", UNKNOWN, ids=lambda kind: kind.__name__)
def test_where_a_key_is_made_at_run_time_nothing_is_ruled_out(kind: type[Codec]) -> None:
    assert not reads(kind).all_known


@covers("SUB-46")
@pytest.mark.parametrize("name", BUILT_IN)
def test_what_built_in_codecs_read_is_known(name: str) -> None:
    """So that a misspelt one is always refused with them."""
    assert reads(BUILT_IN[name]).all_known


def test_every_parameter_that_the_package_asks_for_is_found() -> None:
    sources = [path.read_text("utf-8") for path in library_files() if path.parent.name == "codec"]
    asked = {key for source in sources for key in re.findall(r'(?:get_params|(?<!\.)\bget)\("(\w+)"', source)}
    assert len(asked) > 20
    assert {key for kind in BUILT_IN.values() for key in reads(kind).keys} == asked


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
    (Below, {"belo": 1, 2: 0}, "got 'belo'; did you mean 'below'"),
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
