"""The documentation site without building it: every public name has an entry, every guide a place, every link an end."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

from .sources import PACKAGES, ROOT, is_public, library_files, parse, script_files

REFERENCE = (ROOT / "docs" / "reference.md").read_text("utf-8")
LISTED = set(re.findall(r"^\| `([\w.]+)` \|", REFERENCE, re.MULTILINE))
# what packages of ours share; nobody else imports from them
INNER = {"nn.operation.convolution", "nn.operation.recurrent", "nn.plan", "parallel_sgd.checkpoint"}
SLOW = {"nn.sklearn": {"NeuralClassifier", "NeuralRegressor"}}  # it takes a second to import
PAGES = sorted({*ROOT.glob("*.md"), *(page for name in (*PACKAGES, "deploy", "docs") for page in (ROOT / name).rglob("*.md"))})
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def entries() -> set[str]:
    """The names that have an entry, and those of the modules that have a page."""
    names = {name for module in LISTED - SLOW.keys() for name in import_module(module).__all__}
    return names.union(*SLOW.values()) | {module.rpartition(".")[2] for module in LISTED}


def test_every_public_name_has_an_entry() -> None:
    folders = {path.parent.relative_to(ROOT) for path in library_files() if path.name == "__init__.py" and is_public(path)}
    faces = {".".join(folder.parts) for folder in folders} - INNER
    missing = {f"{face}.{name}" for face in faces for name in set(getattr(import_module(face), "__all__", ())) - entries()}
    assert "parallel_sgd.codec" in faces and not missing


def test_a_reader_of_sources_finds_every_public_value() -> None:
    """Classes and functions know where they are defined; of a value that a star imports, what makes the site finds nothing."""
    lost = []
    for module in sorted(LISTED - SLOW.keys()):
        found = import_module(module)
        tree = parse(Path(str(found.__file__)))
        named = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
        hidden = set(found.__all__) - named if "*" in named else ()
        lost += [name for name in hidden if not hasattr(getattr(found, name), "__qualname__")]
    assert "parallel_sgd.batch_sync" in LISTED and not lost


def test_what_programs_and_guides_import_has_an_entry() -> None:
    blocks = [block for page in PAGES for block in re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.S | re.M)]
    found = set()
    for text in [*blocks, *(path.read_text("utf-8") for path in script_files())]:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PACKAGES:
                found |= {alias.name for alias in node.names if not alias.name.startswith("_")}
    assert "Plain" in found and not found - entries()


def test_every_guide_has_a_place_in_the_site() -> None:
    places = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert not [page.name for page in (ROOT / "docs").glob("*.md") if f"docs/{page.name}\n" not in places]


def anchors(page: Path) -> set[str]:
    """Where links into a page may lead, as GitHub and the site name its headings."""
    found: set[str] = set()
    for heading in re.findall(
        r"^#+ (.*)", re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.S | re.M), re.MULTILINE
    ):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-"))
    return found


def has_page(folder: Path) -> bool:
    """Return whether the site shows a folder: by its README, or by the lists of decisions and programs that are made for it."""
    lists = (ROOT / "docs" / "adr", ROOT / "examples")
    return (folder / "README.md").is_file() or any(folder == each or each in folder.parents for each in lists)


def leads_somewhere(page: Path, target: str) -> bool:
    """Of an address in the network only the form is looked at."""
    if re.match(r"\w+:", target):
        return re.match(r"https://[\w.-]+(/\S*)?$", target) is not None
    path, _, anchor = target.partition("#")
    place = (page.parent / path).resolve() if path else page
    return (has_page(place) if place.is_dir() else place.exists()) and (not anchor or anchor in anchors(place))


def test_every_link_leads_somewhere() -> None:
    links = {
        (page, target) for page in PAGES for target in re.findall(r"\]\(([^)\s]+)\)", CODE.sub("", page.read_text("utf-8")))
    }
    assert len(links) > 100
    assert not [f"{page.relative_to(ROOT)}: {target}" for page, target in links if not leads_somewhere(page, target)]


def test_what_can_be_added_is_told_where_it_stands() -> None:
    section = (ROOT / "docs" / "README.md").read_text("utf-8").partition("## I want to change it")[2]
    places = re.findall(r"^\| .*?\]\(\.\./([^)]+\.py)\)", section, re.MULTILINE)
    assert len(places) >= 16
    assert not [place for place in places if "To add" not in (ROOT / place).read_text("utf-8")]


def messages() -> str:
    """The code with its texts in one piece, and \0 for what differs in them."""
    text = "\n".join(path.read_text("utf-8") for path in (*library_files(), ROOT / "_psgd_packages.py"))
    return re.sub(r"\{[^{}\n]*\}|%(?:\.\d)?[dfgrs]", "\0", re.sub(r'"\s*\n\s*f?"', "", text))


def test_errors_are_told_as_the_code_tells_them() -> None:
    said = messages()
    rows = re.findall(r"^\| ((?:`[^`]+`(?:, )?)+) \| [A-Z(`*]", (ROOT / "docs" / "errors.md").read_text("utf-8"), re.MULTILINE)
    quoted = [text for row in rows for text in re.findall(r"`([^`]+)`", row) if " " in text]
    assert len(quoted) > 50
    # a pattern that begins with any text is searched for from every character
    patterns = {
        text: "[^\n\0]*\0[^\n\0]*".join(map(re.escape, re.split(r"\.\.", text))).removeprefix("[^\n\0]*") for text in quoted
    }
    assert not [text for text, pattern in patterns.items() if not re.search(pattern, said)]
