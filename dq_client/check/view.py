"""The variables of a program as they are seen from one loop of it."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from dq_client.check import words as w
from dq_client.check.answer import Variable
from dq_client.check.curves import is_curve
from dq_client.check.graph import (
    DEPTH_MAX,
    STATES_MAX,
    Call,
    Node,
    is_made_of,
    lead_back,
    made_of,
    reached,
    sources,
)
from dq_client.check.late_reads import is_read_late
from dq_client.check.liveness import header_end
from dq_client.check.near import is_on_root, is_reset
from dq_client.check.owned import is_continued
from dq_client.check.past import of_last_part
from dq_client.check.program import Loop, Program, attributes_at_heads, heads_in_calls
from dq_client.check.roles import OWN, Role, is_kept_with_best, is_number, own_items, role_of
from dq_client.check.scopes import rebuilds, statements_of

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


class View:
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
        around = list(filter(self._is_around, program.loops))
        self._last_line = {scope: line for scope, line in places if self._runs_once(scope)}
        self._last_line |= {r.scope: r.last for r in self._regions if self._runs_once(r.scope)}
        for loop in program.loops:
            if loop.scope in self._last_line and loop.line <= self._last_line[loop.scope]:
                self._last_line[loop.scope] = max(self._last_line[loop.scope], loop.end)
        self._before = self._functions_before()
        self._totals: set[Node] | None = None  # what the loop's totals are made of
        others = [loop for loop in program.loops if loop not in around]
        self._loops = around + [loop for loop in others if loop.over_iterations]

    def variable(self, name: str) -> Variable:
        """Facts about a name of the scope."""
        program, number = self._program, self._scope
        nodes = program.names.get((number, name), [])
        inside = [n for n in nodes if self.has(n.scope, n.file_line)]
        earlier = [n for n in nodes if not self._inside_only(n) and not self._is_after(n)]
        begun = self._before_loop(name, earlier)
        heads = [h for loop in self._loops for h in self._heads(loop, name)]
        kept = (number, name) in program.kept
        stays = not is_reset(heads)  # what one iteration makes of it is there in the next
        accumulates = stays and self._accumulates(heads, inside, name)
        of_calls = heads or heads_in_calls(self._calls_of, self._loops, number, name)
        role = self._role(inside, of_calls, name, accumulates) if stays else Role.NONE
        parts = attributes_at_heads(program, self._loops, number, f"{name}.") if inside else []
        role = self._of_object(role, inside, parts, accumulates)
        used = self._is_used([*heads, *parts, *inside] or begun)
        loop = w.named(self.sources_inside(inside)) if stays and not kept else frozenset[str]()
        set_up = frozenset() if kept else w.set_up(self._sources_before(begun))
        return Variable(
            line=self._line_of(nodes),
            accumulates=accumulates or role in OWN,
            role=role,
            used=used,
            summed=not used and "size" in set_up and self._is_summed([*heads, *inside] or begun),
            read=not (used or inside) and self._is_used(begun),
            set_up=set_up,
            loop=loop,
            curve=(accumulates or role in OWN) and self._is_curve(loop, name),
            changed_line=min((n.file_line for n in inside), default=0),
            rebuilt=self._is_rebuilt(nodes, name),
        )

    def attribute(self, name: str) -> Variable:
        """Facts about all attributes of one name."""
        program = self._program
        nodes = program.attributes.get(name, [])
        inside = [n for n in nodes if self.has(n.scope, n.file_line)]
        outside = [n for n in nodes if not self._is_later(n)]
        ending = f".{name}"
        heads = [h for loop in self._loops for s, h in loop.heads.items() if s.endswith(ending)]
        accumulates = self._accumulates(heads, inside, ending)
        role = self._role(inside, heads, ending, accumulates)
        parts = attributes_at_heads(program, self._loops, 0, f"{ending}.") if inside else []
        role = self._of_object(role, inside, parts, accumulates)
        read = [*heads, *parts, *(inside or nodes), program.attribute(name)]
        used, set_up = self._is_used(read), w.set_up(self._sources_before(outside))
        return Variable(
            line=self._line_of(nodes),
            accumulates=accumulates or role in OWN,
            role=role,
            used=used,
            summed=not used and "size" in set_up and self._is_summed(read),
            set_up=set_up,
            loop=(loop := w.named(self.sources_inside(inside))),
            curve=(accumulates or role in OWN) and self._is_curve(loop, ending),
            changed_line=min((n.file_line for n in inside), default=0),
            rebuilt=self._is_rebuilt(nodes, ""),
        )

    def _is_curve(self, loop: frozenset[str], name: str) -> bool:
        if not loop & {"rank", "part"} or "clock" in loop:
            return False
        return is_curve([self._program.scopes[0 if name[0] == "." else self._scope].node], name)

    def default(self, name: str) -> Variable:
        """Facts about a parameter of the scope, whose default value stays from call to call."""
        found, body = self.variable(name), self._program.bodies[self._scope]
        given = self._program.defaults.get((self._scope, name))
        taken = not body.calls or any(call.entry.get(name) is given for call in body.calls)
        is_used = found.used or self._is_used(self._parameter(name))
        sources = self._sources_before([given] if given is not None else [])
        used = bool(found.changed_line) or (taken and is_used)
        return replace(found, set_up=found.set_up | w.set_up(sources), used=used)

    def cell(self, name: str) -> Variable:
        """Facts about a variable of the scope that a function inside of it keeps."""
        found, begun = self.variable(name), self._parameter(name)
        used = found.used or self._is_used([*begun, *self._at_begins(name)])
        set_up = found.set_up | w.set_up(self._sources_before(begun))
        return replace(found, set_up=set_up, used=used)

    def _parameter(self, name: str) -> list[Node]:
        root = self._program.bodies[self._scope].roots.get(name)
        return [root] if root is not None else []

    def sources_inside(self, nodes: Iterable[Node]) -> int:
        """What versions that come about in the loop come from."""
        whole = self._program.whole()
        return sources(nodes, whole, self._is_after, self._is_entry)

    def _is_entry(self, call: Call) -> bool:
        """Whether a function is entered by this call in the loop; of others, before it."""
        inside = self.calls(call.body.scope) and self.has(call.scope, call.line)
        if call.body.scope in self._entered:
            return inside or not self._is_other(call)
        return inside or (not self.calls(call.body.scope) and self._is_before(call))

    def _is_other(self, call: Call) -> bool:
        """Whether a function that runs was entered by another call."""
        return call.body.scope in self._entered and call not in self._entered[call.body.scope]

    def _sources_before(self, nodes: Iterable[Node]) -> int:
        whole = self._program.whole()
        return sources(nodes, whole, self._is_later, self._is_before)

    def _is_before(self, call: Call) -> bool:
        """Whether a call may run before the loop."""
        before = call.scope in self._before and self._stands_before(call)
        return before and not self._is_other(call)

    def _stands_before(self, call: Call) -> bool:
        last = self._last_line.get(call.scope)
        is_after = last is not None and call.line > last
        return not is_after and not self._is_in_lines(call.scope, call.line)

    def kinds(self, name: str) -> set[str]:
        """The kinds of values that a name of the scope may have when the loop is entered."""
        nodes = self._program.names.get((self._scope, name), [])
        return {
            n.kind for n in self._before_loop(name, [n for n in nodes if not self._inside_only(n)])
        }

    def reads(self, slot: str) -> bool:
        """Whether the loop reads or changes a variable; `.name`: an attribute of some object."""
        program = self._program
        slots = {s for loop in self._loops for s in loop.heads}
        functions = {number for region in self._regions for number in region.functions}
        slots |= {s for number in functions for s in program.bodies[number].roots}
        return any(s.endswith(slot) for s in slots) if slot[0] == "." else slot in slots

    # --- regions ----------------------------------------------------------------------------------

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

    # --- answers ----------------------------------------------------------------------------------

    def _heads(self, loop: Loop, name: str) -> list[Node]:
        slot = name if loop.scope == self._scope else f"^{self._scope}:{name}"
        return [loop.heads[slot]] if slot in loop.heads else []

    def _of_object(self, role: Role, inside: list[Node], parts: list[Node], added: bool) -> Role:
        """The role of what holds another object in each iteration, by what its attributes are."""
        if role is not Role.NONE or not (inside and parts):
            return role
        last = inside, parts, self._program, matters(self._program), self._is_entry
        is_past = of_last_part(*last, self.sources_inside, accumulates=added)
        return Role.PAST if is_past else role

    def _role(self, inside: list[Node], heads: list[Node], name: str, accumulates: bool) -> Role:
        program, whole, counts = self._program, self._program.whole(), self._is_entry
        begun = heads or self._at_begins(name)  # another file may have the loop
        role = role_of(inside, begun, whole, matters(program), counts, accumulates=accumulates)
        if role is Role.NONE and inside and all(map(is_on_root, inside)):
            return Role.ROOT
        if role is not Role.NONE:
            return role
        if not heads and (self._scope, name) in program.defaults:
            heads = self._parameter(name)  # a function keeps it from call to call
        if name[0] == ".":  # of some object, which may stand in no variable
            where = inside, self._attribute(name), program, counts
            if is_continued(*where, accumulates=accumulates):
                return Role.PAST
        if name[0] == "." or not (self._loops or self._line):
            heads = heads or begun
        if not heads:
            return role
        last = inside, heads, program, matters(program), counts
        is_past = of_last_part(*last, self.sources_inside, accumulates=accumulates)
        if is_past or is_read_late(inside, heads, program):
            return Role.PAST
        if not accumulates and (role := own_items(inside, heads, program, counts)) is not Role.NONE:
            return role
        return Role.NUMBER if is_number(inside, whole) else Role.NONE

    def _attribute(self, name: str) -> list[Node]:
        begun = self._at_begins(name)
        heads = [h for loop in self._loops for s, h in loop.heads.items() if s.endswith(name)]
        return [self._program.attribute(name[1:]), *heads, *begun]

    def _at_begins(self, name: str, scopes: set[int] | None = None) -> list[Node]:
        """What a variable, or attributes of one name, are when functions, or these, begin."""
        last = name if name.startswith(".") else f"^{self._scope}:{name}"
        bodies = self._program.bodies.values()
        return [
            node
            for body in (b for b in bodies if scopes is None or b.scope in scopes)
            for slot, node in body.roots.items()
            if (slot.endswith(last) if last[0] == "." else slot == last)
        ]

    def _before_loop(self, name: str, outside: list[Node]) -> list[Node]:
        """The versions that a variable may have when the loop is entered."""
        if self._loop is not None and name in self._loop.entered:
            unseen = [n for n in outside if n.scope in self._uncalled and n.scope]
            return [self._loop.entered[name], *unseen]
        if not self._line:
            return outside
        around = [o for o in self._loops if self._is_around(o) and o is not self._loop]
        end = max([self._line, *(loop.end for loop in around)])
        return [n for n in outside if n.scope != self._scope or n.file_line <= end]

    def _line_of(self, nodes: list[Node]) -> int:
        nodes = [n for n in nodes if not self._is_after(n)] or nodes
        own = [n for n in nodes if n.rebound] or nodes
        inside = [n for n in own if self.has(n.scope, n.file_line)]
        before = [n for n in own if n not in inside]
        if self._line:
            here = [n for n in before if n.scope != self._scope or n.file_line <= self._line]
            before = here or before
        if before:
            return max(n.file_line for n in before)
        return min((n.file_line for n in inside), default=0)

    def _accumulates(self, heads: list[Node], inside: list[Node], name: str) -> bool:
        whole = self._program.whole()
        if any(lead_back([head], {head}, whole) for head in heads):
            return True
        program = self._program
        of_ranks = self.sources_inside(inside) & (w.RANK | w.PART)
        if of_ranks and is_kept_with_best(inside, whole):
            return True
        has_loops = any(loop.over_iterations for loop in program.loops)
        # A function with a loop that is called again finds what it has left after the loop.
        again = {o.scope for o in self._loops if o.scope and not self._runs_once(o.scope)}
        roots = set(self._at_begins(name, again if has_loops else None))
        if name.startswith("."):
            roots.add(program.attribute(name[1:]))
        return bool(roots) and lead_back(inside, roots, whole)

    def _is_used(self, nodes: Iterable[Node]) -> bool:
        matter = matters(self._program)
        return any(
            node in matter and not is_made_of(node, w.TIME, w.RANK | w.SIZE) for node in nodes
        )

    def _is_summed(self, nodes: Iterable[Node]) -> bool:
        """Whether what the loop adds up, times aside, is made of one of these."""
        if self._totals is None:
            whole = self._program.whole()
            heads = {head for loop in self._loops for head in loop.heads.values()}
            totals = [head for head in heads if lead_back([head], {head}, whole)]
            counted = [t for t in totals if not is_made_of(t, w.TIME, w.RANK | w.SIZE)]
            self._totals = set(itertools.islice(made_of(counted), STATES_MAX))
        return not self._totals.isdisjoint(nodes)

    def _is_rebuilt(self, nodes: list[Node], name: str) -> bool:
        program = self._program
        scopes = {n.scope for n in nodes}
        function = program.functions.get((self._scope, name))
        if function is not None:
            scopes.add(function.number)
        return any(rebuilds(program.scopes[number].node) for number in scopes if number >= 0)


def matters(program: Program) -> set[Node]:
    """The versions of variables that lead to something beyond the program's own variables."""
    if program.matter is None:
        program.matter = reached(program.sinks, program.whole())
    return program.matter
