"""Programs put together from kinds of state, a place where the state lives and a shape of loop.

What a program must print is computed by running the same source once, without MPI, on one rank.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

PRELUDE = """\
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import heapq
import itertools
import random
import threading
import time

import numpy as np

import resize_lib

Pair = collections.namedtuple("Pair", "x y")
Phase = enum.Enum("Phase", {"A": 1, "B": 5, "C": 11})
NEXT = {Phase.A: Phase.B, Phase.B: Phase.C, Phase.C: Phase.A}


class Box:
    def __init__(self, value):
        self.value = value


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self):
        self.a = 1


@dataclasses.dataclass
class Record:
    n: int = 0
    names: list[int] = dataclasses.field(default_factory=list)


class Clock:
    ticks = 0

    def __init__(self):
        self.lock = threading.Lock()
        self.now = 0

    def tick(self, by):
        with self.lock:
            self.now += by

    def __call__(self):
        return self.now


class Tree:
    def __init__(self, parent=None):
        self.parent, self.children, self.visits = parent, [], 0

    def grow(self, n):
        self.visits += n
        if n % 3 == 0:
            self.children.append(Tree(self))
        for child in self.children:
            child.parent.visits += 1

    def weight(self):
        return self.visits + sum(child.weight() for child in self.children)


def counter():
    now = 0

    def count(by):
        nonlocal now
        now += by
        return now

    return count


def push(into, value):
    into.append(value)


