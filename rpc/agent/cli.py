"""Command line of `worker.py` and `psgd-worker`: start an agent, make a key, or look how agents stand and reach each other."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from network import VERSION
from network.errors import NetworkError
from network.key_files import by_flag, create_key_file, default_key_path

from ..errors import SettingsError
from ..job.hardening import refuse_inspection
from ..messages import ANY_CODE, NO_CODE
from ..support.console import run_program, show_result
from ..support.files import read_text
from ..support.forks import catch
from ..support.logs import attach_console
from ..support.option_parser import OptionParser, counted, program_name
from ..support.processors import limit_met
from .agent import Agent
from .registration import SYSTEMS
from .scheduler_env import announced, read_keys, scheduler_environment, temporary_directory
from .settings import LEVELS, AgentSettings, gather

EXIT_OK, EXIT_USAGE = 0, 2
COMMAND = "psgd-worker"


DESCRIPTION = (
    "Serve jobs of Parallel-SGD, one after another, unattended. Without arguments it listens on this machine only; the key is "
    "made on first use."
)
EPILOG = (
    "For several machines: --new-key once, copy the key file to each machine, then start with --listen 0.0.0.0 "
    "--key-file FILE. Also read: PSGD_LISTEN, PSGD_PORT, PSGD_KEY_FILE, and worker.toml beside the key in "
    "your configuration directory."
)


EVERY = "; 0.0.0.0 for all of IPv4, :: for both families"


def _program_name() -> str:
    return program_name(COMMAND, "worker.py")


def _parser() -> argparse.ArgumentParser:
    parser = OptionParser(prog=_program_name(), description=DESCRIPTION, epilog=EPILOG)
    add_options(parser)
    doctor = parser.add_argument_group("to look at workers that run")
    doctor.add_argument(
        "--doctor",
        action="store_true",
        help="tell who reaches whom, versions, clocks, bandwidths, free slots, and what is wrong; exit code 1 if something is",
    )
    _add_hosts(doctor)
    parser.add_argument("--version", action="version", version=VERSION)
    return parser


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `serve` to `parser`."""
    _add_own_address(parser, "address to listen on", "TCP port", EVERY, "; 0 picks a free one")
    parser.add_argument("--new-key", action="store_true", help="make a key file (at --key-file) and exit")
    parser.add_argument("--work-dir", metavar="DIR", help="for logs, jobs and cached data (default: in your state directory)")
    parser.add_argument("--slots", type=counted, metavar="N", help="jobs at the same time (default: 1)")
    parser.add_argument(
        "--output-mib", type=counted, metavar="MIB", help="how much of what a job prints is kept, the first and the newest (64)"
    )
    parser.add_argument(
        "--metrics-port",
        type=int,
        metavar="N",
        help="serve metrics for Prometheus at http://127.0.0.1:N/metrics, on this machine alone (0: a free port, which the log "
        "tells; default: none)",
    )
    parser.add_argument("--no-kernel-probe", action="store_true", help=argparse.SUPPRESS)  # of releases that measured kernels
    parser.add_argument("--log-level", choices=LEVELS, type=str.upper, help="default: INFO")
    code = parser.add_mutually_exclusive_group()
    code.add_argument("--no-shipped-code", action="store_true", help="take only jobs that bring no classes of their own")
    if isinstance(parser, OptionParser):
        parser.meant_options = {
            **dict.fromkeys(("host", "address", "bind"), "--listen"),
            "jobs": "--slots",
            "log-dir": "--work-dir",
            "no-code": "--no-shipped-code",
        }
    code.add_argument("--allow-code", metavar="FILE", help="take only code whose SHA-256 is listed in FILE")
    starter = parser.add_argument_group("for programs that start workers")
    starter.add_argument(
        "--announce", metavar="FILE", help="write host:port to FILE (-: stdout) once it listens; removed at the end"
    )
    starter.add_argument("--end-with-parent", action="store_true", help="end when stdin, a pipe from the parent, closes")
    starter.add_argument(
        "--own-kernels",
        action="store_true",
        default=None,
        help="jobs have the BLAS kernels that a program with this environment has, whatever other workers have",
    )
    _add_key_from_stdin(starter)
    starter.add_argument("--temporary", action="store_true", help="use a work directory that is removed at the end")
    batch = parser.add_argument_group("for batch systems")
    batch.add_argument("--from", dest="system", choices=SYSTEMS, help="who starts the workers, and tells each its rank")
    _add_folder(batch)
    batch.add_argument("--advertise", metavar="HOST", help="the host to tell there (default: what --listen or the system says)")
    batch.add_argument(
        "--grace",
        type=float,
        metavar="SECONDS",
        help="upon SIGTERM or SIGUSR1 let running jobs save their state and leave, within SECONDS (default: 25 with --from, "
        "else 0: end at once)",
    )


