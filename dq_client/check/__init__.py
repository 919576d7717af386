"""`dq check`: finds habits of MPI programs that go wrong when ranks join and leave.

It reads the source and runs nothing: names.py knows what expressions stand for, walk.py goes
through a program as it would run, each loop twice, findings.py says what is found. It follows calls
of functions of the same file, and knows nothing of others. docs/mistakes.md explains the findings.
"""

from dq_client.check.findings import CODES, Finding
from dq_client.check.source import check_source, undeclared

__all__ = ["CODES", "Finding", "check_source", "undeclared"]
