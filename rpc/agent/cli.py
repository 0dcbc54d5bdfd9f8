"""`worker.py` and `psgd-worker`: start an agent, or make a key."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from network.errors import NetworkError
from network.keys import create_key_file, default_key_path
from network.version import VERSION

from ..logs import attach_console
from ..shipping import ANY_CODE, NO_CODE
from .agent import Agent
from .settings import LEVELS, SettingsError, gather

EXIT_OK, EXIT_USAGE = 0, 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="worker.py",
        description="Serve jobs of Parallel-SGD, one after another, unattended. Without arguments it listens on this machine "
        "only; the key is made on first use.",
        epilog="For several machines: --new-key once, copy the key file to each machine, then start with --listen 0.0.0.0 "
        "--key-file FILE. Also read: PSGD_LISTEN, PSGD_PORT, PSGD_KEY_FILE, and worker.toml beside the key in your "
        "configuration directory.",
    )
    parser.add_argument("--listen", metavar="HOST", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, help="TCP port (default: 15387; 0 picks a free one)")
    parser.add_argument("--key-file", metavar="FILE", help="the cluster's key (default: in your configuration directory)")
    parser.add_argument("--new-key", action="store_true", help="make a key file (at --key-file) and exit")
    parser.add_argument("--work-dir", metavar="DIR", help="for logs, jobs and cached data (default: in your state directory)")
    parser.add_argument("--slots", type=int, metavar="N", help="jobs at the same time (default: 1)")
    parser.add_argument("--log-level", choices=LEVELS, type=str.upper, help="default: INFO")
    code = parser.add_mutually_exclusive_group()
    code.add_argument("--no-shipped-code", action="store_true", help="take only jobs that bring no classes of their own")
    code.add_argument("--allow-code", metavar="FILE", help="take only code whose SHA-256 is listed in FILE")
    parser.add_argument("--announce", metavar="FILE", help="write host:port to FILE once it listens; removed at the end")
    parser.add_argument("--end-with-parent", action="store_true", help="end when stdin, a pipe from the parent, closes")
    parser.add_argument("--version", action="version", version=VERSION)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the agent until Ctrl-C or SIGTERM; returns 0, or 2 when it cannot start."""
    options = vars(_parser().parse_args(arguments))
    new_key, no_code, allowed = options.pop("new_key"), options.pop("no_shipped_code"), options.pop("allow_code")
    announce, end_with_parent = options.pop("announce"), options.pop("end_with_parent")
    if no_code or allowed:
        options["code_policy"] = NO_CODE if no_code else str(Path(allowed).absolute())
    try:
        if allowed and not Path(allowed).is_file():
            raise SettingsError(f"--allow-code must name a file, got {allowed!r}.")
        settings = gather(
            {"code_policy": ANY_CODE, **options}, os.environ, default_key_path(os.environ).with_name("worker.toml")
        )
        if new_key:
            return _make_key(settings.key_file)
        _show_log(settings.level)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold the key
        agent = Agent(settings)
    except (NetworkError, SettingsError) as error:
        return _explain(error)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: agent.stop())
    if end_with_parent:
        threading.Thread(target=_await_end_of_stdin, args=(agent.stop,), name="parent", daemon=True).start()
    try:
        with _announced(announce, str(agent.address)):
            agent.serve_forever()
    except SettingsError as error:
        return _explain(error)
    finally:
        agent.close()
    return EXIT_OK


def _explain(error: Exception) -> int:
    sys.stderr.write(f"worker.py: {error}\n")
    return EXIT_USAGE


def _show_log(level: int) -> None:
    """Show lines from `level` on stderr; the log files get everything from INFO on, whatever is shown."""
    attach_console(min(level, logging.INFO))
    for handler in logging.getLogger().handlers:
        handler.setLevel(level)


def _await_end_of_stdin(then: Callable[[], None]) -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    then()


@contextlib.contextmanager
def _announced(path: str | None, address: str) -> Iterator[None]:
    """Keep `address` in the file `path`, which appears with its whole content, while the agent listens.

    Raises: SettingsError when it cannot be written.
    """
    if path is None:
        yield
        return
    draft = f"{path}.{os.getpid()}"
    try:
        Path(draft).write_text(f"{address}\n", "utf-8")
        os.replace(draft, path)
    except OSError as error:
        raise SettingsError(f"--announce must name a file that can be written, got {path!r}: {error.strerror}.") from error
    try:
        yield
    finally:
        Path(path).unlink(missing_ok=True)


def _make_key(key_file: str | None) -> int:
    path = Path(key_file) if key_file else default_key_path(os.environ)
    create_key_file(path)
    sys.stdout.write(f"A new key is in {path}; copy it to every machine of the cluster and keep it secret.\n")
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
