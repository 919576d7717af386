"""The scheduler decides as it was recorded; see digests.py."""

from __future__ import annotations

import json

import pytest

from tests.decisions import digests

RECORDED: digests.Digests = json.loads(digests.RECORDED.read_text())


def compare(found: digests.Digests) -> None:
    """A name that was not recorded differs, too."""
    assert found
    assert not digests.differences({name: RECORDED.get(name, "") for name in found}, found)


@pytest.mark.timeout(0)
def test_lives_of_the_whole_are_decided_as_before() -> None:
    compare(digests.lives(digests.SEEDS))


def test_a_log_is_simulated_as_before() -> None:
    compare(digests.simulations(None))


def test_journals_lead_where_they_led() -> None:
    compare(digests.journals())
