"""What holds for every test: no thread, child process or open socket outlives it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.leaks import adopt_orphans, no_leaks


def pytest_configure() -> None:
    adopt_orphans()


@pytest.fixture(autouse=True)
def _nothing_leaks() -> Iterator[None]:
    with no_leaks():
        yield
