"""Who is let in: whoever has the token, from a page of this site, to read.

In this order, for every address: the method (GET and HEAD only), the name by which the site was
called (`Host`: a foreign name that points to this machine must not reach it, DNS rebinding), the
page that asks (`Origin`), then the token: once in the address, exchanged for a cookie and removed
from sight; afterwards the cookie, or `Authorization: Bearer`.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# Any port: a tunnel (ssh -L) may have another one at its near end.
HOSTS = ("127.0.0.1", "localhost", "[::1]")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Gate:
    """Stands before the site. `port` is part of the cookie's name: cookies do not know ports."""

    def __init__(self, app: App, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._cookie = f"dq_web_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no WebSocket is served: the server closes it
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        answer = self._refusal(scope, headers)
        if answer is not None:
            await _answer(send, *answer)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_encoded(HEADERS)]
            await send(message)

        await self._app(scope, receive, with_headers)

    def _refusal(
        self, scope: Scope, headers: dict[bytes, str]
    ) -> tuple[int, str, dict[str, str]] | None:
        """Status, text and headers of the answer; None: the request may pass."""
        if scope["method"] not in ("GET", "HEAD"):
            return 405, "this page can be read, and nothing else", {"Allow": "GET, HEAD"}
        host = headers.get(b"host", "")
        if _name(host) not in HOSTS:
            return 403, "this page is not served under that name", {}
        origin = headers.get(b"origin")
        if origin is not None and origin != f"http://{host}":
            return 403, "this page is not served to other pages", {}
        query = parse_qs(scope["query_string"].decode("latin-1"))
        if scope["path"] == "/" and self._is_token(query.get("token", [""])[0]):
            cookie = f"{self._cookie}={self._token}; HttpOnly; SameSite=Strict; Path=/"
            return 303, "", {"Location": "/", "Set-Cookie": cookie}
        scheme, _, bearer = headers.get(b"authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_token(bearer.strip()):
            return None
        if self._is_token(self._of_cookie(headers.get(b"cookie", ""))):
            return None
        return 401, "open the address that dq web has printed", {"WWW-Authenticate": "Bearer"}

    def _of_cookie(self, header: str) -> str:
        try:
            found = SimpleCookie(header).get(self._cookie)
        except CookieError:
            return ""
        return "" if found is None else found.value

    def _is_token(self, text: str) -> bool:
        # In constant time, and as bytes: compare_digest refuses text that is not ASCII.
        return hmac.compare_digest(text.encode(), self._token.encode())


def _name(host: str) -> str:
    """The name in a Host header, without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].lower()


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(k.lower().encode(), v.encode()) for k, v in headers.items()]


async def _answer(send: Send, status: int, text: str, headers: dict[str, str]) -> None:
    body = f"{text}\n".encode() if text else b""
    plain = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body))}
    found = _encoded({**HEADERS, **plain, **headers})
    await send({"type": "http.response.start", "status": status, "headers": found})
    await send({"type": "http.response.body", "body": body})
