"""Timeline and page of a simulated run: virtual time, who waited for whom, the critical path, shares by cause."""

from __future__ import annotations

import gzip
import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

import parallel_sgd
from parallel_sgd import codec as codecs
from tests.parallel_sgd.test_run_page import Page
from tests.statements import covers

from .test_jobs import train

STEPS = 6
COMPUTE = {0: 0.010, 1: 0.020, 2: 0.050}
"""Worker 2 is the slowest, so the others wait for it."""


@covers("SIM-32")
def test_the_timeline_of_a_simulated_run_has_virtual_time(tmp_path: Path) -> None:
    """As Chrome trace JSON, which Perfetto opens: events of microseconds, arrows in pairs, a thread for each worker."""
    nodes = parallel_sgd.simulated(3, "star 1Gbit/s 1ms", compute=COMPUTE, codec_time=0)
    result = train(nodes, codecs.Plain, tmp_path, STEPS, page=True)
    assert result.simulated is not None and result.report is not None
    events = json.loads(gzip.decompress((result.report.parent / "timeline.json.gz").read_bytes()))["traceEvents"]
    assert {event["pid"] for event in events} == set(COMPUTE) and {event["ph"] for event in events} == {"X", "M", "s", "f"}
    for node, seconds in COMPUTE.items():
        own = [event for event in events if event["pid"] == node and event["name"] == "compute"]
        assert [event["dur"] for event in own] == pytest.approx([1e6 * seconds] * STEPS, rel=1e-2)
        begins = [event["ts"] for event in own]
        period = 1e6 * (max(COMPUTE.values()) + 0.001)
        assert [later - earlier for earlier, later in pairwise(begins)] == pytest.approx([period] * (STEPS - 1), rel=2e-2)
    waits = {node: sum(e["dur"] for e in events if e["pid"] == node and e["name"] == "wait") / 1e6 for node in COMPUTE}
    assert waits[0] == pytest.approx(STEPS * 0.041, rel=0.05) and waits[1] == pytest.approx(STEPS * 0.031, rel=0.05)
    assert waits[2] < 0.01
    starts = [event for event in events if event["ph"] == "s"]
    late = [event for event in starts if event["pid"] == 2]
    assert len(late) >= 2 * STEPS and len(starts) == len([event for event in events if event["ph"] == "f"])
    slices = [event for event in events if event["ph"] == "X"]
    for node in COMPUTE:  # Perfetto leaves out a slice that overlaps the one before it
        own = sorted((round(10 * e["ts"]), round(10 * (e["ts"] + e["dur"]))) for e in slices if e["tid"] == node)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(own))
        arrows = [event["ts"] for event in events if event["ph"] in "sf" and event["tid"] == node]
        assert all(any(begin <= round(10 * ts) <= end for begin, end in own) for ts in arrows)
    end = max(event["ts"] + event["dur"] for event in slices)
    assert end / 1e6 <= result.simulated.seconds * (1 + 1e-6)


@covers("SIM-32")
def test_the_page_of_a_simulated_run_says_what_it_waited_for(tmp_path: Path) -> None:
    nodes = parallel_sgd.simulated(3, "star 1Gbit/s 1ms", compute=COMPUTE, codec_time=0)
    result = train(nodes, codecs.Plain, tmp_path, STEPS, page=True)
    assert result.report is not None
    page = Page(result.report)
    waited = {(late, early): seconds for late, early, seconds in page.data["waits"]["cells"]}
    assert waited.keys() == {(2, 0), (2, 1)}
    assert (waited[2, 0], waited[2, 1]) == pytest.approx((STEPS * 0.041, STEPS * 0.031), rel=0.05)
    assert re.search(r"The workers spent their time computing \d+ %, exchanging \d+ %, waiting \d+ %\.", page.text)
    assert "Who waited for whom" in page.text and "(simulated) - Parallel-SGD</title>" in result.report.read_text("utf-8")
    first = page.data["causes"][0]  # by its seconds on the critical path
    assert first["place"] == "worker 2: compute" and first["seconds"] == pytest.approx(STEPS * 0.030, rel=0.01)
