"""Driver of a job: the process that starts its nodes, restarts them, and collects their files."""
