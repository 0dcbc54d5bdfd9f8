"""What is gathered of agents that send only a part."""

from __future__ import annotations

import threading
from pathlib import Path

from network import NodeAssignment, Serve
from network.key_files import create_key_file
from rpc.messages import FileBegin, FileChunk, Jobs
from rpc.submit.diagnostics import gather_diagnostics

LIMIT = 10.0


def test_an_agent_that_is_lost_within_a_file(tmp_path: Path) -> None:
    """It is named, and of what it has sent nothing stays: no half file, no open one."""
    key_file = tmp_path / "key"
    create_key_file(key_file)

    def send_half_a_file() -> None:
        com = serve.acquire(LIMIT)
        com.get_one(timeout=LIMIT)  # asks for jobs
        com.send_one(-1, Jobs([{"job": "j", "node": 3}]).to_value())
        com.get_one(timeout=LIMIT)  # asks for the files of one
        com.send_one(-1, FileBegin("log", 4).to_value())
        com.send_one(-1, FileChunk(b"te").to_value())
        com.close(graceful=False)

    with Serve(key_file=key_file) as serve:
        agent = threading.Thread(target=send_half_a_file)
        agent.start()
        nodes = NodeAssignment().add(0, f"127.0.0.1:{serve.address.port}")
        gathered = gather_diagnostics(nodes, "j", tmp_path / "gathered", key_file)
        agent.join()
    (found,) = gathered.found
    assert (found.node, found.files, gathered.unreached) == (3, [], {})
    assert "lost" in found.problem or "closed" in found.problem
    assert [path for path in (tmp_path / "gathered").rglob("*") if path.name != "0.3"] == []
