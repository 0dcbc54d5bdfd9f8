"""The programs in the package guides run as printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import parallel_sgd.codec
import parallel_sgd.profiles.blockassignment


@pytest.mark.parametrize("package", [parallel_sgd.codec, parallel_sgd.profiles.blockassignment])
def test_the_programs_of_a_guide_run(package: object) -> None:
    guide = Path(package.__file__).with_name("README.md")  # type: ignore[attr-defined]
    blocks = re.findall(r"```python\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(guide), "exec"), names)


def test_the_imports_of_the_original_readme() -> None:
    from parallel_sgd.batch_sync import SynchronizedSGD
    from parallel_sgd.batch_sync.sync.interface import ISyncType
    from parallel_sgd.codec import BlockWeight, Codec, GlobalSettings, netEncapsulation
    from parallel_sgd.codec import interfaces as codec_interfaces
    from parallel_sgd.codec.plain import Plain
    from parallel_sgd.profiles import IIDBlockAssignment
    from parallel_sgd.profiles.blockassignment.abstract import AbsBlockAssignment

    assert issubclass(SynchronizedSGD, ISyncType)
    assert issubclass(Plain, codec_interfaces.Codec)
    assert codec_interfaces.Codec is Codec
    assert issubclass(IIDBlockAssignment, AbsBlockAssignment)
    assert all(map(callable, (BlockWeight, netEncapsulation, GlobalSettings.get_params)))
    assert parallel_sgd.Parameter_Server == -2
