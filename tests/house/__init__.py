"""What the house of the code may measure: counts that cannot differ between two runs, and a budget for each.

`python -m tests.house` prints all of them.
"""
