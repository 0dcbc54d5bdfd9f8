"""An error of a user's part is told as that: class, method, line, and the packet that led to it; no peer is blamed."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from network.errors import BadContent
from nn.callback import Callback
from nn.dataset import ArrayDataset
from nn.layer import Dense
from nn.model import SequentialModel
from parallel_sgd import ParallelSGD, in_process, local_workers, simulated
from parallel_sgd.batch_sync import SynchronizedSGD
from parallel_sgd.codec import Codec, Plain, SyncPS, netEncapsulation
from parallel_sgd.codec.compose import PS, AllToAll, Every, LocalRule, MergeRule, Neighbours
from parallel_sgd.codec.pipeline import QSGD, GradientStage
from rpc import user_code

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
    # frames of the author, behind that of the call alone
    _, answers, *own = [frame.f_code for frame, _ in traceback.walk_tb(info.tb)]
    assert answers.co_name == "call" and own and {code.co_filename for code in own} == {__file__}


def test_the_sentence_is_told_where_python_shows_no_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As Python 3.10."""
    monkeypatch.setattr(user_code, "_SHOWS_NOTES", False)
    model = SequentialModel([-1, 4], [Dense(3)], seed=1)
    model.setup("mse")
    x = np.ones((8, 4), np.float32)
    options, method, node, _ = next(iter(CASES.values()))
    nodes = in_process(2, ps=bool(options.get("ps", False)))
    given = {name: value for name, value in options.items() if name != "ps"}
    with pytest.raises(Broken):
        ParallelSGD(model, ArrayDataset(x, x[:, :3])).parallel(nodes, epoch=1, block_size=2, directory=tmp_path, **given)
    first, second = (record.getMessage() for record in caplog.records if record.levelname == "ERROR")
    assert first.startswith(f"{method} raised ") and re.fullmatch(rf"Node\({node}\) of the job raised it\.", second)


class Exchanging(Codec):
    """Codec that is right: sends its block to the other worker, and takes the mean."""

    def update_blocks(self, block_weight: Any) -> Any:
        self.mine = block_weight.content
        return netEncapsulation(1 - self.node_id, block_weight.content)

    def receive_blocks(self, content: Any) -> Any:
        self.set_result((content + self.mine) / 2)


class SetsNone(Exchanging):
    def receive_blocks(self, content: Any) -> Any:
        self.set_result(None)  # type: ignore[arg-type]


class SetsList(Exchanging):
    def update_blocks(self, block_weight: Any) -> Any:
        self.set_result([0.0])  # type: ignore[arg-type]


class SetsTwice(Exchanging):
    def receive_blocks(self, content: Any) -> Any:
        self.set_result(content)
        self.set_result(content[..., :1])


class SetsNothing(Exchanging):
    def receive_blocks(self, content: Any) -> Any:
        pass


class SetsOther(Exchanging):
    def receive_blocks(self, content: Any) -> Any:
        self.set_result(content[:1])


class SendsNothing(Exchanging):
    def update_blocks(self, block_weight: Any) -> Any:
        return None


class NeverDone(Exchanging):
    def is_done(self) -> bool:
        return False


class Empty(Exchanging):
    def is_done(self) -> bool:
        return True

    def get_result(self) -> Any:
        return None


class SendsArray(Exchanging):
    def update_blocks(self, block_weight: Any) -> Any:
        return block_weight.content


class SendsObject(Exchanging):
    def update_blocks(self, block_weight: Any) -> Any:
        return netEncapsulation(1 - self.node_id, object())


class SendsAway(Exchanging):
    def update_blocks(self, block_weight: Any) -> Any:
        return netEncapsulation(7, block_weight.content)


class AnswersAway(Exchanging):
    def receive_blocks(self, content: Any) -> Any:
        self.set_result(content)
        return netEncapsulation(7, content)


class SendsToSelf(Exchanging):
    def update_blocks(self, block_weight: Any) -> Any:
        return netEncapsulation(self.node_id, block_weight.content)


class SendsToAll(Exchanging):
    def update_blocks(self, block_weight: Any) -> Any:
        return netEncapsulation("all", block_weight.content)  # type: ignore[arg-type]


class Writes(Exchanging):
    def update_blocks(self, block_weight: Any) -> Any:
        block_weight.content[...] = 0


