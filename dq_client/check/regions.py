"""Which lines and functions of a program a loop of it runs, and what runs before it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from dq_client.check.graph import DEPTH_MAX, Call, Node
from dq_client.check.liveness import header_end
from dq_client.check.program import Loop, Program
from dq_client.check.scopes import statements_of

SET_UP_METHODS = {"__init__", "__new__", "__post_init__", "__set_name__", "__init_subclass__"}


@dataclass(frozen=True, slots=True)
class Region:
    """Lines of one scope, with the functions that they call, and these call."""

    scope: int
    first: int
    last: int
    functions: frozenset[int]

    def has(self, scope: int, line: int) -> bool:
        """Whether a place is in it."""
        inside = scope == self.scope and self.first <= line <= self.last
        return inside or scope in self.functions


class Regions:
    """A program from the loop, or the call, in `line` of a scope; line 0: from all its loops.

    running: scopes and lines that run now; of a function that one of them calls, other calls do not
    count
    """

    def __init__(
        self, program: Program, scope: int, line: int, running: Iterable[tuple[int, int]] = ()
    ) -> None:
        self._program, self._scope, self._line = program, scope, line
        places = set(running)
        self._entered: defaultdict[int, set[Call]] = defaultdict(set)  # what runs, by which calls
        for call in program.calls:
            if (call.scope, call.line) in places:
                self._entered[call.body.scope].add(call)
        self._calls_of: defaultdict[int, list[Call]] = defaultdict(list)
        for call in program.calls:
            self._calls_of[call.scope].append(call)
        self._loop = self._loop_at(line)
        self._regions = list(self._inner_regions())
        every = {scope.number for scope in program.scopes[1:]}
        self._uncalled = every - {call.body.scope for call in program.calls}
        around = [loop for loop in program.loops if self._is_around(loop)]
        self._last_line = {scope: line for scope, line in places if self._runs_once(scope)}
        self._last_line |= {r.scope: r.last for r in self._regions if self._runs_once(r.scope)}
        for loop in program.loops:
            if loop.scope in self._last_line and loop.line <= self._last_line[loop.scope]:
                self._last_line[loop.scope] = max(self._last_line[loop.scope], loop.end)
        self._before = self._functions_before()
        others = [loop for loop in program.loops if loop not in around]
        self._loops = around + [loop for loop in others if loop.over_iterations]

    def _loop_at(self, line: int) -> Loop | None:
        fitting = [o for o in self._program.loops if o.scope == self._scope and o.line == line]
        return fitting[0] if fitting and line else None

    def _inner_regions(self) -> Iterator[Region]:
        """The loop at the line, or the statement with the call; without a line, all loops."""
        program = self._program
        if self._line:
            first, last = self._lines()
            yield self._region(self._scope, first, last)
            return
        loops = [loop for loop in program.loops if loop.over_iterations]
        for loop in loops:
            yield self._region(loop.scope, loop.line, loop.end)
        if not loops:  # they are in other files: any function may be called there
            all_ = {s.number for s in program.scopes[1:] if s.name not in SET_UP_METHODS}
            yield Region(-1, 0, 0, frozenset(all_))

    def _lines(self) -> tuple[int, int]:
        if self._loop is not None:
            return self._loop.line, self._loop.end
        body = self._program.scopes[self._scope].node.body
        found = None
        for statement in statements_of(body) if isinstance(body, list) else ():
            if statement.lineno <= self._line <= (statement.end_lineno or 0):
                found = statement
        if found is None:
            return self._line, self._line
        if hasattr(found, "body"):
            return found.lineno, max(header_end(found), self._line)
        return found.lineno, found.end_lineno or found.lineno

    def _region(self, scope: int, first: int, last: int) -> Region:
        functions = self._functions_of(lambda s, line: s == scope and first <= line <= last)
        return Region(scope, first, last, frozenset(functions))

    def _functions_of(self, is_there: Callable[[int, int], bool]) -> set[int]:
        """The functions that are called from places, and those that these call."""
        calls = self._program.calls
        todo = {c.body.scope for c in calls if is_there(c.scope, c.line)}
        found: set[int] = set()
        while todo:
            scope = todo.pop()
            found.add(scope)
            todo |= {call.body.scope for call in self._calls_of[scope]} - found
        return found

    def _functions_before(self) -> set[int]:
        """The scopes that run before the loop, or may, since nothing in the file calls them."""
        found = {0} | self._uncalled
        todo = set(found)
        while todo:
            scope = todo.pop()
            for call in self._calls_of[scope]:
                if self._stands_before(call) and call.body.scope not in found:
                    found.add(call.body.scope)
                    todo.add(call.body.scope)
        return found

    def _is_in_lines(self, scope: int, line: int) -> bool:
        return any(r.scope == scope and r.first <= line <= r.last for r in self._regions)

    def calls(self, scope: int) -> bool:
        """Whether the loop calls a function, itself or by others."""
        return any(scope in region.functions for region in self._regions)

    def has(self, scope: int, line: int) -> bool:
        """Whether the loop runs a line of a scope."""
        return any(region.has(scope, line) for region in self._regions)

    def _inside_only(self, node: Node) -> bool:
        """Whether a version comes about in the loop, and not before it as well."""
        return self.has(node.scope, node.file_line) and not self._is_earlier(node)

    def _is_later(self, node: Node) -> bool:
        """Whether a version comes about in the loop or after it, and not before it as well."""
        return node.scope >= 0 and (self._is_after(node) or not self._is_earlier(node))

    def _is_earlier(self, node: Node) -> bool:
        """Whether a version may come about before the loop."""
        in_lines = self._is_in_lines(node.scope, node.file_line)
        return not in_lines and node.scope in self._before

    def _runs_once(self, scope: int) -> bool:
        """Whether a function is called once, so that what follows the loop never leads back."""
        for _ in range(DEPTH_MAX):
            calls = [call for call in self._program.calls if call.body.scope == scope]
            if not calls:
                return True
            line = calls[0].line
            loops = [o for o in self._program.loops if o.scope == calls[0].scope]
            if len(calls) > 1 or any(o.line <= line <= o.end for o in loops):
                return False
            scope = calls[0].scope
        return False

    def _is_after(self, node: Node) -> bool:
        """Whether a version comes about after the loop, and never leads back to it."""
        last = self._last_line.get(node.scope)
        return last is not None and node.file_line > last

    def _is_around(self, loop: Loop) -> bool:
        return loop.scope == self._scope and loop.line <= self._line <= loop.end

    def _is_entry(self, call: Call) -> bool:
        """Whether a function is entered by this call in the loop; of others, before it."""
        inside = self.calls(call.body.scope) and self.has(call.scope, call.line)
        if call.body.scope in self._entered:
            return inside or not self._is_other(call)
        return inside or (not self.calls(call.body.scope) and self._is_before(call))

    def _is_other(self, call: Call) -> bool:
        """Whether a function that runs was entered by another call."""
        return call.body.scope in self._entered and call not in self._entered[call.body.scope]

    def _is_before(self, call: Call) -> bool:
        """Whether a call may run before the loop."""
        before = call.scope in self._before and self._stands_before(call)
        return before and not self._is_other(call)

    def _stands_before(self, call: Call) -> bool:
        last = self._last_line.get(call.scope)
        is_after = last is not None and call.line > last
        return not is_after and not self._is_in_lines(call.scope, call.line)
