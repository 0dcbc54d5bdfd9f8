"""Which BLAS kernels a job gets, by what its agents tell of their hosts."""

from __future__ import annotations

import pytest

from rpc.job.kernel_timing import agreed
from rpc.job.kernels import HASWELL, KERNEL_VARIABLES, PORTABLE, as_cap, choose, from_cap, kernel_variables

NEAR, FAR, SLOW = {"SkylakeX": 1079, HASWELL: 1000}, {"SkylakeX": 1200, HASWELL: 1000}, {"SkylakeX": 700, HASWELL: 1000}


@pytest.mark.parametrize(
    ("offers", "chosen"),
    [
        ([], ""),
        ([{}], ""),
        ([NEAR], "SkylakeX"),  # the library's own, where little is gained
        ([FAR], HASWELL),
        ([SLOW], "SkylakeX"),
        ([FAR, FAR, SLOW], "SkylakeX"),  # the fastest for all together
        ([FAR, FAR, NEAR], HASWELL),
        ([SLOW, {HASWELL: 0}], HASWELL),  # a host without AVX-512
        ([{HASWELL: 0}, SLOW], HASWELL),
        ([{"Zen": 0}, FAR], ""),  # nothing in common
        ([FAR, {}], ""),  # an agent that does not tell
    ],
)
def test_a_job_has_the_fastest_set_that_all_its_hosts_have(offers: list[dict[str, int]], chosen: str) -> None:
    assert choose(from_cap(as_cap(offer)) for offer in offers) == chosen


@pytest.mark.parametrize(
    "cap",
    [None, 5, b"SkylakeX=1", "SkylakeX", "=", "=1", "A=-1", "A=1e3", "A=1=2", "A;B=1", "A=" + "9" * 5000, "A=1 " * 9, "A=²"],
)
def test_what_cannot_be_understood_is_no_offer(cap: object) -> None:
    assert from_cap(cap) == {}


def test_the_variables_of_a_set() -> None:
    assert kernel_variables("") == {}
    assert kernel_variables("SkylakeX") == {"OPENBLAS_CORETYPE": "SkylakeX"}
    portable = kernel_variables(PORTABLE)
    assert tuple(portable) == KERNEL_VARIABLES and portable["OPENBLAS_CORETYPE"] == HASWELL
    assert {"AVX512F", "X86_V4"} <= set(portable["NPY_DISABLE_CPU_FEATURES"].split())


@pytest.mark.parametrize(
    ("turns", "kept"),
    [
        ([(6326, 6098), (6300, 5400), (6310, 5420)], (6300, 5400)),  # others were busy during the first
        ([(3936, 3605), (3281, 2970)], (3281, 2970)),  # the whole machine was slower during the first
        ([(1000, 1000), (1200, 1000), (1400, 1000)], None),
        ([(1000, 900)], None),
        ([], None),
    ],
)
def test_what_no_second_turn_confirms_is_not_kept(turns: list[tuple[int, int]], kept: tuple[int, int] | None) -> None:
    found = agreed({"SkylakeX": own, HASWELL: other} for own, other in turns)
    assert tuple(found.values()) == (kept or ())


def test_kernels_that_do_not_come_up_have_no_time() -> None:
    assert agreed([{}, {}]) == {}
    assert agreed([{HASWELL: 5}, {"SkylakeX": 9, HASWELL: 5}, {HASWELL: 7}]) == {HASWELL: 5}
