"""Code that travels between two real interpreters: packed in a script's process, loaded where the script's folder is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_PACK = """
import sys
from rpc.shipping import pack
def ship(**objects):
    bundle = pack(objects)
    for name, part in (("objects", bundle.objects), ("code", bundle.code)):
        with open(sys.argv[1] + "/" + name, "wb") as file:
            file.write(part)
    return bundle
"""
_LOAD = """
import sys
from rpc.shipping import load
objects, classes = load(open(sys.argv[1] + "/objects", "rb").read(), open(sys.argv[1] + "/code", "rb").read())
"""


def run(folder: Path, *arguments: str, seed: int = 0) -> subprocess.CompletedProcess[str]:
    """Run Python in `folder`, with this project importable and nothing else."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": str(seed), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


class Trip:
    """`files` beside a script `main`, which calls `ship(name=object...)`; then `arrive(code)` where none of them is."""

    def __init__(self, base: Path, main: str, files: dict[str, str] | None = None, name: str = "trip") -> None:
        home, self.away, self.bundle = base / name / "home", base / name / "away", base / name / "bundle"
        for folder in (home, self.away, self.bundle):
            folder.mkdir(parents=True)
        for file, text in {**(files or {}), "main.py": _PACK + main}.items():
            (home / file).parent.mkdir(exist_ok=True)
            (home / file).write_text(text)
        self.packed = run(home, "main.py", str(self.bundle))

    def arrive(self, code: str) -> str:
        """What `code` prints, which finds the loaded `objects` and `classes`."""
        assert self.packed.returncode == 0, self.packed.stderr
        done = run(self.away, "-c", _LOAD + code, str(self.bundle))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def fail(self, code: str = "") -> str:
        """The error of a load that must not succeed."""
        assert self.packed.returncode == 0, self.packed.stderr
        done = run(self.away, "-c", _LOAD + code, str(self.bundle))
        assert done.returncode == 1, done.stdout
        return done.stderr

    def refused(self) -> str:
        """The error of a pack that must not succeed."""
        assert self.packed.returncode == 1
        return self.packed.stderr.strip().splitlines()[-1]
