"""Evolving jobs in hand-written workloads: `dq sim run FILE.toml --policy dfs`."""

from __future__ import annotations

import pytest

from dq_server.core.policies.sets import named_config
from dq_server.sim.engine import Simulation
from dq_server.sim.errors import WorkloadError
from dq_server.sim.toml_workload import read_toml

# Fig. 1 of Prabhakaran et al. 2014 in seconds: A asks for what C is waiting for.
FIG_1 = """
[[job]]
name = "A"
kind = "evolving"
processors = 2
run_s = 800
more = 2
ask_at_s = [100]
user = "alice"
[[job]]
name = "B"
processors = 2
run_s = 400
user = "bob"
[[job]]
name = "C"
submit_s = 1
processors = 4
run_s = 100
user = "carol"
"""


def run(tmp_path, text, policy="dfs"):
    path = tmp_path / "jobs.toml"
    path.write_text(text)
    records = Simulation(read_toml(path), 6, named_config(policy)).run()
    return records.end_s.tolist(), records.metrics()["expands"]


def test_fig_1_a_is_refused_when_its_request_delays_c_too_much(tmp_path):
    # A would be expected back at 800: C would start 400 s late, which the limit of 500 allows.
    assert run(tmp_path, FIG_1) == ([400.0, 400.0, 500.0], 1)
    later = FIG_1.replace("run_s = 800", "run_s = 1000")  # 600 s late
    assert run(tmp_path, later) == ([1000.0, 400.0, 500.0], 0)


def test_static_policies_know_nothing_of_limits(tmp_path):
    longer = FIG_1.replace("run_s = 800", "run_s = 1000\ngranted_s = 700")
    assert run(tmp_path, longer, "easy") == ([700.0, 400.0, 800.0], 1)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("ask_at_s = [100]", "", "ask_at_s: a list"),
        ("ask_at_s = [100]", "ask_at_s = [200, 100]", "ask_at_s: a list"),
        ("ask_at_s = [100]", 'ask_at_s = ["soon"]', "ask_at_s: a list"),
        ("more = 2", "more = 0", "more, at least 1"),
        ("run_s = 800", "iterations = 5", "run_s and more"),
        ('kind = "evolving"', "", "ask_at_s, more: for jobs of kind evolving"),
    ],
)
def test_what_makes_no_sense_is_named_with_its_line(tmp_path, old, new, says):
    with pytest.raises(WorkloadError, match=says) as caught:
        run(tmp_path, FIG_1.replace(old, new, 1))
    assert "jobs.toml:2: job 1" in str(caught.value)
