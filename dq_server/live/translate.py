"""Messages become events here, and actions become messages, where fields need translating.

An event that has the fields of its message is made in the handler (requests/).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from hashlib import sha256

from dq_client import messages as m
from dq_server.core.features.protection import Copies
from dq_server.core.model import events as ev
from dq_server.core.model.actions import RequestAnswer
from dq_server.core.model.errors import InfeasibleRequest, InvalidSpec
from dq_server.core.model.jobs import Answer, Job, JobKind, JobSpec
from dq_server.core.model.launching import Launching
from dq_server.core.model.processors import Processors
from dq_server.core.model.profile import EvolutionProfile
from dq_server.core.model.protection import Protection
from dq_server.core.model.sizes import (
    ChainKind,
    Configuration,
    configuration,
    grids,
    nearest_square,
    size_chain,
)

SIZES_MAX = 10_000
MEMORY = "/dev/shm"  # noqa: S108 - files in memory; below it a folder of our own

# What a job inherits without being asked to: enough to find programs and to behave the same.
ENV_ALLOWED = ("PATH", "HOME", "USER", "LANG", "TZ", "TERM", "SHELL", "VIRTUAL_ENV", "TMPDIR")
ENV_ALLOWED_PREFIXES = ("PYTHON", "LC_", "OMP_", "OPENBLAS_", "MKL_", "UCX_", "MPIR_", "FI_")
# What belongs to DQ and to MPI's process manager; nobody sets it from outside.
ENV_FORBIDDEN_PREFIXES = ("DQ_", "PMI_", "PMIX_", "HYDRA_", "MPIEXEC_", "HYDI_")


def submission(
    message: m.Submit, user: str, capacity: int, launching: Launching = Launching.JOIN
) -> ev.JobSubmitted:
    """A submission as an event; InvalidSpec says in one line what contradicts itself."""
    try:
        kind = JobKind(message.kind)
    except ValueError:
        known = ", ".join(JobKind)
        raise InvalidSpec(f"unknown kind {message.kind!r}; known: {known}") from None
    _refuse_unrunnable(message)
    profile = tuple(message.profile)
    if profile:
        if message.initial is not None or message.sizes != m.Sizes():
            raise InvalidSpec("a profile says the sizes of the job: give none beside it")
        EvolutionProfile(profile)
        initial, legal = profile[0][1], [nearest_square(size) for _, size in profile]
    else:
        initial, legal = _sizes(message, kind, capacity)
    chain, other_grids = grids(legal)
    spec = JobSpec(
        name=message.name,
        kind=kind,
        initial=next((c for c in chain if c.size == initial), nearest_square(initial)),
        configurations=chain,
        other_grids=other_grids,
        argv=tuple(message.argv),
        cwd=message.cwd,
        env=_inherited(message.inherited) | message.env,
        walltime_s=message.walltime_s,
        estimate_s=message.estimate_s,
        user=user,
        group=message.group,
        account=message.account,
        job_class=message.job_class,
        qos=message.qos,
        priority=message.priority,
        request_id=message.request,
        hold=message.hold,
        application=message.app_name,
        reservation=message.reservation,
        after=tuple(dict.fromkeys(message.after)),
        after_any=tuple(dict.fromkeys(message.after_any)),
        profile=profile,
        protection=_protection(message.protect),
        input=message.input,
        label=message.label,
        exec_only=message.exec_only,
        parts=tuple((part.ranks, tuple(part.argv)) for part in message.parts),
    )
    spec.validate()
    if spec.needs_agents and not launching.by_agents:
        raise InvalidSpec(needs_agents(spec))
    return ev.JobSubmitted(spec)


def needs_agents(spec: JobSpec) -> str:
    """Why mpiexec cannot start such a job."""
    return f'{spec.needs_agents} needs launcher = "dq", this server has "mpiexec"'


def _protection(asked: m.Protect | None) -> Protection | None:
    if asked is None:
        return None
    every = asked.every_points, asked.every_s
    return Protection(asked.how, *every, asked.folder, asked.restarts, asked.budget)


def protecting(job: Job, cluster: str) -> tuple[m.CopyPlaces, dict[str, str]]:
    """Where a protected job's copies go, and what its ranks are told; `cluster`: the server's key.

    The key's short form keeps the jobs of two clusters apart that use the same folder or machine.
    """
    wanted = job.spec.protection
    assert wanted is not None, "asked for protected jobs only"
    tag = hashlib.sha256(cluster.encode()).hexdigest()[:12]
    memory = f"{MEMORY}/dq-{tag}" if wanted.how == "partner" else ""
    folder = f"{wanted.folder}/dq-{tag}-job-{job.id}" if wanted.folder else ""
    env = {"DQ_PROTECT": wanted.how, "DQ_PROTECT_MEMORY": memory, "DQ_PROTECT_DIR": folder}
    if wanted.every_points is not None:
        env["DQ_PROTECT_POINTS"] = str(wanted.every_points)
    if wanted.every_s is not None:
        env["DQ_PROTECT_SECONDS"] = str(wanted.every_s)
    if wanted.budget is not None:
        env["DQ_PROTECT_BUDGET"] = str(wanted.budget)
    if job.restarts:
        env["DQ_COPIES_MADE"] = str(Copies.of(job).count)
    return m.CopyPlaces(memory, folder), env


def copy_made(message: m.CopyMade, job: int, instance: int) -> ev.CopyMade:
    """A report on a copy as an event."""
    return ev.CopyMade(job, instance, message.step, message.took_s, message.nbytes, message.error)


def program(message: m.Submit) -> str:
    """A name for the program with its arguments and folder, for jobs that do not give one."""
    words = "\0".join((message.cwd, *message.argv))
    return f"{message.name}:{sha256(words.encode()).hexdigest()[:16]}"


def _refuse_unrunnable(message: m.Submit) -> None:
    """What no program can be started with; found out here rather than by an agent."""
    for name in (*message.env, *message.inherited):
        if "=" in name:
            raise InvalidSpec(f"{name!r} cannot be the name of a variable")
    for name in message.env:
        if name.startswith(ENV_FORBIDDEN_PREFIXES):
            raise InvalidSpec(f"the variable {name} belongs to DQ and cannot be set by a job")
    variables = (word for env in (message.env, message.inherited) for word in (*env, *env.values()))
    words = (*message.argv, *(word for part in message.parts for word in part.argv))
    if any("\0" in word for word in (*words, message.cwd, message.input, *variables)):
        raise InvalidSpec("a NUL character in the program, its folder or its environment")
    if not message.cwd.startswith("/"):
        raise InvalidSpec(f"the folder to run in must be absolute, not {message.cwd!r}")
    if message.input and not message.input.startswith("/"):
        raise InvalidSpec(f"the path of the standard input must be absolute: {message.input!r}")
    if not message.name.isprintable():
        raise InvalidSpec(f"a name of printable characters is needed, not {message.name!r}")


def _sizes(message: m.Submit, kind: JobKind, capacity: int) -> tuple[int, list[Configuration]]:
    """Initial size and legal sizes, from what the user gave."""
    wish, initial = message.sizes, message.initial
    if initial == 0 or 0 in wish.listed:
        raise InvalidSpec("a job needs at least one processor, not 0")
    listed = [configuration(word) for word in wish.listed]
    if kind is JobKind.RIGID:
        if len(set(listed)) > 1 or wish.min is not None or wish.max is not None:
            raise InvalidSpec("a rigid job has exactly one size: give it with -n alone")
        only = listed[0] if listed else nearest_square(initial or 1)
        if initial is not None and only.size != initial:
            only = nearest_square(initial)
        return only.size, [only]
    if listed:
        if wish.min is not None or wish.max is not None:
            raise InvalidSpec("give either a list of sizes or their minimum and maximum")
        return (initial or min(c.size for c in listed)), listed
    sizes = _sizes_of_chain(message, kind, capacity)
    return (initial or min(sizes)), [nearest_square(size) for size in sizes]


def _sizes_of_chain(message: m.Submit, kind: JobKind, capacity: int) -> list[int]:
    """Legal sizes between a minimum and a maximum."""
    wish, initial = message.sizes, message.initial
    smallest, largest = wish.min or 1, wish.max or max(capacity, wish.min or 1)
    if initial is not None and not smallest <= initial <= largest:
        if initial > capacity and wish.max is None:
            raise InfeasibleRequest(
                f"the job asks for {initial} processors, the cluster has {capacity}"
            )
        raise InvalidSpec(f"size {initial} is not between {smallest} and {largest}")
    chain: ChainKind = wish.chain  # type: ignore[assignment]  # size_chain names unknown ones
    if chain == "multiple" and largest - smallest > SIZES_MAX * max(1, wish.multiple):
        raise InvalidSpec(f"more than {SIZES_MAX} legal sizes: raise --multiple or lower --max")
    legal = list(size_chain(chain, smallest, largest, wish.multiple))
    # An evolving job may have any size between its smallest and its largest.
    ends = [wish.min, wish.max, initial, largest if kind is JobKind.EVOLVING else None]
    legal += [size for size in ends if size is not None and size not in legal]
    if not legal:
        raise InvalidSpec(f"no legal size between {smallest} and {largest}")
    return legal


def _inherited(asked: dict[str, str]) -> dict[str, str]:
    """What of a client's environment a job inherits."""
    return {
        k: v for k, v in asked.items() if k in ENV_ALLOWED or k.startswith(ENV_ALLOWED_PREFIXES)
    }


