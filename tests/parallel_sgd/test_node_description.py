"""What a node says of itself before it begins."""

from __future__ import annotations

from pathlib import Path

from nn.gradient_descent import SGDOptimizer
from nn.optimizer import OpContainer, PSGDOptimizer
from parallel_sgd.job_executor import describe_node, keep_description
from parallel_sgd.profiles import IIDBlockAssignment
from rpc.files import CONFIGURATION
from rpc.logs import get_logger
from tests.parallel_sgd.digits_job import plan_of


def test_parameters_are_named(tmp_path: Path) -> None:
    """Also those whose keys JSON does not know."""
    parameters = {"bits": 4, ("x", 1): 2.5, None: 1}
    plan = plan_of(IIDBlockAssignment(2), optimizer=OpContainer(PSGDOptimizer, SGDOptimizer), codec_extra_parameters=parameters)
    described = describe_node(0, 0, {"misc_package": {"epochs": 1}, "extra_package": [4, 2.5, 1]}, plan)
    assert described["codec_parameters"] == {"bits": 4, "('x', 1)": 2.5, "None": 1}
    assert described["settings"] == {"misc_package": {"epochs": 1}}
    keep_description(tmp_path, described, get_logger("test"))
    assert "('x', 1)" in (tmp_path / CONFIGURATION).read_text()
