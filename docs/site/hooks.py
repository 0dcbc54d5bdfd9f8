"""What MkDocs is told beyond mkdocs.yml: which files of the repository are pages, and which pages are made.

All pages stand in the site where they stand in the repository. Made are: a page for each module that docs/reference.md
names, a page for each program and file that a page leads to, and the lists of the programs and the decisions.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from base64 import b64encode
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))
from docstrings import as_markdown
from search import rank

ROOT = Path(__file__).resolve().parents[2]
DECISIONS, PROGRAMS, REFERENCE = "docs/adr/README.md", "examples/README.md", "docs/reference.md"
UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
NOTEBOOK, PICTURES = ".ipynb", {".png", ".svg"}
LANGUAGES = {".py": "python", ".sh": "bash", ".yaml": "yaml", ".service": "ini", "": "dockerfile"}
MODULE = re.compile(r"^\| `([\w.]+)` \|", re.MULTILINE)
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)((?:#[^)\s]*)?)\)")


def guides() -> list[str]:
    """What is a page as it is, and the pictures of these."""
    beside = [
        "README.md",
        "README.zh-CN.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "nn/README.md",
        "executor/README.md",
        "deploy/README.md",
    ]
    beside += ["parallel_sgd/codec/README.md", "parallel_sgd/profiles/blockassignment/README.md"]
    below = sorted((ROOT / "docs").rglob("*"))
    shown = [path for path in below if path.suffix in {".md", *PICTURES} and (ROOT / "docs" / "site") not in path.parents]
    return beside + [path.relative_to(ROOT).as_posix() for path in shown]


def programs() -> list[str]:
    """Programs and notebooks."""
    found = sorted(path for path in (ROOT / "examples").rglob("*") if path.suffix in {".py", NOTEBOOK})
    return [path.relative_to(ROOT).as_posix() for path in found if not path.parent.name.startswith(".")]


def deployed() -> list[str]:
    """The files that the guide of deploy/ leads to."""
    return [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "deploy").iterdir()) if path.suffix != ".md"]


def sources() -> list[str]:
    """Files of the packages that guides lead to."""
    found = set[Path]()
    for page in (ROOT / path for path in guides() if path.endswith(".md")):
        found |= {(page.parent / target).resolve() for target, _ in LINK.findall(page.read_text("utf-8"))}
    led_to = {path.relative_to(ROOT).as_posix() for path in found if path.suffix == ".py" and path.is_relative_to(ROOT)}
    return sorted(led_to.difference(programs()))


def title(page: str) -> str:
    return (ROOT / page).read_text("utf-8").partition("\n")[0].lstrip("# ").replace("`", "")


def cells(path: str) -> list[Any]:
    """The cells of a notebook."""
    found: list[Any] = json.loads((ROOT / path).read_text("utf-8"))["cells"]
    return found


def shown(output: Any) -> str:
    """An output of a cell in its richest form."""
    data = {kind: "".join(text) for kind, text in output.get("data", {"text/plain": output.get("text", "")}).items()}
    for kind in ("image/png", "image/svg+xml"):
        if kind in data:
            code = data[kind].replace("\n", "") if kind == "image/png" else b64encode(data[kind].encode()).decode()
            return f'<img alt="what the cell above shows" src="data:{kind};base64,{code}">'
    if "text/html" in data:  # a blank line would end it; a frame of pandas has the style of the site
        html = re.sub(r"<style scoped>.*?</style>", "", data["text/html"], flags=re.DOTALL)
        html = html.replace('<table border="1" class="dataframe">', "<table>")
        return "<div>" + re.sub(r"\n\s*\n", "\n", html) + "</div>"
    return f"```text\n{data['text/plain'].rstrip()}\n```"


def as_page(cell: Any) -> str:
    """A cell of a notebook and what it has shown."""
    text = "".join(cell["source"])
    if cell["cell_type"] != "code":
        return text
    return "\n\n".join([f"```python\n{text}\n```", *map(shown, cell["outputs"])])


def said(path: str) -> str:
    """The first paragraph of a program's docstring; the title of a notebook."""
    if path.endswith(NOTEBOOK):
        return "".join(cells(path)[0]["source"]).partition("\n")[0].lstrip("# ")
    return " ".join((ast.get_docstring(ast.parse((ROOT / path).read_text("utf-8"))) or "").partition("\n\n")[0].split())


