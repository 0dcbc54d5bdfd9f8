"""Long description of the package: README.md with absolute links, for an index shows it without the files beside it."""

import re
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
LINK = re.compile(r"(!?)(\[(?:[^\[\]]|\[[^\[\]]*\])*\])\((?![a-z]+:)([^()\s]+)\)")


def absolute_links(text: str, repository: str, version: str) -> str:
    """Return a text in Markdown whose relative links and pictures lead to the files of a release.

    Args:
        text: README.md of that release.
        repository: address of the repository on GitHub.
        version: number of the release, whose tag is this number after a `v`.
    """
    raw = repository.replace("https://github.com/", "https://raw.githubusercontent.com/")

    def absolute(found: re.Match[str]) -> str:
        picture, label, target = found.groups()
        place = f"README.md{target}" if target.startswith("#") else target
        base = f"{raw}/v{version}" if picture else f"{repository}/blob/v{version}"
        return f"{picture}{LINK.sub(absolute, label)}({base}/{place})"

    return LINK.sub(absolute, text)


def found(pattern: str, file: str) -> str:
    """Return the first group of a pattern in a file of the project."""
    match = re.search(pattern, (ROOT / file).read_text("utf-8"), re.MULTILINE)
    if match is None:
        raise SystemExit(f"{file} must have a line that matches {pattern}")
    return match[1]


if __name__ == "__main__":
    setup(
        long_description=absolute_links(
            (ROOT / "README.md").read_text("utf-8"),
            found(r'^Repository = "(.+)"$', "pyproject.toml"),
            found(r'^VERSION = "(.+)"$', "network/__init__.py"),
        ),
        long_description_content_type="text/markdown",
    )
