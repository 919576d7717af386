"""Variables that the loop has changed, and a rank that joins: it has what the job has.

Each case: what the set-up makes, what the loop does to it. Afterwards the joining rank has equal
values, shares what the job's ranks share, and has kept the objects that its set-up made.
"""

# ruff: noqa: E731 - rows of a table

from __future__ import annotations

import array
import collections
import csv
import dataclasses
import datetime
import decimal
import enum
import functools
import io
import itertools
import operator
import random
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resize_lib.state import objects, packing, survey
from resize_lib.state.iterators import CannotCopyError
from resize_lib.state.places import Place
from resize_lib.state.survey import Anchors, Survey, TooMuchError
from tests.plan.travel import OWNER, PlayedScope, assert_alike, changed, nothing, travelled

Names = dict[str, Any]


class Solver:
    """Of ordinary attributes."""

    def __init__(self, **parts: Any) -> None:
        self.__dict__.update(parts)

    def step(self) -> None:
        self.t += 1  # type: ignore[attr-defined]

    @property
    def twice(self) -> Any:
        return 2 * self.t  # type: ignore[attr-defined]

    @twice.setter
    def twice(self, value: Any) -> None:
        raise AssertionError("nobody asks properties")


class Slots:
    __slots__ = ("__secret", "a", "b")

    def __init__(self) -> None:
        self.a: Any = 1
        self.__secret = [1]

    def change(self) -> None:
        self.b = [self.__secret, self.a]
        self.__secret.append(2)
        del self.a

    def secret(self) -> list[int]:
        return self.__secret


class SlotsAndMore(Slots):
    __slots__ = ("c", "d")

    def __init__(self) -> None:
        super().__init__()
        self.c: Any = {}


class Guarded:
    """A class that refuses to be set: values go past it."""

    def __init__(self) -> None:
        vars(self)["n"] = 1

    def __setattr__(self, name: str, value: Any) -> None:
        raise AssertionError("nobody asks the class")


class History(list[Any]):
    """A container of the program, with an attribute."""

    best: Any = None


class Table(dict[Any, Any]):
    """Another."""


class Vector(np.ndarray[Any, Any]):
    """An array of the program."""


@dataclasses.dataclass
class State:
    t: float = 0.0
    parts: list[Any] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    n: int = 1
    names: list[Any] = dataclasses.field(default_factory=list)


