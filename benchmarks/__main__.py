"""Run every part that can be run by itself, one after the other."""

import pkgutil
import subprocess
import sys
from pathlib import Path

import benchmarks


def main() -> int:
    folder = Path(benchmarks.__file__).parent
    parts = [part.name for part in pkgutil.iter_modules([str(folder)]) if (folder / part.name / "__main__.py").is_file()]
    failed = []
    for part in sorted(parts):
        print(f"== {part}", flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{part}"], cwd=folder.parent, check=False).returncode:
            failed.append(part)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
