"""Callbacks of a job on real workers: as in this process, also where a worker dies on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from parallel_sgd.nodes import LocalNodes
from tests.equivalence.test_job_callbacks import RATE, callbacks, left, run
from tests.processes.training.jobs import FOUR_BLOCKS, line_job, some

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("policy", ["restart", "shrink"])
@pytest.mark.share(4)
def test_a_worker_that_dies_changes_no_decision(agents: LocalNodes, tmp_path: Path, policy: str) -> None:
    """What callbacks remember is part of the state that the others go on from; their files come home."""
    calm = run(tmp_path / "here", 2)
    hurt = line_job().parallel(
        some(agents, 2),
        epoch=60,
        directory=tmp_path / "there",
        callbacks=callbacks(),
        gd_params=RATE,
        assignment_type=FOUR_BLOCKS,
        block_size=3,
        on_failure=policy,
        fault="kill 1@e9.b2",
    )
    assert hurt.restarts == 1 and hurt == calm and hurt.ledger is not None and hurt.ledger.problems == ()
    assert {model.store.values.tobytes() for model in hurt.models.values()} == {calm.models[0].store.values.tobytes()}
    for name in ("log.csv", "best.model"):
        assert left(hurt, name)[0] == left(calm, name)[0]
