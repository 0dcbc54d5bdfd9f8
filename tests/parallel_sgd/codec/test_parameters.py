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
from rpc.support.logs import SUBMIT_LOGGER
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


def reading(name: str, method: str, code: Any) -> type[Codec]:
    """A codec with one method of its own."""
    return type(name, (Plain,), {method: code, "__module__": __name__})


typed_in: dict[str, Any] = {"Plain": Plain, "GlobalSettings": GlobalSettings, "__name__": __name__}
exec("class TypedIn(Plain):\n def is_done(self):\n  return GlobalSettings.get_params('rate', 1)", typed_in)

CONSTANTS: set[Hashable] = {"one", 2, ("x", -1), "by name", "global", "rate", "most", "default", "within", "shown"}
CONSTANTS |= {"partial", "share"}
KNOWN: dict[str, tuple[type[Codec], set[Hashable]]] = {
    "nothing": (Plain, set()),
    "built in": (codec.QSGD, {"bits", "bucket"}),
    "one of two in a module": (codec.TrimmedMean, {"trim"}),
    "both ways": (codec.LevelQuantizer, {"QC", "QS"}),
    "constants": (Constants, CONSTANTS),
    "what its base reads, and more": (Below, {*CONSTANTS, "below"}),
    "inherited": (made("late"), {"late"}),
    "parts": (Codec.of(parts.AllToAll(), up=chosen, name="Mine"), {"bucket", "share"}),
    "functions amid a call": (
        Codec.of(parts.AllToAll(), up=lambda: Int8(GlobalSettings.get_params("size", 64)), name="Also"),
        {"size"},
    ),
}
UNKNOWN = (
    Formatted,
    typed_in["TypedIn"],
    reading("Looped", "is_done", lambda self: {RATE: GlobalSettings.get_params(RATE) for RATE in ("a", "b")}),
    reading("HandsOn", "is_done", lambda self: setattr(self, "settings", GlobalSettings)),
    reading("Keeps", "is_done", lambda self: setattr(self, "get", GlobalSettings.get_params)),
    reading("ByName", "is_done", lambda self: getattr(GlobalSettings, "get_params")("open", True)),  # noqa: B009 - as users write
    reading("Passes", "is_done", lambda self: any(map(codec.GlobalSettings.get_params, ("open",)))),
    reading("PassesAll", "is_done", lambda self: any(map(share_of, [codec.GlobalSettings]))),
    reading("Bound", "get", staticmethod(GlobalSettings.get_params)),
    reading("Default", "is_done", lambda self, get=GlobalSettings.get_params: get("open", True)),
    reading("Whole", "is_done", lambda self: "open" not in GlobalSettings.current().parameters),
    reading("Delegates", "is_done", lambda self: Given("given").value()),
)


@pytest.mark.parametrize("case", KNOWN)
def test_constant_keys_are_found_wherever_the_code_can_go(case: str) -> None:
    kind, keys = KNOWN[case]
    found = reads(kind)
    assert (found.keys, found.all_known) == (keys, True)


@pytest.mark.parametrize("kind", UNKNOWN, ids=lambda kind: kind.__name__)
def test_where_a_key_is_made_at_run_time_nothing_is_ruled_out(kind: type[Codec]) -> None:
    assert not reads(kind).all_known


@covers("SUB-46")
def test_what_built_in_codecs_read_is_known_and_all_that_the_package_asks_for() -> None:
    """So that a misspelt one is always refused with them."""
    found = {name: reads(kind) for name, kind in BUILT_IN.items()}
    assert [name for name, each in found.items() if not each.all_known] == []
    sources = [path.read_text("utf-8") for path in library_files() if path.parent.name == "codec"]
    asked = {key for source in sources for key in re.findall(r'(?:get_params|(?<!\.)\bget)\("(\w+)"', source)}
    assert len(asked) > 20
    assert {key for each in found.values() for key in each.keys} == asked


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
