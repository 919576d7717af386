"""What can be wrong with what a simulation is given. One line each: what, where, what to do."""

from __future__ import annotations


class WorkloadError(Exception):
    """A workload that cannot be read, with the file and, if it has one, the line."""
