"""What tests of nn share."""

import pytest

from tests.nn.golden import Golden, file_of


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """The answers of torch or scikit-learn to what this test asks."""
    return Golden(request.node.name, file_of(request.module.__name__))
