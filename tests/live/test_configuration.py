"""The server's configuration file: the policy names of the simulator, and what overrides them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dq_client.errors import UsageError
from dq_server.core.policies.sets import SETS
from dq_server.core.settings import named_config
from dq_server.live.configuration import parse_config


@pytest.mark.parametrize("name", SETS)
def test_every_policy_of_the_simulator_can_be_named(name: str) -> None:
    found = parse_config({"scheduler": {"policy": name}}, "x.toml")
    assert found == replace(named_config(name), farewells=True)


def test_other_settings_override_the_set() -> None:
    config = parse_config({"scheduler": {"policy": "easy", "samples": 5, "resize": "reshape"}}, "x")
    assert (config.start, config.resize, config.samples) == ("easy", "reshape", 5)


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
