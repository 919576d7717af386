"""Own sums of ranks that equal others by chance when a rank leaves: no part is lost unsaid."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import walks
from harness.commands import ClusterError
from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]

TALLY = "class Tally:\n    count = 0\n    def add(self, n):\n        self.count += n\n"
PROGRAM = """\
import os, sys
sys.path.insert(0, os.path.dirname(__file__))
import resize_lib
from tally import Tally
rs = resize_lib.session()
tally = Tally()
add = {add}
for step in rs.iterations(8):
    add({added})
total = rs.comm.allreduce(tally.count)
"""
HIDDEN = 'getattr(tally, str("add"))'  # no line shows what is called
CASES = {
    "rank 2 has what rank 0 has": ("1 + rs.rank % 2", "tally.add", "is added up by each rank"),
    "all have the same at first": (
        "1 if step < 5 else 1 + rs.rank",
        HIDDEN,
        "has taken its part with it",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_shrink_is_refused_or_the_job_fails(ordered: Live, tmp_path: Path, case: str) -> None:
    added, add, told = CASES[case]
    (tmp_path / "tally.py").write_text(TALLY)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(added=added, add=add))
    (folder := tmp_path / "gates").mkdir()
    with pytest.raises((ClusterError, AssertionError), match=told):
        walks.resized(ordered, folder, [program], {2: 2}, first=3)
