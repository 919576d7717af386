"""Grid Engine as a batch system: qsub, qstat, qdel and qconf (docs/gridengine.md).

Holders that are asked for together are the tasks of one array job, `dq-CLUSTER`; each task's number
is its ticket, and `JOB.TASK` its key. `qdel` first sends SIGUSR2 to the process group of the
holder's script (`-notify`), and SIGKILL when the queue's `notify` is over.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import time
from calendar import timegm
from collections.abc import Iterator, Sequence
from dataclasses import replace
from xml.etree import ElementTree

from dq_client.base.errors import UsageError
from dq_client.deploy.batch.system import (
    BEGINS,
    WAITS,
    BatchSite,
    CommandLine,
    Has,
    HolderRequest,
    Refusal,
    TicketPhase,
    Unclear,
    output,
)
from dq_client.deploy.batch_settings import GridEngineTable, clock_s

NOTIFY_S = 60.0  # a queue's default
AT_ONCE = 1000  # below max_aj_tasks and max_aj_instances as they are by default
COMMANDS = CommandLine(
    "Grid Engine",
    away=re.compile(r"commlib error|unable to (send|contact|receive)|timeout|timed out", re.I),
    noise=re.compile(r"^Exiting\.$"),
    hidden=("SGE_TASK_", "SGE_O_", "PE_HOSTFILE", "JOB_ID", "JOB_NAME"),
)
# Times of day without summer time; not for qsub, whose environment jobs get (-V).
IN_UTC = replace(COMMANDS, variables={"TZ": "UTC"})
NO_ERROR = re.compile(r"does not exist|already in deletion|has deleted|has registered")

SCRIPT = """\
#!/bin/bash
{options}
# One node of a DQ cluster. dq down ends it, and so does qdel: SIGUSR2 comes first.
{begins}
{agent} --holder="$SGE_TASK_ID" &
agent=$!
{waits}
exit $code
"""


class GridEngine:
    """See System. `kill_wait_s`: Site.kill_wait_s, as `dq up` found it."""

    name = "Grid Engine"
    at_once = AT_ONCE
    noise = re.compile(r"^$")

    def __init__(self, table: GridEngineTable, kill_wait_s: float | None = None) -> None:
        self._table = table
        self._notify_s = NOTIFY_S if kill_wait_s is None else kill_wait_s

    def site(self, processors: int) -> BatchSite:
        """See System: of the table's queue, or of all."""
        self._check_environment(processors)
        shown = self._run("qconf", "-sq", self._table.queue or "*")
        notify = [clock_s(word) for word in values(shown, "notify")]
        limits = [clock_s(word) for word in values(shown, "h_rt")]  # None: INFINITY
        known = [s for s in limits if s is not None]
        return BatchSite(
            nodes=self._run("qconf", "-sel").split(),
            kill_wait_s=min((s for s in notify if s is not None), default=NOTIFY_S),
            lasts_s=max(known) if known and len(known) == len(limits) else None,
        )

    def _check_environment(self, processors: int) -> None:
        """UsageError if nodes of so many processors cannot be on one host."""
        name = self._table.parallel_environment
        if not name and processors == 1:
            return
        known = ", ".join(self._run("qconf", "-spl").split()) or "none"
        if not name:
            raise UsageError(
                f"[pool] shape = {{ processors = {processors} }} needs [grid_engine]"
                f" parallel_environment; Grid Engine has {known}"
            )
        try:
            shown = self._run("qconf", "-sp", name)
        except Refusal as e:
            raise UsageError(
                f"[grid_engine] parallel_environment = {name!r}: Grid Engine has {known}"
            ) from e
        rules = values(shown, "allocation_rule")
        if rules not in (["$pe_slots"], [str(processors)]):
            raise UsageError(
                f"[grid_engine] parallel_environment = {name!r}: it may put the processors of a"
                f" node on several hosts; choose one with allocation_rule $pe_slots, of {known}"
            )

    def submit(self, request: HolderRequest) -> None:
        """See System."""
        COMMANDS.run(submission(request), self._table.answer_within_s, script(request, self._table))

    def holders(self, cluster: str) -> list[Has]:
        """See System."""
        user = pwd.getpwuid(os.getuid()).pw_name
        words = ["qstat", "-xml", "-r", "-s", "prsz", "-u", user]
        shown = IN_UTC.run(words, self._table.answer_within_s)
        return read_holders(shown, cluster, time.time(), self._notify_s)

    def cancel(self, keys: Sequence[str]) -> None:
        """See System."""
        if not keys:
            return
        try:
            self._run("qdel", *keys)
        except Refusal as e:
            if not NO_ERROR.search(str(e)):  # of its last line: those before it are done, too
                raise

    def _run(self, *words: str) -> str:
        return COMMANDS.run(words, self._table.answer_within_s)