def remap_point(message: m.RemapPoint, job: int, instance: int) -> ev.RemapPoint:
    """An application's remap point as an event."""
    return ev.RemapPoint(
        job,
        instance,
        message.seq,
        message.processors,
        message.resize_id,
        message.iteration_time_s,
        message.redistribution_time_s,
        message.preparing,
        message.iterations,
    )


def dynamic_request(message: m.DynamicRequest, job: int, instance: int) -> ev.DynamicRequested:
    """An application's request for processors as an event."""
    return ev.DynamicRequested(job, instance, message.request, message.more, message.timeout_s)


def dynamic_release(message: m.DynamicRelease, job: int, instance: int) -> ev.DynamicReleased:
    """An application's release as an event."""
    named = tuple(message.processors)
    return ev.DynamicReleased(job, instance, message.request, message.count, named)


def spawn_requested(message: m.SpawnRanks, agent: str) -> ev.SpawnRequested:
    """What a rank spawns as an event; `agent`: whose rank it is."""
    return ev.SpawnRequested(
        job=message.job,
        instance=message.instance,
        agent=agent,
        ticket=message.ticket,
        world=message.world,
        programs=tuple(tuple(words) for words in message.programs),
        program_of=tuple(message.program_of),
        cwd=message.cwd,
        keys=message.keys,
    )


