"""What `import nn` costs and brings along."""

import json
import subprocess
import sys

import pytest

from tests.sources import ROOT
from tests.stated_time import in_time

pytestmark = pytest.mark.alone  # of its own, with the machine to itself
CODE = """
import json, sys, time
import numpy
start = time.process_time()
import nn
print(json.dumps([time.process_time() - start, sorted(sys.modules)]))
"""
LIMIT = 0.25


def imported() -> tuple[float, set[str]]:
    result = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    seconds, modules = json.loads(result.stdout)
    return seconds, {name.partition(".")[0] for name in modules}


def test_it_is_quick() -> None:
    """Time of the processor, and the best of three: other processes may be busy."""
    in_time(min(imported()[0] for _ in range(3)), LIMIT)


def test_it_brings_numpy_and_tqdm_only() -> None:
    """Model: pandas and other extras only inside the function that needs them."""
    code = "import sys, numpy.random, tqdm; print(*sys.modules)"
    bare = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    allowed = {name.partition(".")[0] for name in bare.stdout.split()} | {"nn"}
    others = {name for name in imported()[1] - allowed if name not in sys.stdlib_module_names}
    assert not others, f"import nn imports {sorted(others)}"


def test_by_itself_it_loads_next_to_nothing() -> None:
    """Modules of its own come when they are used, and so does what they need."""
    code = "import sys; before = {*sys.modules}; import nn; print(*{*sys.modules} - before)"
    found = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    others = {name for name in found.stdout.split() if name.partition(".")[0] not in sys.stdlib_module_names}
    assert others == {"nn", "nn.lazy"}