def add_doctor_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `examine` to `parser`."""
    _add_hosts(parser)
    _add_own_address(parser, "where this machine's worker listens, if no HOST is named", "its TCP port")
    _add_key_from_stdin(parser)
    _add_folder(parser)


def _add_own_address(parser: argparse.ArgumentParser, listen: str, port: str, every: str = "", free: str = "") -> None:
    parser.add_argument("--listen", metavar="HOST", help=f"{listen} (default: 127.0.0.1{every})")
    parser.add_argument("--port", type=int, help=f"{port} (default: 15387{free})")
    parser.add_argument("--key-file", metavar="FILE", help="the cluster's key (default: in your configuration directory)")


def _add_key_from_stdin(group: Any) -> None:
    group.add_argument(
        "--key-stdin", action="store_true", help="read the key from stdin: the text of a key file, an empty line"
    )


def _add_folder(group: Any) -> None:
    group.add_argument("--rendezvous", metavar="DIR", help="a shared folder in which the workers tell their addresses")


def _add_hosts(group: Any) -> None:
    group.add_argument(
        "hosts",
        nargs="*",
        metavar="HOST",
        help="host[:port], a .json node file or the folder of a --rendezvous (default: the worker of this machine, and those "
        "of worker.json)",
    )
    group.add_argument("--json", action="store_true", help="print that as JSON")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the agent until Ctrl-C or SIGTERM; return 0, or 2 when it cannot start. With --doctor 1 when something is wrong.

    `arguments` are those of the command line; default: `sys.argv`.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.doctor:
        _refuse_others(parser, options)
        return examine(options)
    if options.hosts and options.new_key:
        parser.error(f"--new-key takes its FILE from --key-file: --new-key --key-file {options.hosts[0]}")
    if options.hosts or options.json:
        parser.error(f"{options.hosts[0] if options.hosts else '--json'} goes with --doctor")
    return serve(options)


def _refuse_others(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End the program where --doctor stands beside options that only `serve` reads."""
    # a parser of its own lists the options of `examine`, so that no second list grows old
    examines = argparse.ArgumentParser()
    add_doctor_options(examines)
    known = {"doctor", *(action.dest for action in examines._actions)}
    for action in parser._actions:
        if action.dest not in known and getattr(options, action.dest, action.default) != action.default:
            parser.error(f"{action.option_strings[0]} does not go with --doctor")


def serve(given: argparse.Namespace) -> int:
    """Run the agent that the options describe; return the exit code of `main`."""
    # before a key is in memory: another process of this user could attach and read it
    refuse_inspection()
    options = {name: value for name, value in vars(given).items() if name not in ("doctor", "hosts", "json")}
    new_key, no_code, allowed = options.pop("new_key"), options.pop("no_shipped_code"), options.pop("allow_code")
    announce, end_with_parent = options.pop("announce"), options.pop("end_with_parent")
    if options.pop("no_kernel_probe"):
        sys.stderr.write("--no-kernel-probe does nothing: kernels are not measured any more.\n")
    place = {name: options.pop(name) for name in ("system", "rendezvous", "advertise", "grace")}
    key_stdin, temporary = options.pop("key_stdin"), options.pop("temporary")
    held = contextlib.ExitStack()  # until the agent has ended
    if no_code or allowed:
        options["code_policy"] = NO_CODE if no_code else str(Path(allowed).absolute())
    try:
        if temporary and options["work_dir"] is not None:
            raise SettingsError(f"--temporary makes a work directory of its own, got --work-dir {options['work_dir']!r} too.")
        # at the start: else the first job would find out, hours later
        if allowed:
            _check_list(allowed)
        origin = scheduler_environment(**place, environ=os.environ, hostname=socket.gethostname())
        # a new key is made, not read: then stdin is left alone
        settings = _settings({"code_policy": ANY_CODE, **options}, origin.defaults, key_stdin and not new_key)
        if new_key:
            return _make_key(settings.key_file)
        if temporary:
            settings = replace(settings, work_dir=held.enter_context(temporary_directory()))
        _show_log(settings.level)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold the key
        agent = Agent(settings, owns_process=True)
    except (NetworkError, SettingsError) as error:
        held.close()
        return _explain(error)
    except (RuntimeError, OSError) as error:
        held.close()
        return _explain_limit(error)
    told = contextlib.ExitStack()  # until it leaves
    # the first of both ends it: leaving, or the end of the block
    agent.when_leaving(told.close)
    # before the address is told: the first that reads it may end us at once
    _obey_signals(agent, origin.grace)
    try:
        if end_with_parent:
            threading.Thread(target=_await_end_of_stdin, args=(agent.stop,), name="parent", daemon=True).start()
        with told:
            told.enter_context(announced(announce, str(agent.address), _say))
            told.enter_context(origin.registered(agent.address, settings.slots, socket.gethostname()))
            agent.serve_forever()
    except SettingsError as error:
        return _explain(error)
    except RuntimeError as error:
        return _explain_limit(error)
    finally:
        agent.close()
        held.close()
    return EXIT_OK


