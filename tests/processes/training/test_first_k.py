"""`sync_type="first:2"` on local workers: a worker on a slow link holds nobody back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from parallel_sgd import local_workers

from .jobs import line_job, weights

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("fault", ["throttle 2>0 4kbit; throttle 2>1 4kbit", "stop 2@e1.b2 for 2s"])
@pytest.mark.long
def test_the_first_two_of_three_go_on(tmp_path: Path, fault: str) -> None:
    """Results of the others lack what comes late, and the straggler finds all of theirs: it trains another model."""
    with local_workers(3) as nodes:
        result = line_job(48).parallel(
            nodes, sync_type="first:2", epoch=3, block_size=4, fault=fault, directory=tmp_path, stall_timeout=30.0, verbose=0
        )
    assert result.failures == {}
    assert sorted(result.models) == [0, 1, 2]
    for model in result.models.values():
        assert np.isfinite(model.store.values).all()
    assert weights(result)[0] != weights(result)[2]
