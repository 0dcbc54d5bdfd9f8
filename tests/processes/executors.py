"""What the tests run on the nodes; travels by value, like any user's module."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from network import TimedOut
from network.dial import Target, dial
from network.errors import Impostor
from network.hello import Refused
from network.keys import Key
from network.nodes import Address
from network.transport import wait_sockets
from rpc import AbsExecutable, AbsSimpleExecutor, Communication, ReplyPackage
from rpc.messages import Begin
from rpc.support.identity import process_name

FOREVER = 250.0


class Sum(AbsSimpleExecutor):
    def run(self, com: Communication) -> Any:
        return com.node_id, com.allreduce(np.full(4, com.rank + 1.0), "sum")


class SumOnceStarted(Sum):
    """Begins when the file `shipped["started"]` is there, so that none has ended before the submitter knows that all run."""

    def run(self, com: Communication) -> Any:
        while not Path(self.shipped["started"]).exists():
            com.controller.pump(0.01)
        return super().run(com)


class Late(AbsSimpleExecutor):
    """The last one fails, once the first has ended well."""

    def run(self, com: Communication) -> Any:
        first = int(com.allreduce(np.array([float(os.getpid() * (com.rank == 0))]), "sum")[0])
        while com.rank == com.size - 1:
            os.kill(first, 0)  # ProcessLookupError
            time.sleep(0.01)


class Seals(AbsSimpleExecutor):
    """Whether what goes to and from each other node is sealed."""

    def run(self, com: Communication) -> Any:
        com.barrier()
        return {peer: session.sealed for peer, session in com.controller.sessions.items()}


class Confiding(AbsSimpleExecutor):
    """Says a word to the others and to the submitter."""

    def run(self, com: Communication) -> Any:
        total = com.allreduce(np.frombuffer(b"honest.." * 50_000, np.float64), "sum")
        com.barrier()
        return "honest" * len(total)


class Begun(AbsSimpleExecutor):
    """When it began, by the host's clock."""

    def run(self, com: Communication) -> Any:
        return time.time()


class Stepping(AbsSimpleExecutor):
    """Steps together with the others until it is stopped or somebody dies."""

    def run(self, com: Communication) -> Any:
        end = time.monotonic() + FOREVER
        (com.output_directory / "begun").touch()
        while time.monotonic() < end:
            com.allreduce(np.ones(3), "sum")
            time.sleep(0.002)
        return "the end"


class Alone(AbsSimpleExecutor):
    """Node 0 ends at once, the others wait for a message that nobody sends."""

    def run(self, com: Communication) -> Any:
        if com.rank:
            com.get_one()
        return com.rank


class Receiving(AbsSimpleExecutor):
    """Waits for a message that nobody sends."""

    def run(self, com: Communication) -> Any:
        (com.output_directory / "begun").touch()
        return com.get_one()


class Computing(AbsSimpleExecutor):
    """Computes in steps of 0.3 s and sends after each."""

    def run(self, com: Communication) -> Any:
        (com.output_directory / "begun").touch()
        while True:
            end = time.monotonic() + 0.3
            while time.monotonic() < end:
                np.ones(1000).sum()
            com.send_one([peer for peer in com.group if peer != com.node_id], "step")


class Deaf(AbsSimpleExecutor):
    """Computes without ever sending or receiving."""

    def run(self, com: Communication) -> Any:
        (com.output_directory / "begun").touch()
        while True:
            np.ones(1000).sum()


class Briefly(AbsSimpleExecutor):
    """Works for `shipped["seconds"]`."""

    def run(self, com: Communication) -> Any:
        (com.output_directory / "begun").touch()
        time.sleep(self.shipped["seconds"])
        return "done"


