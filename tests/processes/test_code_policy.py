"""Which code an agent lets into its job processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rpc
from rpc import SubmissionError
from rpc.shipping import pack

from ..statements import covers
from .executors import Sum
from .harness import Cluster


def test_no_shipped_code(own: Cluster, tmp_path: Path) -> None:
    """`--no-shipped-code`: a user's class is refused by name of the option; what the node has itself runs."""
    own.start(1, "--no-shipped-code")
    with pytest.raises(SubmissionError, match=r"Node\(0\).*takes no shipped code \(--no-shipped-code\)"):
        own.run(Sum, tmp_path)
    # an executor of this project travels by name; this one is abstract, which shows only once it has been found there
    with pytest.raises(SubmissionError, match="abstract"):
        own.run(rpc.AbsSimpleExecutor, tmp_path)


def test_allowed_code(own: Cluster, tmp_path: Path) -> None:
    """`--allow-code`: exactly the listed hashes run, and the error names the one that is missing."""
    bundle = pack({"executable": Sum, "objects": {}})
    allowed = tmp_path / "hashes.txt"
    allowed.write_text("0" * 64 + "\n")
    own.start(1, "--allow-code", str(allowed))
    with pytest.raises(SubmissionError, match=bundle.sha256):
        own.run(Sum, tmp_path)
    allowed.write_text(bundle.sha256 + "\n")
    assert not own.run(Sum, tmp_path).error


@covers("SUB-33")
def test_class_of_main(trio: Cluster, tmp_path: Path) -> None:
    """a class that exists nowhere but here runs there, with its closure; the changed one of the same name is new."""

    def make(factor: int) -> Any:
        class Local(rpc.AbsSimpleExecutor):
            def run(self, com: rpc.Communication) -> Any:
                return factor * com.rank

        return Local

    assert trio.run(make(2), tmp_path).results == {0: 0, 1: 2, 2: 4}
    assert trio.run(make(3), tmp_path).results == {0: 0, 1: 3, 2: 6}
