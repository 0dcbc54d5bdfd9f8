"""Support of processes: files, logs, identities, consoles, options, forks and cores."""
