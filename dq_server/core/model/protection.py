"""Protected jobs: what was agreed on, what their copies cost, and which ends lead to a restart.

The resize library keeps a copy of a protected job's data at remap points (docs/protection.md). When
a node is lost, a rank is killed or MPI tears the job down, the job goes back into the queue and
starts again from its newest complete copy, on whatever is left (features/protection.py).

A program that fails by itself is not restarted: it would fail again. How it ended is told by the
exit code of MPI's launcher, which is made of its ranks' codes and the signals that killed them by a
bitwise or:

    4, 6, 7, 8, 9, 11, 13, 15   signals, one or several of them (a rank was killed, or crashed)
    75 (EX_TEMPFAIL), 79        the resize library's word for "I lost the others"
    128 and more, or negative   a shell's and a keeper's codes for signals; 255: a node's proxy died

Everything else is the program's own failure. A program that crashes by its own bug counts as
killed; the number of restarts is bounded for that reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from dq_server.core.model.errors import InvalidSpec, known_words

AUTO = "auto"  # of a submission: the server chooses (`chosen`)
BY_RECIPE = "recipe"  # the program's own checkpoints (resize_lib/recipes)
HOW = ("disk", "partner", BY_RECIPE)
TORN_DOWN = frozenset({4, 6, 7, 8, 9, 11, 13, 15, 75, 79})
RESTARTS = 3


@dataclass(frozen=True, slots=True)
class Protection:
    """How a job is protected.

    how           disk | partner: where the copies are kept; recipe: the program's own checkpoints
    every_points  a copy at every so many remap points; None: not counted
    every_s       seconds between copies at least; None: not measured. With neither, as often as
                  copies take at most a twentieth of the time
    folder        where copies on disk go; empty: the job's folder in $DQ_HOME
    restarts      how often the job is restarted at most
    budget        share of the time that copies may take, if neither is given; None: a twentieth
    """

    how: str
    every_points: int | None = None
    every_s: float | None = None
    folder: str = ""
    restarts: int = RESTARTS
    budget: float | None = None

    def validate(self) -> None:
        """Raise InvalidSpec with one clear line if this makes no sense."""
        if self.how not in HOW:
            raise InvalidSpec(f"unknown protection {self.how!r}; {known_words(self.how, HOW)}")
        if self.every_points is not None and self.every_points < 1:
            raise InvalidSpec(f"a copy every {self.every_points} remap points: 1 or more")
        if self.every_s is not None and not 0 < self.every_s < float("inf"):
            raise InvalidSpec(f"a copy every {self.every_s} seconds: more than 0")
        if self.folder and not self.folder.startswith("/"):
            raise InvalidSpec(f"the folder for copies must be absolute, not {self.folder!r}")
        if "\0" in self.folder:
            raise InvalidSpec("a NUL character in the folder for copies")
        if self.budget is not None and not 0 < self.budget <= 1:
            raise InvalidSpec(f"a budget of {self.budget} for copies: more than 0, at most 1")
        if self.budget is not None and (self.every_points or self.every_s):
            raise InvalidSpec("give either how often copies are made or the time they may take")
        if self.restarts < 0:
            raise InvalidSpec(f"{self.restarts} restarts: 0 or more")


def chosen(*, several_machines: bool, largest: int, node: int) -> str:
    """Where the copies of a job are kept whose user leaves that to the server.

    Copies in a partner's memory need no folder that all nodes share. Without a second node there
    is no partner.

    several_machines  nodes may be on several machines, as those of a pool are
    largest           legal size of the job, in processors
    node              processors of the largest node
    """
    return "partner" if several_machines and largest > node else "disk"


def torn_down(exit_code: int) -> bool:
    """Whether an exit code says that the job was killed rather than failed by itself."""
    return exit_code < 0 or exit_code >= 128 or exit_code in TORN_DOWN
