"""The addresses of the live page. All of them only read.

/                page                      /api/state      all that is known
/static/NAME     its files                 /api/events     what changes (server-sent events)
/metrics         for Prometheus            /api/why/ID     why a job is where it is, and its story
/api/forecast    when queued jobs start    /api/logs/ID    the end of a job's output
                                           /api/jobs/ID    all of one job
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import resources

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from dq_client.base import messages as m
from dq_client.base.errors import DQError, NotFound
from dq_client.base.home import Home
from dq_client.show.feed.follower import Asker
from dq_client.show.feed.log_tail import log_tail
from dq_client.show.feed.model import Model
from dq_client.show.forecast import NewestForecast
from dq_client.show.web import metrics

SCHEMA = 1
NO_SUCH_JOB = NotFound("there is no such job")
READERS_MAX = 32
QUIET_S = 15.0  # a comment is sent then: a proxy or a tunnel would hang up
TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class Site:
    """The handlers; `changed` is called in their loop."""

    def __init__(self, model: Model, asker: Asker, home: Home) -> None:
        self._model, self._asker = model, asker
        self._forecast = NewestForecast(home, self._now_s)
        self._readers: set[asyncio.Event] = set()
        folder = resources.files("dq_client.show.web") / "static"
        self._files = {f.name: f.read_bytes() for f in folder.iterdir() if f.is_file()}

    def changed(self) -> None:
        """Wake all who read events."""
        for reader in self._readers:
            reader.set()

    def app(self) -> Starlette:
        """What uvicorn serves."""
        return Starlette(
            routes=[
                Route("/", self._page),
                Route("/static/{name}", self._file),
                Route("/api/state", self._state),
                Route("/api/events", self._events),
                Route("/api/why/{job}", self._of_job(m.WhyQuery)),
                Route("/api/jobs/{job}", self._of_job(m.JobQuery)),
                Route("/api/logs/{job}", self._logs),
                Route("/api/forecast", self._starts),
                Route("/metrics", self._metrics),
            ]
        )

    async def _page(self, _: Request) -> Response:
        return self._served("index.html")

    async def _file(self, request: Request) -> Response:
        return self._served(request.path_params["name"])

    def _served(self, name: str) -> Response:
        # From memory, by name: no path of a request ever reaches the file system.
        body = self._files.get(name)
        if body is None:
            return Response("no such file\n", 404, media_type="text/plain")
        kind = TYPES.get(name.rpartition(".")[2], "text/plain")
        return Response(body, headers={"Content-Type": kind})

    async def _state(self, _: Request) -> Response:
        place, news = self._model.since()
        return _json({"schema": SCHEMA, "now_s": time.time(), "place": place, **news})

    async def _metrics(self, _: Request) -> Response:
        body = metrics.text_of(self._model, time.time())
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return Response(body, headers={"Content-Type": kind})

    async def _events(self, request: Request) -> Response:
        if len(self._readers) >= READERS_MAX:
            return Response("too many pages are open\n", 503, media_type="text/plain")
        place = request.headers.get("last-event-id") or request.query_params.get("place", "")
        return StreamingResponse(self._news(place), media_type="text/event-stream")

    async def _news(self, place: str) -> AsyncIterator[bytes]:
        woken = asyncio.Event()
        woken.set()
        self._readers.add(woken)
        shown: object = None
        try:
            while True:
                try:
                    await asyncio.wait_for(woken.wait(), QUIET_S)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                woken.clear()
                before = place
                place, news = self._model.since(place)
                if place == before and news["status"] == shown:
                    continue
                shown = news["status"]
                data = msgspec.json.encode({"now_s": time.time(), **news})
                yield b"id: %s\ndata: %s\n\n" % (place.encode(), data)
        finally:
            self._readers.discard(woken)

    def _of_job(
        self, query: Callable[[int], m.RequestBody]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            job = _job_of(request)
            if job is None:
                return _refused(NO_SUCH_JOB)
            return await run_in_threadpool(self._asked, query(job))

        return answer

    def _asked(self, body: m.RequestBody) -> Response:
        try:
            return _json({"schema": SCHEMA, **self._asker.data(body)})
        except DQError as e:
            return _refused(e)

    def _now_s(self) -> float:
        return float(self._asker.data(m.StatusQuery())["now_s"])

    async def _starts(self, _: Request) -> Response:
        return _json({"schema": SCHEMA, **await run_in_threadpool(self._forecast.read)})

    async def _logs(self, request: Request) -> Response:
        job = _job_of(request)
        if job is None:
            return _refused(NO_SUCH_JOB)
        stream = "err" if request.query_params.get("stream") == "err" else "out"
        return await run_in_threadpool(self._tail, job, stream)

    def _tail(self, job: int, stream: str) -> Response:
        try:
            text = log_tail(self._asker, job, stream)
        except DQError as e:
            return _refused(e)
        return _json({"schema": SCHEMA, "job": job, "stream": stream, "text": text})


def _job_of(request: Request) -> int | None:
    """The job that an address names; None if no message can name it."""
    digits: str = request.path_params["job"]
    # Python converts no more than some thousand digits, and these are far too many for a job.
    number = int(digits) if len(digits) < 20 and digits.isdecimal() else -1
    return number if 0 <= number <= m.JOB_MAX else None


def _json(data: object) -> Response:
    return Response(msgspec.json.encode(data), media_type="application/json")


def _refused(error: DQError) -> Response:
    status = 404 if isinstance(error, NotFound) else 503
    return Response(
        msgspec.json.encode({"schema": SCHEMA, "error": str(error)}),
        status,
        media_type="application/json",
    )
