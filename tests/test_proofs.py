"""The model of the protocol in docs/proofs: its quickest searches end as they should; without Maude it says what is missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .sources import ROOT

PROGRAM = ROOT / "docs" / "proofs" / "run.py"


def prove(*worlds: str, path: str = os.environ["PATH"], program: Path = PROGRAM) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, program, *worlds], env={"PATH": path}, capture_output=True, text=True)


needs_maude = pytest.mark.skipif(shutil.which("maude") is None, reason="Maude is not installed: apt-get install maude")


@needs_maude
def test_the_protocol_as_written_holds_and_planted_flaws_are_found() -> None:
    done = prove("one-each", "sockets")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All rows are as expected." in done.stdout
    assert "c1 has read f('MESSAGE, data(c1, 1))" in done.stdout, "one key for both directions: a record comes back"


@needs_maude
@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("[ctor assoc comm id: nothing prec 30]", "[ctor]", "Maude finds fault with the model"),
        ("hash(covered(F, H), C)", "hash(empty, C)", "all queries      one-each   as-written      holds      broken"),
        (r"2 <= I /\ I <= 4", "I <= 2", "completes        one-each   as-written      reached    never"),
        ("= S |- T and-then S |- K [owise]", "= false [owise]", "keyless         broken     holds"),
    ],
)
def test_a_wrong_model_is_noticed(old: str, new: str, fault: str, tmp_path: Path) -> None:
    """A hole in it, a protocol that is worse than it should be, ends that get nowhere, an attacker who can do less."""
    model = PROGRAM.with_name("protocol.maude").read_text("utf-8")
    assert model.count(old) == 1
    (tmp_path / "protocol.maude").write_text(model.replace(old, new), "utf-8")
    done = prove("one-each", program=Path(shutil.copy(PROGRAM, tmp_path)))
    assert done.returncode == 1 and fault in done.stdout + done.stderr, done.stdout + done.stderr


def test_without_maude_it_says_how_to_get_it(tmp_path: Path) -> None:
    done = prove(path=str(tmp_path))
    assert (done.returncode, done.stdout) == (3, "") and "apt-get install maude" in done.stderr
