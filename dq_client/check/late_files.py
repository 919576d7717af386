"""Files that each rank opens for itself in the loop, when it first needs them: logs."""

from __future__ import annotations

import ast

from dq_client.check.hidden import name_of

# What the name of a file may be made with: nothing that counts, or is taken from an iterator.
NAMES_FILES = frozenset(
    ("open", "str", "join", "format", "getpid", "Get_rank", "gettempdir", "getenv", "Path")
)
WRITES = frozenset(("write", "writelines", "flush", "close"))


def opens_for_itself(tree: ast.Module, name: str) -> bool:
    """Whether a rank that finds None opens its own file, and only writes to it.

    All that the program does with the variable, or the attribute of that name: `x = None`,
    `if x is None: x = open(…)`, `x.write(…)` and `print(…, file=x)`, as statements.
    """
    uses = {id(node) for node in ast.walk(tree) if _is_named(node, name)}
    known: set[int] = set()
    opens = False
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[target], value=ast.Constant(value=None)):
                known.add(id(target))
            case ast.AnnAssign(target=target, value=ast.Constant(value=None)):
                known.add(id(target))
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                both = zip(targets, values, strict=False)
                known |= {id(t) for t, v in both if isinstance(v, ast.Constant) and v.value is None}
            case ast.Expr() if (written := _written(node, name)) is not None:
                known.add(id(written))
            case ast.If(body=[ast.Assign(targets=[target], value=ast.Call() as call), *rest]):
                here = _tests_none(node.test, name) and _is_named(target, name)
                if here and not node.orelse and _is_plain_open(call) and _all_write(rest, name):
                    opens = True
                    known |= {id(target), *map(id, ast.walk(node.test))}
            case ast.If(test=test, body=body, orelse=[]) if _all_write(body, name):
                kept = test.left if isinstance(test, ast.Compare) else test
                known.add(id(kept))
    return opens and uses <= known


def _is_named(node: ast.AST | None, name: str) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == name
    return isinstance(node, ast.Name) and node.id == name


def _tests_none(test: ast.expr, name: str) -> bool:
    """Whether it is `x is None` or `not x`, perhaps with other conditions that call nothing."""
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    if any(isinstance(part, ast.Call | ast.NamedExpr) for part in ast.walk(test)):
        return False
    for part in parts:
        match part:
            case ast.Compare(left=left, ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
                if _is_named(left, name):
                    return True
            case ast.UnaryOp(op=ast.Not(), operand=operand) if _is_named(operand, name):
                return True
    return False


def _is_plain_open(call: ast.Call) -> bool:
    calls = {name_of(part.func) for part in ast.walk(call) if isinstance(part, ast.Call)}
    binds = any(isinstance(part, ast.NamedExpr) for part in ast.walk(call))
    return name_of(call.func) == "open" and calls <= NAMES_FILES and not binds


def _all_write(body: list[ast.stmt], name: str) -> bool:
    return all(_written(each, name) is not None for each in body)


def _written(node: ast.stmt, name: str) -> ast.expr | None:
    """The file that a statement writes to, if it has this name."""
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return None
    call = node.value
    files = [each.value for each in call.keywords if each.arg == "file"]
    if isinstance(call.func, ast.Attribute) and call.func.attr in WRITES:
        files = [call.func.value]
    elif name_of(call.func) != "print":
        return None
    return files[0] if files and _is_named(files[0], name) else None
