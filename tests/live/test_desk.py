"""What the desk keeps between two requests: questions for output that agents have to answer."""

from __future__ import annotations

import dataclasses

import pytest

from dq_server.live import context
from dq_server.live.context import LogQueries, LogQuery
from dq_server.live.requests.applications import EVENTS


def query(n: int, agent: str = "a") -> LogQuery:
    return LogQuery(b"user", f"q{n}", agent)


def test_an_answer_is_passed_on_once_and_only_from_the_agent_that_was_asked() -> None:
    queries = LogQueries()
    first, second = queries.add(query(1)), queries.add(query(2, "b"))
    assert queries.pop(first, "b") is None
    assert queries.pop(77, "a") is None
    assert queries.pop(first, "a") == query(1)
    assert queries.pop(first, "a") is None
    assert queries.pop(second, "b") == query(2, "b")


def test_questions_to_agents_that_went_away_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "LOG_QUERIES_MAX", 3)
    queries = LogQueries()
    tickets = [queries.add(query(n)) for n in range(5)]
    found = [queries.pop(ticket, "a") for ticket in tickets]
    assert found == [None, None, query(2), query(3), query(4)]


def test_messages_that_are_only_handed_on_have_the_fields_of_their_events() -> None:
    for message, event in EVENTS.items():
        assert isinstance(event, type)
        named = {field.name for field in dataclasses.fields(event)}
        assert named == {"job", "instance", *message.__struct_fields__}
