"""Run every part that can be run by itself, one after the other."""

import argparse
import pkgutil
import subprocess
import sys
from pathlib import Path

import benchmarks


def main() -> int:
    folder = Path(benchmarks.__file__).parent
    parts = sorted(part.name for part in pkgutil.iter_modules([str(folder)]) if (folder / part.name / "__main__.py").is_file())
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=f"{__doc__} Some take minutes.")
    about = f"which of {', '.join(parts)} (default: all); 'python -m benchmarks.PART --help' tells the options of one"
    parser.add_argument("parts", nargs="*", metavar="PART", help=about)
    chosen = parser.parse_args().parts
    if unknown := set(chosen) - set(parts):
        parser.error(f"PART must be among {', '.join(parts)}, got {', '.join(sorted(unknown))}")
    failed = []
    for part in chosen or parts:
        print(f"== {part}", flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{part}"], cwd=folder.parent, check=False).returncode:
            failed.append(part)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
