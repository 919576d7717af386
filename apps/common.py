"""What the sample applications share."""

from __future__ import annotations

import argparse
import json
import math
from typing import TYPE_CHECKING

from apps.linalg.verification import PASSES_BELOW

if TYPE_CHECKING:
    from resize_lib.jobsession import Session

ERROR_MAX = 1e-10  # relative difference from numpy


def positive(text: str) -> int:
    """A whole number of at least 1, for argparse."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return value


def verdict(rs: Session, app: str, residual: float, error: float | None) -> int:
    """Print the outcome of a check, one JSON line from rank 0; exit code 1 if it is bad.

    `residual` is scaled (apps.linalg.verification), `error` the relative difference from numpy's
    own result where the problem is small enough to compare, else None.
    """
    good = residual < PASSES_BELOW and (error is None or error < ERROR_MAX)
    if rs.rank == 0:
        figure = None if error is None or math.isnan(error) else error
        outcome = {
            "check": app,
            "ok": good,
            "residual": residual,
            "error": figure,
            "processors": rs.size,
        }
        print(json.dumps(outcome), flush=True)
    return 0 if good else 1
