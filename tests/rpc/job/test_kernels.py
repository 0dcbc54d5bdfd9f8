"""Which BLAS kernels a job gets, by what its agents tell of their hosts."""

from __future__ import annotations

import pytest

from rpc.job.kernels import HASWELL, KERNEL_VARIABLES, PORTABLE, SKYLAKEX, as_cap, choose, from_cap, kernel_variables

NEW, OLD = (SKYLAKEX, HASWELL), (HASWELL,)


@pytest.mark.parametrize(
    ("offers", "chosen"),
    [
        ([], ""),
        ([()], ""),
        ([NEW], SKYLAKEX),
        ([NEW, NEW], SKYLAKEX),
        ([NEW, OLD], HASWELL),
        ([OLD, NEW], HASWELL),
        ([("Zen", "Core2"), ("Core2", "Zen")], "Core2"),  # names without a place in the order
        ([("Zen",), NEW], ""),  # nothing in common
        ([NEW, ()], ""),  # an agent that does not tell
    ],
)
def test_a_job_has_the_first_set_of_a_fixed_order_that_all_its_hosts_have(offers: list[tuple[str, ...]], chosen: str) -> None:
    assert choose(from_cap(as_cap(offer)) for offer in offers) == chosen


@pytest.mark.parametrize("cap", [None, 5, b"SkylakeX", "=", "SkylakeX=1", "A;B", "A " * 9, "A²"])
def test_an_offer_of_another_form_is_none(cap: object) -> None:
    assert from_cap(cap) == ()


def test_the_variables_of_a_set() -> None:
    assert kernel_variables("") == {}
    assert kernel_variables("SkylakeX") == {"OPENBLAS_CORETYPE": "SkylakeX"}
    portable = kernel_variables(PORTABLE)
    assert tuple(portable) == KERNEL_VARIABLES and portable["OPENBLAS_CORETYPE"] == HASWELL
    assert {"AVX512F", "X86_V4"} <= set(portable["NPY_DISABLE_CPU_FEATURES"].split())
