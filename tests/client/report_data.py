"""Data of reports as the server's views have them, for tests: scenarios named by what happens."""

from __future__ import annotations

from typing import Any

T0 = 1_795_249_183.0


def stay(
    size: int, since_s: float, *, time_s: float | None = None, moved_s: float = 0.0,
    iterations: int = 4, decision: str = "continue", reason: str = "no processor is idle",
    grid: tuple[int, int] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """One stay; `since_s` after T0; `grid`: the one nearest to a square if not given."""
    rows = next((r for r in range(int(size**0.5), 0, -1) if size % r == 0), 1)
    return {
        "processors": size, "grid": list(grid or (rows, size // rows)), "since_s": T0 + since_s,
        "iterations": iterations, "iteration_time_s": time_s, "redistribution_time_s": moved_s,
        "decision": decision, "reason": reason,
    }  # fmt: skip


def job(
    number: int, stays: list[dict[str, Any]], *, submit_s: float = 0.0, end_s: float | None = None,
    name: str = "matmul", state: str | None = None, sweet_spot: int | None = None,
    story: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """One job as `collect` has it; times after T0."""
    if state is None:
        state = "done" if end_s is not None else ("running" if stays else "queued")
    ended = end_s is not None
    lines = [
        {"time_s": s["since_s"] + 0.1, "what": s["decision"], "code": "c", "text": s["reason"],
         "figures": {}}
        for s in stays
    ]  # fmt: skip
    return {
        "id": number, "name": name, "kind": "malleable", "state": state, "submit_s": T0 + submit_s,
        "start_s": stays[0]["since_s"] if stays else None,
        "end_s": T0 + end_s if end_s is not None else None,
        "processors": stays[-1]["processors"] if stays else 1,
        "grid": stays[-1]["grid"] if stays else [1, 1],
        "sizes": stays, "sweet_spot": sweet_spot, "legal_sizes": [1, 2, 4, 6, 9, 12, 16],
        "nodes": [] if ended else ["n01"], "user": "ada", "walltime_s": None,
        "remap_points": sum(s["iterations"] for s in stays), "exit_code": 0 if ended else None,
        "reason": "the application ended with exit code 0" if ended else None,
        "argv": ["python", "-m", "apps.matmul", "--n", "1200"],
        "now": [], "story": lines if story is None else story,
    }  # fmt: skip


def report(
    jobs: list[dict[str, Any]], *, about: int | None = None, capacity: int = 4, now_s: float = 60.0
) -> dict[str, Any]:
    """The data of a report on `jobs`, with the timeline the server would give."""
    lines = []
    for j in jobs:
        if j["start_s"] is None:
            continue
        steps = [[s["since_s"], s["processors"]] for s in j["sizes"]]
        steps.append([j["end_s"] if j["end_s"] is not None else T0 + now_s, 0])
        lines.append({"id": j["id"], "name": j["name"], "state": j["state"], "steps": steps})
    return {
        "schema": 1,
        "job": about,
        "jobs": [j for j in jobs if about in (None, j["id"])],
        "timeline": {"now_s": T0 + now_s, "capacity": capacity, "jobs": lines},
        "nodes": [
            {"name": f"n{i:02}", "state": "up", "processors": 1, "idle": 1, "speed": 1.0,
             "host": "local", "jobs": []}
            for i in range(1, capacity + 1)
        ],
    }  # fmt: skip


def overshot(number: int = 1) -> dict[str, Any]:
    """A job that grew 1, 2, 4, saw that 4 does not pay, and went back to its sweet spot 2."""
    stays = [
        stay(1, 0.0, time_s=0.1087, decision="expand",
             reason="1 processors take 0.1087 s per iteration, 3 are idle and no job waits: try 2"),
        stay(2, 2.0, time_s=0.0823, moved_s=0.0763, decision="expand",
             reason="2 processors gained 24.3 % over 1 (0.1087 s to 0.0823 s), 2 are idle and"
             " no job waits: try 4"),
        stay(4, 3.4, time_s=0.0951, moved_s=0.0925, decision="shrink",
             reason="4 processors take 0.0951 s per iteration, 2 took 0.0823 s: gain -15.6 % does"
             " not exceed 5.0 %, back to the sweet spot 2"),
        stay(2, 4.4, time_s=0.0817, moved_s=0.0710, iterations=13,
             reason="the sweet spot is 2: going to 4 changed the iteration time from 0.0817 s to"
             " 0.0951 s"),
    ]  # fmt: skip
    return job(number, stays, end_s=6.1, sweet_spot=2)


def thesis() -> dict[str, Any]:
    """The thesis's LU on its fast network: eight sizes, the last expansion undone (Table 2)."""
    times = [(2, 60.1), (4, 28.9), (6, 25.6), (9, 18.3), (12, 16.0), (16, 14.1), (20, 17.0)]
    stays, at = [], 0.0
    for (size, time_s), after in zip(times, [*times[1:], None], strict=True):
        decision = "expand" if after else "shrink"
        next_size = after[0] if after else 16
        stays.append(
            stay(size, at, time_s=time_s, moved_s=0.0 if size == 2 else 9.0 / size + 1.7,
                 decision=decision,
                 reason=f"{time_s} s per iteration on {size}: {decision} to {next_size}")
        )  # fmt: skip
        at += 4.2 * time_s
    stays.append(stay(16, at, time_s=14.3, moved_s=2.4, iterations=20))
    return job(1, stays, end_s=at + 20 * 14.3, name="lu", sweet_spot=16)


def mix() -> list[dict[str, Any]]:
    """Eight jobs on 40 processors: they grow, make room for each other, wait, end; one fails."""
    walks = [
        ("lu", 0, [(0, 4), (30, 9), (60, 16), (120, 25), (200, 12), (420, 16)], 600, "done"),
        ("matmul", 10, [(10, 2), (40, 4), (70, 6), (100, 4)], 380, "done"),
        ("jacobi", 100, [(205, 9), (300, 6)], 390, "done"),
        ("fft", 130, [(210, 8)], 290, "done"),
        ("master-worker", 180, [(215, 4), (260, 6), (320, 8), (430, 12)], 640, "done"),
        ("a-job-with-quite-a-long-name-" * 4, 220, [(300, 2), (330, 4)], 520, "done"),
        ("crashing", 260, [(392, 4)], 400, "failed"),
        ("late", 500, [(520, 1), (560, 2), (600, 4)], None, "running"),
    ]
    jobs = []
    for number, (name, submit_s, steps, end_s, state) in enumerate(walks, 1):
        stays = []
        for i, (since_s, size) in enumerate(steps):
            later = steps[i + 1][1] if i + 1 < len(steps) else size
            decision = "expand" if later > size else ("shrink" if later < size else "continue")
            stays.append(
                stay(size, since_s, time_s=8.0 / size**0.8 + number * 0.1, iterations=7,
                     moved_s=0.4 + 1.5 / size if i else 0.0, decision=decision,
                     reason=f"{size} processors gained 21.5 % over what was before, 7 are idle and"
                     f" no job waits: try {later}" if decision == "expand" else "no processor is"
                     " idle")
            )  # fmt: skip
        jobs.append(job(number, stays, submit_s=submit_s, end_s=end_s, name=name, state=state))
    waiting = job(9, [], submit_s=610, name="waiting")
    return [*jobs, waiting]
