"""The experiments on the simulator: what the papers tell is what their figures show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dq_server.core.model.profile import FIT_RULES
from experiments import (
    dynamic_esp,
    dynamic_waits,
    job_mixes,
    klein_perez,
    limited_horizon,
    mebf,
    mebf_events,
    mebf_rules,
    pool_costs,
    probing,
)
from harness.generators.klein_perez import draw_tests
from harness.verdicts import as_text, judged
from tests.sim.logs import WriteLog
from tests.sim.test_swf import line


@pytest.mark.parametrize(
    ("experiment", "args", "says"),
    [
        (klein_perez, ["--tests", "0"], "'0' is not a whole number from 1 on"),
        (klein_perez, ["--seed", "-1"], "'-1' is not a whole number from 0 on"),
        (klein_perez, ["--plot", "x.txt"], "--plot x.txt: the name must end in .png, .pdf, .svg"),
        (limited_horizon, ["--seed", "-1"], "'-1' is not a whole number from 0 on"),
        (limited_horizon, ["--csv", "."], ".: this is a folder"),
        (dynamic_esp, ["--walltime-factor", "nan"], "walltimes are at least SET"),
        (job_mixes, ["--csv", "/proc/x"], "/proc/x: cannot be written"),
        (pool_costs, ["--nodes", "4", "--log", "x.swf"], "x.swf: No such file"),
        (pool_costs, ["--nodes", "4", "--log", "x.swf", "--idle", "1y"], "idle=1y: not understood"),
        (probing, ["--csv", "nowhere/x"], "nowhere/x: no such folder"),
        (mebf, ["--seeds", "0"], "'0' is not a whole number from 1 on"),
        (dynamic_waits, ["--seeds", "0"], "'0' is not a whole number from 1 on"),
        (mebf_events, ["--seeds", "0"], "'0' is not a whole number from 1 on"),
        (mebf_rules, ["--seeds", "1"], "'1' is not a whole number from 2 on"),
        (mebf_rules, ["--nodes", "9", "--log", "wide.swf"], "no job of part 1 of 10 runs on 9"),
    ],
)
def test_senseless_options_are_one_line(
    experiment: Any,
    args: list[str],
    says: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wide.swf").write_text("1 0 -1 5 99 -1 -1 99" + 10 * " -1" + "\n")
    with pytest.raises(SystemExit) as leaving:
        experiment.main(args)
    out, err = capsys.readouterr()
    assert (leaving.value.code, out, len(err.splitlines())) == (2, "", 1)
    assert says in err
    assert [path.name for path in tmp_path.iterdir()] == ["wide.swf"]


def sizes(outcome: Any, number: int) -> Any:
    return [size for _, size in outcome.jobs[number].steps]


def test_iteration_times_follow_the_tables() -> None:
    times = job_mixes.spread({9: 100.0}, job_mixes.TABLE_1)
    assert 100 * (1 - times[12] / times[9]) == pytest.approx(9.4)
    assert 100 * (1 - times[9] / times[6]) == pytest.approx(25.8)
    assert 100 * (1 - times[4] / times[2]) == pytest.approx(46.9)


def test_the_theses_own_improvements_come_out_of_its_tables() -> None:
    assert job_mixes.printed_improvements(6) == pytest.approx((2298, 184.75))
    assert job_mixes.printed_improvements(9) == pytest.approx((6, 115.0))


def test_job_mix_1_tells_the_story_of_figure_9() -> None:
    dynamic, static_6, static_9 = job_mixes.run_all(1)
    assert sizes(dynamic, 0)[-1] == 9
    for job in (1, 2):
        grown = sizes(dynamic, job)
        assert grown[:4] == [4, 6, 9, 12]
        assert min(grown[4:]) == 6
        assert grown[-1] == 12
    short = dynamic.jobs[3]
    assert short.submit_s < short.start_s < short.submit_s + 300
    assert [round(job.end_s) for job in static_6.jobs] == [3616, 3652, 3622, 408]
    assert [round(job.end_s) for job in static_9.jobs[:3]] == [2746, 2887, 2965]
    assert dynamic.makespan_s < static_9.makespan_s < static_6.makespan_s
    assert dynamic.mean_turnaround_s < static_6.mean_turnaround_s


def test_job_mix_2_tells_the_story_of_figure_10() -> None:
    (dynamic,) = job_mixes.run_all(2)
    assert 16 in sizes(dynamic, 0)
    assert sizes(dynamic, 1) == [9, 12]
    fourth = dynamic.jobs[4]
    assert fourth.steps[1][0] > dynamic.jobs[1].end_s, "grows only after Job 1 has ended"
    assert 12 in sizes(dynamic, 4)
    assert sizes(dynamic, 4)[-1] < 12
    assert sizes(dynamic, 7)[-1] == 20


def test_json_has_the_figures_of_the_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table = tmp_path / "mix.csv"
    assert job_mixes.main(["--mix", "1", "--json", "--csv", str(table)]) == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["schema"], body["experiment"], len(body["runs"])) == (1, "job_mixes", 3)
    assert body["runs"][1]["gain_of_reshape_thesis"]["total_time_s"] == 2298
    assert table.read_text().startswith("run,job,submit_s")


def test_mebf_rules(tmp_path: Path) -> None:
    jobs = (f"{k + 1} {10 * k} -1 {50 + k} {1 + k % 4} -1 -1 {1 + k % 4} 200" for k in range(60))
    log = tmp_path / "log.swf"
    log.write_text("".join(job + 9 * " -1" + "\n" for job in jobs))
    cut = mebf_rules.parts(log, 8, 3)
    assert [len(workload) for workload, _ in cut] == [20, 20, 20]
    assert [workload.submit_s[0] for workload, _ in cut] == [0, 0, 0]
    found = list(mebf_rules.gains("log", cut))
    assert {(gain.policy, gain.rule) for gain in found} == {
        (policy, rule) for policy in mebf_rules.POLICIES for rule in mebf_rules.RULES
    }
    assert all(gain.worst_pct <= gain.mean_pct and gain.interval_pct >= 0 for gain in found)
    assert "partial, preferred" in mebf_rules.as_text(found)
    for gain in found:  # a rule's difference to "whole" is that of the means, and "whole" has none
        whole = next(g for g in found if (g.policy, g.rule) == (gain.policy, "whole"))
        assert gain.more_pct == pytest.approx(gain.mean_pct - whole.mean_pct)
        assert gain.rule != "whole" or gain.more_interval_pct == 0
    picture = tmp_path / "rules.png"
    mebf_rules.draw(picture, found)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_who_waits_under_dynamic_requests(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    picture, lines = tmp_path / "waits.png", tmp_path / "waits.csv"
    words = ["--seeds", "2", "--json", "--plot", str(picture), "--csv", str(lines)]
    assert dynamic_waits.main(words) == 0
    body = json.loads(capsys.readouterr().out)
    rows = {row["configuration"]: row for row in body["rows"]}
    of_l = next(claim for claim in body["claims"] if claim["claim"].startswith("half of the jobs"))
    half = rows["Dyn-HP"]["longer_l_pct"] >= 40
    assert (of_l["verdict"] == "agrees") == half
    assert rows["Static"]["longer_pct"] == 0 and rows["Static"]["later_min"] == 0
    assert rows["Dyn-HP"]["mean_min"] < rows["Static"]["mean_min"], "most gain"
    assert rows["Dyn-HP"]["longer_range_pct"] > 0, "and some pay"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert len(lines.read_text().splitlines()) == 1 + 2 * 4 * 228


def test_what_mebf_does(tmp_path: Path) -> None:
    found = {load: mebf_events.simulate(load, 1) for load in mebf_events.loads((150,))}
    shown = {name: (head, rows) for name, head, rows in mebf_events.tables(found)}
    assert list(shown) == ["Fig. 6", "Table 5", "Fig. 10", "Fig. 11", "Table 6", "Table 7"]
    assert {claim.source for claim in mebf_events.claims(found)} == shown.keys()
    for name in ("Fig. 6", "Table 5"):  # shares of a whole
        for row in shown[name][1]:
            cells = (
                row[1:] if name == "Fig. 6" else [c for cell in row[1:] for c in cell.split("/")]
            )
            whole = sum(map(float, cells))
            assert whole == pytest.approx(100 * (1 if name == "Fig. 6" else 3), abs=0.5)
    for runs in found.values():
        assert all(max(run.curve) <= 100.01 for seen in runs.values() for run in seen)
        for run in runs["easy"]:
            assert run.shrinks == sum(run.expands) == 0, "nothing is malleable there"
    mebf_events.draw(tmp_path / "events.png", found)
    assert "Table 7" in mebf_events.as_text(found)
    tables = json.loads(mebf_events.as_json(found))["tables"]
    verdicts = {claim["verdict"] for table in tables for claim in table["claims"]}
    assert verdicts <= {"agrees", "direction only", "contradicts"} and verdicts


def test_a_verdict_says_no_more_than_the_figures() -> None:
    claims = [
        judged("Fig. 1", "more", "12 %", holds=holds, direction=direction, reason="noise")
        for holds, direction in ((True, True), (False, True), (False, False))
    ]
    assert [claim.verdict for claim in claims] == ["agrees", "direction only", "contradicts"]
    assert [claim.reason for claim in claims] == ["", "noise", "noise"]
    assert as_text(claims).count("why: noise") == 2


def test_mebf_case() -> None:
    case = mebf.Case("small", 200)
    result = mebf.summarise([mebf.simulate(case, seed) for seed in (1, 2)])
    assert set(result.improvement_pct) == set(mebf.BASIC)
    assert all(gain > 0 for gain in result.improvement_pct.values())
    found = [(mebf.SCENARIOS[0], case, result)]
    assert json.loads(mebf.as_json(found))["cases"][0]["workload"] == "small"
    assert "small" in mebf.as_text(found)


def test_knowing_less_far_ahead_costs_time() -> None:
    rows = dict(limited_horizon.run(draw_tests(1, 10), FIT_RULES["2X"]))
    makespans = [rows[name][0] for name in ("all", "7200 s", "3600 s", "600 s", "rigid")]
    assert makespans == sorted(makespans)
    assert makespans[0] < 0.8 * makespans[-1]


def test_probing_tries_fewer_sizes_and_says_where_it_loses(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table = tmp_path / "probing.csv"
    assert probing.main(["--json", "--csv", str(table)]) == 0
    body = json.loads(capsys.readouterr().out)
    runs = {(r["times"], r["selector"]): r for r in body["runs"]}
    for name in ("matmul (Table 1)", "LU (Table 2)"):
        chain, model = runs[name, "chain"], runs[name, "model"]
        assert model["last"] == chain["last"] == 16
        assert model["probes"] < chain["probes"]
        assert model["total_s"] < chain["total_s"]
    assert "bumpy" in body["verdict"] and "matmul" not in body["verdict"]
    assert len(table.read_text().splitlines()) == 1 + len(runs)


def test_what_a_pool_saves_on_a_log(log: WriteLog, tmp_path: Path, capsys: Any) -> None:
    two = log(
        line(1, submit=0, run=1000, asked=4, estimate=1000),
        line(2, submit=7200, run=100, asked=2, estimate=100),
    )
    picture = tmp_path / "costs.png"
    args = ["--log", str(two), "--nodes", "4", "--start", "2m", "--idle", "1m,5m"]
    pool_costs.main([*args, "--plot", str(picture)])
    out = capsys.readouterr().out
    assert "always on" in out and "2 min" in out and picture.exists()
    pool_costs.main([*args, "--json", "--jobs", "1"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["idle_s"] for row in rows] == [None, 60.0, 300.0]
    assert rows[1]["node_hours"] < rows[2]["node_hours"]
