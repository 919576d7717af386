"""Fairness limits against the examples of Prabhakaran et al. 2014, III-D."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from dq_server.core.model.errors import ConfigError
from dq_server.core.model.jobs import JobKind, JobSpec
from dq_server.core.model.requests import Delay, DfsConfig, DfsLimits, Ledger, per_user
from dq_server.core.model.sizes import Configuration

HOUR = 3600.0
ONE = Configuration(1, 1)

# Fig. 6; group05's limit as its explanation has it: cumulative.
FIG_6 = DfsConfig(
    policy="single-and-target",
    interval_s=6 * HOUR,
    decay=0.4,
    user={
        "user01": DfsLimits(target_delay_s=3600),
        "user02": DfsLimits(dyn_delay_perm=False),
        "user03": DfsLimits(single_delay_s=1800),
        "user04": DfsLimits(target_delay_s=2 * HOUR, single_delay_s=900),
    },
    group={
        "group05": DfsLimits(target_delay_s=4 * HOUR),
        "group06": DfsLimits(dyn_delay_perm=False),
    },
)


def delay(job: int, seconds: float, user: str = "", **spec: Any) -> Delay:
    """Job `job` would start so much later."""
    return Delay(job, JobSpec("j", JobKind.RIGID, ONE, (ONE,), user=user, **spec), seconds)


def why(ledger: Ledger, dfs: DfsConfig, *delays: Delay, now: float = 0.0) -> str:
    """The kind of limit that these delays would break; "" if none."""
    objection = ledger.objection(delays, dfs, now)
    return objection.why if objection else ""


def test_user01_may_be_delayed_by_an_hour_in_all_in_one_go_or_in_many() -> None:
    assert why(Ledger(), FIG_6, delay(1, 3600, "user01")) == ""
    assert why(Ledger(), FIG_6, delay(1, 3601, "user01")) == "target"
    ledger = Ledger()
    ledger.charge([delay(1, 2000, "user01"), delay(2, 1000, "user01")], FIG_6, 0.0)
    assert why(ledger, FIG_6, delay(3, 600, "user01"), now=HOUR) == ""
    assert why(ledger, FIG_6, delay(3, 601, "user01"), now=HOUR) == "target"


def test_user03s_jobs_may_each_be_delayed_by_half_an_hour_however_many() -> None:
    ledger = Ledger()
    ledger.charge([delay(job, 1800, "user03") for job in range(50)], FIG_6, 0.0)
    assert why(ledger, FIG_6, delay(99, 1800, "user03")) == ""
    assert why(ledger, FIG_6, delay(99, 1801, "user03")) == "single"
    assert why(ledger, FIG_6, delay(7, 1, "user03")) == "single"  # it has had its half hour


def test_user04_has_both_limits() -> None:
    assert why(Ledger(), FIG_6, delay(1, 901, "user04")) == "single"
    eight = [delay(job, 900, "user04") for job in range(8)]
    assert why(Ledger(), FIG_6, *eight) == ""
    assert why(Ledger(), FIG_6, *eight, delay(8, 900, "user04")) == "target"


@pytest.mark.parametrize("spec", [{"user": "user02"}, {"group": "group06"}])
def test_who_may_not_be_delayed_is_not_delayed_by_a_second(spec: dict[str, str]) -> None:
    assert why(Ledger(), FIG_6, delay(1, 1, **spec)) == "not_permitted"
    assert why(Ledger(), FIG_6, delay(1, 0, **spec)) == ""


def test_a_job_that_is_not_delayed_does_not_hide_one_that_is() -> None:
    assert why(Ledger(), FIG_6, delay(1, 0, "user02"), delay(2, 1, "user02")) == "not_permitted"
    ledger = Ledger()
    ledger.charge([delay(1, 0, "user01"), delay(2, 3600, "user01")], FIG_6, 0.0)
    assert why(ledger, FIG_6, delay(3, 1, "user01")) == "target"


def test_group05_shares_its_four_hours() -> None:
    both = [delay(1, 2 * HOUR, "a", group="group05"), delay(2, 2 * HOUR, "b", group="group05")]
    assert why(Ledger(), FIG_6, *both) == ""
    assert why(Ledger(), FIG_6, *both, delay(3, 1, "c", group="group05")) == "target"


def test_the_most_restrictive_of_user_and_group_wins() -> None:
    in_group = {"group": "group05"}
    assert why(Ledger(), FIG_6, delay(1, 3601, "user01", **in_group)) == "target"
    assert why(Ledger(), FIG_6, delay(1, 1000, "user04", **in_group)) == "single"
    assert why(Ledger(), FIG_6, delay(1, 1, "user03", group="group06")) == "not_permitted"


@pytest.mark.parametrize("kind", ["user", "group", "account", "job_class", "qos"])
def test_each_kind_of_entity_can_be_limited(kind: str) -> None:
    limits: dict[str, Any] = {kind: {"x": DfsLimits(target_delay_s=10)}}
    dfs = DfsConfig(policy="target", **limits)
    objection = Ledger().objection([delay(1, 11, **{kind: "x"})], dfs, 0.0)
    assert objection is not None
    assert (objection.entity, objection.total_s, objection.limit_s) == ((kind, "x"), 11, 10)
    assert why(Ledger(), dfs, delay(1, 11, **{kind: "y"})) == ""


def test_the_star_stands_for_everybody_without_limits_of_their_own() -> None:
    dfs = DfsConfig(policy="target", user={"*": DfsLimits(target_delay_s=10), "boss": DfsLimits()})
    assert why(Ledger(), dfs, delay(1, 11, "anybody")) == "target"
    assert why(Ledger(), dfs, delay(1, 10, "a"), delay(2, 10, "b")) == ""  # one sum for each
    assert why(Ledger(), dfs, delay(1, inf, "boss")) == ""


def test_the_papers_decay_3600_of_4800_leave_room_for_4080() -> None:
    dfs = DfsConfig(policy="target", interval_s=HOUR, decay=0.2,
                    user={"u": DfsLimits(target_delay_s=4800)})  # fmt: skip
    ledger = Ledger()
    ledger.charge([delay(1, 3600, "u")], dfs, 100.0)
    assert why(ledger, dfs, delay(2, 1201, "u"), now=HOUR - 1) == "target"
    assert ledger.charged(("user", "u"), dfs, HOUR) == pytest.approx(720)
    assert why(ledger, dfs, delay(2, 4080, "u"), now=HOUR) == ""
    assert why(ledger, dfs, delay(2, 4081, "u"), now=HOUR) == "target"
    ledger.charge([delay(2, 80, "u")], dfs, HOUR)
    assert ledger.charged(("user", "u"), dfs, HOUR) == pytest.approx(800)
    assert ledger.charged(("user", "u"), dfs, 3 * HOUR) == pytest.approx(32)  # two more ends


def test_without_decay_an_interval_starts_from_nothing() -> None:
    ledger, dfs = Ledger(), per_user(500)
    ledger.charge([delay(1, 500, "u")], dfs, 0.0)
    assert why(ledger, dfs, delay(2, 1, "u"), now=HOUR - 1) == "target"
    assert why(ledger, dfs, delay(2, 500, "u"), now=HOUR) == ""


def test_policies_look_at_their_own_limits_only() -> None:
    both = {"u": DfsLimits(target_delay_s=10, single_delay_s=5)}
    for dfs, seconds, objection in [
        (DfsConfig(policy="none", user=both), inf, ""),
        (DfsConfig(policy="single", user=both), 11, "single"),
        (DfsConfig(policy="target", user=both), 11, "target"),
    ]:
        assert why(Ledger(), dfs, delay(1, seconds, "u")) == objection
    assert why(Ledger(), DfsConfig(policy="target", user=both), delay(1, 6, "u")) == ""


def test_a_job_that_starts_takes_its_delays_along() -> None:
    ledger = Ledger()
    ledger.charge([delay(1, 1800, "user03")], FIG_6, 0.0)
    ledger.forget(1)
    assert ledger.jobs_s == {}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (DfsConfig(interval_s=0), "interval_s"),
        (DfsConfig(decay=1.5), "decay"),
        (DfsConfig(reservation_delay_depth=0), "reservation_delay_depth"),
        (DfsConfig(user={"u": DfsLimits(single_delay_s=-1)}), "user u: single_delay_s = -1"),
        (DfsConfig(qos={"q": DfsLimits(target_delay_s=inf)}), "qos q: target_delay_s = inf"),
    ],
)
def test_senseless_figures_are_refused(wrong: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        wrong.validate()


def test_an_interval_that_is_not_the_first_decays_by_what_has_passed_since() -> None:
    dfs = DfsConfig(policy="target", interval_s=HOUR, decay=0.5,
                    user={"u": DfsLimits(target_delay_s=4800)})  # fmt: skip
    ledger = Ledger()
    ledger.charge([delay(1, 800, "u")], dfs, HOUR)
    ledger.charge([delay(2, 100, "u")], dfs, 2 * HOUR)
    assert ledger.charged(("user", "u"), dfs, 2 * HOUR) == pytest.approx(500)


def test_limits_are_read_as_users_write_them() -> None:
    table = {"interval_s": "01:02:03", "class": {"big": {"target_delay_s": "00:10:00"}}}
    read = DfsConfig.read(table)
    assert read["interval_s"] == 3723.0
    assert read["job_class"] == {"big": {"target_delay_s": 600.0}}
    for wrong in ("job_class", "speed"):
        with pytest.raises(ConfigError) as refused:
            DfsConfig.read({wrong: {}})
        assert str(refused.value) == (
            f"unknown setting '{wrong}' in [dfs]; known: policy, interval_s, decay,"
            " reservation_delay_depth, count_start_now, one_node, KIND.NAME"
        )
