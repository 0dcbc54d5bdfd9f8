"""Results as files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from network.errors import ProtocolError
from rpc.files import read_result, write_result


@dataclass
class Figures:
    loss: float
    weights: Any


@pytest.mark.parametrize("content", [None, 7, "text", (1, [2.5, b"x"]), {"a": {3: True}}])
def test_plain_values(tmp_path: Path, content: object) -> None:
    write_result(tmp_path / "r", content, ())
    assert read_result(tmp_path / "r", ()) == content


def test_large_arrays_and_classes(tmp_path: Path) -> None:
    """More than one frame, and an instance of a class that both sides know."""
    weights = np.arange(5_000_000, dtype=np.float32)
    write_result(tmp_path / "r", Figures(0.5, weights), (Figures,))
    figures = read_result(tmp_path / "r", (Figures,))
    assert figures.loss == 0.5
    np.testing.assert_array_equal(figures.weights, weights)


def test_what_cannot_travel(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="Figures"):
        write_result(tmp_path / "r", Figures(0.5, None), ())


@pytest.mark.parametrize("kept", [0, 10, 100, -1])
def test_half_a_file(tmp_path: Path, kept: int) -> None:
    write_result(tmp_path / "r", np.arange(1000), ())
    content = (tmp_path / "r").read_bytes()
    (tmp_path / "r").write_bytes(content[:kept])
    with pytest.raises(ProtocolError, match="no message that is complete"):
        read_result(tmp_path / "r", ())
