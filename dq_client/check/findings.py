"""What can be found in a program, and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass

CODES = {
    "syntax": "the file is no Python: {what}",
    "communicates-early": "{what} before a loop cannot be repeated for ranks that join later, which"
    " run this alone: use bcast, allreduce or allgather, whose results they get, or do it in"
    " @rs.setup",
    "kept-part": "{what} is kept over a remap point (used in {used}): after a resize the data are"
    " elsewhere; fetch it again in every iteration",
    "kept-communicator": "{what} is kept over a remap point (used in {used}): after a resize it is"
    " another one (only rs.comm may be kept); make it in @rs.on_resize, or in every iteration",
    "kept-number": "{what} is computed from the rank or the number of ranks before the loop: after"
    " a resize it is another number; compute it in every iteration",
    "lost-at-shrink": "{what} is added up by each rank for itself: a rank that leaves takes its"
    " part with it; add it up over all ranks in the iteration, or declare it with rs.local_state",
    "cannot-travel": "{what} is a generator that the loop advances: it cannot be copied to a rank"
    " that joins; use a list, an iterator over one, or compute from the iteration's number",
    "one-rank-leaves": "{what} where only some ranks come: the others wait for these for ever; all"
    " ranks must decide alike (broadcast the decision)",
    "uneven-loop": "{what}: all ranks must make the same iterations, and this number depends on the"
    " rank",
    "value-differs": "rs.value with {what}: a value must be the same on every rank; seed it, or"
    " let rank 0 draw it in the loop and broadcast it",
    "value-not-picklable": "rs.value with {what} cannot travel to ranks that join (pickle): build"
    " it on every rank instead",
    "declared-late": "{what} inside a loop over iterations: declare before the loop, where ranks"
    " that join make the same declarations",
    "declared-by-some": "{what} on some ranks only: every rank must make the same declarations",
    "no-remap-point": "the session has no loop over rs.iterations: the job can never be resized",
    "port-session": "an MPI program without a session is a job of fixed size; to port it: import"
    " resize_lib, and before the loop: rs = resize_lib.session()",
    "port-loop": "iterations of this loop communicate: loop over rs.iterations(...), and the end of"
    " each is a remap point",
    "port-array": "{what} is this rank's part of something: declare the whole (rs.array,"
    " rs.cartesian, rs.csr, rs.items) and take its .local in every iteration",
}


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One habit at one line of one file; `code` is a key of CODES."""

    file: str
    line: int
    code: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.code}: {self.text}"