class Pair(NamedTuple):
    left: Any
    right: Any


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Model:
    """An object with state_dict, as torch has them."""

    def __init__(self) -> None:
        self.weights = np.zeros(3)
        self.training = True
        self.loads = 0

    def state_dict(self) -> dict[str, Any]:
        return {"weights": self.weights.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.weights[:] = state["weights"]


def counter() -> tuple[Callable[[], int], Callable[[], int]]:
    n, seen = 0, [0]

    def add() -> int:
        nonlocal n
        n += 1
        seen.append(n)
        return n

    return add, lambda: n + len(seen)


def remembers() -> Callable[..., Any]:
    def remember(x: Any, seen: list[Any] = [], *, more: dict[str, Any] = {}) -> int:  # noqa: B006
        seen.append(x)
        more[str(x)] = x
        return len(seen) + len(more)

    return remember


def attributed() -> Callable[..., Any]:
    def function() -> int:
        function.calls += 1  # type: ignore[attr-defined]
        return function.calls  # type: ignore[attr-defined,no-any-return]

    function.calls = 0  # type: ignore[attr-defined]
    return function


def local_class() -> Any:
    class Kind:
        count, all = 0, []  # type: ignore[var-annotated]

        def __init__(self) -> None:
            Kind.count += 1
            Kind.all.append(Kind.count)

    return Kind


def ring() -> Any:
    first, second = Solver(), Solver()
    first.next, second.next = second, first  # type: ignore[attr-defined]
    return first


class Counted:
    """A descriptor with a state."""

    def __init__(self) -> None:
        self.reads = 0

    def __get__(self, owner: object, _: object = None) -> int:
        self.reads += 1
        return self.reads


def class_with_state_in_methods() -> Any:
    def counts(function: Callable[..., Any]) -> Callable[..., int]:
        calls = [0]

        def outer(*_: Any) -> int:
            calls[0] += 1
            return calls[0]

        return outer

    class Kind:
        read = Counted()

        def default(self, seen: list[int] = []) -> int:  # noqa: B006
            seen.append(1)
            return len(seen)

        def __call__(self, *, box: dict[str, int] = {"n": 0}) -> int:  # noqa: B006
            box["n"] += 1
            return box["n"]

        @staticmethod
        def static(seen: list[int] = []) -> int:  # noqa: B006
            seen.append(1)
            return len(seen)

        @classmethod
        def of_class(cls, seen: list[int] = []) -> int:  # noqa: B006
            seen.append(1)
            return len(seen)

        @property
        def shown(self, seen: list[int] = []) -> int:  # noqa: B006
            seen.append(1)
            return len(seen)

        decorated = counts(len)

    return Kind


def use_methods(kind: Any) -> list[int]:
    it = kind()
    used = [it.default(), it(), it.static(), it.of_class(), it.shown, it.decorated(), it.read]
    return [int(each) for each in used]


MODULES = {each.__name__: each for each in (datetime, decimal, functools, operator)}


def run(code: str) -> Callable[[Names], object]:
    """A change as a program writes it: names are bound where they are."""
    return lambda v: exec(code, {**globals(), **MODULES}, v)


def row(make: Callable[[], Names], code: str, name: str = "") -> Any:
    return pytest.param(make, code, id=name or code)


def m(**names: Any) -> Names:
    """What a set-up makes."""
    return names


ROWS = [
    # plain values
    row(lambda: m(n=0), "n += 1"),
    row(lambda: m(n=0), "n = 10**400"),
    row(lambda: m(n=True), "n = 1", "a truth value becomes a number"),
    row(lambda: m(n=1), "n = 1.0"),
    row(lambda: m(n=1.0), "n = np.float64(1.0)"),
    row(lambda: m(n=0.0), "n = -0.0"),
    row(lambda: m(n=0.0), "n = float('nan')"),
    row(lambda: m(n=None), "n = 'text'"),
    row(lambda: m(n=b""), "n += b'abc' * 100"),
    row(lambda: m(n=0), "n = decimal.Decimal('1.50')"),
    row(lambda: m(n=0), "n = datetime.datetime(2020, 1, 2)"),
    row(lambda: m(n=0), "n = Path('a') / 'b'"),
    row(lambda: m(n=Colour.RED), "n = Colour.BLUE"),
    row(lambda: m(n=range(3)), "n = range(1, 9, 2)"),
    row(lambda: m(n=(1, [2])), "n = (1, [2], 3)"),
    row(lambda: m(n=(1, [2])), "n[1].append(3)", "a list inside of a tuple"),
    row(lambda: m(n=Pair(1, [])), "n.right.append(n.left)"),
    row(lambda: m(n=Pair(1, [])), "n = n._replace(left=2)"),
    row(lambda: m(), "fresh = [1]", "a name that the loop binds first"),
    row(lambda: m(n=None), "n = Solver(t=[1])"),
    row(lambda: m(n=None), "n = State(1.0, [2])"),
    row(lambda: m(n=None), "n = [Settings(3, [4])]"),
    row(lambda: m(f=None), "f = functools.partial(operator.add, 3)"),
    row(lambda: m(f=max), "f = min", "a function is replaced by another"),
    row(lambda: m(f=None), "f = counter", "a function of the program"),
    row(lambda: m(f=None), "f = Solver", "a class of the program"),
    row(lambda: m(f=None), "f = sys", "a module"),
    row(lambda: m(f=Solver(x=None)), "f.x = sys", "a module as attribute"),
    row(lambda: m(f=sys, g=[]), "g.append(f); f = random", "another module"),
    # containers in place
    row(lambda: m(a=[]), "a.append([1])"),
    row(lambda: m(a=[1, 2]), "a.clear()"),
    row(lambda: m(a=[1, 2]), "a.reverse()"),
    row(lambda: m(a=[[0], [1]]), "a[0].append(1)"),
    row(lambda: m(a=[[0], [1]]), "a.reverse()", "lists inside change places"),
    row(lambda: m(a=[[0], [1]]), "a.pop(0)", "a list inside goes"),
    row(lambda: m(a=[[0]] * 2), "a.append(a[0]); a[0].append(1)"),
    row(lambda: m(a=[]), "a.append(a)", "a list in itself"),
    row(lambda: m(a=[], b=[]), "a.append(b); b.append(a)", "lists in one another"),
    row(lambda: m(d={}), "d['x'] = 1; d[2] = [3]"),
    row(lambda: m(d={"x": 1, "y": 2}), "del d['x']"),
    row(lambda: m(d={"x": 1, "y": 2}), "d['x'] = d.pop('x')", "the order of a dict"),
    row(lambda: m(d={"x": {"y": {"z": 1}}}), "d['x']['y']['z'] += 1"),
    row(lambda: m(d={"x": [1]}), "d['y'] = d['x']; d['x'].append(2)"),
    row(lambda: m(d={"x": [1]}), "d['x'] = [1, 2]"),
    row(lambda: m(d={(1, 2): [1]}), "d[1, 2].append(2); d[3, 4] = []"),
    row(lambda: m(d={}), "d.update((str(k), k) for k in range(100))", "a dict becomes large"),
    row(lambda: m(d={str(k): k for k in range(100)}), "d['7'] = 8; del d['3']", "a large dict"),
    row(lambda: m(d={str(k): k for k in range(64)}), "d['64'] = 64", "a dict above the limit"),
    row(lambda: m(d={str(k): k for k in range(65)}), "del d['64']", "a dict below the limit"),
    row(lambda: m(d={"a": 1}), "d[1] = 2", "a dict gets a key that is no text"),
    row(lambda: m(d={"a": 1, 1: 2}), "del d[1]; d['b'] = 3", "a dict has texts only"),
    row(lambda: m(s=set()), "s.update('abc')"),
    row(lambda: m(s={1, 2}), "s.discard(1)"),
    row(lambda: m(s={"a"}), "s = s | {'b'}"),
    row(lambda: m(s=frozenset("a")), "s |= {'b'}"),
    row(lambda: m(q=collections.deque([1, 2], 3)), "q.extend([3, 4])"),
    row(lambda: m(q=collections.deque([[1], [2]])), "q.rotate(1); q[0].append(3)"),
    row(lambda: m(c=collections.Counter("a")), "c.update('ab')"),
    row(lambda: m(c=collections.defaultdict(list)), "c['x'].append(1)"),
    row(lambda: m(c=collections.OrderedDict(a=1, b=2)), "c.move_to_end('a')"),
    row(lambda: m(c=collections.ChainMap({}, {"a": 1})), "c['b'] = 2"),
    row(lambda: m(b=bytearray(b"abc")), "b.extend(b'def')"),
    row(lambda: m(b=array.array("d", [1.0])), "b.append(2.0)"),
    row(lambda: m(b=array.array("d", [1.0])), "b[0] = 3.0"),
    row(lambda: m(h=History()), "h.append(1); h.best = h[-1]"),
    row(lambda: m(h=Table(a=1)), "h['b'] = [h['a']]; h.name = 'x'"),
    row(lambda: m(n=types.SimpleNamespace(a=1)), "n.b = [n.a]; del n.a"),
    # names of one object
    row(lambda: (lambda a: m(a=a, b=a))([1]), "a.append(2)"),
    row(lambda: (lambda a: m(a=a, b=a))([1]), "b = list(a)", "two names part"),
    row(lambda: m(a=[1], b=[1]), "b = a", "two names meet"),
    row(lambda: m(a=[1], b=[2]), "a, b = b, a"),
    row(lambda: m(a=[1], b=[2]), "a, b = b, a; a.append(b)"),
    row(lambda: m(a=None, b=None), "a = b = [1]"),
    row(lambda: m(a=None, b=[]), "a = [1]; b.append(a)"),
    row(lambda: m(a=None, b=None), "a = [1]; b = (a, a)"),
    row(lambda: m(a=np.zeros(3), b=np.ones(3)), "a, b = b, a; a += 1"),
    row(lambda: m(a=None, b=None), "a = np.zeros(3); b = {'x': a}"),
    # arrays
    row(lambda: m(a=np.zeros((3, 4))), "a[1:, ::2] += 1"),
    row(lambda: m(a=np.zeros((3, 4), order="F")), "a[0] = 5"),
    row(lambda: m(a=np.zeros(3)), "a = np.append(a, 1)"),
    row(lambda: m(a=np.zeros(3)), "a = a.astype('f4')"),
    row(lambda: m(a=np.zeros(30_000)), "a[29_999] = 1e-9"),
    row(lambda: m(a=np.array(1.0)), "a += 1"),
    row(lambda: m(a=np.zeros(0)), "a = np.zeros((0, 3))"),
    row(lambda: m(a=np.zeros(2, [("x", "i4"), ("y", "f8")])), "a['y'] = 2"),
    row(lambda: m(a=np.zeros(2, "M8[s]")), "a += np.timedelta64(5, 's')"),
    row(lambda: m(a=np.array([None, []], object)), "a[0] = 'x'"),
    row(lambda: m(a=np.array([1, 2])), "a.setflags(write=False); a = a + 1"),
    row(lambda: m(a=np.ma.array([1, 2], mask=[True, False])), "a[0] = 5"),
    row(lambda: m(a=np.zeros(3).view(Vector)), "a += 1"),
    row(lambda: (lambda a: m(a=a, b=a[::2]))(np.zeros(5)), "b += 1", "a view from before"),
    row(lambda: m(a=np.zeros((200, 300))), "a[:] = np.random.rand(200, 300)", "large"),
    row(lambda: m(a=np.zeros((200, 300), order="F")), "a[:] = np.random.rand(200, 300)", "columns"),
    row(lambda: m(a=np.zeros((300, 200)).T), "a[:] = np.random.rand(200, 300)", "transposed"),
    row(lambda: m(a=np.zeros((400, 300))[::2]), "a[:] = np.random.rand(200, 300)", "every other"),
    row(lambda: (lambda a: m(a=a, b=a[9:]))(np.zeros(30000)), "b += np.arange(29991)", "overlap"),
    row(lambda: m(a=np.zeros(9000, "i4,f8")), "a['f1'] = np.arange(9000)", "large, of fields"),
    row(lambda: m(a=np.zeros(20000, "M8[s]")), "a += np.timedelta64(5, 's')", "large, of dates"),
    row(lambda: m(a=np.zeros(20000).view(Vector)), "a += 1", "large, of a class of the program"),
    # methods that are all that is left of an object
    row(lambda: m(f=[1, 2, 3].pop), "f()", "pop of a list"),
    row(lambda: m(f=collections.deque([1, 2, 3]).rotate), "f()", "rotate of a deque"),
    row(lambda: m(f=random.Random(3).random), "f()", "random of a generator"),
    # objects
    row(lambda: m(o=Solver(t=0)), "o.step()"),
    row(lambda: m(o=Solver(t=0)), "o.new = [o.t]; del o.t"),
    row(lambda: m(o=Solver(a=[1], b=None)), "o.b = o.a"),
    row(lambda: m(o=Solver(a=[1], b=None)), "o.b = o; o.a = []"),
    row(lambda: m(o=Solver(a=Solver(b=Solver(c=1)))), "o.a.b.c += 1"),
    row(lambda: m(o=Solver(t=1), all=[]), "all.append(o); o.t += 1"),
    row(lambda: m(o=Solver(t=1), all=[]), "all.append(Solver(t=o))"),
    row(lambda: m(o=ring()), "o.next.t = 5"),
    row(lambda: m(o=ring()), "o = o.next", "a ring is turned"),
    row(lambda: m(o=Guarded()), "vars(o)['n'] += 1"),
    row(lambda: m(o=Slots()), "o.change()"),
    row(lambda: m(o=SlotsAndMore()), "o.d = o.c; o.c['x'] = 1; o.change()"),
    row(lambda: m(o=State()), "o.t += 1; o.parts.append(o.t)"),
    row(lambda: m(o=Settings()), "o.names.append(1)"),
    row(lambda: m(o=Settings()), "o = dataclasses.replace(o, n=2)"),
    row(lambda: m(o=Settings()), "object.__setattr__(o, 'n', 3)", "a frozen dataclass, changed"),
    row(lambda: m(o=Model()), "o.weights += 1; o.training = False"),
    row(lambda: m(o=Solver(f=None, t=1)), "o.f = o.step", "a bound method"),
    row(lambda: m(o=Solver(t=0), f=None), "f = o.step; f()", "a bound method is called"),
]  # fmt: skip


# Of other packages, or not to be changed: they travel as values.
COPIED = (tuple, frozenset, str, collections.ChainMap, np.ma.MaskedArray)


@pytest.mark.parametrize(("make", "code"), ROWS)
def test_a_rank_that_joins_has_what_the_job_has(make: Callable[[], Names], code: str) -> None:
    made: list[Names] = []

    def make_noted() -> Names:
        made.append(make())
        return dict(made[-1])

    old, new = travelled(make_noted, run(code))
    assert_alike(old.names, new.names)
    for name, before in made[0].items():
        if old.names[name] is before and not isinstance(before, COPIED):
            assert new.names[name] is made[1][name], f"{name} is another object"


LETTERS = "abcdefgh"
ITERATORS: dict[str, Callable[[], Any]] = {
    "list": lambda: iter(list(LETTERS)),
    "list of lists": lambda: iter([[k] for k in LETTERS]),
    "tuple": lambda: iter(tuple(LETTERS)),
    "text": lambda: iter(LETTERS),
    "bytes": lambda: iter(b"abcdefgh"),
    "range": lambda: iter(range(0, 80, 10)),
    "large range": lambda: iter(range(0, 10**30, 10**29)),
    "dict": lambda: iter(dict.fromkeys(LETTERS, 1)),
    "items": lambda: iter(dict.fromkeys(LETTERS, 1).items()),
    "set": lambda: iter(set(range(8))),
    "reversed": lambda: reversed(list(LETTERS)),
    "array": lambda: iter(np.arange(8).tolist()),
    "deque": lambda: iter(list(collections.deque(LETTERS))),
    "enumerate": lambda: enumerate(LETTERS, 5),
    "zip": lambda: zip(LETTERS, range(9), strict=False),
    "map": lambda: map(str.upper, LETTERS),
    "filter": lambda: filter("acegh".count, LETTERS * 2),
    "nested": lambda: enumerate(zip(map(str.upper, LETTERS), [*LETTERS], strict=True)),
    "count": lambda: itertools.islice(itertools.count(3, 2), 8),
    "cycle": lambda: itertools.islice(itertools.cycle("abc"), 8),
    "chain": lambda: itertools.chain("abc", [1, 2], "xyz"),
    "chain of a list": lambda: itertools.chain.from_iterable([["a", "b"], ["c", "d", "e", "f"]]),
    "repeat": lambda: itertools.repeat("x", 8),
    "accumulate": lambda: itertools.accumulate(range(8)),
    "permutations": lambda: itertools.permutations([1, 2, 3]),
    "combinations": lambda: itertools.combinations(range(4), 2),
    "product": lambda: itertools.product("ab", [1, 2, 3]),
    "starmap": lambda: itertools.starmap(pow, [(2, k) for k in range(8)]),
    "takewhile": lambda: itertools.takewhile("abcdefg".count, LETTERS),
    "compress": lambda: itertools.compress(LETTERS * 2, [1, 0] * 8),
    "zip_longest": lambda: itertools.zip_longest("ab", range(7)),
}
OF_ITERTOOLS = {
    name for name, make in ITERATORS.items() if type(make()).__module__ == "itertools"
}  # fmt: skip


HOLDERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "variable": (lambda it: it, lambda held: held),
    "list": (lambda it: [it], lambda held: held[0]),
    "dict": (lambda it: {"x": it}, lambda held: held["x"]),
    "tuple": (lambda it: (0, it), lambda held: held[1]),
    "attribute": (lambda it: Solver(i=it), lambda held: held.i),
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("name", ITERATORS)
def test_an_iterator_goes_on_where_the_jobs_is(name: str, holder: str) -> None:
    if name in OF_ITERTOOLS and sys.version_info >= (3, 14):
        pytest.skip("Python 3.14 cannot copy it")
    hold, held = HOLDERS[holder]

    def change(names: Names) -> None:
        for _ in range(count):
            next(held(names["it"]))

    for count in (1, 2, 5):
        old, new = travelled(lambda: {"it": hold(ITERATORS[name]())}, change)
        left = list(held(old.names["it"]))
        assert list(held(new.names["it"])) == left
        assert len(left) == len(list(ITERATORS[name]())) - count


@pytest.mark.parametrize("name", ["list", "range", "text"])
def test_an_iterator_that_is_used_up_stays_so(name: str) -> None:
    old, new = travelled(lambda: {"it": ITERATORS[name]()}, lambda names: list(names["it"]))
    assert list(new.names["it"]) == list(old.names["it"]) == []


def test_an_iterator_follows_the_list_that_it_goes_over() -> None:
    """The list is another variable: what is appended to it comes, in the new rank, too."""

    def make() -> Names:
        todo = [1, 2]
        return {"todo": todo, "it": iter(todo)}

    def change(names: Names) -> None:
        next(names["it"])
        names["todo"].append(3)

    old, new = travelled(make, change)
    for scope in (old, new):
        scope.names["todo"].append(4)
        assert list(scope.names["it"]) == [2, 3, 4]


def test_two_names_of_one_iterator_stay_one() -> None:
    def make() -> Names:
        it = iter([1, 2, 3, 4])
        return {"a": it, "b": it}

    _, new = travelled(make, lambda names: next(names["a"]))
    assert new.names["a"] is new.names["b"]
    assert [next(new.names["a"]), next(new.names["b"])] == [2, 3]


def test_a_file_is_read_on_where_the_job_is(tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_text("first\nsecond\nthird\n")
    old, new = travelled(lambda: {"f": file.open()}, lambda names: names["f"].readline())
    assert old.names["f"].readline() == new.names["f"].readline() == "second\n"


def test_a_csv_reader_is_read_on_where_the_job_is(tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_text('a,b\n1,"2\n2"\n3,4\n5,6\n')

    def make() -> Names:
        opened = file.open(newline="")
        return {"f": opened, "rows": csv.reader(opened)}

    def change(names: Names) -> None:
        next(names["rows"])
        next(names["rows"])

    old, new = PlayedScope(make()), PlayedScope(make())
    change(old.names)
    reader = Place(new, ("v", "rows")).get()
    objects.READER.fill(reader, objects.READER.contents(old.names["rows"]))
    assert next(new.names["rows"]) == next(old.names["rows"]) == ["3", "4"]


@pytest.mark.parametrize("kind", [io.StringIO, io.BytesIO])
def test_a_file_in_memory_has_the_jobs_text_and_position(kind: Any) -> None:
    text = "some text" if kind is io.StringIO else b"some text"

    def change(names: Names) -> None:
        names["f"].write(text)
        names["f"].seek(5)

    old, new = travelled(lambda: {"f": kind()}, change)
    assert new.names["f"].getvalue() == text
    assert new.names["f"].read() == old.names["f"].read() == text[5:]


@pytest.mark.parametrize(
    "make",
    [
        lambda: random.Random(1),
        lambda: np.random.default_rng(1),
        lambda: np.random.Generator(np.random.Philox(1)),
        lambda: np.random.RandomState(1),
    ],
)
def test_a_random_stream_goes_on(make: Callable[[], Any]) -> None:
    draw: Callable[[Any], Any] = lambda names: [names["r"].random() for _ in range(5)]
    old, new = travelled(lambda: (lambda r: {"r": r, "again": r})(make()), draw)
    assert draw(old.names) == draw(new.names)
    assert new.names["again"] is new.names["r"]


def test_a_closure_has_the_jobs_cells() -> None:
    def make() -> Names:
        add, total = counter()
        return {"add": add, "total": total}

    def change(names: Names) -> None:
        names["add"]()
        names["add"]()

    old, new = travelled(make, change)
    assert old.names["total"]() == new.names["total"]() == 5
    assert new.names["add"]() == 3
    assert new.names["total"]() == 7, "both functions look at one cell"


def test_default_arguments_and_attributes_of_functions_travel() -> None:
    def make() -> Names:
        return {"remember": remembers(), "counts": attributed()}

    def change(names: Names) -> None:
        names["remember"](1)
        names["counts"]()

    old, new = travelled(make, change)
    for scope in (old, new):
        assert scope.names["remember"](2) == 4
        assert scope.names["counts"]() == 2


def test_data_of_a_class_travel() -> None:
    old, new = travelled(lambda: {"Kind": local_class()}, lambda names: names["Kind"]())
    assert old.names["Kind"] is not new.names["Kind"]
    for scope in (old, new):
        assert (scope.names["Kind"].count, scope.names["Kind"].all) == (1, [1])


def test_what_methods_keep_travels() -> None:
    old, new = travelled(
        lambda: {"Kind": class_with_state_in_methods()}, lambda names: use_methods(names["Kind"])
    )
    for scope in (old, new):
        assert use_methods(scope.names["Kind"]) == [2] * 7


def test_a_method_that_is_another_one_now_travels() -> None:
    code = "Kind.default, Kind.static = Kind.__call__, staticmethod(Kind.of_class)"
    old, new = travelled(lambda: {"Kind": class_with_state_in_methods()}, run(code))
    for scope in (old, new):
        kind = scope.names["Kind"]
        assert kind.default is kind.__call__
        assert (kind().default(), kind().static(), kind.of_class()) == (1, 1, 2)


def test_only_what_is_below_the_limit_travels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(survey.BYTES_VARIABLE, str(1 << 20))
    with pytest.raises(TooMuchError, match=r"^large has 2 MiB; at most 1 MiB .* declare it"):
        travelled(
            lambda: {"large": np.zeros(1 << 18), "small": 0},
            run("large += 1; small += 1"),
        )


VIEWS: dict[str, Callable[[], Any]] = {
    "rows": lambda: np.zeros((2, 6)),
    "columns": lambda: np.zeros((2, 6), order="F"),
    "reshaped": lambda: np.arange(12.0).reshape(2, 6),
    "every second": lambda: np.zeros((4, 12))[::2, ::2],
    "transposed": lambda: np.zeros((6, 2)).T,
    "memory of another": lambda: np.frombuffer(bytearray(96)).reshape(2, 6),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_that_the_loop_makes_is_a_view_in_the_new_rank(name: str) -> None:
    def change(names: Names) -> None:
        buffer = names["buffer"]
        names["current"] = buffer[-1:, ::2]
        names["parts"] = {"turned": buffer.T, "back": [buffer[:, ::-1]]}
        names["current"][:] = 5

    old, new = travelled(lambda: {"buffer": VIEWS[name](), "current": None}, change)
    assert_alike(old.names, new.names)
    for scope in (old, new):
        scope.names["current"] += 1
        scope.names["parts"]["back"][0][:, :2] += 10
        scope.names["parts"]["turned"][3] += 100
    assert new.names["buffer"].tolist() == old.names["buffer"].tolist()
    assert old.names["buffer"].sum() > 200


def two_rows() -> Names:
    buffer = np.zeros((2, 3))
    return {"buffer": buffer, "current": buffer[0]}


def test_which_view_it_is_counts_though_all_have_the_same_numbers() -> None:
    old, new = travelled(
        two_rows,
        run("current = buffer[1]"),
    )
    for scope in (old, new):
        scope.names["current"] += 1
    assert new.names["buffer"].tolist() == old.names["buffer"].tolist() == [[0] * 3, [1] * 3]


def test_a_view_of_an_array_of_another_shape_is_refused() -> None:
    sizes = iter((2, 3))
    with pytest.raises(CannotCopyError, match="another shape"):
        travelled(lambda: {"b": np.zeros((next(sizes), 3)), "c": None}, run("c = b[1]"))


def test_what_cannot_be_copied_is_named_and_the_rest_travels() -> None:
    scope = PlayedScope({"a": 1, "bad": lambda: 0, "z": [2]})
    first = Survey(None, nothing).take([PlayedScope({})])  # type: ignore[list-item]
    now = Survey(first.anchors, nothing).take([scope])  # type: ignore[list-item]
    places = {path: place for path, place in now.places.items() if path[0] == OWNER}
    packed = packing.pack(places, now.anchors, nothing)
    assert {path[1][1] for path in packed.failed} == {"bad"}
    why = packed.failed[OWNER, ("v", "bad")]
    assert "lambda" in why and "make it in the iteration" in why
    found = packing.unpack(packed.payload, packed.large, list(packed.sizes), Anchors(), nothing)
    assert {path[1][1]: value for path, value in found.items()} == {"a": 1, "z": [2]}


def test_objects_of_the_session_travel_as_names() -> None:
    session, theirs = object(), object()
    scope = PlayedScope({"pair": (session, [session])})
    places = {(OWNER, ("v", "pair")): Place(scope, ("v", "pair"))}
    name_of: Any = lambda value: ("session",) if value is session else None
    packed = packing.pack(places, Anchors(), name_of)
    found = packing.unpack(
        packed.payload, packed.large, list(places), Anchors(), {("session",): theirs}.get
    )
    assert found[OWNER, ("v", "pair")] == (theirs, [theirs])


def test_an_object_that_the_set_up_has_not_made_is_refused() -> None:
    """The job's ranks have one more than the rank that joins."""
    old = PlayedScope({"a": Solver(t=1), "refers": None})
    first = Survey(None, nothing).take([old])  # type: ignore[list-item]
    fresh = Survey(None, nothing).take([PlayedScope({"refers": None})])  # type: ignore[list-item]
    old.names["refers"] = old.names["a"]
    now = Survey(first.anchors, nothing).take([old])  # type: ignore[list-item]
    path = (OWNER, ("v", "refers"))
    packed = packing.pack({path: now.places[path]}, now.anchors, nothing)
    with pytest.raises(CannotCopyError, match="the set-up here has not made"):
        packing.unpack(packed.payload, packed.large, [path], fresh.anchors, nothing)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: {"g": (k for k in range(5))}, "next(g)"),
        (lambda: {"g": [(k for k in range(5))]}, "next(g[0])"),
        (lambda: {"g": None}, "g = (k for k in range(5))"),
    ],
)
def test_a_generator_that_has_moved_is_refused(make: Callable[[], Names], code: str) -> None:
    with pytest.raises(AssertionError, match="generator"):
        travelled(make, run(code))


# --- values that are drawn ----------------------------------------------------------------------

leaves: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
)
leaves |= st.binary(max_size=3) | st.integers(0, 4).map(lambda n: np.arange(float(n)))
leaves |= st.sets(st.integers(), max_size=3) | st.integers(0, 9).map(lambda n: np.float32(n))


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, max_size=3)
    return (
        some
        | some.map(tuple)
        | some.map(collections.deque)
        | st.dictionaries(st.text(max_size=2) | st.integers(), inner, max_size=3)
        | inner.map(lambda part: Solver(part=part))
        | inner.map(lambda part: [part, part])
        | inner.map(lambda part: State(0.5, [part]))
    )


