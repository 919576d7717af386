"""The live figure of the dynamic ESP paper's solver, small: it asks where it should, and grows."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments import adaptation_phases
from experiments.adaptation_phases import FLOWS, Flow, Run


@pytest.mark.live
@pytest.mark.mpi
@pytest.mark.slow
def test_a_flow_is_computed_alike_in_all_scenarios() -> None:
    # the last phase is as long as new ranks need to start, several times over
    flow = Flow("small", 400, 2, 80, (3, 3, 800), 25, 5)
    runs = adaptation_phases.run_all([flow], 1)
    few, many, dynamic = runs
    assert [one.scenario for one in runs] == ["16", "32", "16 to 32"]
    assert (few.processors, many.processors) == ((2, 2, 2), (4, 4, 4))
    assert dynamic.processors == (2, 2, 4), "asked after the last adaptation, and had them"
    for one in runs:
        assert one.result == pytest.approx(few.result, rel=1e-12)
        assert min(one.phases_s) > 0
    assert "16 to 32" in adaptation_phases.as_text([flow], runs)


def test_thresholds_are_exceeded_by_the_last_adaptation_only() -> None:
    for flow in FLOWS:
        per_process = [
            (flow.cells << phase) / adaptation_phases.SMALL / adaptation_phases.PROCESSES
            for phase in range(len(flow.sweeps))
        ]
        assert [cells > flow.cells_per_process for cells in per_process] == [
            *[False] * (len(flow.sweeps) - 1),
            True,
        ]


def test_runs_are_shown_beside_the_papers(tmp_path: Path) -> None:
    times = {"16": (4.0, 6.0), "32": (4.0, 3.0), "16 to 32": (4.0, 4.0)}
    runs = [
        Run(flow.name, name, (0.0,) * (len(flow.sweeps) - 2) + phases, (2,) * len(flow.sweeps), 1.0)
        for flow in FLOWS
        for name, phases in times.items()
    ]
    shown = adaptation_phases.rows(FLOWS, runs)
    assert [row["of_static_pct"] for row in shown] == 2 * [100, 70, 80]
    assert [row["before_last_pct"] for row in shown[:3]] == pytest.approx([40, 57.1, 50], abs=0.1)
    assert [row["paper_of_static_pct"] for row in shown] == [100, 83, 83, 100, 67, 67]
    assert shown[3]["paper_h"] == pytest.approx(30.3, abs=0.05)
    assert shown[5]["paper_h"] == pytest.approx(20.3, abs=0.05)
    picture = tmp_path / "phases.png"
    adaptation_phases.draw(picture, FLOWS, runs)
    assert picture.read_bytes().startswith(b"\x89PNG")
