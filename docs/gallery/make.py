"""`make gallery`: the pictures of docs/gallery.md and README.md, by the programs there; those of pages by Chromium."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.browser.pictures import shoot

PICTURES = Path(__file__).resolve().parent
ROOT = PICTURES.parents[1]
# of each run the pictures, as the pages call them, and what they show of its report
SHOTS = {"Gallery-1": {"causes": "#time .pair", "batches": "#each figure"}, "Killed-1": {"happened": "#story"}}
REPORT = "#result,#curves,#each"


def main() -> int:
    text = PICTURES.with_suffix(".md").read_text("utf-8")
    program = "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    (compare,) = re.findall(r"^\$ python (examples/codecs/\S+) (.+)$", text, re.MULTILINE)
    # else matplotlib writes the date into a file, and draws names in it by lot
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "SOURCE_DATE_EPOCH": "0", "MPLCONFIGDIR": tempfile.mkdtemp()}
    Path(environ["MPLCONFIGDIR"], "matplotlibrc").write_text("svg.hashsalt: psgd\n", "utf-8")
    with tempfile.TemporaryDirectory() as place:
        subprocess.run([sys.executable, "-c", program], cwd=place, env=environ, check=True)
        subprocess.run([sys.executable, ROOT / compare[0], *compare[1].split()], cwd=place, env=environ, check=True)
        for run, shots in SHOTS.items():
            page = Path(place, "runs", run, "report.html")
            for name, shot in zip(shots, shoot(page, Path(place), [*shots.values()], environ), strict=True):
                (PICTURES / f"{name}.png").write_bytes(shot.read_bytes())
        for name in re.findall(r"\]\(gallery/(\S+\.svg)\)", text):  # drawn by the programs
            (PICTURES / name).write_bytes(Path(place, name).read_bytes())
    (program, *_) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)
    with tempfile.TemporaryDirectory() as place:
        subprocess.run([sys.executable, "-c", program], cwd=place, env=environ, check=True)
        (shot,) = shoot(Path(place, "runs", "latest", "report.html"), Path(place), [REPORT], environ)
        (PICTURES / "report.png").write_bytes(shot.read_bytes())
    print(f"The pictures are in {PICTURES}: look at them.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
