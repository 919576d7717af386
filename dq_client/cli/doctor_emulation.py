"""`dq doctor --emulation`: what emulated nodes really give, against what was asked for.

And `dq doctor --clean`: what contained clusters left in the kernel when they were killed.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dq_client import bringup
from dq_client import messages as m
from dq_client.cli.output import table
from dq_client.cluster import Cluster
from dq_client.connection import Connection
from dq_client.emulation import contained
from dq_client.emulation.fitting import require_fit
from dq_client.emulation.mechanism import choose
from dq_client.errors import DQError
from dq_client.home import Home

BUSY = (1, 9, 36)
PROBE = [sys.executable, "-m", "resize_lib.emulation.probe"]
PROBE_LIMIT_S = 120.0
SPEED_ERROR_MAX = 0.10
LINK_ERROR_MAX = 0.15


def run_emulation_doctor(
    cluster: Cluster,
    *,
    fidelity: str = "paced",
    busy: tuple[int, ...] = BUSY,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Measure an emulated cluster in a home of its own; `print_emulation` shows the result.

    `busy`: how many nodes compute at once; more than there are count as all. Returns one row per
    number with what was asked for, what nodes gave (median, least, most) and the errors.
    """
    require_fit(cluster)
    mechanism = choose(cluster, fidelity)
    core = core_gflops()
    say(f"one core at full speed: {core:.1f} GFLOP/s; {mechanism.words}")
    root = Path(tempfile.mkdtemp(prefix="dq-doctor-"))
    home = Home(root)
    try:
        bringup.bring_up(home, cluster, [], mechanism.name)
        rows = []
        for count in sorted({min(count, len(cluster.nodes)) for count in busy}):
            say(f"{count} nodes busy at once ...")
            rows.append(_row(cluster, core, count, _probe(home, count)))
    finally:
        bringup.bring_down(home, force=True)
        shutil.rmtree(root, ignore_errors=True)
    return {
        "cluster": cluster.name,
        "mechanism": mechanism.name,
        "words": mechanism.words,
        "core_gflops": core,
        "rows": rows,
        "ok": all(row["ok"] for row in rows),
    }


def core_gflops() -> float:
    """One core of this machine at full speed, over processor time."""
    done = subprocess.run(
        [*PROBE, "--alone"], capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    if done.returncode != 0:
        raise DQError(f"the speed of a core cannot be measured: {done.stderr.strip()[-300:]}")
    return float(json.loads(done.stdout)["gflops"])


def _probe(home: Home, count: int) -> dict[str, list[float | None]]:
    """Run the probe on `count` nodes."""
    connection = bringup.connect(home)
    try:
        body = m.Submit(
            uuid.uuid4().hex, "probe", PROBE, "/", sizes=m.Sizes([count]),
            inherited=dict(os.environ),
        )  # fmt: skip
        submitted = connection.call(body, timeout_s=10.0)
        assert isinstance(submitted, m.Submitted)
        state = _ended(connection, submitted.job)
    finally:
        connection.close()
    folder = home.job(submitted.job)
    if state != "done":
        text = (folder / "err").read_text()[-500:] if (folder / "err").exists() else ""
        raise DQError(f"the probe on {count} nodes {state}: {text.strip()}")
    found: dict[str, list[float | None]] = json.loads((folder / "out").read_text())
    return found


def _ended(connection: Connection, job: int) -> str:
    deadline = time.monotonic() + PROBE_LIMIT_S
    while time.monotonic() < deadline:
        reply = connection.call(m.JobQuery(job))
        assert isinstance(reply, m.Data)
        if reply.data["state"] in ("done", "failed", "killed"):
            return str(reply.data["state"])
        time.sleep(0.2)
    return f"did not end within {PROBE_LIMIT_S:g} s"


def _row(
    cluster: Cluster, core: float, count: int, found: dict[str, list[float | None]]
) -> dict[str, Any]:
    speeds = [value for value in found["gflops"] if value is not None]
    share = next((n.core_share for n in cluster.nodes if n.core_share is not None), 1.0)
    asked = core * share
    given = statistics.median(speeds)
    row: dict[str, Any] = {
        "busy": count,
        "gflops_asked": asked,
        "gflops_given": given,
        "gflops_least": min(speeds),
        "gflops_most": max(speeds),
        "speed_error": given / asked - 1,
    }
    row["ok"] = abs(row["speed_error"]) <= SPEED_ERROR_MAX
    rates = [value for value in found["mbyte_s"] if value is not None]
    if cluster.link is None or not rates:
        return row
    latencies = [value for value in found["latency_us"] if value is not None]
    row["mbyte_s_asked"] = cluster.link.rate_mbit / 8
    row["mbyte_s_given"] = statistics.median(rates)
    row["link_error"] = row["mbyte_s_given"] / row["mbyte_s_asked"] - 1
    row["latency_us_asked"] = cluster.link.latency_us
    row["latency_us_given"] = statistics.median(latencies)
    row["ok"] = row["ok"] and abs(row["link_error"]) <= LINK_ERROR_MAX
    return row


def print_emulation(report: dict[str, Any]) -> str:
    """The report as text."""
    head = ("BUSY", "GFLOP/s ASKED", "GIVEN", "LEAST", "MOST", "ERROR", "MB/s ASKED", "GIVEN",
            "ERROR", "LATENCY µs ASKED", "GIVEN", "")  # fmt: skip
    rows = []
    for row in report["rows"]:
        speed = [f"{row[f'gflops_{key}']:.2f}" for key in ("asked", "given", "least", "most")]
        words = [row["busy"], *speed, f"{100 * row['speed_error']:+.1f} %"]
        if "link_error" in row:
            words += [
                f"{row['mbyte_s_asked']:.1f}",
                f"{row['mbyte_s_given']:.1f}",
                f"{100 * row['link_error']:+.1f} %",
                f"{row['latency_us_asked']:.0f}",
                f"{row['latency_us_given']:.0f}",
            ]
        else:
            words += ["-"] * 5
        rows.append((*words, "ok" if row["ok"] else "NO"))
    good = f"speed within {SPEED_ERROR_MAX:.0%}, links within {LINK_ERROR_MAX:.0%}"
    return f"{report['words']}\n{table(head, rows)}\nok means: {good}"


def clean_leftovers() -> list[contained.Leftover]:
    """Remove what contained clusters without a server have left; returns what there was."""
    found = contained.leftovers()
    for leftover in found:
        contained.remove(leftover.tag)
    return found
