"""`psgd calibrate` on real agents, and the file that it writes."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

from psgd.cli import main

import pytest

import parallel_sgd
from parallel_sgd import codec as codecs
from parallel_sgd.simulation import calibrate as measuring
from parallel_sgd.simulation.link_probe import rounds_of
from parallel_sgd.simulation.platform_text import platform_of
from rpc.agent import EVENT_LOG
from tests.parallel_sgd.simulation.test_jobs import WIDTHS, train
from tests.processes.harness import Cluster, wait_for
from tests.statements import covers


@pytest.mark.long
@covers("SIM-31")
def test_workers_are_measured_into_a_file_that_jobs_are_simulated_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Within a minute of the processor: latency, bandwidth, what is left of it when all send at once, compute and codecs."""
    file, began = tmp_path / "here.toml", time.process_time()
    assert main(["calibrate", "--local", "3", "-o", str(file), "--codecs", "Ring,TopK", "--json", "-q"]) == 0
    assert time.process_time() - began < 60
    told = json.loads(capsys.readouterr().out)
    platform = platform_of(file)
    found = platform.calibration
    assert told["file"] == str(file) and told["platform"] == platform.describe()
    assert found is not None and found.workers == 3 and found.parameters == 118_282 and found.block_size == 16
    assert 1e-6 < (platform.local_latency or 0) < 0.1 and 1e6 < (platform.local_bandwidth or 0) < 1e11
    assert platform.nodes_per_host == 3 and 0 < found.together <= 1 and 0 < found.both_ways <= 1
    assert 0 < found.compute < 1 and {*found.table()} == {"Ring", "TopK"} and "congestion control" in found.system
    result = train(parallel_sgd.simulated(3, file), codecs.Ring, tmp_path, widths=WIDTHS, block_size=16)
    assert result.simulated is not None and result.simulated.outside == () and result.simulated.compute == found.compute
    assert main(["calibrate", "--local", "2", "-o", str(file), "-q"]) == 2
    assert "--out must be a new file, unless --force is given, got" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--local", "1"], "must be at least 2 workers, whose link is measured, got 1"),
        (["--local", "0"], "must be a positive integer, got '0'"),
        (["--local", "2", "--codecs", "Rnig"], "did you mean 'Ring'"),
        (["--local", "2", "-o", "nowhere/x.toml"], "must be a file in a directory that exists, got 'nowhere/x.toml'"),
        (
            ["--local", "2", "-o", "here.platform"],
            "--out must end in .toml, by which a platform's file is known, got here.platform.",
        ),
        (["--local", "2", "-m", "none.model"], "The model file none.model cannot be read"),
        (["--workers", "none.json"], "none.json"),
    ],
)
def test_wrong_arguments_are_told(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        code = main(["calibrate", *words])
    except SystemExit as end:
        code = int(end.code or 0)
    assert code == 2 and says in capsys.readouterr().err and not any(tmp_path.iterdir())


@pytest.mark.share(2)
def test_ctrl_c_ends_the_probe_on_the_agents(trio: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once: no probe goes on without the program that wants its figures, as a job of training would."""
    # so that it does not end by itself, however late the key is pressed
    monkeypatch.setattr(measuring, "rounds_of", lambda hosts: rounds_of(hosts) * 1000)

    def press() -> None:
        # within `join`, which has a handler of its own, and while the probe runs
        wait_for(lambda: signal.getsignal(signal.SIGINT) is not signal.default_int_handler, "the handler of Ctrl-C")
        os.kill(os.getpid(), signal.SIGINT)

    def logs() -> set[Path]:
        return {log for agent in trio.agents for log in agent.work.glob(f"jobs/*/{EVENT_LOG}")}

    def stopped() -> int:
        # of new jobs alone: agents remove the folders of old ones
        return sum('"stopped"' in log.read_text() for log in logs() - before)

    before = logs()
    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        measuring.calibrate(trio.nodes(2), [codecs.Plain])
    thread.join()
    wait_for(trio.idle, "the end of the probe")
    wait_for(lambda: stopped() >= 2, "the agents to note it")  # which they do when the process is gone
    assert stopped() == 2
