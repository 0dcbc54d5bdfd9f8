"""Rounds of clients beside a NumPy loop that does the same steps on the same draws."""
