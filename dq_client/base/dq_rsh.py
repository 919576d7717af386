"""What MPICH's mpiexec calls instead of ssh: asks a DQ agent to run one command on one node.

mpiexec starts ranks on a node by running `dq-rsh NODE command ...` and takes the end of this
program for the end of that command. So this program hands the command to the agent over the unix
socket named in DQ_RSH_SOCKET and lives until the agent says how it ended.

Design criteria: a resize waits for it once per node, so it starts fast (`python -I -S`, few
imports, none that can wait until the command runs) and does nothing else; when the agent is gone
it must fail at once, because the application would wait for ever.

The exchange is two lines of JSON. The program MUST send one request:

    {"host": "n03", "argv": ["/.../hydra_pmi_proxy", "--control-port", "127.0.0.1:40123", ...],
     "cwd": "/home/user", "env": {"UCX_TLS": "..."}}

`argv` is a list, never a shell line; `env` holds only the variables named in `PASSED` below (the
ranks' own environment travels from mpiexec to its proxy by itself). The agent runs the command
and, when that has ended, MUST answer with one of

    {"exit": 0}                      the command ran and ended with this code
    {"error": "no such node: n03"}   it was not run; the text goes to standard error

If the connection closes without an answer, this program takes the command for lost and fails; a
command that runs goes on. If this program is killed, the agent sees the connection close and SHALL
end the command.

A command that was not run would end the whole job: hydra gives up when one launch fails. For a job
that starts this is right. For a job that grows, this program takes the agent's place and runs the
command on this machine with the reason in DQ_REFUSED: the new ranks start here, tell the job what
happened (resize_lib/processes/hydra/arrivals.py) and end, and the job goes on at its old size.
"""

import os
import sys
from _json import encode_basestring_ascii as quoted  # these two are the C halves of json and
from _socket import AF_UNIX, SOCK_STREAM, socket  # socket, which take 12 ms of 20 to import

SOCKET_VARIABLE = "DQ_RSH_SOCKET"
PASSED = ("UCX_", "MPIR_", "MPICH_", "HYDRA_", "DQ_", "OPENBLAS_", "OMP_", "MKL_", "LD_LIBRARY_")
ANSWER_BYTES_MAX = 65536
NUMBERS_START = "999"
REFUSED_VARIABLE = "DQ_REFUSED"
FIRST_RANKS = ["--pgid", "0"]  # in the command that starts a job; ranks that join have higher ones


class NotRunError(Exception):
    """The command was certainly not run."""


FAILED = 255  # as ssh does, so that the command's own codes stay apart


def spelled_in_numbers(node: str) -> str:
    """The node's name as hydra gets it: `n03` is `999.110.48.51`.

    Hydra looks every name up, to see whether it is this machine: with an unreachable name server
    that takes 10 s a name. Digits and dots are never looked up, and as 999 is no part of an
    address they are no machine's, so hydra leaves every node, also the one it runs on, to dq-rsh.
    """
    return ".".join([NUMBERS_START, *map(str, node.encode())])


def spelled_in_letters(name: str) -> str:
    """The node's own name: undoes `spelled_in_numbers`; other names are left as they are."""
    start, *codes = name.split(".")
    if start != NUMBERS_START:
        return name
    return bytes(map(int, codes)).decode()


def request(host: str, command: list[str]) -> bytes:
    """The request line. Hydra quotes some words for a shell, which is not used here."""
    argv = ", ".join(quoted(word.strip('"')) for word in command)
    env = ", ".join(
        f"{quoted(name)}: {quoted(value)}"
        for name, value in os.environ.items()
        if name.startswith(PASSED)
    )
    cwd = os.getcwd()  # noqa: PTH109 - pathlib takes 5 ms to import
    return (
        f'{{"host": {quoted(host)}, "argv": [{argv}], "cwd": {quoted(cwd)}, "env": {{{env}}}}}\n'
    ).encode()


def ask(path: str, line: bytes) -> int:
    """Send the request and wait, without limit, for the command's exit code.

    NotRunError if nobody ran it; OSError, ValueError if there is no proper answer.
    """
    agent = socket(AF_UNIX, SOCK_STREAM)
    try:
        agent.connect(path)
    except OSError as error:
        raise NotRunError(f"no agent answers at {path}: {error}") from None
    agent.sendall(line)
    # Here, not at the top: the agent starts the command while this program imports it.
    import json

    answer = b""
    while not answer.endswith(b"\n"):
        chunk = agent.recv(4096)
        if not chunk or len(answer) > ANSWER_BYTES_MAX:
            raise ValueError("the agent hung up without an answer")
        answer += chunk
    found = json.loads(answer)
    if not isinstance(found, dict):
        raise ValueError(f"not an answer: {answer[:80]!r}")  # noqa: TRY004 - bad data, not a bug
    code = found.get("exit")
    if not isinstance(code, int):
        raise NotRunError(str(found.get("error", "no reason given")))
    return code


def main() -> int:
    """Exit code of the command, or 255 with one line on standard error."""
    if len(sys.argv) < 3:
        return _fail("usage: dq-rsh NODE COMMAND ...")
    host = spelled_in_letters(sys.argv[1])
    path = os.environ.get(SOCKET_VARIABLE, "")
    if not path:
        return _fail(f"{SOCKET_VARIABLE} is not set: no agent to ask")
    try:
        code = ask(path, request(host, sys.argv[2:]))
    except NotRunError as error:
        return _not_run(sys.argv[2:], f"cannot start a process on {host}: {error}")
    except (OSError, ValueError) as error:
        return _fail(f"lost a process on {host}: {error}")
    return code & 0xFF if code >= 0 else FAILED


def _not_run(command: list[str], reason: str) -> int:
    """Fail, unless that would take a running job down: then this becomes the command."""
    # `--pgid` numbers hydra's process groups: 0 is the job's start, each spawn has a higher one.
    start = command.index("--pgid") if "--pgid" in command else 0
    if command[start : start + 2] == FIRST_RANKS or not start:
        return _fail(reason)
    program, *arguments = (word.strip('"') for word in command)
    environment = {**os.environ, REFUSED_VARIABLE: reason}
    try:
        os.execve(program, [program, *arguments], environment)  # noqa: S606 - no shell is wanted
    except OSError as error:
        return _fail(f"{reason}; {error}")


def _fail(message: str) -> int:
    sys.stderr.write(f"dq-rsh: {message}\n")
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
