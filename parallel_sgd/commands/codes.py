"""What the exit code of `job_submit.py` says."""

from __future__ import annotations

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_NOT_STARTED, EXIT_NETWORK, EXIT_NODE_LOST = range(6)
EXIT_INTERRUPTED = 130
