"""Sweeps: runs over every combination of options, codecs, parameters and seeds, with their tables and page."""
