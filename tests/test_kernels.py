"""Which kernels of the BLAS the parts of the gate compute with."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.sources import ROOT


def test_what_computes_takes_the_kernels_of_the_machine_whatever_the_environment_names(tmp_path: Path) -> None:
    """Haswell's give a row other bits in another product, so tests that demand equal bits there allow 1e-5."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(
        '#!/bin/sh\necho "kernels ${OPENBLAS_CORETYPE-of the machine}, ${OPENBLAS_NUM_THREADS} thread"\n', "utf-8"
    )
    python.chmod(0o700)
    stamp = tmp_path / ".dev"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    made = subprocess.run(
        ["make", "--silent", "--old-file", stamp, f"VENV={tmp_path}", "test-computing"],
        cwd=ROOT,
        env={**kept, "OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert made.stdout == "computing | kernels of the machine, 1 thread\n"
