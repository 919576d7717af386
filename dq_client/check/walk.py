"""Goes through a program as it would run, and notes what will not survive a resize.

Every loop is gone through twice: what a name stands for in the second round may come from the
first, and between them lies a remap point. Each remap point begins a new *generation*; what was
taken in an older one and is used now was kept. Of two branches the worse one counts. Calls of
functions of the same file are followed, with what their arguments stand for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dq_client.check.findings import CODES, Finding
from dq_client.check.names import (
    COMMS,
    COMMUNICATES,
    DECLARES,
    DIFFER,
    JOB,
    KEPT,
    NO_PICKLE,
    OBJECT,
    RANK,
    SEEDED,
    SESSION,
    SIZE,
    Names,
    Origin,
    base_of,
    dotted,
    session_is_opened,
)
from dq_client.check.scopes import rebuilds

DEPTH_MAX = 6  # of calls that are followed
REMAPS = ("iterations", "remap", "map", "solve")
LEAVES = {"exit", "sys.exit", "quit", "os._exit"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Walk:
    """Of one file."""

    def __init__(self, file: str, tree: ast.Module) -> None:
        self.file, self.tree = file, tree
        self._found: dict[tuple[int, str], Finding] = {}
        self.names = Names()
        self.functions: dict[str, Function] = {
            n.name: n for n in ast.walk(tree) if isinstance(n, Function)
        }
        self._followed: set[str] = set()
        self._active: list[str] = []
        self._loops = 0  # over iterations, around this place
        self._plain_loops = 0  # others, inside the innermost of those
        self._by_rank = 0  # conditions around this place that depend on the rank
        self._excused = 0  # conditions that joining ranks do not meet
        self._loop_in: list[bool] = [False]  # whether this function call has such a loop around
        self._early: list[list[tuple[int, str]]] = [[]]  # communication, by level of loops
        self._sessions: list[int] = []
        self._loop_seen = self._given_away = False

    # --- the program ----------------------------------------------------------------------------

    def program(self) -> None:
        """From its start; then the functions that nothing in the file calls."""
        self.body(self.tree.body)
        sessions = {n: o for n, o in self.names.origins.items() if o.kind == SESSION}
        for function in list(self.functions.values()):
            if function.name not in self._followed and not rebuilds(function):
                self._alone(function, sessions)
        if self._sessions and not self._loop_seen and not self._given_away:
            self.find(min(self._sessions), "no-remap-point")

    def _alone(self, function: Function, sessions: dict[str, Origin]) -> None:
        """A function that somebody else calls, perhaps with a session; or a method.

        sessions: the names of the module that are some.
        """
        self.names, self._early = Names(), [[]]
        self._loops = self._plain_loops = self._by_rank = self._excused = 0
        arguments = function.args
        given = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
        shared = {n: o for n, o in sessions.items() if base_of(n) not in given}
        self.names.origins.update(shared)
        for use in ast.walk(function):  # `rs.iterations`, `self.rs.iterations`
            name = (
                dotted(use.value)
                if isinstance(use, ast.Attribute) and makes_iterations(use)
                else ""
            )
            if base_of(name) in given:
                self._bind(name, SESSION, function.lineno, name)
        self._enter(function)

    def _enter(self, function: Function) -> None:
        self._followed.add(function.name)
        self._active.append(function.name)
        self._loop_in.append(False)
        self.body(function.body)
        self._loop_in.pop()
        self._active.pop()

    def find(self, line: int, code: str, what: str = "", used: int = 0) -> None:
        """Note a finding."""
        text = CODES[code].format(what=what, used=f"{self.file}:{used}")
        self._found.setdefault((line, code), Finding(self.file, line, code, text))

    @property
    def findings(self) -> list[Finding]:
        """By line; of several uses of what is kept, the first."""
        return sorted(self._found.values())

    # --- statements -----------------------------------------------------------------------------

    def body(self, statements: Iterable[ast.stmt]) -> bool:
        """Go through them; True if the end is not reached."""
        return any(self.statement(statement) for statement in statements)

    def statement(self, node: ast.stmt) -> bool:
        """Go through one; True if what follows it is not reached."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self._defined(node)
            case ast.With() | ast.AsyncWith():
                return self._with(node)
            case ast.If():
                return self._if(node)
            case ast.For() | ast.AsyncFor() | ast.While():
                self._loop(node)
            case ast.Try():
                self._try(node)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                self._assign(node)
            case ast.Break() | ast.Continue() | ast.Return() | ast.Raise():
                return self._leaves(node)
            case _:
                for part in ast.iter_child_nodes(node):
                    if isinstance(part, ast.expr):
                        self.expression(part)
                return isinstance(node, ast.Expr) and _ends(node.value)
        return False

    def _defined(self, node: Function | ast.ClassDef) -> None:
        if isinstance(node, ast.ClassDef):
            return
        for decorator in node.decorator_list:
            self.expression(decorator)

    def _with(self, node: ast.With | ast.AsyncWith) -> bool:
        for item in node.items:
            self.expression(item.context_expr)
            if session_is_opened(item.context_expr):
                self._sessions.append(node.lineno)
                if isinstance(item.optional_vars, ast.Name):
                    self._bind(item.optional_vars.id, SESSION, node.lineno, "the session")
            elif isinstance(item.optional_vars, ast.Name):
                self.names.origins.pop(item.optional_vars.id, None)
        return self.body(node.body)

    def _if(self, node: ast.If) -> bool:
        self.expression(node.test)
        by_rank = self.names.mentions(node.test, RANK)
        excused = any(isinstance(n, ast.Attribute) and n.attr == "spawned"
                      for n in ast.walk(node.test))  # fmt: skip
        self._by_rank += by_rank
        self._excused += excused
        before = dict(self.names.origins)
        ends = self.body(node.body)
        after, self.names.origins = self.names.origins, before
        otherwise = dict(before)
        self.names.origins = otherwise
        ends_otherwise = self.body(node.orelse)
        self._by_rank -= by_rank
        self._excused -= excused
        if ends:
            return ends_otherwise
        self.names.origins = after if ends_otherwise else _worse(after, self.names.origins)
        return False

    def _try(self, node: ast.Try) -> None:
        self.body(node.body)
        for handler in node.handlers:
            self.body(handler.body)
        self.body(node.orelse)
        self.body(node.finalbody)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> None:
        over = isinstance(node, ast.For) and self._is_over_iterations(node.iter)
        self.expression(node.test if isinstance(node, ast.While) else node.iter)
        if over:
            self._enter_iterations()
        self._loops += over
        self._plain_loops, plain = (0, self._plain_loops) if over else (
            self._plain_loops + 1, self._plain_loops)  # fmt: skip
        self._loop_in[-1], around = self._loop_in[-1] or over, self._loop_in[-1]
        for again in range(2):
            if again and over:
                self.names.generation += 1
            if over:
                self._early[-1].clear()
            if isinstance(node, ast.While):
                self.expression(node.test)
            else:
                self._forget(node.target)
            self.body(node.body)
        self._loop_in[-1], self._plain_loops = around, plain
        self._loops -= over
        if over:
            self._early.pop()
        self.body(node.orelse)

    def _enter_iterations(self) -> None:
        """A loop over iterations begins: what communicated up to here, joining ranks do alone."""
        self._loop_seen = True
        for level in self._early:
            for line, what in level:
                self.find(line, "communicates-early", what)
        self._early.append([])

    def _is_over_iterations(self, node: ast.expr) -> bool:
        """Whether it is `rs.iterations(...)`, perhaps inside enumerate, tqdm or zip."""
        if not isinstance(node, ast.Call):
            return False
        called = node.func
        if isinstance(called, ast.Attribute) and self._begins_iterations(called):
            if any(self.names.mentions(a, RANK) for a in node.args):
                self.find(node.lineno, "uneven-loop", ast.unparse(node))
            return True
        return any(self._is_over_iterations(argument) for argument in node.args)

    def _begins_iterations(self, called: ast.Attribute) -> bool:
        return makes_iterations(called) and self.names.kind(called.value) == SESSION

    def _leaves(self, node: ast.stmt) -> bool:
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.expr):
                self.expression(part)
        leaves = (isinstance(node, ast.Break) and not self._plain_loops) or (
            isinstance(node, ast.Return) and self._loop_in[-1]
        )
        if leaves and self._loops and self._by_rank:
            self.find(node.lineno, "one-rank-leaves", ast.unparse(node))
        return True

    # --- assignments ------------------------------------------------------------------------------

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        if node.value is None:
            return
        self.expression(node.value)
        if isinstance(node, ast.AugAssign):
            self.expression(node.target)
            if isinstance(node.target, ast.Name | ast.Attribute):
                self._used(node.target, written=True)
            return
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            self._give(target, node.value, node.lineno)

    def _give(self, target: ast.expr, value: ast.expr, line: int) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
                for each, its in zip(target.elts, value.elts, strict=True):
                    self._give(each, its, line)
            else:
                self._forget(target)
            return
        name = dotted(target)
        if not name:
            self.expression(target)
            return
        if session_is_opened(value):
            self._sessions.append(line)
            self._bind(name, SESSION, line, name)
            return
        kind = self.names.kind(value)
        if isinstance(target, ast.Attribute) and self.names.kind(target.value) == OBJECT:
            return
        if kind:
            self._bind(name, kind, line, f"{name} = {ast.unparse(value)}")
        else:
            self.names.origins.pop(name, None)

    def _bind(self, name: str, kind: str, line: int, text: str) -> None:
        if kind in KEPT or kind in (SESSION, JOB, OBJECT, RANK, SIZE):
            self.names.origins[name] = Origin(kind, line, self.names.generation, text)

    def _forget(self, target: ast.expr) -> None:
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                self.names.origins.pop(node.id, None)

    # --- expressions ------------------------------------------------------------------------------

    def expression(self, node: ast.expr) -> None:
        """Look at an expression and all in it."""
        if isinstance(node, ast.Lambda):  # called later, perhaps as `for step in steps():`
            parts = ast.walk(node.body)
            self._loop_seen |= any(
                isinstance(part, ast.Attribute) and self._begins_iterations(part) for part in parts
            )
            return
        if isinstance(node, ast.Name | ast.Attribute):
            self._used(node)
        if isinstance(node, ast.Attribute):  # called by another name, perhaps
            self._loop_seen |= self._begins_iterations(node)
        if isinstance(node, ast.Call):
            self._called(node)
            return
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.expr):
                self.expression(part)
            elif isinstance(part, ast.comprehension):
                self.expression(part.iter)

    def _used(self, node: ast.Name | ast.Attribute, *, written: bool = False) -> None:
        origin = self.names.origins.get(dotted(node))
        if origin is None or origin.generation >= self.names.generation:
            return
        if origin.kind in KEPT and (written or isinstance(node.ctx, ast.Load)):
            self.find(origin.line, KEPT[origin.kind], origin.text, node.lineno)

    def _called(self, node: ast.Call) -> None:
        called, name = node.func, dotted(node.func)
        self.expression(called)
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            self.expression(argument)
        if name in LEAVES and self._loops and self._by_rank:
            self.find(node.lineno, "one-rank-leaves", ast.unparse(node))
        if isinstance(called, ast.Attribute):
            self._method(node, called)
        elif isinstance(called, ast.Name) and called.id in self.functions:
            self._follow(self.functions[called.id], node)
            return
        if any(self.names.kind(argument) == SESSION for argument in node.args):
            self._given_away = True

    def _method(self, node: ast.Call, called: ast.Attribute) -> None:
        kind = self.names.kind(called.value)
        if kind in COMMS and called.attr.lower() in COMMUNICATES and not self._excused:
            self._early[-1].append((node.lineno, ast.unparse(called)))
        if kind != SESSION:
            return
        if called.attr in REMAPS:
            self._loop_seen = True
            if called.attr != "iterations":
                self.names.generation += 1
        if called.attr in DECLARES:
            self._declares(node, called.attr)

    def _declares(self, node: ast.Call, what: str) -> None:
        if self._loops:
            self.find(node.lineno, "declared-late", f"rs.{what}")
        if self._by_rank:
            self.find(node.lineno, "declared-by-some", f"rs.{what}")
        if what != "value" or len(node.args) < 2:
            return
        value = node.args[1]
        if self.names.mentions(value, RANK):
            self.find(node.lineno, "value-differs", "this process's rank")
        for part in ast.walk(value):
            if isinstance(part, ast.Lambda | ast.GeneratorExp):
                self.find(node.lineno, "value-not-picklable", "a lambda or a generator")
            if not isinstance(part, ast.Call):
                continue
            name = dotted(part.func)
            last = name.rpartition(".")[2]
            seeded = last in SEEDED and (part.args or part.keywords)
            draws = any(word in name for word in DIFFER) or last == "default_rng"
            if draws and not seeded:
                self.find(node.lineno, "value-differs", ast.unparse(part))
            if last in NO_PICKLE:
                self.find(node.lineno, "value-not-picklable", ast.unparse(part))

    def _follow(self, function: Function, call: ast.Call) -> None:
        """Into a function of this file."""
        if function.name in self._active or len(self._active) >= DEPTH_MAX:
            return
        outside = self.names.origins
        inside = dict(outside)
        names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        given = dict(zip(names, call.args, strict=False))
        given.update({k.arg: k.value for k in call.keywords if k.arg is not None})
        for name in [*names, *(a.arg for a in function.args.kwonlyargs)]:
            inside.pop(name, None)
            argument = given.get(name)
            known = self.names.origins.get(dotted(argument)) if argument is not None else None
            kind = self.names.kind(argument) if argument is not None else ""
            if known is not None:
                inside[name] = known
            elif kind:
                assert argument is not None
                text = f"{name} = {ast.unparse(argument)}"
                inside[name] = Origin(kind, call.lineno, self.names.generation, text)
        self.names.origins = inside
        plain, self._plain_loops = self._plain_loops, self._plain_loops + 1
        self._enter(function)
        self._plain_loops, self.names.origins = plain, outside


def makes_iterations(node: ast.AST) -> bool:
    """Whether it is the `x.iterations` of some x."""
    return isinstance(node, ast.Attribute) and node.attr == "iterations"


def _worse(one: dict[str, Origin], other: dict[str, Origin]) -> dict[str, Origin]:
    """What names may stand for after either of two ways: the older one of what a resize changes."""
    merged = dict(one)
    for name, origin in other.items():
        mine = merged.get(name)
        if mine is None or (origin.kind in KEPT and origin.generation < mine.generation):
            merged[name] = origin
    return merged


def _ends(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and dotted(node.func) in LEAVES