def source_page(path: str) -> str:
    """A file as a page."""
    if path.endswith(NOTEBOOK):
        return "\n\n".join(map(as_page, cells(path))) + f"\n\nThe notebook is `{path}`.\n"
    text, suffix = (ROOT / path).read_text("utf-8"), Path(path).suffix
    return f"# {path}\n\n````{LANGUAGES[suffix]}\n{text}````\n"


def modules() -> dict[str, list[str]]:
    """The modules of the reference by the heading above them."""
    found = {}
    for part in (ROOT / REFERENCE).read_text("utf-8").split("\n## ")[1:]:
        found[part.partition("\n")[0]] = MODULE.findall(part)
    return found


def public_names(module: str) -> list[str]:
    """`__all__` of a module without its modules, which have pages of their own."""
    found = import_module(module)
    return [name for name in found.__all__ if not isinstance(getattr(found, name), ModuleType)]


def is_written(value: type) -> bool:
    """Whether the class stands in a file; codecs such as `Ring` are composed when they are asked for."""
    try:
        return bool(inspect.getsource(value))
    except OSError:
        return False


def is_named(module: str, name: str) -> bool:
    """Whether the file of the module itself has the name, so that it is found there without running it."""
    tree = ast.parse(Path(str(import_module(module).__file__)).read_text("utf-8"))
    if any(
        isinstance(node, ast.ImportFrom) and name in {each.asname or each.name for each in node.names}
        for node in ast.walk(tree)
    ):
        return True
    return re.search(rf"^(?:class |def |){name}\b", ast.unparse(tree), re.MULTILINE) is not None


def entry(module: str, name: str) -> str:
    """What a public name has in the reference."""
    value = getattr(import_module(module), name)
    if isinstance(value, type) and not is_written(value):
        symbol = '<code class="doc-symbol doc-symbol-heading doc-symbol-class"></code>'
        label = symbol.replace("heading", "toc")
        text = as_markdown(inspect.cleandoc(value.__doc__ or ""))
        return f"## {symbol} {name} {{#{module}.{name} .doc .doc-heading data-toc-label='{label} {name}'}}\n\n{text}\n"
    place = f"{module}.{name}"
    if not is_named(module, name) and hasattr(value, "__qualname__"):
        place = f"{value.__module__}.{value.__qualname__}"
    whole = place == "nn.model.Model"  # its methods stand in several files
    return f"::: {place}\n" + "    options: {inherited_members: true}\n" * whole


def module_page(module: str) -> str:
    """The docstring of a module, and its public names one after the other."""
    head = (
        f"# {module}\n\n::: {module}\n    options: {{show_root_heading: false, show_root_toc_entry: false, members: false}}\n"
    )
    return "\n".join([head, *(entry(module, name) for name in public_names(module))])


def made() -> dict[str, str]:
    """The text of each page that is made."""
    decisions = sorted(path.name for path in (ROOT / "docs" / "adr").glob("0*.md"))
    pages = {f"docs/reference/{name}.md": module_page(name) for names in modules().values() for name in names}
    pages |= {f"{path}.md": source_page(path) for path in [*programs(), *deployed()]}
    pages |= {f"{path}.md": UNSEARCHED + source_page(path) for path in sources()}  # guides and the reference are found
    lines = [f"| [{path.removeprefix('examples/')}]({path.removeprefix('examples/')}) | {said(path)} |" for path in programs()]
    pages[PROGRAMS] = "# Programs\n\n| Program | Shows |\n|---|---|\n" + "\n".join(lines) + "\n"
    lines = [f"* [{title(f'docs/adr/{name}')}]({name})" for name in decisions]
    why = "What was decided, why, and what follows from it, in the order of time.\n\n"
    pages[DECISIONS] = "# Decisions\n\n" + why + "\n".join(lines) + "\n"
    return pages