values = st.recursive(leaves, nested, max_leaves=8)
CHANGES = ["append", "replace", "alias", "swap", "delete", "share", "empty"]
steps = st.lists(st.tuples(st.sampled_from(CHANGES), st.integers(0, 99), values), max_size=5)


def containers(names: Names) -> list[Any]:
    """All lists, dicts and objects that can be reached, each once, in an order that is fixed."""
    found: dict[int, Any] = {}

    def visit(value: Any) -> None:
        if id(value) in found:
            return
        if isinstance(value, list | dict | Solver | State | collections.deque):
            found[id(value)] = value
        inside = vars(value) if isinstance(value, Solver | State) else value
        if isinstance(inside, dict):
            inside = list(inside.values())
        for part in inside if isinstance(inside, list | tuple | collections.deque) else ():
            visit(part)

    for value in names.values():
        visit(value)
    return list(found.values())


def changed_by(names: Names, step: str, number: int, value: Any) -> None:
    have = containers(names)
    name = sorted(names)[number % len(names)]
    target = have[number % len(have)] if have else None
    match step:
        case "replace":
            names[name] = value
        case "alias" if have:
            names[name] = target
        case "swap":
            other = sorted(names)[-1]
            names[name], names[other] = names[other], names[name]
        case "append" if isinstance(target, list | collections.deque):
            target.append(value)
        case "append" if isinstance(target, dict):
            target[str(number)] = value
        case "append" if isinstance(target, Solver):
            target.more = value  # type: ignore[attr-defined]
        case "share" if isinstance(target, list | collections.deque):
            target.append(have[(number * 7) % len(have)])
        case "share" if isinstance(target, dict):
            target["shared"] = have[(number * 7) % len(have)]
        case "delete" if isinstance(target, list | collections.deque) and target:
            del target[0]
        case "delete" if isinstance(target, dict) and target:
            del target[next(iter(target))]
        case "empty" if isinstance(target, list | dict | collections.deque):
            target.clear()


