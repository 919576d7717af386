"""The variables of a program as they are seen from one loop of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace

from dq_client.check import words as w
from dq_client.check.answer import Variable
from dq_client.check.curves import is_curve
from dq_client.check.graph import (
    STATES_MAX,
    Node,
    is_made_of,
    lead_back,
    made_of,
    sources,
)
from dq_client.check.late_reads import is_read_late
from dq_client.check.near import is_on_root, is_reset
from dq_client.check.open_values import begins_otherwise, is_open
from dq_client.check.owned import is_continued
from dq_client.check.past import is_divided, of_last_part
from dq_client.check.program import Loop, Program, attributes_at_heads, heads_in_calls
from dq_client.check.recurrence import is_averaged, recurs
from dq_client.check.regions import Regions
from dq_client.check.roles import OWN, Role, is_kept_with_best, is_number, own_items, role_of


class View(Regions):
    """Answers questions about variables, as they are seen from there."""

    def __init__(
        self, program: Program, scope: int, line: int, running: Iterable[tuple[int, int]] = ()
    ) -> None:
        super().__init__(program, scope, line, running)
        self._totals: set[Node] | None = None  # what the loop's totals are made of
        self._asked: set[str] = set()  # attributes that an answer is being found for

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
        used = self._is_used([*heads, *(n for _, n in parts), *inside] or begun)
        if not used and (made := self._attributes_of_new(inside)):
            used = any(each.used for each in made)
            opens = role is Role.NONE and any(each.role is Role.OPEN for each in made)
            role = Role.OPEN if opens else role
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
            recurs=(accumulates or role in OWN) and self._recurs(inside, heads, name),
            changed_line=min((n.file_line for n in inside), default=0),
            rebuilt=(rebuilt := self._is_rebuilt(nodes, name)),
            reset=rebuilt and self._goes_on(inside, role, set_up, accumulates=accumulates),
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
        read = [*heads, *(n for _, n in parts), *(inside or nodes), program.attribute(name)]
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
            recurs=(accumulates or role in OWN) and self._recurs(inside, heads, ending),
            changed_line=min((n.file_line for n in inside), default=0),
            rebuilt=(rebuilt := self._is_rebuilt(nodes, "")),
            reset=rebuilt and self._goes_on(inside, role, set_up, accumulates=accumulates),
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

    def _sources_before(self, nodes: Iterable[Node]) -> int:
        whole = self._program.whole()
        return sources(nodes, whole, self._is_later, self._is_before)

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

    # --- answers ----------------------------------------------------------------------------------

    def _heads(self, loop: Loop, name: str) -> list[Node]:
        heads = self._program.bodies[loop.calls].roots if loop.calls else loop.heads
        is_here = loop.scope == self._scope and not loop.calls
        slot = name if is_here else f"^{self._scope}:{name}"
        return [heads[slot]] if slot in heads else []

    def _of_object(
        self, role: Role, inside: list[Node], parts: list[tuple[str, Node]], added: bool
    ) -> Role:
        """The role of what holds another object in each iteration, by what its attributes are."""
        if role is not Role.NONE or not (inside and parts):
            return role
        nodes = [node for _, node in parts]
        last = inside, nodes, self._program, self._program.matters(), self._is_entry
        if of_last_part(*last, self.sources_inside, accumulates=added):
            return Role.PAST
        names = {slot.rpartition(".")[2] for slot, _ in parts} - self._asked
        self._asked |= names  # an object may hold another one of its kind
        is_past = any(self.attribute(name).role is Role.PAST for name in names)
        self._asked -= names
        if is_past:
            return Role.PAST
        opens = not added and is_open(inside, nodes, self._program, self._is_entry)
        return Role.OPEN if opens else role

    def _attributes_of_new(self, inside: list[Node]) -> list[Variable]:
        """Facts about the attributes of new objects that the loop assigns to a variable."""
        classes = {n.kind.partition(":")[2] for n in inside if n.kind.startswith("instance:")}
        nodes = self._program.attributes.items()
        scopes = self._program.scopes
        names = {a for a, made in nodes if any(scopes[n.scope].in_class in classes for n in made)}
        names -= self._asked
        self._asked |= names
        found = [self.attribute(name) for name in sorted(names)]
        self._asked -= names
        return found

    def _role(self, inside: list[Node], heads: list[Node], name: str, accumulates: bool) -> Role:
        program, whole, counts = self._program, self._program.whole(), self._is_entry
        begun = heads or self._at_begins(name)  # another file may have the loop
        role = role_of(inside, begun, whole, program.matters(), counts, accumulates=accumulates)
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
        if name[0] == "." or not (self._line or any(loop.heads for loop in self._loops)):
            heads = heads or begun
        if name[0] == "." and not heads:  # of objects that stand in no variable
            heads = [program.attribute(name[1:])]
        if not heads:
            return role
        last = inside, heads, program, program.matters(), counts
        is_past = of_last_part(*last, self.sources_inside, accumulates=accumulates)
        if is_past or is_read_late(inside, heads, program):
            return Role.PAST
        if not accumulates and (role := own_items(inside, heads, program, counts)) is not Role.NONE:
            return role
        if is_number(inside, whole):
            return Role.NUMBER
        bits = self.sources_inside(inside)
        is_drawn = bool(bits & w.RANDOM)
        timed = bits & w.CLOCK and not bits & w.PART and (is_drawn or not self._has_times(inside))
        is_perhaps = not accumulates and inside and not timed
        if not (is_perhaps and is_open(inside, heads, program, counts)):
            return Role.NONE
        of_size = bits & (w.SIZE | w.RANK) == w.SIZE
        by_size = of_size and is_divided(inside, heads, whole, counts)
        return Role.PAST if by_size else Role.OPEN

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
        of_ranks = self.sources_inside(inside) & (w.RANK | w.PART)
        if of_ranks and is_kept_with_best(inside, whole):
            return True
        roots = self._roots(name)
        return bool(roots) and lead_back(inside, roots, whole)

    def _recurs(self, inside: list[Node], heads: list[Node], name: str) -> bool:
        """Whether a rank that joins cannot begin with the set-up's value."""
        if not (self.sources_inside(inside) & (w.RANK | w.PART) or self._has_times(inside)):
            return False
        program, ends = self._program, {*heads, *self._roots(name)}
        if recurs(inside, ends, program) or is_averaged({*inside, *ends}, program):
            return True
        return begins_otherwise(inside, heads or list(ends), program, self._is_entry)

    def _has_times(self, inside: list[Node]) -> bool:
        """Whether times are in it, beside other values."""
        times = [n for n in inside if self.sources_inside([n]) & (w.CLOCK & ~w.RANDOM)]
        return any(not is_made_of(each, w.CLOCK, w.RANK | w.SIZE) for each in times)

    def _roots(self, name: str) -> set[Node]:
        """What it is where functions begin that are called again and again."""
        program = self._program
        has_loops = any(loop.over_iterations for loop in program.loops)
        # A function with a loop that is called again finds what it has left after the loop.
        again = {o.scope for o in self._loops if o.scope and not self._runs_once(o.scope)}
        roots = set(self._at_begins(name, again if has_loops else None))
        if name.startswith("."):
            roots.add(program.attribute(name[1:]))
        return roots

    def _is_used(self, nodes: Iterable[Node]) -> bool:
        matter = self._program.matters()
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
        return any(program.rebuilds(number) for number in scopes if number >= 0)

    def _goes_on(
        self, inside: list[Node], role: Role, set_up: frozenset[str], *, accumulates: bool
    ) -> bool:
        """Whether the loop goes on from what it has left of something that is made again.

        A generator of random numbers does, unless it is one of the rank's own.
        """
        changes = [n for n in inside if not self._program.rebuilds(n.scope)]
        adds = accumulates and any(n.assigned for n in changes)
        draws = not set_up & {"rank", "clock"} and any(n.kind == w.RNG for n in changes)
        return adds or draws or (bool(changes) and role is Role.PAST)
