"""Files that a rank writes for itself in one iteration and reads in another.

Their names have the rank's number, or they stand in a folder that the process has made for itself.
What is in them belongs to the part of the data that the rank had, and a resize gives it another
one. A file that is written in each iteration before it is read is scratch.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dq_client.check import words as w
from dq_client.check.graph import Node
from dq_client.check.near import bits_of, is_on_root, near_of

if TYPE_CHECKING:
    from dq_client.check.program import Program

READS = frozenset(("load", "loadtxt", "genfromtxt", "fromfile", "read_text", "read_bytes"))
WRITES = frozenset(("save", "savez", "savetxt", "tofile", "write_text", "write_bytes", "dump"))


@dataclass(eq=False, slots=True)
class FileUse:
    """A call that opens a file by its name.

    name: what the name is computed from. control: the conditions around it
    """

    scope: int
    line: int
    writes: bool
    name: Sequence[Node]
    control: Node | None


def file_is_written(node: ast.Call, name: str, *, of_module: bool) -> bool | None:
    """Return whether a call writes a file, or reads it; None: it does neither.

    of_module: the function is one of a library, such as numpy
    """
    if name == "open":
        modes = [*node.args[1:2], *(each.value for each in node.keywords if each.arg == "mode")]
        if isinstance(node.func, ast.Attribute):  # of a path
            modes = [*node.args[:1], *modes]
        text = str(getattr(modes[0], "value", "")) if modes else "r"
        return None if "a" in text else "r" not in text
    if name in READS | WRITES and (of_module or name.startswith(("read_", "write_", "to"))):
        return name in WRITES
    return None


def file_lines(program: Program, runs: Callable[[int, int], bool]) -> Iterator[int]:
    """Yield the lines that read such a file.

    runs: whether a line of a scope runs in the loop
    """
    inside = [use for use in program.files if runs(use.scope, use.line)]
    for use in inside:
        bits = 0 if use.writes else bits_of(use.name, of=w.RANK | w.SIZE | w.CLOCK)
        by_rank = bits & w.RANK and not bits & (w.SIZE | w.CLOCK)
        # In a folder of the process: what its set-up wrote may stay, not what iterations write.
        by_process = bits & w.PROCESS and any(_is_written_by_all(use, each) for each in inside)
        if (by_rank or by_process) and not _is_scratch(use, inside):
            yield use.line


def _is_written_by_all(one: FileUse, other: FileUse) -> bool:
    """Whether it writes what may be the same file, and not on rank 0 alone."""
    if not other.writes or is_on_root(Node(control=other.control)):
        return False
    return not set(near_of(one.name)).isdisjoint(n for n in near_of(other.name) if n.source)


def _is_scratch(read: FileUse, uses: list[FileUse]) -> bool:
    """Whether each iteration writes before this line, whatever the conditions are."""
    around = set(_around(read.control))
    before = (each for each in uses if each.scope == read.scope and each.line < read.line)
    return any(each.writes and (each.control is None or each.control in around) for each in before)


def _around(control: Node | None) -> Iterator[Node]:
    while control is not None:
        yield control
        control = control.control
