"""The server's configuration file: the policy names of the simulator, and what overrides them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dq_client.base.errors import UsageError
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.ends import NodeOptions
from dq_server.core.model.launching import Launching
from dq_server.core.model.pool import PoolOptions
from dq_server.core.model.tracking import SpotOptions
from dq_server.core.policies.registry import SETS
from dq_server.core.settings import from_recorded, named_config
from dq_server.live.configuration import EngineSettings, parse_config, read_config


@pytest.mark.parametrize("name", SETS)
def test_every_policy_of_the_simulator_can_be_named(name: str) -> None:
    found = parse_config({"scheduler": {"policy": name}}, "x.toml")
    named = named_config(name)
    assert found == replace(named, farewells=True, sweet_spot="search", launching=Launching.JOIN)


def test_a_server_tracks_sweet_spots_unless_the_file_says_otherwise() -> None:
    assert parse_config({}, "x").searches
    found = parse_config({"scheduler": {"spot": {"retry": 50, "growth": 1.5}}}, "x")
    assert found.searches
    assert found.of(SpotOptions) == SpotOptions(50, 1.5)
    assert not parse_config({"scheduler": {"sweet_spot": "thesis"}}, "x").searches
    for given, says in (
        ({"sweet_spot": "found"}, 'sweet_spot = \'found\': "thesis" or "search"'),
        ({"spot": {"retry": 0}}, "at least one iteration"),
        ({"spot": {"growth": 0.5}}, "1 or more"),
        ({"spot": {"share": 1.0}}, "between 0 and 1"),
        ({"spot": {"window": 3}}, "8 to 100 iterations"),
    ):
        with pytest.raises(UsageError) as caught:
            parse_config({"scheduler": given}, "x.toml")
        assert says in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1


def test_a_setting_is_given_once() -> None:
    both = {"mebf_partial": True, "mebf": {"partial": False}}
    with pytest.raises(UsageError) as caught:
        parse_config({"scheduler": both}, "x.toml")
    assert str(caught.value) == (
        "x.toml: [scheduler] mebf_partial and [scheduler.mebf] partial are one setting: give one of"
        " them"
    )


@pytest.mark.parametrize(
    ("tables", "text"),
    [
        (
            {"xy": {}},
            "unknown table [xy]; known: [dfs], [environment], [launch], [nodes], [pool],"
            " [quotas], [scheduler], [watch]",
        ),
        ({"lunch": {}}, "unknown table [lunch]; did you mean '[launch]'?"),
        ({"launch": {"grwth": 1}}, "unknown setting 'grwth' in [launch]; did you mean 'growth'?"),
        ({"scheduler": {"polcy": "easy"}}, "'polcy' in [scheduler]; did you mean 'policy'?"),
        ({"scheduler": {"policy": "eazy"}}, "unknown policy 'eazy'; did you mean 'easy'?"),
        ({"scheduler": {"policy": "fcsf"}}, "unknown policy 'fcsf'; did you mean 'fcfs'?"),
        ({"scheduler": {"order": "priorty"}}, "policy 'priorty'; did you mean 'priority'?"),
        ({"scheduler": {"mebff": {}}}, "'mebff' in [scheduler]; did you mean 'mebf'?"),
        ({"scheduler": {"mebf": {"thta": 1}}}, "'thta' in [scheduler.mebf]; did you mean 'theta'?"),
        ({"watch": {"acton": 1}}, "unknown setting 'acton' in [watch]; did you mean 'action'?"),
        (
            {"quotas": {"user": {"ann": {"procesors": 4}}}},
            "unknown setting 'procesors' in [quotas.user.ann]; did you mean 'processors'?",
        ),
        ({"dfs": {"polcy": "none"}}, "unknown setting 'polcy' in [dfs]; did you mean 'policy'?"),
    ],
)
def test_an_unknown_word_is_answered_with_the_one_that_may_be_meant(
    tables: dict[str, Any], text: str
) -> None:
    with pytest.raises(UsageError) as caught:
        parse_config(tables, "x.toml")
    assert str(caught.value).startswith("x.toml: ")
    assert str(caught.value).endswith(text)


def test_other_settings_override_the_set() -> None:
    config = parse_config({"scheduler": {"policy": "easy", "samples": 5, "resize": "reshape"}}, "x")
    assert (config.start, config.resize, config.samples) == ("easy", "reshape", 5)


def test_a_pool_stands_beside_its_engine_in_the_cluster_file() -> None:
    with pytest.raises(UsageError, match=r"^x\.toml: \[pool\] belongs into the cluster") as caught:
        parse_config({"pool": {"max": 4}}, "x.toml")
    assert len(str(caught.value).splitlines()) == 1
    engine = EngineSettings({"max": 4, "idle_s": 5}, "c.toml")
    found = parse_config({"scheduler": {"samples": 2}}, "x.toml", None, engine)
    assert (found.samples, found.of(PoolOptions).max) == (2, 4)
    with pytest.raises(UsageError, match=r"^c\.toml: \[pool\] max = -1"):
        parse_config({}, "x.toml", None, EngineSettings({"max": -1}, "c.toml"))


def test_how_long_agents_wait_when_they_are_told_to_go() -> None:
    assert parse_config({}, "x").of(NodeOptions).leave_within_s == 30.0
    assert parse_config({"nodes": {"leave_within_s": 5}}, "x").of(NodeOptions).leave_within_s == 5
    with pytest.raises(UsageError, match=r"\[nodes\] leave_within_s = -1"):
        parse_config({"nodes": {"leave_within_s": -1}}, "x")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"policy": "best"}, "unknown policy 'best'; known: fcfs"),
        ({"policy": "easy", "samples": "many"}, "samples"),
        ({"policy": "conservative", "resize": "spare"}, "needs start"),
    ],
)
def test_nonsense_is_refused_with_the_file_named(values: dict[str, str], text: str) -> None:
    with pytest.raises(UsageError, match=r"x\.toml") as caught:
        parse_config({"scheduler": values}, "x.toml")
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("table", "option", "launching"),
    [
        ({}, None, Launching.JOIN),
        ({"growth": "spawn"}, None, Launching.SPAWN),
        ({"launcher": "dq", "growth": "join"}, None, Launching.JOIN),
        ({"launcher": "mpiexec"}, None, Launching.MPIEXEC),
        ({"launcher": "mpiexec", "growth": "join"}, None, Launching.MPIEXEC),
        ({"launcher": "mpiexec", "growth": "spawn"}, None, Launching.MPIEXEC_SPAWN),
        ({"launcher": "mpiexec", "growth": "spawn"}, "dq", Launching.SPAWN),
        ({"launcher": "dq"}, "mpiexec", Launching.MPIEXEC),
    ],
)
def test_the_launcher_has_a_table_and_an_option_that_overrides_it(
    table: dict[str, str], option: str | None, launching: Launching
) -> None:
    assert parse_config({"launch": table}, "x.toml", option).launching is launching


def test_the_launcher_comes_from_its_own_table_only() -> None:
    found = parse_config({"scheduler": {"launching": "mpiexec"}}, "x.toml")
    assert found.launching is Launching.JOIN


@pytest.mark.parametrize(
    ("launch", "text"),
    [
        ("dq", "launch is a table: [launch]"),
        ({"starter": "dq"}, "unknown setting 'starter' in [launch]; known: launcher, growth"),
        ({"launcher": "srun"}, "[launch] launcher: 'srun' is none of dq, mpiexec"),
        ({"launcher": ["dq"]}, "[launch] launcher: ['dq'] is none of dq, mpiexec"),
        ({"growth": True}, "[launch] growth: True is none of join, spawn, restart"),
    ],
)
def test_nonsense_about_the_launcher_is_refused(launch: object, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_config({"launch": launch}, "x.toml")
    assert str(caught.value) == f"x.toml: {text}"


def test_an_unknown_launcher_on_the_command_line_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^--launcher srun: 'srun' is none of dq, mpiexec$"):
        parse_config({}, "x.toml", "srun")


def test_a_journal_of_an_older_version_still_opens() -> None:
    """Its rule "tracked" was replaced by "search"."""
    assert from_recorded({"sweet_spot": "tracked", "samples": 4}) == SchedulerConfig(
        sweet_spot="search", samples=4
    )
    assert from_recorded({}).sweet_spot == "thesis"


def test_a_replaced_rule_in_a_file_is_read_with_one_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[scheduler]\nsweet_spot = "tracked"\n')
    assert read_config(path, True).searches
    assert capsys.readouterr().err == (
        f'dq server: {path}: [scheduler] sweet_spot = "tracked" is read as "search", which replaced'
        " it\n"
    )
