"""An error of a user's part is told as that: class, method, line, and the packet that led to it; no peer is blamed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from network.errors import BadContent
from nn.callback import Callback
from nn.dataset import ArrayDataset
from nn.layer import Dense
from nn.model import SequentialModel
from parallel_sgd import ParallelSGD, in_process
from parallel_sgd.batch_sync import SynchronizedSGD
from parallel_sgd.codec import Codec, Plain, SyncPS
from parallel_sgd.codec.compose import PS, AllToAll, Every, LocalRule, MergeRule, Neighbours
from parallel_sgd.codec.pipeline import QSGD, GradientStage

from ..statements import covers


class Broken(LookupError):
    """Error of a user's code."""


def breaks(*_: Any, **__: Any) -> Any:
    raise Broken("a bug of the author")


class Encoding(GradientStage):
    def transform(self, x: Any, draw: Any) -> Any:
        return breaks()


class Parsing(QSGD):
    def parse(self, *args: Any) -> Any:
        return breaks()


class Merging(MergeRule):
    def combine(self, parts: Any, weights: Any, round_: Any) -> Any:
        return breaks()


class Firing(Every):
    def fires(self, batch: int) -> bool:
        return bool(breaks())


class Incoming(LocalRule):
    sends = ("gradient",)

    def incoming(self, merged: Any, dense: bool) -> Any:
        return breaks()


class Weighing(Neighbours):
    def weights(self, node: int, workers: int, draw: Any) -> dict[int, float]:
        return dict(breaks())


class Putting(Plain):
    def update_blocks(self, block_weight: Any) -> Any:
        return breaks()


class Receiving(Plain):
    def receive_blocks(self, content: Any) -> Any:
        return breaks()


class Getting(Plain):
    def get_result(self) -> Any:
        return breaks()


class Serving(SyncPS):
    def receive_blocks(self, content: Any) -> Any:
        return breaks() if self.node_id < 0 else super().receive_blocks(content)


class Waiting(SynchronizedSGD):
    def begin(self, step: Any) -> None:
        breaks()


class Following(Callback):
    def on_epoch_begin(self, epoch: int) -> None:
        breaks()


# part: options of the job, whose method it is, the node that raises, the node of the packet that led to it
CASES: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "stage, encoding": ({"codec": Codec.of(AllToAll(), up=Encoding())}, "Encoding.transform", "[01]", ""),
    "stage, decoding": ({"codec": Codec.of(AllToAll(), up=Parsing())}, "Parsing.parse", "[01]", ""),
    "merge rule": ({"codec": Codec.of(AllToAll(), merge=Merging())}, "Merging.combine", "[01]", "[01]"),
    "merge rule of a server": ({"codec": Codec.of(PS(), merge=Merging()), "ps": True}, "Merging.combine", "-2", "[01]"),
    "trigger": ({"codec": Codec.of(AllToAll(), trigger=Firing())}, "Firing.fires", "[01]", ""),
    "local rule": ({"codec": Codec.of(AllToAll(), local=Incoming())}, "Incoming.incoming", "[01]", "[01]"),
    "neighbours": (
        {"codec": Codec.of(Weighing(), send="weights"), "op_type": "parameteraveraging"},
        "Weighing.weights",
        "[01]",
        "",
    ),
    "codec, own block": ({"codec": Putting}, "Putting.update_blocks", "[01]", ""),
    "codec, packet": ({"codec": Receiving}, "Receiving.receive_blocks", "[01]", "[01]"),
    "codec, result": ({"codec": Getting}, "Getting.get_result", "[01]", ""),
    "codec of a server": ({"codec": SyncPS, "ps_codec": Serving, "ps": True}, "Serving.receive_blocks", "-2", "[01]"),
    "sync type": ({"sync_type": Waiting}, "Waiting.begin", "[01]", ""),
    "callback": ({"callbacks": [Following()]}, "Following.on_epoch_begin", "[01]", ""),
}


@pytest.mark.share(3)
@covers("RES-11")
@pytest.mark.parametrize("case", CASES)
def test_an_error_of_a_part_is_its_own(case: str, tmp_path: Path) -> None:
    options, method, node, sender = CASES[case]
    model = SequentialModel([-1, 4], [Dense(3)], seed=1)
    model.setup("mse")
    x = np.ones((8, 4), np.float32)
    given = {"epoch": 1, "block_size": 2, "directory": tmp_path, "verbose": 0, **options}
    nodes = in_process(2, ps=bool(given.pop("ps", False)))
    with pytest.raises(Exception, match="a bug of the author") as info:
        ParallelSGD(model, ArrayDataset(x, x[:, :3])).parallel(nodes, **given)
    assert isinstance(info.value, Broken) and not isinstance(info.value, BadContent)
    first, *others = vars(info.value)["__notes__"]
    told = rf"{re.escape(method)} raised .*Broken: a bug of the author \({re.escape(__file__)}:\d+, in breaks\)"
    packet = rf" for a packet of node {sender}, variable \d( \(dense_1/\w+\))?, epoch 1, batch 1"
    assert re.fullmatch(told + packet * bool(sender), first), first
    assert re.fullmatch(rf"Node\({node}\) of the job raised it\.", others[0])
