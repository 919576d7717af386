"""What a user reads of a host whose ssh does not let DQ in."""

from __future__ import annotations

from pathlib import Path

import pytest

from dq_client.deploy.cluster import Host
from dq_client.deploy.ssh.remote_bootstrap import End, HostEnded
from dq_client.deploy.ssh.session import HostProblem, HostSession

CHANGED = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Offending ED25519 key in /home/me/.ssh/known_hosts:3
Host key for alpha has changed and you have requested strict checking.
Host key verification failed.
"""
UNKNOWN = "its ssh host key is not known here: ssh alpha once, compare the key, and accept it"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            CHANGED,
            "its ssh host key has changed (known: ED25519 key in /home/me/.ssh/known_hosts:3):"
            " another machine may answer in its place; ask its administrator why. If the new key is"
            " right: ssh-keygen -R alpha, then ssh alpha once to accept it",
        ),
        ("Host key verification failed.\n", UNKNOWN),
        (
            "No ED25519 host key is known for alpha and you have requested strict checking.\n"
            "Host key verification failed.\n",
            UNKNOWN,
        ),
        (
            "@       WARNING: REVOKED HOST KEY DETECTED!               @\n"
            "Host key verification failed.\n",
            "ssh fails: Host key verification failed. (try ssh alpha)",
        ),
        (
            "me@alpha: Permission denied (publickey).\n",
            "ssh fails: me@alpha: Permission denied (publickey). (try ssh alpha)",
        ),
        ("", "ssh fails: no reason given (try ssh alpha)"),
    ],
)
def test_a_changed_host_key_is_told_from_an_unknown_one(
    words: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "words").write_text(words)
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\ncat '{tmp_path}/words' >&2\nexit 255\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    session = HostSession(Host("alpha", python="python3"))
    try:
        with pytest.raises(HostProblem) as found:
            session.ask(End("alpha", ""), HostEnded)
    finally:
        session.close()
    assert str(found.value) == f"alpha: {problem}"
