"""A program's source: what is found in it, and what it should have declared."""

from __future__ import annotations

import ast

from dq_client.check.findings import Finding
from dq_client.check.names import session_is_opened
from dq_client.check.walk import Walk, makes_turns


def check_source(source: str, file: str) -> list[Finding]:
    """All findings in a program, by line."""
    try:
        return _walked(source, file, into_calls=True).findings
    except SyntaxError as error:
        return [Finding(file, error.lineno or 1, "syntax", f"the file is no Python: {error.msg}")]


def undeclared(source: str, file: str) -> list[tuple[int, str, str]]:
    """State in names, `obj.attribute` and `table["key"]`: the line, the name, how it came about.

    How: "carried" from turn to turn, "swapped" declared data, or "kept" from before a resize.
    """
    try:
        return list(dict.fromkeys(_walked(source, file, into_calls=False).state))
    except SyntaxError:  # of a file that is no Python: nothing can be said
        return []


def _walked(source: str, file: str, *, into_calls: bool) -> Walk:
    walk = Walk(file, ast.parse(source, file), into_calls=into_calls)
    # A program without a session is not resized.
    if any(session_is_opened(n) or makes_turns(n) for n in ast.walk(walk.tree)):
        walk.program()
    return walk
