"""What a source says about a variable."""

from __future__ import annotations

from dataclasses import dataclass, field

from dq_client.check.roles import Role


@dataclass(frozen=True, slots=True)
class Variable:
    """How a program treats one of its names, or all attributes of one name."""

    line: int = 0  # where it is bound before the loop, the last such line; else in it; 0: unknown
    accumulates: bool = False  # its new value in the loop depends on the old one
    used: bool = True  # beyond its own update, what is printed, and times
    # What its bindings outside and inside the innermost loop depend on: rank, size, part, clock,
    # empty (what memory had by chance).
    set_up: frozenset[str] = field(default_factory=frozenset)
    loop: frozenset[str] = field(default_factory=frozenset)
    rebuilt: bool = False  # bound in a function of @rs.on_resize or @rs.setup
    changed_line: int = 0  # where the loop first binds or changes it; 0: the source shows none
    role: Role = Role.NONE  # whether ranks change it by their place among the others
    # If it follows from the number of ranks and is not used: what the loop adds up is made of it.
    summed: bool = False
    curve: bool = False  # each iteration adds an item of the rank's own (curves.py)
    # If the loop does not change it, as far as the source shows: whether others use it.
    read: bool = False
    file: str = ""  # of `line`; empty: unknown
    changed_file: str = ""  # of `changed_line`
    recurs: bool = False  # a rank that joins cannot begin with the set-up's (recurrence.py)
    reset: bool = False  # rebuilt, and the loop goes on from what it has left there


UNKNOWN = Variable(accumulates=True)
