"""What the result of a job shows in a notebook, and outside of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from parallel_sgd import JobResult
from parallel_sgd.record import run as module

from .runs import train


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """A kernel, as far as it is asked: everything that is shown."""
    found: list[dict[str, str]] = []
    monkeypatch.setattr(module, "in_notebook", lambda: True)
    monkeypatch.setattr(module, "show", lambda _owner, data, _example: found.append(data))
    return found


def test_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, displayed: list[dict[str, str]]) -> None:
    """Its address is that from the folder of the notebook, also where the title has signs that addresses do not have."""
    monkeypatch.chdir(tmp_path)
    result = train(epoch=1, mission_title="a (1)")
    page = next(Path("runs").glob("a*/report.html")).as_posix()
    assert (
        "a (1)" in page
        and f'<a href="{page.replace(" ", "%20").replace("(", "%28").replace(")", "%29")}"' in result._repr_html_()
    )
    result.show_report(height=321)
    (data,) = displayed
    assert (
        f'src="{page.replace(" ", "%20").replace("(", "%28").replace(")", "%29")}"' in data["text/html"]
        and 'height="321"' in data["text/html"]
    )
    assert data["text/plain"] == page
    with pytest.raises(ValueError, match=r"^JobResult.show_report\(\) 'height' must be a positive integer, got 0$"):
        result.show_report(0)


def test_outside_a_notebook_a_browser_opens_it(tmp_path: Path) -> None:
    result = train(directory=tmp_path, epoch=1)
    with pytest.raises(ValueError, match=r"shows it in a notebook; elsewhere open .*report.html in a browser"):
        result.show_report()


def test_a_result_without_a_report(displayed: list[dict[str, str]]) -> None:
    result = JobResult({}, {}, {}, {}, "job", restarts=1)
    assert "<a " not in result._repr_html_() and "Job job, 1 restart<" in result._repr_html_()
    with pytest.raises(ValueError, match="needs the report of the run, and it could not be written"):
        result.show_report()
    assert not displayed