def dynamic_answer(answer: RequestAnswer, now: float) -> m.DynamicAnswer:
    """How a request stands, as a message; times become relative because clocks differ."""
    at_s = answer.available_s
    left_s = None if at_s is None else max(0.0, at_s - now)
    return m.DynamicAnswer(
        request=answer.request,
        what=answer.what,
        more=answer.more,
        available_in_s=left_s,
        reason=answer.reason.text,
    )


def remap_answer(
    answer: Answer,
    places: Callable[[tuple[int, ...]], list[m.Place]],
    asked: m.DynamicAnswer | None = None,
) -> m.RemapAnswer:
    """The scheduler's answer as a message; `places` turns processors into places."""
    return m.RemapAnswer(
        what=answer.what,
        resize_id=answer.resize_id,
        places=places(answer.processors),
        rows=answer.configuration.rows,
        cols=answer.configuration.cols,
        reason=answer.reason.text,
        asked=asked,
    )


class Places:
    """Processors of the core as places that MPI and people know."""

    def __init__(self, processors: Processors) -> None:
        self._processors = processors
        self._nodes: dict[str, m.NodeInfo] = {}

    def learn(self, nodes: list[m.NodeInfo]) -> None:
        """Take in what an agent said about its nodes."""
        self._nodes.update({n.name: n for n in nodes})

    def node(self, name: str) -> m.NodeInfo | None:
        """What is known of a node."""
        return self._nodes.get(name)

    def of(self, processors: tuple[int, ...]) -> list[m.Place]:
        """One place per processor, in the same order."""
        found = []
        for p in processors:
            name = self._processors.node_of[p]
            info = self._nodes.get(name)
            host, share = (info.host, info.core_share) if info else (name, None)
            speed = self._processors.nodes[name].speed
            found.append(m.Place(processor=p, node=name, host=host, speed=speed, core_share=share))
        return found


def grid(configuration: Configuration) -> list[int]:
    """A configuration for JSON."""
    return [configuration.rows, configuration.cols]