def _check_list(allowed: str) -> None:
    """Check that a list of hashes can be read. Raises: SettingsError."""
    if not os.path.isfile(allowed):
        raise SettingsError(f"--allow-code must name a file, got {allowed!r}.")
    try:
        read_text(Path(allowed))
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise SettingsError(f"--allow-code must name a list of hashes that can be read, got {allowed!r}: {why}.") from error


def _settings(options: dict[str, Any], defaults: Mapping[str, Any], key_stdin: bool) -> AgentSettings:
    """Gather the settings. Raises: SettingsError, KeyFileError."""
    file = default_key_path(os.environ).with_name("worker.toml")
    settings = gather(options, os.environ, file, defaults)
    return replace(settings, keyring=read_keys(sys.stdin.fileno())) if key_stdin else settings


def examine(given: argparse.Namespace) -> int:
    """Look at agents that run, see `add_doctor_options`; return 0, 1 when something is wrong, 2 for a wrong option."""
    refuse_inspection()
    options = {name: value for name, value in vars(given).items() if name in ("listen", "port", "key_file")}
    try:
        for name in ("listen", "port") if given.hosts or given.rendezvous else ():
            if options[name] is not None:
                where = "it tells where this machine's worker is; write HOST:PORT"
                raise SettingsError(f"--{name} does not go with HOST or --rendezvous: {where}.")
        settings = _settings(options, {}, given.key_stdin)
        doctor = import_module("rpc.doctor.examine")  # an agent needs none of it
        return int(doctor.run(settings, given.hosts, given.rendezvous, given.json))
    except (NetworkError, SettingsError) as error:
        return _explain(error)


def _obey_signals(agent: Agent, grace: float) -> None:
    """End the agent at once on Ctrl-C; so on SIGTERM, unless there is a time of grace, which is for the submitters of jobs
    here.
    """
    # Ctrl-C and SIGTERM alike; the loop ends the jobs, not the handler
    for number in (signal.SIGINT, signal.SIGTERM):
        catch(number, lambda *_: agent.stop())
    if grace:
        for number in (signal.SIGTERM, signal.SIGUSR1):
            catch(number, lambda got, _: agent.leave(f"told by {signal.Signals(got).name}", grace))


def _say(text: str) -> None:
    """Print where the agent listens. Raises: SettingsError."""
    if problem := show_result(text):
        raise SettingsError(f"--announce -: the address cannot be printed on standard output: {problem}.")


def _explain(error: Exception) -> int:
    sys.stderr.write(f"{_program_name()}: {by_flag(str(error))}\n")
    return EXIT_USAGE


def _explain_limit(error: RuntimeError | OSError) -> int:
    """Explain an error that comes of the limit of processes. Raises: any other one again."""
    if not (problem := limit_met(error)):
        raise error
    return _explain(RuntimeError(f"The worker cannot serve: {problem}."))


def _show_log(level: int) -> None:
    """Show lines from `level` on stderr; the log files get all lines from INFO on, at any level."""
    attach_console(min(level, logging.INFO))
    for handler in logging.getLogger().handlers:
        # the handler alone: the log files take lines from INFO on from the same loggers
        handler.setLevel(level)


def _await_end_of_stdin(then: Callable[[], None]) -> None:
    # nothing more is told there: only its end counts, which comes however the parent ends
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    then()


def _make_key(key_file: str | None) -> int:
    path = Path(key_file) if key_file else default_key_path(os.environ)
    create_key_file(path)
    sys.stdout.write(f"A new key is in {path}; copy it to every machine of the cluster and keep it secret.\n")
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(run_program(main))
