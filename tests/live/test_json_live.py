"""What `--json` prints, and the page's state, are what dq_client/show/views.py says, to the key."""

from __future__ import annotations

import json
import types
import typing
import urllib.request
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import msgspec
import pytest

from dq_client.show import views
from harness.commands import HANG_S
from harness.live import Live
from tests.live.farming import __file__ as farm

pytestmark = [pytest.mark.live, pytest.mark.mpi]


def check(data: Any, kind: Any, where: str = "") -> None:
    """AssertionError if a key is missing, unknown, or of another type."""
    msgspec.convert(data, kind, strict=True)
    _keys(data, kind, where or kind.__name__)


def _keys(data: Any, hint: Any, where: str) -> None:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        _keys(data, args[0], where)
    elif origin in (typing.Union, types.UnionType):
        for one in args:
            if data is not None and one is not type(None):
                _keys(data, one, where)
    elif origin is list:
        for item in data:
            _keys(item, args[0], where)
    elif typing.is_typeddict(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        assert hint.__required_keys__ <= data.keys() <= hints.keys(), (where, data.keys())
        for name, value in data.items():
            _keys(value, hints[name], f"{where}.{name}")


def test_every_key_is_documented(live: Live, tmp_path: Path) -> None:
    live.up(4)
    words = ("-n", 1, "--sizes", "1,2", "--protect", "--wait", "--", "python", farm, tmp_path)
    submitted = json.loads(live.dq("submit", "--json", *words))
    check(submitted, views.SubmitAnswer)
    number = submitted["job"]["id"]
    check(
        json.loads(live.dq("submit", "--array", "0-2", "--json", "--", "true")), views.SubmitAnswer
    )
    profile = live.submit("--profile", "60:1,60:2", "--", "true")
    live.dq("node", "drain", "n04", "--deadline", "10m", "--reason", "memory")
    check(json.loads(live.dq("jobs", "--all", "--json")), views.JobsAnswer)
    check(json.loads(live.dq("nodes", "--json")), views.NodesAnswer)
    for job in (number, profile):
        check(json.loads(live.dq("job", job, "--json"))["job"], views.JobInfo)
        check(json.loads(live.dq("why", job, "--json")), views.WhyAnswer)
    url = json.loads(live.dq("web", "--detach", "--json"))["url"]
    base, _, token = url.partition("/?token=")
    asked = urllib.request.Request(
        f"{base}/api/state", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(asked, timeout=HANG_S) as answer:
        check(json.load(answer), views.State)


def test_what_differs_is_noticed() -> None:
    reason = {"code": "x", "text": "y", "figures": {}}
    check(reason, views.Reason)
    for wrong in ({**reason, "more": 1}, {"code": "x", "text": "y"}, {**reason, "code": 1}):
        with pytest.raises((AssertionError, msgspec.ValidationError)):
            check(wrong, views.Reason)
