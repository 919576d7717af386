"""Rewrites names and attributes that a program reaches by their texts as names and attributes.

`setattr(Config, "chunk", n)` binds `Config.chunk` as an assignment does, `exec("chunk = n")` the
variable, and `attrgetter("size")(comm)` reads `comm.size`. The analysis knows the plain forms only,
so the tree of a file gets these first. A text that is not a constant stays as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from typing import TypeVar

from dq_client.check.scopes import Function

NAMESPACES = {"globals", "locals", "vars"}  # called without an argument
THIS_MODULE = "sys.modules[__name__]"
GETTERS = {"attrgetter", "itemgetter", "methodcaller"}
T = TypeVar("T", bound=ast.AST)


def in_plain_forms(tree: ast.Module) -> ast.Module:
    """Rewrite a file's tree in place, and return it; nodes keep their lines."""
    rewritten: ast.Module = _PlainForms().visit(tree)
    return rewritten


@dataclass
class _PlainForms(ast.NodeTransformer):
    """Rewrites a tree.

    bound  names of the module that the current function binds by their texts
    """

    bound: set[str] = field(default_factory=set)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Declare the names of the module that the function binds."""
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """Do the same for a coroutine."""
        return self._function(node)

    def _function(self, node: Function) -> ast.AST:
        outside, self.bound = self.bound, set()
        self.generic_visit(node)
        if self.bound:
            declared = ast.Global(sorted(self.bound))
            node.body.insert(0, ast.copy_location(declared, node.body[0]))
        self.bound = outside
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | list[ast.stmt]:
        """`exec("a = 1")`, `setattr(x, "a", 1)`, `vars(x).update(a=1)`."""
        self.generic_visit(node)
        call = node.value
        if not isinstance(call, ast.Call):
            return node
        text = _text(call.args, 0)
        if _is_name(call.func, "exec") and text is not None:
            body = _parsed(text, node)
            if call.args[1:] and _is_namespace(call.args[1]):
                self.bound |= {each.id for part in body for each in _bound_names(part)}
            return body or node
        if _is_name(call.func, "setattr") and len(call.args) == 3:
            target = self._part(call.args[0], _text(call.args, 1), ast.Store())
            return _assigned([(target, call.args[2])], node)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "update":
            return self._updated(call, node)
        return node

    def _updated(self, call: ast.Call, node: ast.Expr) -> ast.AST | list[ast.stmt]:
        """`vars(x).update(a=1)`, or of `x.__dict__`."""
        assert isinstance(call.func, ast.Attribute)
        owner = _namespace(call.func.value)
        if owner is None or any(keyword.arg is None for keyword in call.keywords):
            return node
        pairs = [(keyword.arg, keyword.value) for keyword in call.keywords]
        for given in call.args:
            if not isinstance(given, ast.Dict):
                return node
            texts = [_text([key] if key else [], 0) for key in given.keys]
            pairs += zip(texts, given.values, strict=True)
        bound = [(self._part(owner, name, ast.Store()), value) for name, value in pairs]
        return _assigned(bound, node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """`globals()["a"]`, `vars(x)["a"]`, `x.__dict__["a"]`."""
        self.generic_visit(node)
        owner = _namespace(node.value)
        name = _text([node.slice], 0)
        found = None if owner is None else self._part(owner, name, node.ctx)
        return node if found is None else _copied(found, node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """`getattr(x, "a", 0)`, `eval("a + 1")`, `attrgetter("a")`."""
        self.generic_visit(node)
        text = _text(node.args, 0)
        if _is_name(node.func, "getattr") and len(node.args) > 1 and not node.keywords:
            found = self._part(node.args[0], _text(node.args, 1), ast.Load())
            if found is None:
                return node
            has = ast.Call(ast.Name("hasattr", ast.Load()), node.args[:2], [])
            either = ast.IfExp(has, found, node.args[2]) if len(node.args) == 3 else found
            return _copied(either, node)
        if _is_name(node.func, "eval") and text is not None:
            body = _parsed(text, node)
            only = body[0] if len(body) == 1 else None
            return only.value if isinstance(only, ast.Expr) else node
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if (name or getattr(node.func, "id", "")) in GETTERS and node.args:
            return _copied(_getter(node, name or getattr(node.func, "id", "")), node)
        return node

    def _part(
        self, owner: ast.expr, name: str | None, context: ast.expr_context
    ) -> ast.Name | ast.Attribute | None:
        """What the text `name` stands for in a namespace; None: it is not known."""
        if name is None or not name.isidentifier():
            return None
        if _is_namespace(owner) or ast.unparse(owner) == THIS_MODULE:
            if isinstance(context, ast.Store):
                self.bound.add(name)
            return ast.Name(name, context)
        return ast.Attribute(owner, name, context)


def _getter(node: ast.Call, name: str) -> ast.expr:
    """Return a function of one argument, as `operator` makes it, or the call itself.

    A getter keeps its arguments from where it is made, and a function would compute them in each
    call. So only constants are rewritten: `itemgetter(slice(rank, None, size))` stays.
    """
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    if not all(isinstance(each, ast.Constant) for each in given):
        return node
    argument: ast.expr = ast.Name("object", ast.Load())
    parts: list[ast.expr] = []
    for key in node.args if name != "methodcaller" else node.args[:1]:
        text = _text([key], 0)
        if name == "itemgetter":
            parts.append(ast.Subscript(argument, key, ast.Load()))
        elif text is None or not all(part.isidentifier() for part in text.split(".")):
            return node
        else:
            parts.append(reduce(_attribute, text.split("."), argument))
    body = parts[0] if len(parts) == 1 else ast.Tuple(parts, ast.Load())
    if name == "methodcaller":
        body = ast.Call(body, node.args[1:], node.keywords)
    arguments = ast.arguments([], [ast.arg("object")], None, [], [], None, [])
    return ast.Lambda(arguments, body)


def _namespace(node: ast.expr) -> ast.expr | None:
    """Whose names a dictionary holds: `x` of `vars(x)` and `x.__dict__`; None: not known."""
    if _is_namespace(node):
        return node
    if isinstance(node, ast.Attribute) and node.attr == "__dict__":
        return node.value
    if isinstance(node, ast.Call) and _is_name(node.func, "vars") and len(node.args) == 1:
        return node.args[0]
    return None


def _is_namespace(node: ast.expr) -> bool:
    """Whether it is `globals()`, or another dictionary of the names that are seen here."""
    if not isinstance(node, ast.Call) or node.args or node.keywords:
        return False
    return any(_is_name(node.func, name) for name in NAMESPACES)


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _text(nodes: list[ast.expr], at: int) -> str | None:
    """The text that one of these is, if it is a constant."""
    node = nodes[at] if at < len(nodes) else None
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _assigned(
    pairs: Iterable[tuple[ast.expr | None, ast.expr]], node: ast.Expr
) -> ast.AST | list[ast.stmt]:
    """Assignments in place of a statement; the statement if a target is not known."""
    found: list[ast.stmt] = []
    for target, value in pairs:
        if target is None:
            return node
        found.append(ast.Assign([target], value))
    return [_copied(statement, node) for statement in found] or node


def _attribute(owner: ast.expr, name: str) -> ast.expr:
    return ast.Attribute(owner, name, ast.Load())


def _parsed(text: str, where: ast.AST) -> list[ast.stmt]:
    """The statements of a text, at the line of the node that runs it; none if it is no Python."""
    try:
        found = ast.parse(text.strip()).body
    except SyntaxError:
        return []
    for statement in found:
        for part in ast.walk(statement):
            ast.copy_location(part, where)
    return found


def _bound_names(node: ast.AST) -> list[ast.Name]:
    parts = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
    return [part for part in parts if isinstance(part.ctx, ast.Store)]


def _copied(node: T, where: ast.AST) -> T:
    """The node; what is new in it stands at the lines of another one."""
    for part in ast.walk(node):
        if "lineno" in part._attributes and not hasattr(part, "lineno"):
            ast.copy_location(part, where)
    return node
