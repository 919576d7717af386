"""Results of simulations as text: a table for people, JSON, and a CSV of the jobs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dq_server.sim.files import target_of, whole_file
from dq_server.sim.records import STATES, SimulatedJobs

COLUMNS = (
    *("job_id", "submit_s", "start_s", "end_s", "processors", "wait_s", "turnaround_s"),
    *("bounded_slowdown", "processor_s", "expands", "shrinks", "state", "policy"),
)
Metrics = dict[str, float | int]
STDOUT = Path("/dev/stdout")


@dataclass(frozen=True, slots=True)
class Run:
    """One policy's simulation of the workload."""

    policy: str
    records: SimulatedJobs
    metrics: Metrics


def notes_of(workload: str, runs: list[Run]) -> list[str]:
    """What is to be known of the simulations, a line each; what several say alike once."""
    notes = dict.fromkeys(item for run in runs for item in sorted(run.records.notes.items()))
    return [f"{workload}: {count} jobs: {note}" for note, count in notes]


def as_json(workload: str, nodes: int, runs: list[Run], transformation: str = "") -> str:
    """One object: what was simulated, what was odd about it, and the figures of each policy.

    transformation  how the jobs of the workload became malleable
    """
    rows = [{"policy": run.policy, **run.metrics, "notes": dict(run.records.notes)} for run in runs]
    body: dict[str, object] = {"schema": 1, "workload": workload, "nodes": nodes, "runs": rows}
    if transformation:
        body["transformation"] = transformation
    return json.dumps(body)


def as_table(runs: list[Run], width: int | None = None) -> str:
    """One line per policy, the figures in columns; turned round where `width` is too small."""
    heads = ["policy", *runs[0].metrics]
    rows = [heads]
    rows += [[run.policy, *(_figure(value) for value in run.metrics.values())] for run in runs]
    table = aligned(rows)
    if width is None or len(table.split("\n", 1)[0]) <= width:
        return table
    return aligned([list(column) for column in zip(*rows, strict=True)])


def aligned(rows: list[list[str]]) -> str:
    """Cells in columns, the first to the left, the others to the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def _figure(value: float) -> str:
    return (
        f"{value}" if isinstance(value, int) else f"{value:.4g}" if value < 10 else f"{value:.1f}"
    )


def csv_lines(runs: Iterable[Run]) -> Iterator[str]:
    """One line per job that ran, in order of submission, policy after policy."""
    yield ",".join(COLUMNS) + "\n"
    for run in runs:
        records = run.records
        number = records.workload.number
        columns = zip(
            records.ran.tolist(),
            records.submit.tolist(),
            records.wait.tolist(),
            records.turnaround.tolist(),
            records.bounded_slowdown.tolist(),
            records.processor_s.tolist(),
            strict=True,
        )
        for k, submit_s, wait_s, turnaround_s, slowdown, held in columns:
            changes = records.resizes.get(k, ())
            expands = sum(change.size > change.before for change in changes)
            shrinks = sum(change.size < change.before for change in changes)
            yield (
                f"{number(k)},{submit_s:.15g},{records.start_s[k]:.15g},{records.end_s[k]:.15g},"
                f"{records.processors[k]},{wait_s:.15g},{turnaround_s:.15g},{slowdown:.6g},"
                f"{held:.15g},{expands},{shrinks},{STATES[records.state[k]]},"
                f"{run.policy}\n"
            )


def write_csv(path: Path, runs: Iterable[Run]) -> None:
    """Write the jobs' CSV, whole or not at all; a pipe or a device is written to as it is."""
    target = target_of(path)
    if target is None:
        if path.absolute() == STDOUT:  # opened again it would write over what is there
            sys.stdout.writelines(csv_lines(runs))
            return
        with path.open("w", encoding="utf-8", newline="") as out:
            out.writelines(csv_lines(runs))
        return
    with whole_file(target) as part, part.open("w", encoding="utf-8", newline="") as out:
        out.writelines(csv_lines(runs))
