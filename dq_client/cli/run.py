"""`dq run`: submit a job, show its output as it comes, and end with its exit code, as srun does."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

import click

from dq_client.base import messages as m
from dq_client.base.connection import Connection
from dq_client.base.errors import DQError, Refused
from dq_client.cli.logs import more_about
from dq_client.cli.requests import server
from dq_client.cli.script_options import with_script_options
from dq_client.cli.submit import has_sizes, note_protection, submission, submit, until_ended
from dq_client.show.job_output import output_of
from dq_client.show.output import note

# Options of `dq submit` that make no sense for one job that somebody waits for.
LEFT_OUT = {"wait": True, "as_json": False, "hold": False, "array": None, "each_line": None}
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal, or a closed pipe: the job is to end."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number


class Streaming(threading.Thread):
    """Copies one stream of the job's output to ours, until the job has ended.

    error    why it stopped before; None: it did not
    closed   nobody reads our stream any more
    """

    def __init__(self, job_id: int, stream: str, to: BinaryIO) -> None:
        super().__init__(daemon=True, name=f"dq-{stream}")
        self._job_id, self._stream, self._to = job_id, stream, to
        self.error: DQError | OSError | None = None
        self.closed = False

    def run(self) -> None:
        try:
            with server() as connection:
                for piece in output_of(connection, self._job_id, self._stream, follow=True):
                    self._to.write(piece)
                    self._to.flush()
        except BrokenPipeError:
            self.closed = True
            main = threading.main_thread().ident
            assert main is not None
            signal.pthread_kill(main, signal.SIGHUP)
        except (DQError, OSError) as e:
            self.error = e


@click.command(
    "run",
    context_settings={"allow_interspersed_args": False},
    params=[p for p in submit.params if p.name not in LEFT_OUT],
)
@click.pass_context
def run(ctx: click.Context, /, program: tuple[str, ...], **options: Any) -> int:
    """Run PROGRAM (after --) as a job and wait for it: its output here, its exit code as ours.

    Takes the options of dq submit. Ctrl-C, SIGTERM and a closed terminal end the job.
    """
    o = with_script_options(ctx, program, options) | LEFT_OUT
    body = submission(program, o)
    with signals():
        try:
            with server() as connection:
                job_id = _submitted(connection, body)
                return _followed(connection, job_id, sized=has_sizes(o))
        except Interrupted as e:
            _end(body)
            return e.exit_code


@contextmanager
def signals() -> Iterator[None]:
    """Raise Interrupted on the first signal that ends a program; ignore further ones.

    A second one follows at once from timeout(1) and from an impatient user. It must not keep the
    command from ending its job.
    """

    def interrupt(number: int, _: object) -> None:
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(number)

    before = {number: signal.signal(number, interrupt) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _submitted(connection: Connection, body: m.Submit) -> int:
    reply = connection.call(body, timeout_s=10.0)
    assert isinstance(reply, m.Submitted)
    note_protection(connection, body, reply)
    return reply.job


def _followed(connection: Connection, job_id: int, *, sized: bool) -> int:
    """Stream the job's output until it has ended; returns the exit code."""
    note(f"job {job_id}")
    streams = (("out", sys.stdout.buffer), ("err", sys.stderr.buffer))
    threads = [Streaming(job_id, name, to) for name, to in streams]
    for thread in threads:
        thread.start()
    try:
        view = until_ended(connection, job_id, sized=sized)
        for thread in threads:
            thread.join()
    except Interrupted:
        if any(thread.closed for thread in threads):
            raise Interrupted(signal.SIGPIPE) from None
        raise
    for thread in threads:
        if thread.error is not None:
            note(f"job {job_id}: its output is not complete here: {thread.error}")
    if view["state"] == "done":
        return 0
    note(f"job {job_id} {view['state']}: {view['reason']}\n{more_about(job_id)}")
    return exit_code_of(view)


def exit_code_of(view: dict[str, Any]) -> int:
    """What a shell is told of a job that has not ended well: 1 to 255."""
    code = view["exit_code"]
    return code if code is not None and 0 < code < 256 else 1


def _end(body: m.Submit) -> None:
    """Kill the job of this submission and wait until it has ended."""
    with server() as connection:
        job_id = _submitted(connection, body)  # the same request again: the same job
        note(f"job {job_id} is being killed")
        with suppress(Refused):  # it has ended by itself
            connection.call(m.Kill(job_id))
        for each in ENDING:  # the job ends without us
            signal.signal(each, signal.SIG_DFL)
        until_ended(connection, job_id, sized=False)
