"""The audit log: what is told, what is not, and that nobody can push lines out or write there."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import zmq

from dq_client.base import audit, keys
from dq_client.base import messages as m
from dq_client.base.errors import DQError, NotFound, Refused
from dq_client.base.private import NotPrivate
from dq_server.live.access import Principal
from dq_server.live.audit import CHANGES, Audit, Origin
from harness.live import Live
from tests.live.serving import Serving, answer_of, submission

USER, JOB = Principal("user"), Principal("job", 7, 1)
HERE = Origin("127.0.0.1:4711", "public key")


class Clock:
    """Time stands still unless a test moves it."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(tmp_path: Path, clock: Clock) -> Audit:
    tmp_path.chmod(0o700)
    return Audit(tmp_path / "audit", "alice", clock)


def ask(log: Audit, who: Principal, body: m.RequestBody, reply: m.ReplyBody | None = None) -> None:
    """One request in a turn of its own."""
    log.asked(b"peer", who, HERE, m.Request("r", body), [3, 9])
    log.answered(b"peer", "r", reply or m.Done())
    log.write()


def told(log: Audit) -> list[dict[str, Any]]:
    return list(audit.lines(log.folder))


def test_a_line_says_who_asked_for_what_from_where_with_the_answer(log: Audit) -> None:
    ask(log, USER, m.Resize(3, 8, hold=True), m.Error("refused", "not now"))
    ask(log, USER, m.Kill(0))
    ask(log, USER, submission("r1"), m.Submitted(12))
    (resize, kill, submit) = told(log)
    assert tuple(resize) == audit.FIELDS
    assert (resize["time_s"], resize["user"], resize["role"]) == (1000.0, "alice", "user")
    assert (resize["from"], len(resize["key"])) == ("127.0.0.1:4711", 12)
    assert (resize["request"], resize["job"], resize["text"]) == ("resize", 3, "size=8 hold=True")
    assert (resize["answer"], resize["why"]) == ("refused", "not now")
    assert (kill["request"], kill["job"], kill["answer"]) == ("kill", 9, "done"), "0: the last job"
    assert (submit["request"], submit["job"]) == ("submit", 12)


def test_who_only_looks_or_reports_of_itself_has_no_line(log: Audit) -> None:
    ask(log, USER, m.JobsQuery())
    ask(log, JOB, m.Committed(1))
    assert not log.folder.exists()
    assert m.Kill in CHANGES
    assert m.Submit in CHANGES
    assert m.JobsQuery not in CHANGES


def test_no_secret_of_a_submission_is_told(log: Audit) -> None:
    body = m.Submit(
        request="r1",
        name="job",
        argv=["train", "--token=secret-1"],
        cwd="/secret-2",
        env={"PASSWORD": "secret-3\n"},
        inherited={"TOKEN": "secret-4"},
        array=m.Array([0], lines=["secret-5"]),
        parts=[m.Part(1, ["b", "secret-6"])],
    )
    quoted = m.Error("refused", f"{body.argv[1]} {body.env!r} {body.inherited} secret-5 secret-6")
    ask(log, USER, body, quoted)
    ask(log, USER, body, m.Submitted(4))
    assert [line["answer"] for line in told(log)] == ["refused", "done"]
    assert b"secret" not in (log.folder / audit.NAME).read_bytes()
    assert told(log)[1]["text"] == "name=job kind=malleable array=1"


def test_of_a_turn_that_is_not_saved_the_refusal_is_told(log: Audit) -> None:
    log.asked(b"peer", USER, HERE, m.Request("r", m.Kill(3)), [])
    log.answered(b"peer", "r", m.Done())
    log.answered(b"peer", "r", m.Error("later", "not saved: disk full"))
    log.write()
    assert [(line["answer"], line["why"]) for line in told(log)] == [
        ("later", "not saved: disk full")
    ]


def test_refusals_without_end_push_nobody_out(log: Audit, clock: Clock) -> None:
    ask(log, USER, m.Kill(3))
    for n in range(5000):
        log.asked(b"peer", JOB, HERE, m.Request(str(n), m.Kill(3)), [])
        log.stranger("10.0.0.9", "unknown")
        log.write()
    clock.now_s += 1
    log.write()
    log.write()
    lines = [(line["role"], line["answer"], line["times"]) for line in told(log)]
    first, refused = lines[0], sorted(lines[1:])
    assert first == ("user", "done", 1)
    assert refused == [("", "refused", 1), ("", "refused", 4999),
                       ("job", "refused", 1), ("job", "refused", 4999)]  # fmt: skip
    stranger = next(line for line in told(log) if not line["role"])
    assert (stranger["request"], stranger["from"], stranger["user"]) == ("connect", "10.0.0.9", "")