@given(st.lists(values, min_size=1, max_size=4), steps)
def test_drawn_values_change_and_travel(drawn: list[Any], changes: list[Any]) -> None:
    import copy

    def make() -> Names:
        return {f"v{k}": part for k, part in enumerate(copy.deepcopy(drawn))}

    def change(names: Names) -> None:
        for step, number, value in copy.deepcopy(changes):
            changed_by(names, step, number, value)

    old, new = travelled(make, change)
    assert_alike(old.names, new.names)


def test_memory_is_ready_and_what_it_holds_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"filled": np.arange(1e5), "zeros": np.zeros(10**5), "short": np.ones(3)}
    anchors = Survey(None, nothing).take([PlayedScope(names)]).anchors  # type: ignore[list-item]
    calls: list[int] = []
    populate = packing.populate

    def counted(memory: Any) -> None:
        calls.append(memory.nbytes)
        populate(memory)

    monkeypatch.setattr(packing, "populate", counted)
    packing.ready(anchors)
    assert calls == [800_000, 800_000]
    assert (names["filled"] == np.arange(1e5)).all() and not names["zeros"].any()
    monkeypatch.setenv(survey.BYTES_VARIABLE, "1000000")  # all of it would not travel
    packing.ready(anchors)
    assert len(calls) == 2


class Tallied(enum.Enum):
    """A member that counts."""

    RED = 1

    def __init__(self, _number: int) -> None:
        self.seen = 0


def test_a_member_inside_of_what_only_its_class_reads_is_the_same_later() -> None:
    """It is read before the member itself is found: what stands for it must not change then."""
    scope: Any = PlayedScope({"pair": Pair(Tallied.RED, 1), "last": Tallied.RED})
    first = Survey(None, nothing).take([scope])
    assert not changed(first, Survey(first.anchors, nothing).take([scope]))
    Tallied.RED.seen += 1
    again = Survey(first.anchors, nothing).take([scope])
    assert [path[1] for path in changed(first, again)] == [("a", "seen")]
