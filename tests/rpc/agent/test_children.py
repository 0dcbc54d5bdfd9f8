"""Who starts processes in an agent."""

from __future__ import annotations

import re
from pathlib import Path

from rpc.agent import children


def test_all_children_of_an_agent_are_known_to_it() -> None:
    """SEC-25: a child that was started elsewhere would be taken for a job's, and killed with the next one."""
    folder = Path(children.__file__).parent
    starters = [
        path.name
        for path in folder.glob("*.py")
        if re.search(r"Popen\(|os\.fork|os\.posix_spawn|subprocess\.(run|call)", path.read_text())
    ]
    assert starters == ["children.py"]