VARIABLE = r"variable \d \(dense_1/\w+\)"
WHERE = rf" for {VARIABLE}, epoch 1, batch 1"
PACKET = rf" for a packet of node [01], {VARIABLE}, epoch 1, batch 1"
STEP = rf"{VARIABLE} of epoch 1, batch 1: "
# agents tell files by their places below the folder of the program
LINE = rf"\(.*{re.escape(Path(__file__).name)}:\d+\)"
UNSENT = r"returned what cannot be sent: "
NODES = r"node 7 is none of the other nodes of the job, \[[01]\]"

MISTAKES: dict[type[Codec], str] = {
    SetsNone: rf"SetsNone\.set_result\(\) takes an array, got None, in receive_blocks {LINE}{PACKET}",
    SetsList: rf"SetsList must give {VARIABLE} an array of floats of shape \(.*\), got list",
    SetsTwice: r"SetsTwice\.set_result\(\) adds arrays of one shape, got \(.*1,?\) for a result of shape \(.*3,?\)"
    rf", in receive_blocks {LINE}{PACKET}",
    SetsNothing: STEP
    + r"all have sent, but SetsNothing has set no result: SetsNothing\.receive_blocks or update_blocks must call",
    SetsOther: r"SetsOther must give variable 0 \(dense_1/kernel\) an array of floats of shape \(4, 3\), got float32 \(1, 3\)",
    SendsNothing: STEP + r"nothing came from node\(s\) \d; nor has SendsNothing sent anything from here",
    NeverDone: STEP + r"NeverDone has set a result, but NeverDone\.is_done\(\) does not say so",
    Empty: STEP + r"Empty\.is_done\(\) says that there is one, but Empty\.get_result\(\) has returned None",
    SendsArray: rf"SendsArray\.update_blocks {UNSENT}SendsArray must return None, a netEncapsulation .*, got ndarray{WHERE}",
    SendsObject: rf"SendsObject\.update_blocks {UNSENT}builtins\.object cannot travel: send arrays, .*{WHERE}",
    SendsAway: rf"SendsAway\.update_blocks {UNSENT}{NODES}{WHERE}",
    AnswersAway: rf"AnswersAway\.receive_blocks {UNSENT}{NODES}{PACKET}",
    SendsToSelf: rf"SendsToSelf\.update_blocks {UNSENT}SendsToSelf sends variable \d to its own node [01]: use set_result",
    SendsToAll: r"netEncapsulation 'targets' must be a node id or several, got 'all'",
    Writes: rf"Writes\.update_blocks raised ValueError: .*read-only {LINE}",
}


def fault_of(kind: type[Codec], nodes: Any, directory: Path, limit: float = 500) -> str:
    """Train by a codec, with so many milliseconds for an exchange; return the error with its notes, by which a traceback shows
    it.
    """
    model = SequentialModel([-1, 4], [Dense(3)], seed=1)
    model.setup("mse")
    x = np.ones((8, 4), np.float32)
    given: dict[str, Any] = {"epoch": 1, "block_size": 2, "directory": directory, "verbose": 0, "ssgd_timeout_limit": limit}
    with pytest.raises(Exception, match=r"\w") as info:
        ParallelSGD(model, ArrayDataset(x, x[:, :3])).parallel(nodes, codec=kind, **given)
    return "\n".join([str(info.value), *getattr(info.value, "__notes__", [])])


@covers("RES-11")
@pytest.mark.parametrize("place", [in_process, simulated])
@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_of_a_codec_is_told_by_method_and_variable(kind: type[Codec], place: Any, tmp_path: Path) -> None:
    found = fault_of(kind, place(2), tmp_path)
    assert re.search(MISTAKES[kind], found), found


@pytest.mark.processes
@pytest.mark.share(3)
@covers("RES-11")
@pytest.mark.parametrize("kind", MISTAKES)
def test_agents_tell_a_mistake_of_a_codec_alike(kind: type[Codec], tmp_path: Path) -> None:
    """By the job processes of agents, whose words reach the program that called `parallel()`."""
    with local_workers(2) as nodes:
        # no time-out of one worker comes before what the other, which may stand still for a moment, sends it
        found = fault_of(kind, nodes, tmp_path, 5000)
    assert re.search(MISTAKES[kind], found), found
