"""The wire: what a message must declare, who handles it, and what its handlers may know.

A message declares its direction and roles where it is defined (base/messages); the codec's
unions, the access table and the completeness of the handlers follow from that.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from dq_client.base import messages as m
from dq_server.live import access
from dq_server.live.requests import TABLE
from dq_server.live.requests.applications import EVENTS
from dq_server.live.requests.call import handles

ROOT = Path(__file__).parents[2]
MESSAGES = sorted((ROOT / "dq_client/base/messages").glob("*.py"))
BODIES = (*m.REQUESTS, *m.REPLIES, *m.ORDERS)

# The server as a whole is for its loop, the agent for its own: their parts get what they need.
WHOLES = {
    "dq_server.live.server": ("dq_server/live", {"loop.py"}),
    "dq_client.node.agent.agent": ("dq_client/node/agent", {"build.py"}),
}
BUILD_MESSAGES = ("dq_server/live/**", "dq_client/**", "resize_lib/**")


def test_every_message_declares_its_direction_and_a_request_its_roles() -> None:
    directions = {m.RequestBody, m.ReplyBody, m.OrderBody}
    assert set(m.Body.__subclasses__()) == directions
    assert all(not body.__subclasses__() for body in BODIES), "a message is no base of another"
    assert set(m.RequestBody.__subclasses__()) == m.REQUESTS.keys()
    assert all(roles and roles <= set(m.ROLES) for roles in m.REQUESTS.values())


def test_what_a_role_may_send_is_what_the_messages_declare() -> None:
    for role, may in access.MAY.items():
        assert may == {request for request, roles in m.REQUESTS.items() if role in roles}


def test_every_request_has_one_handler() -> None:
    assert TABLE.keys() == m.REQUESTS.keys()
    assert len(set(TABLE.values())) == len(TABLE) - len(EVENTS) + 1  # which share one


@pytest.mark.parametrize("message", [m.Kill, m.Done, m.Launch], ids=["taken", "reply", "order"])
def test_a_second_handler_or_one_of_no_request_is_refused(message: Any) -> None:
    before = dict(TABLE)
    with pytest.raises(TypeError, match=f"{message.__name__} is no request, or has a handler"):
        handles(message)
    assert before == TABLE


def test_the_agent_has_a_case_for_every_order() -> None:
    tree = ast.parse((ROOT / "dq_client/node/agent/agent.py").read_text())
    cases = [
        node.cls.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.MatchClass) and isinstance(node.cls, ast.Attribute)
    ]
    to_jobs = {m.Ring}
    assert sorted(cases) == sorted(order.__name__ for order in m.ORDERS if order not in to_jobs)


@pytest.mark.parametrize("whole", WHOLES)
def test_parts_do_not_know_the_whole(whole: Any) -> None:
    """Not even for its type: what a part needs of the whole is what it is given."""
    package, may = WHOLES[whole]
    wrong = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / package).rglob("*.py"))
        if path.name not in may
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == whole
    ]
    assert not wrong


def built_by_position(path: Path) -> list[str]:
    """Where a file builds a message of more than three fields with fields by position."""
    long = {body.__name__ for body in BODIES if len(body.__struct_fields__) > 3}
    return [
        f"{path.relative_to(ROOT)}:{node.lineno}: {name}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and node.args
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "m"
        and (name := node.func.attr) in long
    ]


def test_messages_of_many_fields_are_built_by_keyword() -> None:
    wrong = [
        line
        for package in BUILD_MESSAGES
        for path in sorted(ROOT.glob(f"{package}/*.py"))
        for line in built_by_position(path)
    ]
    assert not wrong
