"""Try the laws of codecs on a class: `python -m parallel_sgd.testing my_codec.py:MyCodec`."""

from __future__ import annotations

import json
import sys

import parallel_sgd.codec
from network.errors import NetworkError
from parallel_sgd.codec import Codec
from parallel_sgd.options.names import find_class, known_classes
from rpc import OptionParser
from rpc.job import users_traceback
from rpc.support.console import run_program
from rpc.support.files import parsed

from .laws import CodecLawError, check_codec


def main(arguments: list[str] | None = None) -> int:
    """Try the laws on the codec that the command line names, and print the report.

    Args:
        arguments: words of the command line; None for those of this process.

    Returns: 0 when all laws hold, 1 when one is broken or the codec raises. A wrong command ends the process with 2.
    """
    parser = OptionParser(prog="python -m parallel_sgd.testing", description="Tries the laws of codecs on yours.")
    parser.add_argument("codec", help="file.py:Class, module:Class, or the name of a codec of parallel_sgd.codec")
    parser.add_argument("--server", help="the codec of the parameter server, named likewise")
    parser.add_argument("--parameters", default="{}", help="codec_extra_parameters as JSON, for example '{\"bits\": 4}'")
    parser.add_argument("--replicas-differ", action="store_true", help="workers may have different results, as in gossip")
    options = parser.parse_args(arguments)
    try:
        known = known_classes(parallel_sgd.codec, Codec)
        codec = find_class(options.codec, Codec, known, "codec")
        server = find_class(options.server, Codec, known, "--server") if options.server else None
        parameters = parsed(json.loads, options.parameters)
        if not isinstance(parameters, dict):
            raise ValueError(f"--parameters must be a JSON object, got {options.parameters}")
    except ValueError as error:
        parser.error(str(error))
    try:
        report = check_codec(codec, server=server, parameters=parameters, replicas_agree=not options.replicas_differ)
    except CodecLawError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, OSError, RuntimeError, NetworkError) as error:
        notes = "".join(f"{each}\n" for each in getattr(error, "__notes__", ()))
        sys.stderr.write(users_traceback(error) or f"{type(error).__name__}: {error}\n{notes}")  # without the engine's frames
        return 1
    sys.stdout.write(f"{report.summary()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_program(main))