class Hungry(AbsExecutable):
    """Asks for two things, one after the other, and returns them."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.got: list[Any] = []

    def requests(self) -> list[str]:
        return ["first"]

    def satisfy(self, replies: Any) -> list[str]:
        self.got += replies
        return ["second"] if len(self.got) == 1 else []

    def ready(self) -> bool:
        return len(self.got) == 2

    def start(self, com: Communication) -> None:
        com.barrier()

    def done(self) -> ReplyPackage:
        return ReplyPackage(self.got)


class SlowEater(Hungry):
    """Node 1 takes `shipped["seconds"]` to digest the first thing."""

    def satisfy(self, replies: Any) -> list[str]:
        if self.node_id == 1 and not self.got:
            time.sleep(self.shipped["seconds"])
        return super().satisfy(replies)


class Held(Hungry):
    """Node 0 has not all it needs before `shipped["flag"]` is there, so until then nobody starts."""

    def satisfy(self, replies: Any) -> list[str]:
        requests = super().satisfy(replies)
        while self.node_id == 0 and not requests and not Path(self.shipped["flag"]).exists():
            time.sleep(0.01)
        return requests


class NeverReady(AbsSimpleExecutor):
    """Node 1 prepares for ever; whoever starts leaves a file."""

    def prepare(self) -> None:
        if self.node_id == 1:
            time.sleep(FOREVER)

    def run(self, com: Communication) -> Any:
        (com.output_directory / "started").touch()
        return None


class Server(AbsSimpleExecutor):
    """A parameter server: adds up what the workers send, and leaves when all of them have left."""

    def run(self, com: Communication) -> Any:
        begun, workers, total = time.time(), self.shipped["workers"], 0.0
        com.controller.wait_until(lambda: set(workers) <= set(com.controller.sessions), FOREVER, lambda: "the workers")
        while com.available_clients or any(s.inbox for s in com.controller.sessions.values()):
            received = com.get_one(blocking=False)
            if received is None:
                com.controller.pump(0.05)
            else:
                total += received[1]
        return begun, total


class Client(AbsSimpleExecutor):
    def run(self, com: Communication) -> Any:
        begun = time.time()
        for value in range(10):
            com.send_one(-2, float(value))
        return begun


class Reporting(AbsSimpleExecutor):
    def run(self, com: Communication) -> Any:
        for percent in (0, 25, 25, 50, 100):
            com.barrier()
            com.report_progress(percent)
        return None


class Raising(AbsSimpleExecutor):
    def run(self, com: Communication) -> Any:
        com.barrier()
        if com.rank == 1:
            raise ArithmeticError("the seventh digit is wrong: \N{SNOWMAN} \ud800")
        com.barrier()
        return "unreachable"


class FailsAtOnce(AbsSimpleExecutor):
    """Node 2 fails before the others can have told anybody that they have started."""

    def run(self, com: Communication) -> Any:
        if com.rank == 2:
            raise ValueError("at once")
        return com.rank


class Talkative(AbsSimpleExecutor):
    def run(self, com: Communication) -> Any:
        for number in range(10_000):
            self.logger.info("line %05d", number)
        com.barrier()
        return None


class Chattering(AbsSimpleExecutor):
    """Prints 8 MiB."""

    def run(self, com: Communication) -> Any:
        for number in range(8 << 10):
            print(f"line {number:05d} " + "x" * 1012)


class Printing(AbsSimpleExecutor):
    """Logs and prints, then waits to be killed."""

    def run(self, com: Communication) -> Any:
        self.logger.info("the last logged line")
        print("the last printed line")
        (com.output_directory / "begun").touch()
        while True:
            com.barrier()
            time.sleep(0.01)


class Exiting(AbsSimpleExecutor):
    def run(self, com: Communication) -> Any:
        com.barrier()
        if com.rank == 0:
            sys.exit(self.shipped["code"])
        com.barrier()
        return None


class Segfault(AbsSimpleExecutor):
    def run(self, com: Communication) -> Any:
        com.barrier()
        if com.rank == 0:
            ctypes.string_at(0)
        com.barrier()
        return None


class Hoarder(AbsSimpleExecutor):
    """Writes more reports than anybody fetches."""

    def run(self, com: Communication) -> Any:
        for number in range(400):
            (com.output_directory / f"report-{number:03d}.csv").write_text(f"{number}\n")
        return "written"

    def trace_files(self) -> list[str]:
        return [f"report-{number:03d}.csv" for number in range(400)]


class DiskFull(AbsSimpleExecutor):
    def run(self, com: Communication) -> Any:
        with open("/dev/full", "w") as device:
            device.write("x" * 100_000)


class Escaping(AbsSimpleExecutor):
    """Registers what is not its own to give."""

    def run(self, com: Communication) -> Any:
        (com.output_directory / "good.csv").write_text("good\n")
        (com.output_directory / "link.csv").symlink_to("/etc/passwd")
        (com.output_directory / "folder").mkdir()
        return None

    def trace_files(self) -> list[Any]:
        return ["good.csv", "link.csv", "../job.json", "/etc/passwd", "folder", "missing.csv", 7]


class LeavesChild(AbsSimpleExecutor):
    def run(self, com: Communication) -> Any:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], cwd=os.getcwd())
        return child.pid


class LeavesChildAndDies(LeavesChild):
    def run(self, com: Communication) -> Any:
        (com.output_directory / "child").write_text(str(super().run(com)))
        time.sleep(FOREVER)


class Wandering(AbsSimpleExecutor):
    """Goes to another directory, and writes its report all the same."""

    def run(self, com: Communication) -> Any:
        os.chdir("/")
        (com.output_directory / "report.csv").write_text("here\n")
        return "home"

    def trace_files(self) -> list[str]:
        return ["report.csv"]


class Environment(AbsSimpleExecutor):
    def run(self, com: Communication) -> Any:
        return dict(os.environ), sys.argv, os.getcwd(), os.stat(".").st_mode & 0o777, os.umask(0o077)


class Broadcasting(AbsSimpleExecutor):
    def run(self, com: Communication) -> Any:
        mean = com.allreduce(np.array([com.rank, 2.0 * com.rank], np.float32))
        most = com.allreduce(np.array([com.rank]), "max")
        word = com.broadcast(f"from {com.rank}", root=2)
        com.barrier()
        return mean, most, word


class LargeSum(AbsSimpleExecutor):
    def run(self, com: Communication) -> Any:
        total = com.allreduce(np.arange(1 << 20, dtype=np.float32) * (com.rank + 1), "sum")
        return float(total[-1]), total.nbytes


class Unread(AbsSimpleExecutor):
    """The first rank does not read while the second sends more than the sockets between them hold, until that has given up."""

    def run(self, com: Communication) -> str:
        given_up, end = Path(self.shipped["folder"], "given up"), time.monotonic() + FOREVER
        if com.rank == 0:
            while not given_up.exists() and time.monotonic() < end:
                time.sleep(0.01)
            return "did not read"
        try:
            com.allreduce(np.zeros(1 << 24), "sum", timeout=0.3)
        except TimedOut as error:
            return str(error)
        finally:
            given_up.touch()
        return "it went through"


class Replacing(AbsSimpleExecutor):
    """Node 0 puts a link in the place of its output directory, which the agent does not follow."""

    def run(self, com: Communication) -> Any:
        if com.rank == 0:
            output = com.output_directory
            output.rename(output.with_name("moved"))
            output.symlink_to("moved")


def call_as(begin: Begin, key: bytes, claimed: int, address: str) -> str:
    """Call node 0 as node `claimed`, from a process of the job, and tell what became of that."""
    caps = {"node": claimed, "attempt": begin.attempt}
    try:
        session = dial(Target(Address.parse(address), Key(key), "peer", "peer", process_name(begin.job, 0), 0, caps))
    except Refused as refused:
        return refused.hint.name
    end = time.monotonic() + FOREVER
    while session.lost is None and time.monotonic() < end:
        wait_sockets([session.link], [], 0.1)  # type: ignore[list-item]
        session.receive()
    said = str(session.lost)
    session.close()
    return "hung up on" if "is lost" in said else "let in"


class KnocksAsOthers(Sum):
    """Before it starts, node 1 calls node 0 as node 2 and as one that is none of the job, with keys that it has or makes up."""

    called: ClassVar[list[str]] = []

    def prepare(self) -> None:
        flag = Path(self.shipped["flag"])
        if self.node_id == 1:
            begin = sys._getframe(1).f_locals["self"].begin  # of the JobProcess
            keys = [begin.peer_keys[2], bytes(32), begin.code_key]
            self.called = [call_as(begin, key, claimed, self.shipped["address"]) for key in keys for claimed in (2, 7)]
            flag.touch()
        while not flag.exists():  # so that the honest node 2 calls later
            time.sleep(0.01)

    def run(self, com: Communication) -> Any:
        return super().run(com), self.called


class SaysItIsAnother(AbsSimpleExecutor):
    """Node 1 calls node 0 with the key of these two as node 2, and as none of the job; node 0 and node 2 go on."""

    def run(self, com: Communication) -> Any:
        com.barrier()
        if com.node_id == 1:
            begin = com._load_code.__self__.begin  # type: ignore[union-attr]
            called = [call_as(begin, begin.peer_keys[0], claimed, self.shipped["address"]) for claimed in (2, 7)]
            com.send_one(2, "so much for that")
            return called
        if com.node_id == 2:
            com.get_one()
            com.send_one(0, "we two go on")
            return com.get_one()
        lost = received = None
        while lost is None or received is None:  # node 2's message may come before the loss of node 1 is known, or after
            try:
                received = com.get_one()
            except Impostor as found:
                lost = found
        com.send_one(2, received[1])
        raise lost
