"""The plan of columns: the kind of each column of a table, and the kinds that there are."""

from nn.dataset.plan.cells import Spelling
from nn.dataset.plan.kinds import Category, Column, Date, Label, LeftOut, Number
from nn.dataset.plan.plan import Plan
from nn.dataset.plan.text import Text

__all__ = ["Category", "Column", "Date", "Label", "LeftOut", "Number", "Plan", "Spelling", "Text"]
