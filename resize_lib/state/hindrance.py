"""What keeps a program from being joined, whatever its variables are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import FunctionType, MethodType

from dq_client.check.facts import Facts
from resize_lib.mistakes import short_path
from resize_lib.state.program import Scope, is_program_class, is_program_function

COMPREHENSIONS = frozenset(("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"))
_HIDDEN = (
    "the loop is inside of an expression, whose result so far nobody can see: write a for loop over"
    " rs.iterations"
)


def hindrance(scopes: Sequence[Scope], facts_of: Callable[[Scope], Facts]) -> str:
    """Why no rank can join; empty: there is nothing.

    scopes: the functions around the loop, outermost first, then the modules
    """
    around = [scope for scope in scopes if scope.frame is not None]
    functions = [scope for scope in around if scope.module is None]
    inner = functions[-1] if functions else next((s for s in around if s.line), None)
    if inner is not None and inner.frame is not None:
        named = inner.frame.f_code.co_name in COMPREHENSIONS
        if named or facts_of(inner).hides_loop(inner.line):
            return f"{short_path(inner.file)}:{inner.line}: {_HIDDEN}"
    return _thread()


def _thread() -> str:
    for thread in threading.enumerate():
        target = getattr(thread, "_target", None)
        function = target.__func__ if isinstance(target, MethodType) else target
        of_program = isinstance(function, FunctionType) and is_program_function(function)
        if of_program or (is_program_class(type(thread)) and thread is not threading.main_thread()):
            code = getattr(function, "__code__", None)
            where = f"{short_path(code.co_filename)}:{code.co_firstlineno}: " if code else ""
            return (
                f"{where}a thread of the program runs beside the loop ({thread.name}), and what it"
                " has done cannot be copied to a rank that joins: start it in @rs.on_resize, and"
                " end it there, too"
            )
    return ""
