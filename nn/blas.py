"""Which linear algebra NumPy computes with here: what has to be equal for results to be equal to the last bit."""

import ctypes
from pathlib import Path

import numpy as np

__all__ = ["describe_blas"]


def describe_blas() -> str:
    """Return NumPy's version, the kernels that OpenBLAS picked for this CPU, and its number of threads.

    >>> describe_blas()     # doctest: +SKIP
    'NumPy 2.4.6, OpenBLAS kernels SkylakeX, 1 thread(s)'
    """
    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".dylibs"):  # where wheels keep it, on Linux and on macOS
        for library in sorted(folder.glob("*openblas*")):
            functions = ctypes.CDLL(str(library))
            for prefix, suffix in (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", "")):
                name = getattr(functions, f"{prefix}openblas_get_corename{suffix}", None)
                count = getattr(functions, f"{prefix}openblas_get_num_threads{suffix}", None)
                if name is not None and count is not None:
                    name.restype = ctypes.c_char_p
                    return f"NumPy {np.__version__}, OpenBLAS kernels {name().decode()}, {count()} thread(s)"
    return f"NumPy {np.__version__}, another BLAS than that of its wheel"
