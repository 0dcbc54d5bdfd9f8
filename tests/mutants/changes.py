"""The wrong changes that can be made to one statement: the wrong operator, constant, branch or call."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, NamedTuple

KINDS = ("operator", "constant", "branch", "call")
WRONG_TEXT = "mutant"
_OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
_LOGGERS = {"log", "_log", "logger", "logging"}
_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr, ast.Raise, ast.Delete)


class Change(NamedTuple):
    """What a statement becomes. Of a compound statement it is the head, such as `if ready:`."""

    kind: str
    becomes: str


class _Slot(NamedTuple):
    """Where a node hangs: an attribute of its parent, or an element of a list there."""

    parent: ast.AST
    field: str
    index: int | None

    def put(self, value: Any) -> None:
        if self.index is None:
            setattr(self.parent, self.field, value)
        else:
            getattr(self.parent, self.field)[self.index] = value


def changeable(statement: ast.stmt) -> str | None:
    """The attribute of a statement in which changes are made; empty for the whole statement, None for no change at all."""
    if isinstance(statement, (ast.If, ast.While)):
        return "test"
    if isinstance(statement, ast.For):
        return "iter"
    if isinstance(statement, ast.Expr) and (isinstance(statement.value, ast.Constant) or _is_logging(statement.value)):
        return None  # a docstring, or words in a log
    return "" if isinstance(statement, _SIMPLE) else None


def head(statement: ast.stmt) -> str:
    """A statement as text in one spelling; of a compound one the first line."""
    if isinstance(statement, (ast.If, ast.While)):
        return ast.unparse(type(statement)(statement.test, [ast.Pass()], [])).partition("\n")[0]
    if isinstance(statement, ast.For):
        return f"for {ast.unparse(statement.target)} in {ast.unparse(statement.iter)}:"
    return ast.unparse(statement)


def changes(statement: ast.stmt) -> Iterator[Change]:
    """All changes of a statement, in a fixed order."""
    where = changeable(statement)
    if where is None:
        return
    seen = {head(statement)}
    for kind, slot, value, wrong in _wrong_nodes(statement, where):
        slot.put(wrong)
        becomes = head(statement)
        slot.put(value)
        if becomes not in seen:
            seen.add(becomes)
            yield Change(kind, becomes)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        yield Change("call", "pass")


def _wrong_nodes(statement: ast.stmt, where: str) -> Iterator[tuple[str, _Slot, ast.AST, ast.AST]]:
    """Kind, place, right and wrong node of every change but a dropped statement."""
    if isinstance(statement, (ast.If, ast.While)):
        whole = _Slot(statement, "test", None)
        if not isinstance(statement.test, ast.Constant):
            yield "branch", whole, statement.test, _negated(statement.test)
            yield "branch", whole, statement.test, ast.Constant(False)
    for slot, node in list(_slots(statement, {where} if where else set(statement._fields))):
        for kind, wrong in _wrong(node, slot.parent):
            yield kind, slot, node, wrong


def _slots(node: ast.AST, fields: set[str]) -> Iterator[tuple[_Slot, ast.AST]]:
    """Every node below `node`, outside of annotations, words of a log and the fixed parts of f-strings."""
    for field in node._fields:
        if field not in fields or field in ("annotation", "ctx"):
            continue
        value = getattr(node, field)
        listed = value if isinstance(value, list) else [value]
        for index, child in enumerate(listed):
            if not isinstance(child, ast.AST) or _is_logging(child):
                continue
            if isinstance(node, ast.JoinedStr) and isinstance(child, ast.Constant):
                continue
            if isinstance(node, ast.FormattedValue) and field == "format_spec":
                continue
            yield _Slot(node, field, index if isinstance(value, list) else None), child
            yield from _slots(child, set(child._fields))


def _wrong(node: ast.AST, parent: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    if type(node) in _OPERATORS:
        if isinstance(node, ast.Div) and isinstance(parent, ast.BinOp) and _is_path(parent):
            return  # a path times a text raises at once
        yield "operator", _OPERATORS[type(node)]()
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield "operator", node.operand
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield "constant", ast.Constant(not node.value)
        elif isinstance(node.value, (int, float)):
            yield "constant", ast.Constant(node.value + 1)
        elif isinstance(node.value, str):
            yield "constant", ast.Constant(WRONG_TEXT)
        elif isinstance(node.value, bytes):
            yield "constant", ast.Constant(WRONG_TEXT.encode())
    elif isinstance(node, ast.IfExp):
        yield "branch", ast.IfExp(_negated(node.test), node.body, node.orelse)
    elif isinstance(node, ast.Call) and len(node.args) > 1:
        first, second, *others = node.args
        if not isinstance(first, ast.Starred) and not isinstance(second, ast.Starred):
            yield "call", ast.Call(node.func, [second, first, *others], node.keywords)


def _negated(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _is_path(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return _is_path(node.left) or _is_path(node.right)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_logging(node: ast.AST) -> bool:
    """Whether a call only writes to a log, such as `self._log.info(...)`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    owner = node.func.value
    return (owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")) in _LOGGERS
