"""`dq submit --protect` and what `dq job` says about it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dq_client import messages as m
from dq_client.cli.values import parse_time
from dq_client.errors import UsageError


def parse_protection(o: dict[str, Any]) -> m.Protect | None:
    """How the job is to be protected; None: it is not."""
    if o["protect"] is None:
        for option in ("protect_every", "protect_dir", "restarts"):
            if o[option] is not None:
                raise UsageError(f"--{option.replace('_', '-')} needs --protect")
        return None
    every: str | None = o["protect_every"]
    points = seconds = None
    if every is not None and every.isdecimal():
        points = int(every)
    elif every is not None:
        seconds = parse_time("--protect-every", every)
    if points is not None and not 0 < points <= m.COUNT_MAX:
        raise UsageError(
            f"--protect-every {every}: give a number of remap points from 1, or 30s, 5m"
        )
    if o["restarts"] is not None and not 0 <= o["restarts"] <= m.COUNT_MAX:
        raise UsageError(f"--restarts {o['restarts']}: give a number from 0 to {m.COUNT_MAX}")
    folder: Path | None = o["protect_dir"]
    if folder is not None and not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"--protect-dir {folder}: no folder that can be written; make it first")
    return m.Protect(
        how=o["protect"],
        every_points=points,
        every_s=seconds,
        folder=str(folder.absolute()) if folder is not None else "",
        restarts=3 if o["restarts"] is None else o["restarts"],
    )


def protection_line(view: dict[str, Any]) -> str:
    """How a job is protected, what its copies cost, how often it was restarted."""
    p = view["protection"]
    line = f"{p['how']}, {view['restarts']} of {p['restarts_max']} restarts, {p['copies']} copies"
    if p["copies"]:
        mib = p["bytes"] / (1 << 20)
        line += f" ({p['copies_total_s']:.3g} s), the last of turn {p['step']}: {mib:.4g} MiB"
    return line + (f"; failing: {p['error']}" if p["error"] else "")
