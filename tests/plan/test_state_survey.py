"""The walk over a program's variables: which there are, how they are named, how they are set."""

from __future__ import annotations

import gc
import importlib.util
import io
import json
import socket
import sys
import types
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from resize_lib.mistakes import is_program
from resize_lib.state import survey
from resize_lib.state.places import CONTENTS
from resize_lib.state.program import (
    FRAME,
    MODULE,
    CannotUnbindError,
    Scope,
    is_program_class,
    modules,
    running,
    scopes,
)
from resize_lib.state.survey import Survey, TooMuchError
from tests.plan.travel import OWNER, PlayedScope, changed, nothing


class Solver:
    """Of the program."""

    def __init__(self, **parts: Any) -> None:
        self.__dict__.update(parts)


def taken(scope: PlayedScope, first: Survey | None = None) -> Survey:
    return Survey(first.anchors if first else None, nothing).take([scope])  # type: ignore[list-item]


def closure() -> Callable[[], int]:
    count = 0

    def add() -> int:
        nonlocal count
        count += 1
        return count

    return add


def scaled(x: float, by: float = 2.0, *, to: str = "a") -> float:
    return x * by + len(to)


# What the set-up makes, what the loop does, and the places that have changed, as they are shown.
CHANGED = [
    ({"n": 1}, "n = 2", {"n"}),
    ({"n": 1}, "n = int('1')", set()),
    ({"a": [1]}, "a.append(2)", {"a"}),
    ({"a": [1]}, "a = [1]", {"a"}),  # an equal one, but another
    ({"a": [1]}, "a = [2]", {"a"}),
    ({"d": {"x": 1, "y": 2}}, "d['x'] = 5", {"d['x']"}),
    ({"d": {"x": {"y": [1]}}}, "d['x']['y'].append(2)", {"d['x']['y']"}),
    ({"d": {"x": 1}}, "d['z'] = 1", {"d['z']", "d"}),
    ({"d": {1: 1}}, "d[1] = 2", {"d"}),
    ({"o": Solver(t=0, dt=1)}, "o.t += o.dt", {"o.t"}),
    ({"o": Solver(inner=Solver(t=0))}, "o.inner.t = 1", {"o.inner.t"}),
    ({"o": Solver(all=[[0], [1]])}, "o.all[1].append(5)", {"o.all"}),
    ({"o": Solver(t=0)}, "o.new = 1", {"o.new", "o"}),
    ({"f": closure()}, "f()", {"count of f"}),
    ({"f": scaled}, "f.__defaults__ = (3.0,)", {"f"}),
    ({"f": scaled}, "f.__kwdefaults__['to'] = 'b'", {"f"}),
    ({"a": np.zeros(9)}, "a[3] = 1", {"a"}),
    ({"a": np.zeros(9), "b": [np.zeros(2)]}, "b[0][1] = 1", {"b"}),
    ({"t": (1, [2])}, "t[1].append(3)", {"t"}),
    ({"a": [1], "b": [2]}, "a, b = b, a", {"a", "b"}),
    ({"s": {1, 2}}, "s.add(1)", set()),
    ({"g": np.random.default_rng(1)}, "g.random()", {"g"}),
]


@pytest.mark.parametrize(("names", "code", "places"), CHANGED, ids=[row[1] for row in CHANGED])
def test_exactly_what_the_loop_changes_is_changed(
    names: dict[str, Any], code: str, places: set[str]
) -> None:
    scope = PlayedScope(names)
    first = taken(scope)
    assert not changed(first, taken(scope, first)), "looking changes nothing"
    exec(code, globals(), scope.names)
    now = taken(scope, first)
    assert {now.anchors.shown(path) for path in changed(first, now)} == places


def test_only_names_that_matter_are_read() -> None:
    scope = PlayedScope({"a": [1], "b": [2], "c": 3})
    first = taken(scope)
    found = Survey(first.anchors, nothing)
    found.take([scope], {OWNER: frozenset(("a", "c"))})  # type: ignore[list-item]
    assert {path[1][1] for path in found.places if path[0] == OWNER} == {"a", "c"}


def test_names_of_python_itself_are_no_variables() -> None:
    found = taken(PlayedScope({"__name__": "x", "__file__": "y", "_own": 1}))
    assert {path[1] for path in found.places if path[0] == OWNER} == {("v", "_own")}


def test_what_cannot_be_read_does_not_hide_the_rest() -> None:
    with socket.socket() as open_socket:
        found = taken(PlayedScope({"a": 1, "s": open_socket, "z": [2]}))
    shown = {found.anchors.shown(path) for path in found.unreadable}
    assert shown == {"s"}
    assert {found.anchors.shown(path) for path in found.elsewhere} == {"s"}
    assert (OWNER, ("v", "z")) in found.digests


def test_a_cycle_and_a_long_chain_come_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(survey.TIME_VARIABLE, "5000")
    ring: list[Any] = []
    ring.append(ring)
    chain: Any = None
    for _ in range(1200):
        chain = Solver(next=chain)
    found = taken(PlayedScope({"ring": ring, "chain": chain}))
    assert len(found.places) > 1200


