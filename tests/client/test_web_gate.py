"""The gate of the live page: who is let in, and what everybody is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dq_client.show.web.gate import HEADERS, Gate, Message, Receive, Scope, Send

TOKEN = "the-token"
PORT = 8080
GOOD = {"host": f"127.0.0.1:{PORT}", "authorization": f"Bearer {TOKEN}"}


async def inside(scope: Scope, receive: Receive, send: Send) -> None:
    """A site that says which path was reached."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["path"].encode()})


def get(
    headers: dict[str, str], target: str = "/", method: str = "GET"
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the answer."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    path, _, query = target.partition("?")
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(k.encode(), v.encode("latin-1")) for k, v in headers.items()],
    }
    asyncio.run(Gate(inside, TOKEN, PORT)(scope, receive, send))
    found = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
    return sent[0]["status"], found, b"".join(m.get("body", b"") for m in sent[1:])


@pytest.mark.parametrize("target", ["/", "/api/state", "/metrics", "/static/page.js", "/nothing"])
def test_without_a_token_nothing_is_reached(target: str) -> None:
    status, headers, body = get({"host": "127.0.0.1"}, target)
    assert status == 401
    assert headers["www-authenticate"] == "Bearer"
    assert target.encode() not in body or target == "/"


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": "Bearer t\xf6ken"},
        {"authorization": "Bearer"},
        {"cookie": f"dq_web_{PORT}=wrong"},
        {"cookie": f"dq_web_{PORT + 1}={TOKEN}"},
        {"cookie": "=;;=\x01"},
    ],
)
def test_a_wrong_token_is_none(headers: dict[str, str]) -> None:
    assert get({"host": "localhost", **headers})[0] == 401


def test_the_token_of_the_address_becomes_a_cookie() -> None:
    status, headers, _ = get({"host": "127.0.0.1"}, f"/?token={TOKEN}")
    assert (status, headers["location"]) == (303, "/")
    cookie, *attributes = headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} == set(attributes)
    assert get({"host": "127.0.0.1", "cookie": cookie}, "/api/state")[::2] == (200, b"/api/state")
    assert get({"host": "127.0.0.1"}, "/?token=wrong")[0] == 401
    # Of the page only: an address that is passed on must not carry it.
    assert get({"host": "127.0.0.1"}, f"/api/state?token={TOKEN}")[0] == 401


@pytest.mark.parametrize("host", ["127.0.0.1:9", "localhost", "LOCALHOST:80", "[::1]:8080"])
def test_names_of_this_machine(host: str) -> None:
    assert get({**GOOD, "host": host})[0] == 200


@pytest.mark.parametrize(
    "host", ["", "evil.example", "127.0.0.1.evil.example:80", "localhost.evil", "10.0.0.1", "[::2]"]
)
def test_under_another_name_nothing_is_served(host: str) -> None:
    """A foreign name that points here: the browser would send what it has for that name."""
    for target in ("/", f"/?token={TOKEN}", "/api/state"):
        assert get({**GOOD, "host": host}, target)[0] == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:8080", "http://127.0.0.1:8081", ""]
)
def test_another_page_is_not_served(origin: str) -> None:
    assert get({**GOOD, "origin": origin}, "/api/state")[0] == 403


def test_the_page_itself_is_served() -> None:
    assert get({**GOOD, "origin": f"http://{GOOD['host']}"}, "/api/state")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get"])
def test_it_can_only_be_read(method: str) -> None:
    assert get(GOOD, "/api/state", method)[0] == 405


def test_head_is_reading() -> None:
    assert get(GOOD, "/api/state", "HEAD")[0] == 200


@pytest.mark.parametrize("headers", [GOOD, {"host": "127.0.0.1"}, {"host": "evil.example"}])
def test_every_answer_forbids_what_the_page_does_not_need(headers: dict[str, str]) -> None:
    found = get(headers)[1]
    assert all(found[name.lower()] == value for name, value in HEADERS.items())
    policy = found["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy and "*" not in policy and "data:" not in policy
