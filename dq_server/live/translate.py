"""Messages become events here, and actions become messages, where fields need translating.

An event that has the fields of its message is made in the handler (requests/).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from hashlib import sha256

from dq_client.base import environment, keys
from dq_client.base import messages as m
from dq_client.base.keys import KeyPair
from dq_server.core.features.protection import Copies
from dq_server.core.model import events as ev
from dq_server.core.model.actions import RequestAnswer
from dq_server.core.model.errors import InfeasibleRequest, InvalidSpec, known_words
from dq_server.core.model.jobs import Answer, Job, JobKind, JobSpec
from dq_server.core.model.launching import Launching
from dq_server.core.model.needs import Needs
from dq_server.core.model.placing import gpus_of
from dq_server.core.model.processors import Processors
from dq_server.core.model.profile import EvolutionProfile
from dq_server.core.model.sizes import (
    ChainKind,
    Configuration,
    configuration,
    grids,
    nearest_square,
    size_chain,
)
from dq_server.core.model.spec import AUTO, Protection, chosen
from dq_server.core.model.state import State
from dq_server.core.model.workers import Workers, sizes_between
from dq_server.core.resting import Rest
from dq_server.live.agents import output_paths

MEMORY = "/dev/shm"  # noqa: S108 - files in memory; below it a folder of our own


def submission(
    message: m.Submit,
    user: str,
    capacity: int,
    launching: Launching = Launching.JOIN,
    secrets: tuple[str, ...] = (),
    node: int | None = None,
    apart: Sequence[str] = (),
) -> JobSpec:
    """What a submission asks for; InvalidSpec says in one line what contradicts itself.

    secrets  patterns of variables that no job inherits (core/features/lifecycle.py)
    node     processors of the largest node, if nodes may be on several machines; else None
    apart    two nodes that do not share one DQ_HOME; empty: all nodes share it
    """
    try:
        kind = JobKind(message.kind)
    except ValueError:
        known = known_words(message.kind, JobKind)
        raise InvalidSpec(f"unknown kind {message.kind!r}; {known}") from None
    _refuse_unrunnable(message)
    profile = tuple(message.profile)
    if profile:
        if message.initial is not None or message.sizes != m.Sizes():
            raise InvalidSpec("a profile sets the sizes of the job: give none beside it")
        EvolutionProfile(profile)
        initial, legal = profile[0][1], [nearest_square(size) for _, size in profile]
    else:
        initial, legal = _sizes(message, kind, capacity)
    chain, other_grids = grids(legal)
    spec = JobSpec(
        name=message.name,
        kind=kind,
        initial=next((c for c in chain if c.size == initial), None) or nearest_square(initial),
        configurations=chain,
        other_grids=other_grids,
        argv=tuple(message.argv),
        cwd=message.cwd,
        env=_inherited(message.inherited, secrets) | message.env,
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
        after_not=tuple(dict.fromkeys(message.after_not)),
        profile=profile,
        protection=_protection(
            message.protect, max(initial, *(c.size for c in chain)), node, apart
        ),
        input=message.input,
        label=message.label,
        exec_only=message.exec_only,
        parts=tuple((part.ranks, tuple(part.argv)) for part in message.parts),
        watch=message.watch,
        needs=_needs(message),
        output=message.output,
        error=message.error,
        retry=message.retry,
        workers=_workers(message, kind),
        recipe=message.recipe,
    )
    spec.validate()
    if spec.needs_agents and not launching.by_agents:
        raise InvalidSpec(needs_agents(spec))
    return spec


def submitted(message: m.Submit, spec: JobSpec) -> ev.JobSubmitted | ev.ArraySubmitted:
    """The event that brings the job, or the array, into being."""
    asked = message.array
    if asked is None:
        return ev.JobSubmitted(spec)
    return ev.ArraySubmitted(spec, tuple(asked.indices), asked.at_most, tuple(asked.lines))


def _workers(message: m.Submit, kind: JobKind) -> Workers | None:
    asked = message.workers
    if asked is None:
        return Workers() if kind is JobKind.WORKERS else None
    return Workers(asked.stop_signal, asked.grace_s)


def _needs(message: m.Submit) -> Needs | None:
    asked = Needs(message.memory, message.gpus, message.constraint.strip())
    return None if asked == Needs() else asked


def node_joined(node: m.NodeInfo, off_s: float = 0.0) -> ev.NodeJoined:
    """What an agent says of a node as an event.

    off_s: how far the system clock, by which agents name times, is ahead of the cluster's time
    """
    return ev.NodeJoined(
        node.name,
        node.processors,
        node.speed,
        memory=node.memory,
        gpus=node.gpus,
        features=tuple(dict.fromkeys(node.features)),
        until_s=None if node.until_s is None else max(0.0, node.until_s - off_s),
    )


def needs_agents(spec: JobSpec) -> str:
    """Why mpiexec cannot start such a job."""
    return f'{spec.needs_agents} needs launcher = "dq", this server has "mpiexec"'


def _protection(
    asked: m.Protect | None, largest: int, node: int | None, apart: Sequence[str]
) -> Protection | None:
    if asked is None:
        return None
    how, every = asked.how, (asked.every_points, asked.every_s)
    if how == AUTO:  # a folder is for copies on disk
        several = node is not None and not asked.folder
        how = chosen(several_machines=several, largest=largest, node=node or 0)
    if how == "disk" and apart and not asked.folder:
        raise InvalidSpec(
            f"copies on disk go to DQ_HOME, which {' and '.join(apart)} do not share: give"
            " --protect-dir with a folder that all nodes share, or --protect partner"
        )
    return Protection(how, *every, asked.folder, asked.restarts, asked.budget)


def copy_places(job: Job, cluster: KeyPair) -> m.CopyPlaces:
    """Where a job's copies go; `cluster`: the server's keys.

    A key's short form keeps the jobs of two clusters apart that use the same folder or machine.
    In memory, where everybody may make folders, nobody else can know a job's name beforehand.
    """
    wanted = job.spec.protection
    if wanted is None:  # copies for resizes by restart, in the job's folder
        return m.CopyPlaces("", "")
    tag = hashlib.sha256(cluster.public.encode()).hexdigest()[:12]
    memory = (
        f"{MEMORY}/dq-{keys.secret_of_job(cluster.secret, 'memory', job.id)[:24]}"
        if wanted.how == "partner"
        else ""
    )
    folder = f"{wanted.folder}/dq-{tag}-job-{job.id}" if wanted.folder else ""
    return m.CopyPlaces(memory, folder)


def protecting(job: Job, cluster: KeyPair) -> dict[str, str]:
    """What the ranks of a protected job are told of its copies."""
    wanted, places = job.spec.protection, copy_places(job, cluster)
    assert wanted is not None, "asked for protected jobs only"
    env = {
        "DQ_PROTECT": wanted.how,
        "DQ_PROTECT_MEMORY": places.memory,
        "DQ_PROTECT_DIR": places.folder,
    }
    if wanted.every_points is not None:
        env["DQ_PROTECT_POINTS"] = str(wanted.every_points)
    if wanted.every_s is not None:
        env["DQ_PROTECT_SECONDS"] = str(wanted.every_s)
    if wanted.budget is not None:
        env["DQ_PROTECT_BUDGET"] = str(wanted.budget)
    if job.instance > 1:
        env["DQ_COPIES_MADE"] = str(Copies.of(job).count)
    return env


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
        if environment.is_reserved(name):
            raise InvalidSpec(f"the variable {name} belongs to DQ and cannot be set by a job")
    if environment.size_of(message.env | message.inherited) > environment.ENVIRONMENT_BYTES_MAX:
        raise InvalidSpec(
            f"an environment of more than {environment.ENVIRONMENT_BYTES_MAX} bytes: --clean-env"
            " leaves nearly all of it out"
        )
    output_paths.check("--output", message.output)
    output_paths.check("--error", message.error)
    variables = (word for env in (message.env, message.inherited) for word in (*env, *env.values()))
    words = (*message.argv, *(word for part in message.parts for word in part.argv))
    words = (*words, message.cwd, message.input, message.output, message.error)
    if any("\0" in word for word in (*words, *variables, *_lines(message))):
        raise InvalidSpec("a NUL character in the program, its folder or its environment")
    if not message.cwd.startswith("/"):
        raise InvalidSpec(f"the folder to run in must be absolute, not {message.cwd!r}")
    if message.input and not message.input.startswith("/"):
        raise InvalidSpec(f"the path of the standard input must be absolute: {message.input!r}")
    if not message.name.isprintable():
        raise InvalidSpec(f"a name of printable characters is needed, not {message.name!r}")


def _lines(message: m.Submit) -> list[str]:
    return message.array.lines if message.array is not None else []


def _sizes(message: m.Submit, kind: JobKind, capacity: int) -> tuple[int, list[Configuration]]:
    """Initial size and legal sizes, from what the user gave."""
    wish, initial = message.sizes, message.initial
    if kind is JobKind.WORKERS:
        if initial is not None or wish.listed or wish.chain != m.Sizes().chain:
            raise InvalidSpec("a job of workers has a range of sizes: give --sizes 0:8 alone")
        legal = sizes_between(wish.min or 0, max(capacity, 1) if wish.max is None else wish.max)
        return legal[0].size, list(legal)
    if 0 in (initial, wish.min, wish.max) or 0 in wish.listed:
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
    legal = list(size_chain(chain, smallest, largest, wish.multiple))
    # An evolving job may have any size between its smallest and its largest.
    ends = [wish.min, wish.max, initial, largest if kind is JobKind.EVOLVING else None]
    legal += [size for size in ends if size is not None and size not in legal]
    if not legal:
        raise InvalidSpec(f"no legal size between {smallest} and {largest}")
    return legal


def declared_sizes(legal: Sequence[int], spec: JobSpec) -> tuple[int, ...]:
    """What a program says that it can run on, as far as its job can come: a rule has thousands."""
    found = sorted(set(legal))
    if spec.kind is JobKind.EVOLVING:  # its sizes are a range, or none were given
        return tuple(found)
    largest = max(spec.configurations[-1].size, spec.initial.size)
    within = tuple(size for size in found if size <= largest)
    return within or tuple(found[:1])


def _inherited(asked: dict[str, str], secrets: tuple[str, ...]) -> dict[str, str]:
    """What of a client's environment a job inherits: before the journal sees any of it."""
    return {
        name: value
        for name, value in asked.items()
        if environment.travels(name) and not environment.is_secret(name, secrets)
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
        message.loop,
        message.silent,
        tuple(message.passed),
    )


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
    places: Callable[[tuple[int, ...]], list[m.RankPlace]],
    asked: m.DynamicAnswer | None = None,
    rest: Rest = Rest(),  # noqa: B008 - frozen
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
        rest=rest.points,
        usual_s=rest.usual_s,
    )


class ProcessorNames:
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

    def of(self, processors: tuple[int, ...]) -> list[m.RankPlace]:
        """One place per processor, in the same order."""
        found = []
        for p in processors:
            name = self._processors.node_of[p]
            info = self._nodes.get(name)
            host, share = (info.host, info.core_share) if info else (name, None)
            speed = self._processors.nodes[name].speed
            found.append(
                m.RankPlace(processor=p, node=name, host=host, speed=speed, core_share=share)
            )
        return found

    def gpus(self, processors: tuple[int, ...], state: State) -> list[list[int]]:
        """Which GPUs of its machine each rank may use; empty: none was granted any."""
        granted, first = gpus_of(state, processors), []
        for p in processors if granted else ():
            info = self._nodes.get(self._processors.node_of[p])
            first.append(info.first_gpu if info else 0)
        return [[k + gpu for gpu in mine] for k, mine in zip(first, granted, strict=True)]


def grid(configuration: Configuration) -> list[int]:
    """A configuration for JSON."""
    return [configuration.rows, configuration.cols]