def test_too_many_variables_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(survey.TIME_VARIABLE, "0.001")
    collects = gc.isenabled()
    with pytest.raises(TooMuchError, match=r"take more than 0.001 ms .*DQ_CARRY_MS"):
        taken(PlayedScope({"a": [1]}))
    assert gc.isenabled() == collects


def test_an_object_that_is_gone_is_no_anchor() -> None:
    """Another object may get its id."""
    scope = PlayedScope({"a": np.zeros(5)})
    first = taken(scope)
    for _ in range(50):
        scope.names["a"] = np.ones(5)
        assert first.anchors.of(scope.names["a"]) is None
        assert (OWNER, ("v", "a")) in changed(first, taken(scope, first))


def test_an_object_is_read_once_wherever_it_is() -> None:
    one = Solver(t=0)
    found = taken(PlayedScope({"a": one, "b": [one, one], "c": {"x": one}}))
    keys = {path[0] for path in found.places if path[1] == ("a", "t")}
    assert len(keys) == 1


def test_data_of_classes_are_places() -> None:
    class Counter:
        count = 0

    scope = PlayedScope({"counter": Counter()})
    first = taken(scope)
    Counter.count += 1
    now = taken(scope, first)
    (path,) = changed(first, now)
    assert now.anchors.shown(path).endswith("Counter.count")


def test_files_and_texts_in_memory_have_positions() -> None:
    scope = PlayedScope({"f": io.StringIO("abc")})
    first = taken(scope)
    scope.names["f"].read(1)
    ((_, step),) = changed(first, taken(scope, first))
    assert step == CONTENTS


# --- functions that run -------------------------------------------------------------------------


def scope_of(frame: FrameType) -> Scope:
    return Scope((FRAME, 0, "x.py", "f", 1), "x.py", 1, 2, frame, None)


def test_a_variable_of_a_running_function_is_bound_from_outside() -> None:
    def program() -> tuple[Any, ...]:
        plain, inside, later = 1, [2], None
        again = inside

        def reads() -> Any:
            return inside

        set_from_outside(sys._getframe())
        return plain, inside, reads(), again, later

    def set_from_outside(frame: FrameType) -> None:
        scope = scope_of(frame)
        assert scope.value("plain") == 1
        for name, value in (("plain", 5), ("inside", [6]), ("later", "x")):
            scope.bind(name, value)
        assert scope.variables()["inside"] == [6]

    assert program() == (5, [6], [6], [2], "x")


def test_a_name_that_is_not_bound_yet_is_bound_from_outside() -> None:
    def program() -> Any:
        scope_of(sys._getframe()).bind("later", 7)
        for later in sys.argv[:0]:  # noqa: B007
            pass
        return later

    assert program() == 7


def test_a_variable_of_a_running_function_is_deleted_or_that_is_refused() -> None:
    def program() -> bool:
        gone = 1
        try:
            scope_of(sys._getframe()).unbind("gone")
        except CannotUnbindError as e:
            assert "gone" in str(e)
            assert "bind it to None" in str(e)
            return sys.version_info >= (3, 12)
        try:
            return gone == 0
        except UnboundLocalError:
            return True

    assert program()


def test_a_global_is_bound_and_deleted() -> None:
    module = types.ModuleType("program")
    scope = Scope((MODULE, "program"), "program.py", 0, 0, None, module)
    scope.bind("a", 1)
    assert (scope.variables()["a"], scope.value("a")) == (1, 1)
    scope.unbind("a")
    scope.unbind("a")
    assert not hasattr(module, "a")


def test_functions_of_the_program_that_run_are_found_outermost_first() -> None:
    def inner() -> list[Scope]:
        own = [frame for frame in running() if frame.f_code.co_filename == __file__]
        return [scope for scope in scopes(own) if scope.module is None]

    def outer() -> list[Scope]:
        return inner()

    found = outer()
    assert [scope.owner[3].rpartition(".")[2] for scope in found[-2:]] == ["outer", "inner"]
    assert all(scope.file == __file__ and scope.line for scope in found)
    assert len({scope.owner for scope in found}) == len(found)


def test_modules_that_load_at_the_first_look_are_not_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "lazily.py").write_text("raise AssertionError('it is loaded')\n")
    spec = importlib.util.spec_from_file_location("lazily", tmp_path / "lazily.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "lazily", module)
    spec.loader.exec_module(module)
    assert module not in modules()
    assert not is_program_class(type("A", (), {"__module__": "lazily"}))


def test_packages_of_any_environment_are_not_the_program() -> None:
    assert not is_program("/elsewhere/lib/python3.11/site-packages/solving/core.py")
    assert not is_program("/usr/lib/python3/dist-packages/numpy/core/multiarray.py")
    assert is_program("/home/user/packages/solving/core.py")
    assert not is_program(json.__file__)