def on_config(config: Any) -> Any:
    """Fill in what mkdocs.yml leaves open."""
    for section in config.nav:
        for name, pages in section.items():
            if name == "Programs":
                pages += [{"All programs": PROGRAMS}, *({path.removeprefix("examples/"): f"{path}.md"} for path in programs())]
            elif name == "Reference":
                pages[1:1] = [{k: [{m: f"docs/reference/{m}.md"} for m in names]} for k, names in modules().items()]
            elif name == "Run a cluster":
                pages.append({"Files": [{path.removeprefix("deploy/"): f"{path}.md"} for path in deployed()]})
            elif name == "How it works":
                records = sorted(path for path in guides() if path.startswith("docs/adr/"))
                pages[-1]["Decisions"] = [{"All decisions": DECISIONS}, *({title(path): path} for path in records)]
    return config


def on_files(files: Any, config: Any) -> Any:
    for path in guides():
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    for path, text in made().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """A link to a file leads to the page that shows it, one to a folder to its list."""
    here = page.file.src_uri
    if here == REFERENCE:
        markdown = MODULE.sub(r"| [`\1`](reference/\1.md) |", markdown)
    known = set(files.src_uris)

    def led(match: re.Match[str]) -> str:
        target, anchor = match[1].rstrip("/"), match[2]
        place = (ROOT / here).parent.joinpath(target).resolve()
        path = place.relative_to(ROOT).as_posix() if place.is_relative_to(ROOT) else ""
        if f"{path}.md" in known:
            return f"]({target}.md{anchor})"
        if place.is_dir():
            folder = "examples" if path.startswith("examples") else path
            if f"{folder}/README.md" not in known:
                raise PluginError(f"{here} leads to the folder {target}, which has no page")
            return f"]({'../' * here.count('/')}{folder}/README.md{anchor})"
        if place.is_file() and path not in known:
            raise PluginError(f"{here} leads to {target}, which has no page")
        return match[0]

    return LINK.sub(led, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """A name or an option is not broken at a hyphen."""
    return re.sub(r"<code>(?=[^\s<]{,40}</code>)", '<code class="word">', html)


class Loaded(HTMLParser):
    """What a page has the browser load."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and given.get("rel") in {"canonical", "next", "prev"}:
            return
        names = ("href",) if tag == "link" else ("src", "srcset", "data", "poster")
        self.addresses += [given[name] or "" for name in names if name in given]
        if "mermaid" in (given.get("class") or "").split():
            self.addresses.append("https://unpkg.com (Material fetches mermaid)")


def foreign(path: Path) -> list[str]:
    """What a file of the site would load from the network."""
    text = path.read_text("utf-8")
    if path.suffix == ".css":
        found = re.findall(r"""(?:url\(|@import)\s*["']?([^"')\s]+)""", text)
    else:
        reader = Loaded()
        reader.feed(text)
        found = reader.addresses
    return [address for address in found if re.match(r"(\w+:)?//", address)]


@event_priority(50)  # before the search plugin writes its index
def on_post_build(config: Any) -> None:
    """The search knows its order; the site loads nothing from the network."""
    rank(config.plugins["material/search"].search_index.entries)
    site = Path(config.site_dir)
    found = [(path.relative_to(site), foreign(path)) for end in ("html", "css") for path in sorted(site.rglob(f"*.{end}"))]
    if any(addresses for _, addresses in found):
        raise PluginError("; ".join(f"{path} loads {', '.join(some)}" for path, some in found if some))
