"""The strategies of policies/sharing.py, written once more from their description, in plain loops.

Nothing of the policies is used. Planned ends are inputs: they decide about nothing but backfilling
and the order of "remaining".

Where each rule is from. P: Posner, Hupfeld, Finnerty, "Enhancing Supercomputer Performance with
Malleable Job Scheduling Strategies" (PECS 2023) and its published code, a file per strategy
(github.com/projectwagomu/MalleableJobScheduling, scheduling_algorithms/). Z: Zojer, Posner, Özden,
arXiv:2602.17318. DQ: in neither; where P and Z leave a point open, the setting of
`[scheduler.sharing]` that covers it.

  rule here               source
  start_size "min"        P min_*.py and average_*.py, initial_allocation: num_nodes_min
  start_size "preferred"  P pref_*.py, initial_allocation: the preferred size, or what is free
  start_size "average"    DQ: start = "average"; P starts the average_* on their smallest size
  rank "min"              P get_min_job_priority: nodes above the smallest size
  rank "preferred"        P get_pref_job_priority: nodes above the preferred size
  rank "average"          P get_average_job_priority: share of the range, node by node
  rank "remaining"        DQ: balance = "remaining" (shortest-first)
  ties of a rank          open in P, where a sort keeps the order of the simulator's list; DQ: the
                          older job expands, the younger one gives
  serve: who gives        P schedule_pending_job, select_shrink_jobs: all of it, or nobody shrinks
  serve: three tries      P pref_*.py, schedule_pending_job: its size, and what givers keep
  serve: what is lacking  P frees the job's whole size; DQ: less what is idle or on its way
  serve: patience_s       open in P: delays_head compares a moment with a duration, and so holds
                          hardly any job back; DQ: patience_s, inf as there
  serve: shortest         DQ: shortest = true (shortest-first)
  "agreement", "steal"    P AgreementHandler.py, Direct- and StealAgreementHandler; nodes there have
                          names, processors here are counted
  "pool"                  P PoolAgreementHandler: any job with an agreement may use them; DQ: any
                          job, and EASY protects the first one that waits
  schedule: backfilling   P says EASY; shadow and extra processors as in Mu'alem & Feitelson 2001
  point: beyond           P pref_*.py expands to the preferred, then to the largest size: "always";
                          Z keep-preferred: "never"; DQ: "waits"
  point: legal sizes      P takes any number of nodes; DQ: the chain of the job, powers of two, too
  when a shrink happens   at once in P; DQ: at the job's next remap point, by a plan made anew
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf


@dataclass
class Runs:
    """A running job. `next`: the size that it was told to take, until it has."""

    sizes: list[int]
    size: int
    preferred: int
    end_s: float
    malleable: bool
    next: int | None = None

    @property
    def holds(self) -> int:
        return max(self.size, self.next or 0)


@dataclass
class Waits:
    job: int
    sizes: list[int]
    preferred: int
    estimate_s: float
    malleable: bool
    since_s: float = 0.0

    @property
    def least(self) -> int:
        return self.sizes[0] if self.malleable else self.preferred


@dataclass
class Strategy:
    start: str
    balance: str
    hand_on: str
    beyond: str = "always"
    patience_s: float = inf
    shortest: bool = False


@dataclass
class Machine:
    nodes: int
    how: Strategy
    running: dict[int, Runs] = field(default_factory=dict)
    queue: list[Waits] = field(default_factory=list)
    now: float = 0.0

    @property
    def idle(self) -> int:
        return self.nodes - sum(r.holds for r in self.running.values())

    def start_size(self, job: Waits, idle: int) -> int:
        """0: it cannot start."""
        if job.least > idle:
            return 0
        if not job.malleable or self.how.start == "min":
            return job.least
        goal = job.preferred
        if self.how.start == "average":
            goal = (job.sizes[0] + job.sizes[-1]) // 2
        return max((s for s in job.sizes if s <= goal and s <= idle), default=job.least)

    def order(self, jobs: list[Waits]) -> list[Waits]:
        if not self.how.shortest:
            return jobs
        return jobs[:1] + sorted(jobs[1:], key=lambda j: (j.estimate_s, j.job))

    def rank(self, job: int, size: int) -> tuple[float, int]:
        """Who expands first, by the size that it would have."""
        r = self.running[job]
        if self.how.balance == "min":
            return size - r.sizes[0], job
        if self.how.balance == "preferred":
            return size - r.preferred, job
        if self.how.balance == "average":
            return (size - r.sizes[0]) / max(1, r.sizes[-1] - r.sizes[0]), job
        return r.end_s, job

    def steady(self) -> dict[int, int]:
        """The jobs that may be resized now, with their sizes."""
        return {k: r.size for k, r in self.running.items() if r.malleable and r.next is None}

    def serve(
        self, waiting: list[Waits], idle: int
    ) -> tuple[list[tuple[Waits, int, int]], dict[int, tuple[int, int]], Waits | None]:
        """Served jobs (job, size, idle ones kept); giver -> (size, for whom); the first blocked."""
        sizes = self.steady()
        coming = sum(r.size - r.next for r in self.running.values() if r.next and r.next < r.size)
        served, gives, blocked = [], {}, None
        for job in self.order(waiting):
            tries = [(job.least, False)]
            if self.how.balance == "preferred":
                tries = [(self.start_size(job, 10**9), True), (job.least, True), (job.least, False)]
            for size, keeps in tries:
                taken = self.take(size - idle - coming, sizes, keeps=keeps)
                if taken is None:
                    continue
                for giver, left in taken.items():
                    coming += sizes[giver] - left
                    sizes[giver] = left
                    gives[giver] = (left, job.job)
                size = self.start_size(job, idle + coming) or size
                kept = min(idle, size)
                idle -= kept
                coming -= size - kept
                served.append((job, size, kept))
                break
            else:
                blocked = blocked or job
                if self.now - self.order(waiting)[0].since_s >= self.how.patience_s:
                    break
        return served, gives, blocked

    def take(self, lacking: int, sizes: dict[int, int], *, keeps: bool) -> dict[int, int] | None:
        taken: dict[int, int] = {}
        while lacking > 0:
            able = []
            for k, size in sizes.items():
                floor = self.running[k].preferred if keeps else self.running[k].sizes[0]
                if taken.get(k, size) > floor:
                    able.append((self.rank(k, taken.get(k, size)), k, floor))
            if not able:
                return None
            _, k, floor = max(able)
            size = taken.get(k, sizes[k])
            wanted = size - (1 if self.how.balance == "average" else lacking)
            fits = [s for s in self.running[k].sizes if floor <= s <= wanted]
            taken[k] = max(fits, default=floor)
            lacking -= size - taken[k]
        return taken

    def schedule(self) -> list[tuple[int, int]]:
        """Start what can be started: (job, size), in order."""
        begun, idle, waiting = [], self.idle, list(self.queue)
        ends = {k: (r.end_s, r.holds) for k, r in self.running.items()}

        def begin(job: Waits, size: int) -> None:
            begun.append((job.job, size))
            waiting.remove(job)

        while waiting and (size := self.start_size(waiting[0], idle)):
            job = waiting[0]
            ends[job.job] = (self.now + job.estimate_s, size)
            begin(job, size)
            idle -= size
        if not waiting or not idle:
            return begun
        served, _, blocked = self.serve(waiting, idle)
        kept = 0
        for job, size, own in served:
            if size <= (own if self.how.hand_on == "agreement" else idle):
                begin(job, size)
                idle -= size
            else:
                kept += own
        head: Waits | None = blocked
        others = [job for job, _, _ in served]
        if self.how.hand_on == "pool":
            head, kept = (waiting[0] if waiting else None), 0
            others = others if head is blocked else []
        free = idle - kept
        if head is None or free <= 0:
            return begun
        shadow, extra = self.shadow(ends, free, head.least)
        for job in self.order(waiting[:]) if waiting else []:
            size = self.start_size(job, free)
            if job is head or job in others or not size:
                continue
            if not (shadow < inf and self.now + job.estimate_s <= max(shadow, self.now)):
                size = self.start_size(job, min(free, extra))
                if not size:
                    continue
                extra -= size
            begin(job, size)
            free -= size
        return begun

    def shadow(
        self, ends: dict[int, tuple[float, int]], free: int, needed: int
    ) -> tuple[float, int]:
        """When `needed` are free if all end as planned, and how many more are free then."""
        for at in sorted({max(end, self.now) for end, _ in ends.values()}):
            there = free + sum(size for end, size in ends.values() if end <= at)
            if there >= needed:
                return at, there - needed
        return inf, free

    def point(self, job: int) -> int | None:
        """The size that a job at its remap point is told to take; None: it stays."""
        served, gives, _ = self.serve(self.queue, self.idle)
        if job in gives:
            return gives[job][0]
        room = self.idle - sum(kept for _, _, kept in served)
        sizes = {k: size for k, size in self.steady().items() if k not in gives}
        beyond = self.how.beyond == "always" or (self.how.beyond == "waits" and not self.queue)
        rounds = [False, True] if self.how.balance == "preferred" and beyond else [beyond]
        grown: dict[int, int] = {}
        for far in rounds:
            open_to = sorted(sizes, key=lambda k: self.rank(k, sizes[k]))
            while open_to and room > 0:
                if self.how.balance == "average":
                    k = min(open_to, key=lambda k: self.rank(k, grown.get(k, sizes[k])))
                else:
                    k = open_to[0]
                r, size = self.running[k], grown.get(k, sizes[k])
                most = min(size + room, r.sizes[-1] if far else r.preferred)
                fits = [s for s in r.sizes if size < s <= most]
                if not fits or self.how.balance != "average":
                    open_to.remove(k)
                if fits:
                    grown[k] = min(fits) if self.how.balance == "average" else max(fits)
                    if grown[k] > r.sizes[-1] or (
                        self.how.balance == "average" and min(s for s in r.sizes if s > size) > most
                    ):
                        grown.pop(k)
                        continue
                    room -= grown[k] - size
            sizes |= grown
        return grown.get(job)
