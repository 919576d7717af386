"""`dq check`: finds habits of MPI programs that go wrong when ranks join and leave.

It reads the source and runs nothing. facts.py answers questions about variables: which are live at
the head of a loop (liveness.py), and what their values come from, a graph (graph.py) that
statements.py, bindings.py, values.py and calls.py draw from the source and view.py looks at from
one loop (regions.py). Findings about variables are in variables.py. walk.py goes through a program
as it would run and finds calls, and parts of data, in the wrong place. port.py lists what a program
without a session has to change. The files near the main one (program_files.py) are one program
(linked.py). docs/mistakes.md explains the findings.
"""

from dq_client.check.findings import CODES, Finding
from dq_client.check.source import check_source

__all__ = ["CODES", "Finding", "check_source"]
