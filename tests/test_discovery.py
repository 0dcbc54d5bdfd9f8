"""What completion and `help()` show of a package: its public names, before anything of it was used."""

from __future__ import annotations

import pydoc
import subprocess
import sys
from importlib import import_module

import pytest

from .sources import PACKAGES, ROOT, library_files

PUBLIC = [
    ".".join(path.parent.relative_to(ROOT).parts)
    for path in library_files()
    if path.name == "__init__.py" and "__all__" in path.read_text("utf-8")
]

LOOK = """
import importlib, rlcompleter, sys
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    hidden = set(package.__all__) - set(dir(package))
    completer, found = rlcompleter.Completer({"package": package}), set()
    while (match := completer.complete("package.", len(found))) is not None:
        found.add(match)
    hidden |= {each for each in package.__all__ if not any(match.startswith(f"package.{each}") for match in found)}
    if hidden:
        print(name, sorted(hidden))
"""


def test_all_packages_have_public_names() -> None:
    assert set(PACKAGES) < set(PUBLIC)


def test_dir_and_completion_show_the_public_names_of_a_package_that_was_just_imported() -> None:
    done = subprocess.run([sys.executable, "-c", LOOK, *PUBLIC], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == ""


@pytest.mark.parametrize("package", ["parallel_sgd", "rpc"])
def test_what_is_loaded_on_demand_hides_what_it_is_made_of(package: str) -> None:
    shown = {name for name in dir(import_module(package)) if not name.startswith("__")}
    assert shown & {"annotations", "lazily", "TYPE_CHECKING"} == set()
    assert all(f"{package}.{name}" in sys.modules for name in shown - set(import_module(package).__all__))


@pytest.mark.parametrize("package", PUBLIC)
def test_help_shows_the_public_names(package: str) -> None:
    module = import_module(package)
    text = pydoc.plain(pydoc.render_doc(module))
    assert [name for name in module.__all__ if name not in text] == []
