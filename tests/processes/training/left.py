"""A job whose submitter is a process of its own, on agents of this test alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.proc import is_job
from tests.processes.harness import Cluster, wait_for

ROOT = Path(__file__).parents[3]


class Command:
    """A process with its output in files, so that it can be read while it runs."""

    def __init__(self, command: list[str], environ: dict[str, str], place: Path) -> None:
        self._out, self._err = (place / f"{command[2].strip('-')}.{kind}" for kind in ("out", "err"))
        with open(self._out, "wb") as out, open(self._err, "wb") as err:
            self.process = subprocess.Popen(command, env=environ, cwd=place, stdout=out, stderr=err)

    @property
    def complaints(self) -> str:
        return self._err.read_text(errors="replace")

    def wait(self) -> tuple[int, str, str]:
        code = self.process.wait(100)
        return code, self._out.read_text(), self.complaints


class Left:
    """A job on the agents of `trio` whose submitter is the process `submitter`; commands run in the folder `place`.

    `on` is what the command of the submitter begins with, `variables` what its environment has besides.
    """

    def __init__(self, trio: Cluster, place: Path, policy: str = "restart", on: Sequence[str] = (), **variables: str) -> None:
        self.trio, self.place, self.hurry = trio, place, place / "hurry"
        self.environ = {**os.environ, "PYTHONPATH": str(ROOT), "PSGD_KEY_FILE": str(trio.key_file), "LONELY_POLICY": policy}
        self.environ |= variables
        addresses = [str(agent.address) for agent in trio.agents]
        (place / "worker.json").write_text(json.dumps({"Worker": addresses}))
        self._said = place / "submitter.txt"
        module = "tests.processes.training.lonely_submitter"
        command = [sys.executable, "-m", module, str(trio.key_file), str(place / "away"), str(self.hurry), *addresses]
        with open(self._said, "wb") as console:
            self.submitter = subprocess.Popen([*on, *command], env=self.environ, cwd=place, stderr=console)
        self._processes = [self.submitter]
        wait_for(lambda: "Waiting for" in self.said, "the job to run")
        match = re.search(r"Job id: (\S+)\.", self.said)
        assert match is not None
        self.job = match[1]

    def __enter__(self) -> Left:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends whatever a failed test has left."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait()

    @property
    def said(self) -> str:
        return self._said.read_text(errors="replace")

    def folder(self, node: int) -> Path:
        return self.trio.agents[node].work / "jobs" / f"{self.job}.{node}"

    def record(self, node: int) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder(node) / "job.json").read_text())
        return content

    def await_manifests(self) -> None:
        nodes = range(len(self.trio.agents))
        wait_for(lambda: all((self.folder(n) / "manifest").exists() for n in nodes), "the agents to have the manifest")

    def await_driver(self, name: str, nodes: list[int]) -> None:
        for node in nodes:
            wait_for(lambda: f"{name} drives it now" in self.trio.agents[node].console, f"{name} to drive")  # noqa: B023

    def await_attempt(self, number: int, nodes: list[int]) -> None:
        def runs(node: int) -> bool:
            record = self.record(node)
            return (record["attempt"], record["state"]) == (number, "running")

        wait_for(lambda: all(map(runs, nodes)), f"attempt {number} to run")

    def job_process(self, node: int) -> int:
        agent = self.trio.agents[node]
        return next(pid for pid in agent.job_pids() if is_job(pid))

    def command(self, *arguments: str) -> Command:
        command = Command([sys.executable, str(ROOT / "job_submit.py"), *arguments], self.environ, self.place)
        self._processes.append(command.process)
        return command

    def run(self, *arguments: str) -> tuple[int, str, str]:
        return self.command(*arguments).wait()
