"""Parameters of codecs: any hashable key names one, wherever the codec runs."""

from __future__ import annotations

import enum
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from parallel_sgd import in_process
from parallel_sgd.codec import REQUIRED, GlobalSettings
from parallel_sgd.codec.plain import Plain
from parallel_sgd.nodes import LocalNodes
from tests.processes.training.jobs import line_job, some, weights


class Side(enum.Enum):
    UP = 1
    DOWN = 2


@dataclass(frozen=True)
class Stage:
    number: int


TOKEN = object()
KEYS: list[Hashable] = [
    "text", 7, -1, 2.5, None, True, b"bytes", ("x", 1), ((), (2.5, None)), frozenset({1, 2}), 3j, Side.UP, Stage(3), Plain, len,
    np.float32(0.1), TOKEN,
]  # fmt: skip


class Keyed(Plain):
    """Its factor is made of all parameters, so that a wrong one changes every weight."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.factor = 0.0
        for place, key in enumerate(KEYS):
            self.factor += (place + 1) * GlobalSettings.get_params(key, REQUIRED)
        assert GlobalSettings.get_params(Side.DOWN) == GlobalSettings.get_params(Stage(4)) == 0

    def get_result(self) -> Any:
        result = super().get_result()
        return None if result is None else np.float32(self.factor) * result


def test_any_hashable_key(agents: LocalNodes, tmp_path: Path) -> None:
    """Numbers, texts, tuples, members and instances of the user's classes, classes, functions: as in process, so on agents."""
    settings: dict[str, Any] = {"codec": Keyed, "epoch": 1, "block_size": 6, "directory": tmp_path, "on_failure": "restart"}
    settings["codec_extra_parameters"] = {key: 1.0 / (place + 1) / len(KEYS) for place, key in enumerate(KEYS)}
    with in_process(2) as nodes:
        here = weights(line_job().parallel(nodes, **settings))
    there = line_job().parallel(some(agents, 2), **settings)
    assert weights(there) == here
