"""Hooks: their file, what is called for and when, and the calls."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dq_client.base.errors import UsageError
from dq_client.show.hooks import config
from dq_client.show.hooks.backlog import LONGEST_PAUSE_S, Backlog
from dq_client.show.hooks.call import CallError, Child, call, environment
from dq_client.show.hooks.config import Hook
from harness.bench import until

JOB = {"id": 7, "state": "failed", "user": "anna", "name": "x"}
TOLD = {"schema": 1, "on": "job_end", "event": 3, "time_s": 1.0, "code": "exit", "text": "ended",
        "node": None, "job": JOB}  # fmt: skip


def parsed(text: str, path: Path) -> list[Hook]:
    path.write_text(text)
    path.chmod(0o600)
    return config.read(path)


def test_a_file(tmp_path: Path) -> None:
    found = parsed(
        '[[hook]]\nname="a"\ncommand=["./tell","x"]\n[[hook]]\nname="b"\nurl="http://[::1]:8/x"\n'
        'on=["node_lost"]\nstates=["done"]\nusers=["anna"]\ntimeout_s=1\ntries=2\n',
        tmp_path / "hooks.toml",
    )
    assert found[0] == Hook("a", (str(tmp_path / "tell"), "x"))
    assert found[1] == Hook("b", (), "http://[::1]:8/x", ("node_lost",), ("done",), ("anna",), 1, 2)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = ", "not TOML"),
        ("", "the key 'hook' is missing"),
        ("hook = 3", "hook: a list is needed"),
        ("[other]", "unknown key 'other'"),
        ('[[hook]]\ncommand=["true"]', "the key 'name' is missing"),
        ('[[hook]]\nname="a b"\ncommand=["true"]', "name: the text must match"),
        ('[[hook]]\nname="a"', "either command"),
        ('[[hook]]\nname="a"\ncommand=["true"]\nurl="http://h"', "either command"),
        ('[[hook]]\nname="a"\ncommand="true"', "command: a list is needed"),
        ('[[hook]]\nname="a"\ncommand=[""]', "command entry 1: the text must match"),
        ('[[hook]]\nname="a"\nurl="file:///etc/passwd"', "not an address"),
        ('[[hook]]\nname="a"\nurl="http://h/\\n"', "not an address"),
        ('[[hook]]\nname="a"\nurl="http://h"\non=["jobend"]', "did you mean 'job_end'?"),
        ('[[hook]]\nname="a"\nurl="http://h"\nstates=["lost"]', "known: done, failed, killed"),
        ('[[hook]]\nname="a"\nurl="http://h"\ntries=0', "tries: a whole number >= 1 is needed"),
        (
            '[[hook]]\nname="a"\nurl="http://h"\ntimeout_s=nan',
            "timeout_s: a number >= 0.1 is needed",
        ),
        (
            '[[hook]]\nname="a"\nurl="http://h"\ntries=true',
            "a whole number is needed, not true or false",
        ),
        ('[[hook]]\nname="a"\nurl="http://h"\ntry=1', "unknown key 'try'"),
        ('[[hook]]\nname="a"\nurl="http://h"\n' * 2, "two hooks are named 'a'"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told) as caught:
        parsed(text, tmp_path / "hooks.toml")
    assert "\n" not in str(caught.value) and "hooks.toml" in str(caught.value)


def test_a_file_that_others_can_write_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "hooks.toml"
    file.write_text('[[hook]]\nname="a"\ncommand=["true"]\n')
    file.chmod(0o666)
    with pytest.raises(UsageError, match="chmod go-w"):
        config.read(file)
    with pytest.raises(UsageError, match="No such file"):
        config.read(tmp_path / "other")


# --- backlog -------------------------------------------------------------------------------------


def rows(*numbers: int, what: str = "done") -> list[dict[str, Any]]:
    return [{"event": n, "what": what, "job": n, "node": ""} for n in numbers]


HOOK = Hook("h", ("true",), tries=3)


def test_calls_are_made_in_order_and_its_place_follows() -> None:
    backlog = Backlog(HOOK, 2)
    backlog.take(rows(1, 2, 3, 5, 5), 6)  # 1 and 2 were called for
    assert [row["event"] for row in backlog.waiting] == [3, 5, 5] and backlog.place == 2
    for place in (4, 4, 6):
        assert backlog.due(0.0) is not None
        backlog.succeeded()
        assert backlog.place == place
    assert backlog.due(0.0) is None and backlog.wait_s(0.0) is None
    backlog.take(rows(5, 6), 6)  # told again, after the server was another one
    assert not backlog.waiting


def test_a_call_that_fails_is_made_again_later_each_time_and_then_given_up() -> None:
    backlog = Backlog(HOOK, 0)
    backlog.take(rows(1, 2), 2)
    assert backlog.failed("no", 10.0) is False
    assert backlog.due(10.9) is None and backlog.due(11.0) is not None
    assert backlog.failed("no", 11.0) is False
    assert backlog.wait_s(11.0) == 2.0 and backlog.place == 0
    assert backlog.failed("no", 13.0) is True
    assert (backlog.given_up, backlog.place, backlog.trouble) == (1, 1, "no")
    second = backlog.due(13.0)
    assert second is not None and second["event"] == 2
    backlog.succeeded()
    assert (backlog.delivered, backlog.failed_tries, backlog.trouble) == (1, 3, "")


def test_a_hook_hears_of_what_it_is_on_only() -> None:
    lost = Backlog(Hook("h", ("true",), on=("node_lost",)), 0)
    lost.take([*rows(1), *rows(2, what="expand"), *rows(3, what="node lost")], 4)
    assert [row["event"] for row in lost.waiting] == [3]
    some = Backlog(Hook("h", ("true",), states=("failed",), users=("anna",)), 0)
    assert some.fits(JOB) and not some.fits({**JOB, "state": "done"})
    assert not some.fits({**JOB, "user": "bob"})


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=60), st.integers(1, 4))
def test_nothing_is_lost_or_called_for_twice(story: list[tuple[int, bool]], tries: int) -> None:
    """Whatever fails: each event is delivered or given up, in order; pauses stay bounded."""
    backlog, now, seen, last = Backlog(Hook("h", ("x",), tries=tries), 0), 0.0, list[int](), 0
    for count, good in story:
        backlog.take(rows(*range(last + 1, last + count + 1)), last + count)
        last += count
        occasion = backlog.due(now)
        if occasion is None:
            wait_s = backlog.wait_s(now)
            assert wait_s is not None and wait_s <= LONGEST_PAUSE_S
            now += wait_s
            occasion = backlog.due(now)
        assert occasion is not None
        if good:
            backlog.succeeded()
        if good or backlog.failed("no", now):
            seen.append(occasion["event"])
        assert backlog.place == len(seen)
    assert seen == list(range(1, len(seen) + 1))


# --- calls ---------------------------------------------------------------------------------------


def test_a_command_is_told_in_json_and_variables_and_not_our_keys(tmp_path: Path) -> None:
    program = (
        'cat > told; env > environment; echo "$DQ_HOOK_ON $DQ_HOOK_JOB $DQ_HOOK_STATE" > words'
    )
    call(Hook("h", ("sh", "-c", program)), TOLD, tmp_path, Child())
    assert json.loads((tmp_path / "told").read_text()) == TOLD
    assert (tmp_path / "words").read_text() == "job_end 7 failed\n"
    given = environment(TOLD, {"DQ_JOB_KEY": "k", "PMI_FD": "3", "DQ_HOME": "/h", "PATH": "/bin"})
    assert {"DQ_HOME", "PATH"} <= given.keys() and not {"DQ_JOB_KEY", "PMI_FD"} & given.keys()


@pytest.mark.parametrize(
    ("command", "limit_s", "told"),
    [
        (
            ("sh", "-c", r"printf 'no \033[31mroom\n' >&2; exit 3"),
            60,
            "exit code 3: no .\\[31mroom$",
        ),
        (("no-such-program",), 60, "cannot be started"),
        (("sh", "-c", "sleep 600 & echo $! > child; wait"), 4, "ended after 4 s"),
    ],
)
def test_a_command_that_fails_says_why(
    tmp_path: Path, command: tuple[str, ...], limit_s: float, told: str
) -> None:
    with pytest.raises(CallError, match=told):
        call(Hook("h", command, timeout_s=limit_s), TOLD, tmp_path, Child())
    if (child := tmp_path / "child").exists() and (text := child.read_text()):
        pid = int(text)
        until(lambda: not is_there(pid), "it was killed, and does not end")


def is_there(pid: int) -> bool:
    """Whether the process runs: one that has ended may wait for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


class Receiver(HTTPServer):
    """Answers with the codes that it is given, one after the other, and keeps what it is sent."""

    def __init__(self, codes: list[int]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.codes, self.got = codes, list[Any]()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/told"


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        self.server.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.server.codes.pop(0))
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    do_GET = do_POST  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver([204, 500, 302])
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def test_a_url_gets_json_and_no_redirect_is_followed(receiver: Receiver, tmp_path: Path) -> None:
    hook = Hook("h", url=receiver.url, timeout_s=60)
    call(hook, TOLD, tmp_path, Child())
    for code in (500, 302):
        with pytest.raises(CallError, match=f"it answered {code}"):
            call(hook, TOLD, tmp_path, Child())
    assert receiver.got == [TOLD] * 3
    with pytest.raises(CallError, match="refused"):
        call(Hook("h", url="http://127.0.0.1:1/", timeout_s=5), TOLD, tmp_path, Child())


def test_the_environment_has_no_reserved_name() -> None:
    assert not [k for k in environment(TOLD, os.environ) if k.startswith(("PMI_", "HYDRA_"))]
