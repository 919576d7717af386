"""What a job of one rank has given to ranks that joined: was it the job's, as it seemed?

One rank alone cannot show whether a variable is the job's or its own. Where the source does not
show it either, a joining rank is given what rank 0 has. If these variables differ at the end of the
loop, and each rank has added to its own, the ranks that joined have begun with what was rank 0's
part: the result is wrong, and the job fails. So it does where a rank has left while all had the
same by chance.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mpi4py import MPI

from resize_lib.redistribution.agreement import gather_texts
from resize_lib.state import verdict
from resize_lib.state.comparison import Told
from resize_lib.state.objects import FILE, STREAMS
from resize_lib.state.places import Path
from resize_lib.state.sources import Sources, is_setting, shown
from resize_lib.state.survey import Survey

_WAS_OWN = (
    "is added up by each rank for itself, and a rank that joined has begun with what rank 0 had,"
    " which one rank alone could not know: declare it (rs.local_state), take a view of an array in"
    " the iteration that uses it, or start with two ranks"
)
_HAS_LEFT = (
    "is added up by each rank for itself, and a rank that left, where all ranks had the same by"
    " chance, has taken its part with it: add it up over all ranks in the iteration, or say with"
    " rs.local_state what becomes of it"
)


@dataclass(slots=True)
class AtEnd:
    """Of one process.

    carried: places that were given to ranks, or that this one was given, while the job was one rank
    left: places that were the same, perhaps by chance, on ranks that have left
    expected: both, of a resize that is under way. digests: of them, when the last loop ended.
    reasons: why another value elsewhere is wrong
    """

    carried: set[Path] = field(default_factory=set)
    left: set[Path] = field(default_factory=set)
    expected: tuple[Iterable[Path], Iterable[Path]] = (), ()
    digests: dict[Path, bytes] = field(default_factory=dict)
    reasons: dict[Path, str] = field(default_factory=dict)

    def settle(self) -> None:
        """The resize has been done."""
        carried, left = self.expected
        self.carried.update(carried)
        self.left.update(left)
        self.expected = (), ()

    def saw(self, mine: Told, found: Survey, sources: Sources) -> None:
        """What this rank has at the end of a loop."""
        self.digests, self.reasons = {}, {}
        for path in sorted((self.carried | self.left) & found.places.keys(), key=repr):
            place, now = found.places[path], mine.digest(path)
            stream = place.kind is FILE or place.kind in STREAMS or is_setting(path)
            if stream or now is None or path in found.opaque:
                continue
            facts = sources.variable(found, path)
            known = facts if sources.is_known(found, path) else None
            if verdict.lost(mine.before.get(path), now, known):
                line = sources.line_of(found, path, facts.changed_line)
                self.digests[path] = now
                why = _WAS_OWN if path in self.carried else _HAS_LEFT
                self.reasons[path] = f"{line}: {shown(found, path)} {why}"

    def mistake(self, comm: MPI.Intracomm) -> str:
        """Why the result is wrong, if it is; the same on all ranks. Collective."""
        texts = gather_texts(comm, MPI.pickle.dumps(self.digests).hex())
        seen: dict[Path, set[bytes]] = {}
        for text in texts:
            for path, digest in MPI.pickle.loads(bytes.fromhex(text)).items():
                seen.setdefault(path, set()).add(digest)
        why = next((self.reasons[p] for p in self.reasons if len(seen[p]) > 1), "")
        return next(filter(None, gather_texts(comm, why)), "")
