"""What a log says about the linear algebra."""

import os
import re
import subprocess
import sys

import numpy as np

from nn.threads import describe_blas


def test_it_names_numpy_and_the_kernels() -> None:
    """NumPy's version always; kernels and threads where NumPy is a wheel with OpenBLAS."""
    text = describe_blas()
    assert text.startswith(f"NumPy {np.__version__}, ")
    assert re.search(r"OpenBLAS kernels \w+, \d+ thread\(s\)$|another BLAS", text)


def test_it_tells_the_number_of_threads_that_was_asked_for() -> None:
    """The variable counts for a process that starts with it."""
    text = subprocess.run(
        [sys.executable, "-c", "from nn.threads import describe_blas; print(describe_blas())"],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "1 thread(s)" in text or "another BLAS" in text
