"""What can be found in a program, and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass

CODES = {
    "syntax": "the file is no Python: {what}",
    "communicates-early": "{what} communicates before a loop: ranks that join later run this alone;"
    " compute it on every rank, declare it (rs.value), or do it in @rs.on_resize",
    "comm-world": "{what}: COMM_WORLD is only the ranks that began together, in a job that grows"
    " another group than the job; use rs.comm, rs.rank and rs.size",
    "kept-part": "{what} is kept over a remap point (used in {used}): after a resize the data are"
    " elsewhere; fetch it again in every turn",
    "kept-communicator": "{what} is kept over a remap point (used in {used}): after a resize it is"
    " another one (only rs.comm may be kept); make it in @rs.on_resize, or in every turn",
    "kept-number": "{what} is kept over a remap point (used in {used}): after a resize it is"
    " another number; ask for it again in every turn",
    "carried": "{what} is left by one turn for the next: in a rank that joins it is what it was"
    " before the first; declare it (rs.value, rs.keep), or compute it from the turn",
    "swapped": "{what} is declared, and turns give it to another name: a rank that joins has it"
    " under its first one; swap the data, or choose by the turn:"
    " `u, v = (a, b) if turn % 2 == 0 else (b, a)`",
    "one-rank-leaves": "{what} where only some ranks come: the others wait for these for ever; all"
    " ranks must decide alike (broadcast the decision)",
    "uneven-loop": "{what}: all ranks must make the same turns, this number depends on the rank",
    "value-differs": "rs.value with {what}: a value must be the same on every rank; seed it, or"
    " let rank 0 draw it in the loop and broadcast it",
    "value-not-picklable": "rs.value with {what} cannot travel to ranks that join (pickle): build"
    " it on every rank instead",
    "declared-late": "{what} inside a loop over turns: declare before the loop, where ranks that"
    " join make the same declarations",
    "declared-by-some": "{what} on some ranks only: every rank must make the same declarations",
    "no-remap-point": "the session has no loop over rs.iterations: the job can never be resized",
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
