"""Which keys are let in, asked of the table itself: no sockets."""

from __future__ import annotations

from pathlib import Path

import pytest

from dq_client.base import keys
from dq_client.base.connection import DOMAIN
from dq_server.live.access import Access, Principal


@pytest.fixture
def access(tmp_path: Path) -> Access:
    keys.ensure(tmp_path)
    return Access(tmp_path)


def test_the_key_of_an_earlier_start_counts_for_nothing(access: Access) -> None:
    first = access.admit_job(7, 1)
    other = access.admit_job(8, 1)
    assert access.who(first.public) == Principal("job", 7, 1)
    second = access.admit_job(7, 2)
    assert access.who(first.public) is None
    assert access.who(second.public) == Principal("job", 7, 2)
    assert access.who(other.public) == Principal("job", 8, 1), "another job's key stays"
    assert access.admit_job(7, 2) == second, "admitted again: the same key"
    assert access.who(second.public) == Principal("job", 7, 2)
    assert not access.callback(DOMAIN, first.public.encode())
    assert access.callback(DOMAIN, second.public.encode())
    assert not access.callback("other", second.public.encode())


def test_a_job_that_has_ended_is_dismissed_alone(access: Access) -> None:
    ended, lives = access.admit_job(1, 1), access.admit_job(2, 1)
    access.dismiss_job(1)
    access.dismiss_job(1)  # again: no harm
    assert (access.who(ended.public), access.who(lives.public)) == (None, Principal("job", 2, 1))
    assert access.who("") is None
