"""`dq web` with a real cluster: its address, what it serves, and its end."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from dq_client.deploy import sidecars
from harness.commands import HANG_S

pytest.importorskip("uvicorn", reason="dq web needs the extra web")

from prometheus_client.parser import text_string_to_metric_families

from harness.live import Live

pytestmark = pytest.mark.live


class Page:
    """The page of a cluster, read by its token."""

    def __init__(self, url: str) -> None:
        self.url, parts = url, urlsplit(url)
        self.token = parts.query.removeprefix("token=")
        self.base = f"{parts.scheme}://{parts.netloc}"

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        """Status and text; by the token, unless other headers are given."""
        headers = headers or {"Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(self.base + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=HANG_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def data(self, path: str) -> Any:
        status, text = self.get(path)
        assert status == 200, text
        return json.loads(text)

    def until(self, wanted: Callable[[Any], bool]) -> Any:
        """The state, once it is as wanted; oldest job first (the page has them as they changed)."""
        deadline = time.monotonic() + 120
        while True:
            state = self.data("/api/state")
            state["jobs"].sort(key=lambda job: job["id"])
            if wanted(state):
                return state
            found = [job["state"] for job in state["jobs"]]
            assert time.monotonic() < deadline, (found, state["status"])
            time.sleep(0.05)

    def with_jobs(self, *states: str) -> Any:
        """The state, once the jobs are in these states."""
        return self.until(lambda known: tuple(job["state"] for job in known["jobs"]) == states)


def opened(live: Live, *options: object) -> Page:
    told = json.loads(live.dq("web", "--detach", "--json", *options))
    assert told["schema"] == 1
    return Page(told["url"])


def test_the_start_of_a_queued_job_is_forecast(cluster: Live) -> None:
    """By `dq sim forecast`: the one ahead runs for its walltime at most, and nothing has ended."""
    cluster.dq("submit", "-n", 4, "--walltime", "2h", "--", "sleep", 600)
    waits = int(cluster.dq("submit", "-n", 4, "--walltime", "1h", "--", "sleep", 600))
    page = opened(cluster)
    page.with_jobs("running", "queued")
    deadline = time.monotonic() + 300  # a simulation: on a machine full of others it takes a while
    while (
        start := json.loads(cluster.dq("why", waits, "--json", "--forecast"))["forecast"]
    ) is None:
        assert time.monotonic() < deadline
    assert 0 < start["earliest_s"] <= start["median_s"] <= start["latest_s"] <= 7200
    told = cluster.dq("why", waits)
    assert "with a chance of 80 %" in told or "no forecast within" in told
    assert "forecast" not in json.loads(cluster.dq("why", waits, "--json"))
    found = page.data("/api/forecast")
    assert found["error"].startswith("no forecast within") or (
        0 < found["starts"][str(waits)]["median_s"] <= 7200
    )


def test_a_cluster_is_seen_and_nothing_more_can_be_done(cluster: Live) -> None:
    cluster.dq("submit", "-n", 2, "--name", "<script>", "--", "sleep", 600)
    cluster.dq("submit", "-n", 3, "--", "sleep", 600)
    page = opened(cluster)
    state = page.with_jobs("running", "queued")
    assert state["schema"] == 1
    assert len(state["nodes"]) == 4
    assert state["jobs"][0]["name"] == "<script>"
    assert state["jobs"][0]["places"][0]["nodes"] == {"n01": "0", "n02": "0"}
    why = page.data("/api/why/2")
    assert "3 processors" in why["now"][0]["text"]
    assert page.get("/api/why/99")[0] == 404
    for number in ("9" * 20, "9" * 5000, str(2**53 + 1), "-1", "1.5", "%C2%B2", "x"):
        assert page.get(f"/api/why/{number}")[0] == 404
        assert page.get(f"/api/logs/{number}")[0] == 404
    assert "text" in page.data("/api/logs/1")
    listed = Counter(j["state"] for j in json.loads(cluster.dq("jobs", "--json"))["jobs"])
    text = page.get("/metrics")[1]
    shown = {
        s.labels["state"]: s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
        if s.name == "dq_jobs"
    }
    assert {k: v for k, v in shown.items() if v} == listed
    status, html = page.get("/")
    assert status == 200 and "<canvas" in html
    for name in ("page.js", "page.css", "gantt.js"):
        assert page.get(f"/static/{name}")[0] == 200
    for path in ("/static/..%2f__init__.py", "/static/nothing.js", "/api/kill/1"):
        assert page.get(path)[0] == 404
    for path in ("/", "/api/state", "/metrics", "/api/events", "/static/page.js"):
        assert page.get(path, Accept="*/*")[0] == 401
    # It holds the key of a viewer: tests/live/test_access.py shows what that may not do.
    assert sidecars.file_of(cluster.home, "web").stat().st_mode & 0o777 == 0o600
    assert "token" not in (cluster.home.log / "web.err").read_text()


def test_events_tell_what_changes(cluster: Live) -> None:
    page = opened(cluster)
    place = page.data("/api/state")["place"]
    request = urllib.request.Request(
        f"{page.base}/api/events?place={place}", headers={"Authorization": f"Bearer {page.token}"}
    )
    with urllib.request.urlopen(request, timeout=HANG_S) as events:
        job = cluster.submit("-n", 1, "--", "sleep", 30)
        told: set[str] = set()
        while "running" not in told:
            line = events.readline().decode()
            if line.startswith("data: "):
                news = json.loads(line.removeprefix("data: "))
                assert not news["whole"]
                told |= {j["state"] for j in news["jobs"] if j["id"] == job}


def test_it_goes_on_with_the_next_server_and_ends_with_the_cluster(cluster: Live) -> None:
    page = opened(cluster)
    assert page.data("/api/state")["status"]["epoch"] == 1
    assert json.loads(cluster.dq("web", "--json"))["url"] == page.url, "one page for a cluster"
    cluster.dq("server", "stop")
    cluster.dq("server", "start", "--detach")
    page.until(lambda s: s["status"]["up"] and s["status"]["epoch"] == 2 and len(s["nodes"]) == 4)
    cluster.dq("down")
    assert sidecars.running(cluster.home, "web") is None
    assert not sidecars.file_of(cluster.home, "web").exists()
    with pytest.raises(urllib.error.URLError):
        page.get("/")


def test_it_is_stopped_alone(live: Live) -> None:
    assert "no server is running" in live.run("web", "--detach").stderr
    live.up(1)
    page = opened(live)
    assert json.loads(live.dq("web", "status", "--json"))["url"] == page.url
    port = urlsplit(page.url).port
    assert port is not None
    refused = live.run("web", "--port", port + 1 if port < 65535 else 1024, "--detach")
    assert refused.returncode == 2 and "dq web stop first" in refused.stderr
    live.dq("web", "stop")
    again = opened(live, "--port", port)
    assert urlsplit(again.url).port == port
    assert again.token != page.token
    assert again.get("/", Cookie=f"dq_web_{port}={page.token}")[0] == 401