rs = resize_lib.session()
"""

# Each kind: how the state $ is made, what iteration s does to it, and a whole number made of it.
KINDS: dict[str, tuple[str, str, str]] = {
    "int": ("$ = 3", "$ = ($ * 7 + s) % 1009", "$"),
    "float": ("$ = 0.5", "$ = $ * 0.75 + s", "int($ * 1024)"),
    "complex": ("$ = 1 + 0j", "$ = $ * 1j + s", "int($.real + 3 * $.imag)"),
    "bool": ("$ = False", "$ = not $ if s % 3 else $", "int($)"),
    "none": ("$ = None", "$ = s if $ is None or s * 5 % 7 > $ * 5 % 7 else $", "$"),
    "text": ("$ = ''", "$ = $[-8:] + chr(97 + s % 26)", "sum(map(ord, $))"),
    "bytes": ("$ = b'a'", "$ = $[-5:] + bytes([s % 256])", "sum($)"),
    "bytearray": ("$ = bytearray(4)", "$[s % 4] = ($[s % 4] + s) % 256", "sum($)"),
    "tuple": ("$ = (0, 1)", "$ = ($[1], ($[0] + $[1]) % 997)", "$[0]"),
    "list": ("$ = [1]", "$.append(($[-1] * 3 + s) % 101)", "sum($)"),
    "list anew": ("$ = []", "$ = [*$[-5:], s]", "sum($)"),
    "lists": ("$ = [[0], [1]]", "$[s % 2].append(len($[0]) + s)", "sum(map(sum, $))"),
    "one list twice": ("$ = [[]] * 2", "$[0].append(s)", "len($[1]) + sum($[1])"),
    "dict": ("$ = {}", "$[s % 5] = $.get(s % 5, 0) + s", "sum(k * v for k, v in $.items())"),
    "dict of dicts": (
        "$ = {'a': {}}", "$['a'].setdefault(s % 3, []).append(s)",
        "sum(k * sum(v) for k, v in $['a'].items())",
    ),
    "set": ("$ = {0}", "$.add((max($) * 3 + s) % 37)", "sum($)"),
    "frozenset": ("$ = frozenset()", "$ = $ | {s * 3 % 17}", "sum($)"),
    "deque": ("$ = collections.deque(maxlen=4)", "$.append(s * s)", "sum($)"),
    "counter": ("$ = collections.Counter()", "$['ab'[s % 2]] += s", "$['a'] + 3 * $['b']"),
    "defaultdict": (
        "$ = collections.defaultdict(list)", "$[s % 3].append(s)",
        "sum(len(v) * k + sum(v) for k, v in $.items())",
    ),
    "heap": ("$ = [5]", "heapq.heappush($, s * 7 % 31)", "$[0] + sum($)"),
    "array": ("$ = np.zeros(4)", "$[s % 4] += s", "int($.dot(np.arange(4)))"),
    "array anew": ("$ = np.ones(3)", "$ = $ * 0.5 + s", "int($.sum() * 16)"),
    "array and view": (
        "$ = [np.zeros(6)]\n$.append($[0][2:5])", "$[1][s % 3] += s", "int($[0].sum())",
    ),
    "numpy scalar": ("$ = np.int64(1)", "$ = ($ * 5 + s) % 1013", "int($)"),
    "generator of numpy": ("$ = np.random.default_rng(5)", "$.random()", "int($.integers(100))"),
    "RandomState": ("$ = np.random.RandomState(5)", "$.normal()", "int($.randint(100))"),
    "Random": ("$ = random.Random(5)", "$.random()", "$.randrange(100)"),
    "global random": ("random.seed(7); $ = 0", "$ = random.randrange(50)", "$"),
    "global numpy random": ("np.random.seed(7); $ = 0", "$ = int(np.random.randint(50))", "$"),
    "list iterator": ("$ = iter(list(range(10, 900)))", "pass", "next($)"),
    "range iterator": ("$ = iter(range(10, 9000, 7))", "pass", "next($)"),
    "enumerate": ("$ = enumerate('abc' * 300, 4)", "pass", "next($)[0]"),
    "zip": ("$ = zip(range(900), range(5, 905))", "pass", "sum(next($))"),
    "dict iterator": ("$ = iter({i: i * i for i in range(900)}.values())", "pass", "next($)"),
    "count": ("$ = itertools.count(3, 2)", "pass", "next($)"),
    "cycle": ("$ = itertools.cycle([1, 4, 9])", "pass", "next($)"),
    "accumulate": ("$ = itertools.accumulate(range(900))", "pass", "next($)"),
    "date": (
        "$ = datetime.date(2024, 1, 1)", "$ += datetime.timedelta(days=s % 3)", "$.toordinal()",
    ),
    "fraction": ("$ = fractions.Fraction(1)", "$ = $ / 2 + s", "int($ * 8)"),
    "decimal": ("$ = decimal.Decimal(1)", "$ = $ / 2 + s", "int($ * 8)"),
    "namedtuple": ("$ = Pair(0, 1)", "$ = $._replace(x=$.x + s)", "$.x"),
    "enum": ("$ = Phase.A", "$ = NEXT[$]", "$.value"),
    "object": ("$ = Box(1)", "$.value += s", "$.value"),
    "object anew": ("$ = Box(1)", "$ = Box($.value + s)", "$.value"),
    "object in object": ("$ = Box(Box([]))", "$.value.value.append(s)", "sum($.value.value)"),
    "slots": ("$ = Slotted()", "$.b = getattr($, 'b', 0) + s", "$.a + $.b"),
    "dataclass": ("$ = Record()", "$.n += s; $.names.append($.n)", "sum($.names)"),
    "object with a lock": ("$ = Clock()", "$.tick(s)", "$()"),
    "class attribute": ("$ = Clock()", "Clock.ticks += s", "$.ticks"),
    "tree": ("$ = Tree()", "$.grow(s)", "$.weight()"),
    "closure": ("$ = counter()", "$(s)", "$(0)"),
    "partial": ("$ = functools.partial(push, [])", "$(s)", "sum($.args[0])"),
    # a rank's own affair
    "timer": ("$ = 0.0", "$ += time.perf_counter() % 1", "0"),
    "timings": ("$ = []", "$.append(time.perf_counter())", "0"),
    "buffer": ("$ = np.empty(rs.size)", "$ = np.full(rs.size, rs.rank)", "0"),
    "rank's random": ("$ = np.random.default_rng([3, rs.rank])", "$.random()", "0"),
}  # fmt: skip

# Where the state lives: every line of a program after the prelude. In LOOP, S stands for `s`.
SCOPES: dict[str, str] = {
    "module": """\
INITS
total = 0
LOOP
    UPDATES
    value = USES
    total += REDUCED
END
""",
    "function": """\
def main():
    INITS
    total = 0
    LOOP
        UPDATES
        value = USES
        total += REDUCED
    END


main()
""",
    "object": """\
class Simulation:
    def __init__(self):
        INITS

    def advance(self, s):
        UPDATES
        return USES

    def run(self):
        total = 0
        LOOP
            value = self.advance(s)
            total += REDUCED
        END


