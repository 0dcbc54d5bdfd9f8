"""The records of decisions are numbered through, each under its own number."""

import re

from .sources import ROOT


def test_every_record_has_a_number_of_its_own() -> None:
    pages = sorted((ROOT / "docs" / "adr").glob("*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    for page in pages:
        assert re.match(rf"# {int(page.name[:4])} \S", page.read_text("utf-8")), page.name


def test_a_record_is_one_page_of_context_decision_and_consequences() -> None:
    for page in sorted((ROOT / "docs" / "adr").glob("*.md")):
        text = page.read_text("utf-8")
        assert len(text.splitlines()) <= 45, f"{page.name}: longer tables stand in docs/measurements.md"
        assert all(f"**{part}." in text for part in ("Context", "Decision")), page.name
