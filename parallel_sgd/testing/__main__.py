"""Try the laws of codecs on a class: `python -m parallel_sgd.testing my_codec.py:MyCodec`."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import sys
from pathlib import Path

import parallel_sgd.codec
from parallel_sgd.codec import Codec

from .laws import CodecLawError, check_codec


def main(arguments: list[str] | None = None) -> int:
    """Return 0 when all laws hold, 1 when one is broken, 2 for a command that makes no sense."""
    parser = argparse.ArgumentParser(prog="python -m parallel_sgd.testing", description="Tries the laws of codecs on yours.")
    parser.add_argument("codec", help="file.py:Class, module:Class, or the name of a codec of parallel_sgd.codec")
    parser.add_argument("--server", help="the codec of the parameter server, named likewise")
    parser.add_argument("--parameters", default="{}", help="codec_extra_parameters as JSON, for example '{\"bits\": 4}'")
    parser.add_argument("--replicas-differ", action="store_true", help="workers may have different results, as in gossip")
    options = parser.parse_args(arguments)
    try:
        codec = load(options.codec)
        server = load(options.server) if options.server else None
        parameters = json.loads(options.parameters)
        if not isinstance(parameters, dict):
            raise ValueError(f"--parameters must be a JSON object, got {options.parameters}")
    except (OSError, ImportError, ValueError, TypeError) as error:
        parser.error(str(error))
    try:
        report = check_codec(codec, server=server, parameters=parameters, replicas_agree=not options.replicas_differ)
    except CodecLawError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{report.summary()}\n")
    return 0


def load(name: str) -> type[Codec]:
    """Return the codec class of a name.

    Raises: ValueError where there is none, OSError or ImportError where its module cannot be loaded.
    """
    place, _, wanted = name.rpartition(":")
    if not place:
        found = getattr(parallel_sgd.codec, wanted, None)
    elif place.endswith(".py"):
        path = Path(place)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise ValueError(f"there is no file {place!r}")
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        found = getattr(module, wanted, None)
    else:
        found = getattr(importlib.import_module(place), wanted, None)
    if not (isinstance(found, type) and issubclass(found, Codec)):
        raise ValueError(f"{name!r} must name a codec class, as in my_codec.py:MyCodec, got {found!r}")
    return found


if __name__ == "__main__":
    sys.exit(main())
