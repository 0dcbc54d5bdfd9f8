"""Pictures of reports that are stored in the repository: taken by Chromium, of pages without the name of this machine."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

SHOOT: Final = Path(__file__).with_name("shoot.mjs")
HOST: Final = "host"
"""Word in place of the name of this machine in what is stored."""


def lacking(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the programs that pictures need and this machine lacks; `$CHROMIUM` of the environment names another Chromium."""
    programs = ("node", "npm", environ.get("CHROMIUM", "/usr/bin/chromium"))
    return [name for name in programs if shutil.which(name, path=environ.get("PATH")) is None]


def without_host(text: str, host: str | None = None) -> str:
    """Return a text, or a page, with `HOST` for each name of a host; scripts of a page stay, for they may use the word.

    Args:
        text: the text.
        host: the name to replace; default: that of this machine.
    """
    name = rf"(?:(?<=Worker-)|(?<![\w.-])){re.escape(host or socket.gethostname())}(?![\w-])"
    parts = re.split(r"(<script\b.*?</script>)", text, flags=re.DOTALL)
    return "".join(part if part.startswith("<script") else re.sub(name, HOST, part) for part in parts)


def shoot(page: Path, folder: Path, selectors: Sequence[str], environ: Mapping[str, str] | None = None) -> list[Path]:
    """Take pictures of parts of a report.

    Args:
        page: the report, which stays as it is.
        folder: where the pictures go.
        selectors: those of a part each, or of sections, as in "#result,#curves".
        environ: environment of Chromium; default: that of this process.

    Returns: the pictures, in the order of the selectors.
    """
    shown = folder / "shown.html"
    shown.write_text(without_host(page.read_text("utf-8")), "utf-8")
    command: list[str | Path] = ["node", SHOOT, shown, folder, "shot", *selectors]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=dict(os.environ if environ is None else environ))
    return [folder / f"shot-{number}.png" for number, _ in enumerate(selectors, 1)]


def main() -> int:
    """Say which programs are lacking, for a command that takes pictures; return 1 where there is one."""
    programs = lacking()
    if programs:
        told = f"not here: {', '.join(programs)}; Debian has them: apt-get install chromium nodejs npm"
        sys.stderr.write(f"Pictures need Chromium ($CHROMIUM, else /usr/bin/chromium), node and npm; {told}\n")
    return 1 if programs else 0


if __name__ == "__main__":
    sys.exit(main())
