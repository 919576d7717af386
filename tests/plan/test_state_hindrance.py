"""What keeps a program from being joined: a loop inside of an expression, threads that run."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dq_client.check.facts import Facts, facts_of
from resize_lib.state.hindrance import hindrance
from resize_lib.state.program import running, scopes


def asked(source: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a program; what keeps it from being joined where `each()` takes its first item."""
    file = tmp_path / "hidden.py"
    file.write_text(source)
    found: list[str] = []
    texts = {str(file): facts_of(source, str(file))}

    def iterations(count: int) -> Iterator[int]:
        of_program = [f for f in running(sys._getframe(1)) if f.f_code.co_filename == str(file)]
        around = [scope for scope in scopes(of_program) if scope.frame is not None]
        found.append(hindrance(around, lambda scope: texts.get(scope.file, Facts(None, ""))))
        yield from range(count)

    monkeypatch.chdir(tmp_path)
    module = type(sys)("hidden")
    module.__file__ = str(file)
    monkeypatch.setitem(sys.modules, "hidden", module)
    vars(module)["iterations"] = iterations
    exec(compile(source, str(file), "exec"), vars(module))
    assert found, "the program has asked for iterations"
    return found[0]


HIDDEN = {
    "list": "x = [t for t in iterations(3)]",
    "dict": "x = {t: 1 for t in iterations(3)}",
    "set": "x = {t for t in iterations(3)}",
    "sum": "x = sum(t for t in iterations(3))",
    "list of it": "x = list(iterations(3))",
    "function": "def f():\n    return [t for t in iterations(3)]\nf()",
    "map": "x = list(map(str, iterations(3)))",
    "argument": "print(*iterations(3), file=None)",
    "nested": "x = [[u for u in range(2)] for t in iterations(3)]",
}  # fmt: skip
SEEN = {
    "for": "for t in iterations(3):\n    pass",
    "function": "def f():\n    for t in iterations(3):\n        pass\nf()",
    "enumerate": "for k, t in enumerate(iterations(3)):\n    pass",
    "generator": "def f():\n    for t in iterations(3):\n        yield t\nfor t in f():\n    pass",
    "while": "i = iterations(3)\nwhile next(i, None) is not None:\n    pass",
    "comprehension inside": "for t in iterations(3):\n    x = [k for k in range(t)]",
}


@pytest.mark.parametrize("name", HIDDEN)
def test_a_loop_inside_of_an_expression_is_named(
    name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = next(n for n, text in enumerate(HIDDEN[name].splitlines(), 1) if "iterations" in text)
    why = asked(HIDDEN[name], tmp_path, monkeypatch)
    assert why.startswith(f"hidden.py:{line}: the loop is inside of an expression")
    assert "write a for loop" in why


@pytest.mark.parametrize("name", SEEN)
def test_a_loop_that_stands_for_itself_is_none(
    name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asked(SEEN[name], tmp_path, monkeypatch) == ""


@contextmanager
def running_thread(thread: threading.Thread, end: threading.Event) -> Iterator[None]:
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def wait_for(end: threading.Event) -> None:
    end.wait()


class Worker(threading.Thread):
    def __init__(self, end: threading.Event) -> None:
        super().__init__(name="of a class")
        self.end = end

    def run(self) -> None:
        self.end.wait()


def test_a_thread_of_the_program_is_named() -> None:
    end = threading.Event()
    thread = threading.Thread(target=wait_for, args=(end,), name="counts")
    assert hindrance([], lambda _scope: Facts(None, "")) == ""
    with running_thread(thread, end):
        why = hindrance([], lambda _scope: Facts(None, ""))
    line = wait_for.__code__.co_firstlineno
    assert f"test_state_hindrance.py:{line}: " in why
    assert "counts" in why and "@rs.on_resize" in why
    assert hindrance([], lambda _scope: Facts(None, "")) == ""


def test_a_thread_of_a_class_of_the_program_is_named() -> None:
    end = threading.Event()
    with running_thread(Worker(end), end):
        assert "of a class" in hindrance([], lambda _scope: Facts(None, ""))


def test_a_thread_of_a_package_is_none() -> None:
    end = threading.Event()
    with running_thread(threading.Thread(target=end.wait), end):
        assert hindrance([], lambda _scope: Facts(None, "")) == ""