def test_files_are_bounded_and_the_newest_lines_are_kept_in_order(log: Audit) -> None:
    log.bytes_max = 4000
    for size in range(1, 400):
        ask(log, USER, m.Resize(3, size))
    kept = [int(line["text"].removeprefix("size=")) for line in told(log)]
    assert kept == list(range(kept[0], 400))
    assert kept[0] > 1
    assert audit.OLDER_MAX <= len(list(log.folder.iterdir())) <= audit.OLDER_MAX + 1
    assert sum(p.stat().st_size for p in log.folder.iterdir()) < (audit.OLDER_MAX + 2) * 4000


def test_half_a_line_costs_no_other_line(log: Audit) -> None:
    ask(log, USER, m.Kill(3))
    with (log.folder / audit.NAME).open("a") as f:
        f.write('{"time_s": 10')
    ask(log, USER, m.Kill(9))
    assert [line["job"] for line in told(log)] == [3, 9]


def test_the_log_is_its_owners_alone_whatever_the_umask(log: Audit) -> None:
    before = os.umask(0)
    try:
        ask(log, USER, m.Kill(3))
    finally:
        os.umask(before)
    assert stat.S_IMODE(log.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((log.folder / audit.NAME).stat().st_mode) == 0o600
    target = log.folder.parent / "target"
    target.write_text("as it was")
    (log.folder / audit.NAME).unlink()
    (log.folder / audit.NAME).symlink_to(target)
    ask(log, USER, m.Kill(4))  # nothing is written through a link, and the server goes on
    assert target.read_text() == "as it was"
    with pytest.raises(NotPrivate):
        told(log)


def test_a_real_server_tells_of_users_jobs_viewers_and_strangers(tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    try:
        serving.agent("a1", "n1")
        user = serving.role("user")
        job = answer_of(m.Submitted, user.call(submission("r1"))).job
        with pytest.raises(NotFound):
            user.call(m.Kill(77))
        with pytest.raises(Refused):
            serving.role("viewer").call(m.Kill(job))
        user.call(m.JobsQuery())
        with pytest.raises(DQError):
            serving.connect(keys.pair_of(zmq.curve_keypair()[1].decode())).call(m.Hello(m.PROTOCOL))
    finally:
        serving.close()
    lines = list(audit.lines(serving.home.audit))
    told = [(line["role"], line["request"], line["answer"], line["job"]) for line in lines]
    assert told[:4] == [
        ("server", "start", "done", 0),
        ("user", "submit", "done", job),
        ("user", "kill", "not_found", 77),
        ("viewer", "kill", "refused", job),
    ]
    assert told[4][:3] == ("", "connect", "refused")
    assert all(line["from"].startswith("127.0.0.1") for line in lines[1:])
    text = (serving.home.audit / audit.NAME).read_text()
    for name in ("user", "viewer", "agent", "server"):
        assert keys.load(serving.home.keys, name).secret not in text
        assert f"{name}=" in lines[0]["text"], "a start tells which keys count"


@pytest.mark.live
@pytest.mark.mpi
def test_dq_audit_with_a_server_and_after_it(live: Live) -> None:
    assert live.run("audit").returncode == 3
    live.up(2)
    job = live.submit("-n", 1, "--name", "plain", "--", "true", "hush-hush")
    live.wait_end(job)
    assert live.run("kill", 99).returncode == 5
    live.run("node", "drain", "nowhere", "--reason", "bad \x1b[31mred")
    first = json.loads(live.dq("audit", "--json"))["lines"]
    asked = [line["request"] for line in first]
    assert asked == ["start", "submit", "kill", "drain"]
    only = json.loads(live.dq("audit", "--job", job, "--since", "1h", "--json"))["lines"]
    assert [line["request"] for line in only] == ["submit"]
    assert json.loads(live.dq("audit", "--user", "nobody-here", "--json"))["lines"] == []
    assert "\x1b" not in live.dq("audit")
    assert "hush-hush" not in live.dq("audit", "--json")
    live.dq("down")
    last = json.loads(live.dq("audit", "--json"))["lines"]
    assert last[: len(first)] == first
    assert last[-1]["request"] == "stop"
    (line,) = json.loads(live.dq("audit", "--limit", 1, "--json"))["lines"]
    assert line == last[-1]