def name_of(cluster: str) -> str:
    """The name of all of the cluster's jobs."""
    return f"dq-{cluster}"


def script(request: HolderRequest, table: GridEngineTable) -> str:
    """The batch script of each holder."""
    ours = []
    if table.queue:
        ours.append(f"-q {table.queue}")
    if table.project:
        ours.append(f"-P {table.project}")
    if table.parallel_environment:
        ours.append(f"-pe {table.parallel_environment} {request.processors}")
    if table.time:
        ours.append(f"-l h_rt={table.time}")
    lines = [f"#$ {option}" for option in (*ours, *table.options())]
    agent = request.agent({"TERM": request.kill_wait_s, "USR2": request.kill_wait_s})
    return SCRIPT.format(
        options="\n".join(lines), agent=shlex.join(agent), begins=BEGINS, waits=WAITS
    )


def submission(request: HolderRequest) -> list[str]:
    """The command that submits it from its standard input. What stands here holds in any case."""
    return [
        *("qsub", "-terse", "-notify", "-V"),
        *("-N", name_of(request.cluster)),
        *("-t", f"{request.tickets[0]}-{request.tickets[-1]}"),
        *("-o", output(request.folder, "$TASK_ID"), "-j", "y"),
        *("-r", "n"),  # its ticket would come back without having been asked for
        *("-wd", "/", "-S", "/bin/bash"),
    ]


def read_holders(shown: str, cluster: str, now: float, notify_s: float) -> list[Has]:
    """What `qstat -xml -r` prints. Unclear if it is no XML."""
    try:
        jobs = list(ElementTree.fromstring(shown).iter("job_list"))  # noqa: S314 - the site's own
    except ElementTree.ParseError as e:
        raise Unclear(f"Grid Engine: qstat -xml prints no XML: {e}") from e
    found: dict[tuple[int, int], Has] = {}
    for job in jobs:
        if (job.findtext("full_job_name") or job.findtext("JB_name")) != name_of(cluster):
            continue
        number, state = int(job.findtext("JB_job_number") or 0), job.findtext("state") or ""
        phase = phase_of(state)
        left_s = notify_s if phase is TicketPhase.REVOKED else None
        if phase is TicketPhase.RUNNING:
            left_s = _left_s(job, now)
        for task in _tasks(job.findtext("tasks") or ""):
            has = Has(
                ticket=task,
                key=f"{number}.{task}",
                phase=phase,
                why=f"Grid Engine job {number}.{task} is in state {state}",
                place=(job.findtext("queue_name") or "").partition("@")[2],
                left_s=left_s,
            )
            if phase is not TicketPhase.ENDED or (number, task) not in found:
                found[number, task] = has
    return [found[key] for key in sorted(found)]


def phase_of(state: str) -> TicketPhase:
    """What qstat's letters mean."""
    if "z" in state:
        return TicketPhase.ENDED
    if "E" in state:
        return TicketPhase.FAILED
    granted = any(letter in state for letter in "rtsST")
    if "d" in state:  # one that waits goes at once
        return TicketPhase.REVOKED if granted else TicketPhase.ENDED
    return TicketPhase.RUNNING if granted else TicketPhase.PENDING


def _left_s(job: ElementTree.Element, now: float) -> float | None:
    """Of a task's time; None: none was asked for."""
    limit = next((r.text for r in job.iter("hard_request") if r.get("name") == "h_rt"), None)
    started = job.findtext("JAT_start_time")
    if not limit or not started:
        return None
    seconds = clock_s(limit)
    if seconds is None:
        return None
    return max(0.0, timegm(time.strptime(started, "%Y-%m-%dT%H:%M:%S")) + seconds - now)


def _tasks(text: str) -> Iterator[int]:
    """The tasks that `7`, `12-17:1` and `20,21` are."""
    for part in text.split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+):(\d+))?", part.strip())
        if found is not None:
            first = int(found[1])
            yield from range(first, int(found[2] or first) + 1, int(found[3] or 1))


def values(shown: str, name: str) -> list[str]:
    """Values of a setting in what qconf prints, also those for some hosts (`[host=...]`)."""
    lines = re.findall(rf"^{name}\s+(.*)$", shown.replace("\\\n", ""), re.M)
    return [
        word.rpartition("=")[2] for line in lines for word in re.split(r"[,\s\[\]]+", line) if word
    ]
