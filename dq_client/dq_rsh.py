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
    {"error": "no such node: n03"}   it could not be run; the text goes to standard error

If the connection closes without an answer, the command is taken for lost. If this program is
killed, the agent sees the connection close and SHALL end the command.
"""

import os
import sys
from _json import encode_basestring_ascii as quoted  # these two are the C halves of json and
from _socket import AF_UNIX, SOCK_STREAM, socket  # socket, which take 12 ms of 20 to import

SOCKET_VARIABLE = "DQ_RSH_SOCKET"
PASSED = ("UCX_", "MPIR_", "MPICH_", "HYDRA_", "DQ_", "OPENBLAS_", "OMP_", "MKL_", "LD_LIBRARY_")
ANSWER_BYTES_MAX = 65536
NUMBERS_START = "999"
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


def ask(path: str, line: bytes) -> dict[str, object]:
    """Send the request and wait, without limit, for the answer; OSError, ValueError if none."""
    agent = socket(AF_UNIX, SOCK_STREAM)
    agent.connect(path)
    agent.sendall(line)
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
    return found


def main() -> int:
    """Exit code of the command, or 255 with one line on standard error."""
    if len(sys.argv) < 3:
        return _fail("usage: dq-rsh NODE COMMAND ...")
    host = spelled_in_letters(sys.argv[1])
    path = os.environ.get(SOCKET_VARIABLE, "")
    if not path:
        return _fail(f"{SOCKET_VARIABLE} is not set: no agent to ask")
    try:
        answer = ask(path, request(host, sys.argv[2:]))
    except (OSError, ValueError) as error:
        return _fail(f"cannot start a process on {host}: {error}")
    code = answer.get("exit")
    if isinstance(code, int):
        return code & 0xFF if code >= 0 else FAILED
    return _fail(f"cannot start a process on {host}: {answer.get('error', 'no reason given')}")


def _fail(message: str) -> int:
    sys.stderr.write(f"dq-rsh: {message}\n")
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
