"""The tables of docs/architecture.md: the packages and what they import, and each file or folder of them with its purpose."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.sources import PACKAGES, ROOT, parse
from tests.test_layering import ALLOWED

PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- made by `make pictures` -->", "<!-- end -->"


def purpose(path: Path) -> str:
    """Return the first sentence of a module's docstring, without the period."""
    first = (ast.get_docstring(parse(path)) or "").partition("\n\n")[0].replace("\n", " ")
    return re.split(r"\.(?: |$)", first)[0].replace("|", "\\|")


def entries(package: str) -> list[tuple[str, str]]:
    """Return the files and folders of a package with their purposes, folders with a slash, in alphabetical order."""
    found = []
    for path in sorted((ROOT / package).iterdir()):
        if path.suffix == ".py" and path.name != "__init__.py":
            found.append((path.relative_to(ROOT).as_posix(), purpose(path)))
        elif (path / "__init__.py").exists():
            found.append((f"{path.relative_to(ROOT).as_posix()}/", purpose(path / "__init__.py")))
    return found


def tables() -> str:
    """Return the tables as Markdown."""
    text = "| Package | Imports | Purpose |\n|---|---|---|\n"
    for package in PACKAGES:
        imported = ", ".join(f"`{name}`" for name in PACKAGES if name in ALLOWED[package]) or "–"
        text += f"| [`{package}`](#{package}) | {imported} | {purpose(ROOT / package / '__init__.py')} |\n"
    for package in PACKAGES:
        text += f"\n### {package}\n\n| File or folder | Purpose |\n|---|---|\n"
        text += "".join(f"| `{name}` | {said} |\n" for name, said in entries(package))
    return text


def written(page: str) -> str:
    """Return the page with the tables of today in their place."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{tables()}\n{END}{rest.partition(END)[2]}"


def write_tables() -> None:
    """Write the tables into the page."""
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    write_tables()
