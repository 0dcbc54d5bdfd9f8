"""Programs that tests start: they find the packages of this checkout, and nothing of this user's settings, caches and keys."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.sources import ROOT


def environment(folder: Path, **more: str) -> dict[str, str]:
    """For a program whose homes are in `folder`; one thread computes."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PSGD_")}
    homes = {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("CONFIG", "STATE", "CACHE")}
    kept.setdefault("MPLCONFIGDIR", str(Path.home() / ".cache" / "matplotlib"))  # it takes seconds to find all fonts anew
    return {**kept, **homes, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **more}


def python(folder: Path, *arguments: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run Python in `folder`, which has its homes, to the end; `more` are variables."""
    command = [sys.executable, *map(str, arguments)]
    environ = environment(folder, **more)
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=250, check=False)