Simulation().run()
""",
    "globals of a function": """\
INITS


def advance(s):
    global NAMES
    UPDATES
    return USES


total = 0
LOOP
    value = advance(s)
    total += REDUCED
END
""",
    "closure": """\
def make():
    INITS

    def advance(s):
        nonlocal NAMES
        UPDATES
        return USES

    return advance


def main():
    advance = make()
    total = 0
    LOOP
        value = advance(s)
        total += REDUCED
    END


main()
""",
}
# The lines that begin a loop of N iterations. Nested ones have the body in the inner loop.
LOOPS: dict[str, str] = {
    "plain": "for s in rs.iterations(N):",
    "sequence": "for s in rs.iterations(range(2, 2 + 3 * N, 3)):",
    "endless": "for s in rs.iterations():\n    if s == N:\n        break",
    "enumerate": "for i, s in enumerate(rs.iterations(N), 5):\n    s += i",
    "zip, data first": "for x, s in zip(range(100, 999), rs.iterations(N)):\n    s += x",
    "zip, data last": "for s, x in zip(rs.iterations(N), list(range(100, 100 + N))):\n    s += x",
    "nested": "for e in rs.iterations(N // 5):\n    for b in rs.iterations(5):\n        s = e + b",
    "generator": "def steps():\n    yield from rs.iterations(N)\n\nfor s in steps():",
}


@dataclass(frozen=True)
class Recipe:
    """What a program is made of: names of KINDS, SCOPES and LOOPS, and how many iterations."""

    kinds: tuple[str, ...]
    scope: str
    loop: str
    iterations: int

    @property
    def source(self) -> str:
        """The program, which prints `sum X expected Y` at its end."""
        total: list[int] = []
        serial = self._source("_totals.append(total)").replace("import resize_lib\n", "")
        scope = {"resize_lib": _Serial, "_totals": total, "__name__": "__main__"}
        exec(compile(serial, "serial", "exec"), scope)
        return self._source(f"if rs.rank == 0:\n    print('sum', total, 'expected', {total[0]})")

    def _source(self, end: str) -> str:
        names = [f"a{at}" for at in range(len(self.kinds))]
        if self.scope == "object":
            names = [f"self.{name}" for name in names]
        parts = [
            [fragment.replace("$", name) for fragment in KINDS[kind]]
            for name, kind in zip(names, self.kinds, strict=True)
        ]
        inits, updates, uses = zip(*parts, strict=True)
        loop = LOOPS[self.loop].replace("N", str(self.iterations))
        nested = self.loop == "nested"
        put = {
            "INITS": "\n".join(inits),
            "UPDATES": "\n".join(updates),
            "USES": " + ".join(f"{at + 1} * ({use})" for at, use in enumerate(uses)),
            "NAMES": ", ".join(names),
            "REDUCED": "rs.comm.allreduce(sum(value * i for i in range(rs.rank, 5, rs.size)))",
            "LOOP": loop,
            "END": end,
        }
        return PRELUDE + "\n\n" + _filled(SCOPES[self.scope], put, nested=nested)


def _filled(template: str, put: dict[str, str], *, nested: bool) -> str:
    """A template with its words replaced; a word that stands alone becomes lines as far in."""
    lines: list[str] = []
    deeper = ""
    for line in template.splitlines():
        word, indent = line.strip(), line[: len(line) - len(line.lstrip())]
        if word == "END":
            deeper = ""
        if word in put:
            found = textwrap.indent(put[word], indent + deeper)
        else:
            found = deeper + line if line else line
            for name, text in put.items():
                found = found.replace(name, text)
        lines.append(found)
        if word == "LOOP" and nested:
            deeper = "    "
    return "\n".join(lines) + "\n"


class _Serial:
    """What stands in for resize_lib where a program is run once, by itself."""

    @staticmethod
    def session() -> Any:
        """One rank, whose iterations are counted."""
        same: Callable[[int], int] = lambda x: x  # noqa: E731
        return SimpleNamespace(
            rank=0, size=1, comm=SimpleNamespace(allreduce=same), iterations=_counted
        )


def _counted(n: int | Iterable[int] | None = None) -> Iterable[int]:
    if n is None:
        n = 10**6
    return range(n) if isinstance(n, int) else n
