"""What a session does at a remap point: it reports, hears what to do, and all ranks do it.

pace.py says after which iteration that is. A report is of all iterations since the one before: how
many, and the mean time of those of one kind (Loop.label), the one that has ended just now, on the
slowest rank. So iterations of loops that have nothing in common are never averaged.

The server's answer takes some milliseconds. Where iterations are short, nobody waits for it: rank 0
asks, all go on, and the answer is heard at the next remap point; one that resizes the job makes the
next check (pace.py) a remap point. While anything changes no question is open.
A resize that would lose something waits, or is refused (postponement.py).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from mpi4py import MPI

from dq_client.base import messages as m
from resize_lib import same_iterations
from resize_lib.pace import CHECK_S, CHECK_SOON_S, Allowance, Countdown, Plan, plan_for
from resize_lib.postponement import Postponement
from resize_lib.resize import Step, advise, carry_out
from resize_lib.silence import Silence, Stay
from resize_lib.waiting import idle_bcast, wait_all

if TYPE_CHECKING:
    from resize_lib.runtime import Runtime

# While new ranks start, ask for them at most every QUIET_S: each remap point waits for the slowest
# rank, and while few cores both start ranks and compute, some rank is always slow. Once they have
# come, the next check makes a remap point, where the backend tells that (`expand_news`).
QUIET_S = 0.05
LABEL_MAX = 200

# Iterations up to here are made while the answer is under way: so much later may a job hear of a
# resize.
GO_ON_BELOW_S = 0.1

MOVES = (Step.COMPLETE, Step.EXPAND, Step.SHRINK, Step.REGRID, Step.RESTART)


@dataclass(frozen=True, slots=True)
class RemapDecision:
    """What rank 0 tells the others at a remap point."""

    answer: m.RemapAnswer
    step: Step
    copy: bool  # a protected job copies its data now
    plan: Plan
    answers: int  # heard from the server at this remap point
    reported: bool  # the server is told the iterations up to here
    passed: bool = False  # it is told them later: the job rests


class RemapPoints:
    """Of one process.

    active: whether anybody asks for the remap points of this job
    interval_s: between two of them, as far as iterations are that short (pace.py)
    granted: the last resize that the server spoke of, carried out or not
    """

    def __init__(self, session: Runtime, interval_s: float) -> None:
        self._session, self.interval_s = session, interval_s
        self.active = session.job.managed and session.job.reports
        self._countdown = Countdown()
        self._plan = Plan()
        self._since_s = time.perf_counter()  # when the iterations of the countdown began
        self._allowance = Allowance()
        self._urgent = False  # the next remap point is reported, however many there were lately
        self._iterations = 0  # since the last report
        self._times: dict[str, tuple[int, float]] = {}  # label -> iterations and their time
        self.granted = 0
        self.postponement = Postponement(session)
        self._silence = Silence()
        self._asked = False  # on rank 0: an answer is still to be heard
        self._word = ""  # and this is what it says, once it has come

    def due(self, elapsed_s: float, *, last: bool) -> bool:
        """An iteration is done. Whether all ranks now call `make`; the same on every rank.

        last: no iteration comes after this one, as far as one can know.
        """
        if not self.active:
            return False
        comm, now_s = self._session.comm, time.perf_counter()
        label = self._session.loops.label
        iterations, sum_s = self._times.get(label, (0, 0.0))
        self._times[label] = iterations + 1, sum_s + elapsed_s
        return self._countdown.iteration(comm, now_s, self._resize_is_here) or last

    def _resize_is_here(self) -> bool:
        """On rank 0, between remap points: whether the answer has come, and is to resize, or the
        ranks of an expansion have come, or the server rings."""
        session = self._session
        if session.job.expanding is not None:
            return session.rank == 0 and session.backend.expand_news()
        if self._silence.lasts:
            return session.server().rung()
        if self._word or not self._asked:
            return False
        self._word = self._session.server().remap_word()
        return self._word not in ("", "continue")

    def make(self, *, last: bool) -> bool:
        """Report, and do what the server says. Collective. False: this rank leaves.

        A rank may be lost meanwhile: then every wait here ends with RankLost.
        """
        session, countdown = self._session, self._countdown
        countdown.finish_check()
        iterations, self._plan = countdown.iterations, Plan()
        self._iterations += iterations
        iteration_s = (time.perf_counter() - self._since_s) / max(1, iterations)
        countdown.begin(self._plan, 0.0)  # after a loss the next iteration is a remap point
        kind_iterations, kind_s = self._times.get(session.loops.label, (1, 0.0))
        slowest_s = self._slowest(kind_s / kind_iterations)
        told: RemapDecision | None = None
        if session.rank == 0:
            told = self._decide(slowest_s, iteration_s, iterations, last=last)
        told = idle_bcast(session.comm, told)
        assert told is not None, "rank 0 has it"
        return self.follow(told, iterations)

    def follow(self, told: RemapDecision, iterations: int) -> bool:
        """Do what rank 0 has told after so many iterations. Collective. False: this rank leaves."""
        session, job = self._session, self._session.job
        told = self._unless_in_the_way(told)
        answer, step = told.answer, told.step
        session.farms.prune()
        self._account(told)
        self._plan = told.plan
        if session.protector is not None:
            session.protector.remap_point(make=told.copy, iterations=iterations)
        if step not in (Step.CONTINUE, Step.BEGIN) and session.asks:
            job.asked = None  # joining ranks hear of it, too
        return carry_out(session, answer, step)

    def _unless_in_the_way(self, told: RemapDecision) -> RemapDecision:
        """What to do instead where a resize would lose something; collective, before it begins."""
        if told.step not in MOVES:
            if told.step is Step.GIVE_UP:
                self.postponement.forget()
            return told
        step = self.postponement.step_instead(told.answer, told.step)
        return told if step is told.step else replace(told, step=step, copy=False)

    def _account(self, told: RemapDecision) -> None:
        """Keep what the answer says."""
        job, answer = self._session.job, told.answer
        job.seq += told.answers
        if told.step in MOVES:  # times on another size say nothing of the next one
            self._times.clear()
        if told.reported:
            job.redistribution_s = 0.0
            self._iterations, self._urgent = 0, False
            self._times.clear()
        elif told.passed:
            self._times.clear()
        self.granted = answer.resize_id or self.granted
        known, stands = job.asked, answer.asked
        if known is not None and stands is not None and stands.request == known.request:
            job.asked = stands

    def go_on(self) -> None:
        """The remap point is over, and what follows a resize, too: iterations count from here."""
        self._since_s = time.perf_counter()
        awaits = self._session.job.expanding is not None
        self._countdown.begin(self._plan, self._since_s + self._interval(awaits=awaits))

    def soon(self) -> None:
        """Make the end of this iteration a remap point, for the program's request. Collective."""
        self._urgent = True
        self._countdown.soon()

    def settle(self) -> None:
        """Complete what was started for the next, before a remap point without an iteration."""
        self._countdown.finish_check()

    def end(self) -> None:
        """On rank 0, after the last iteration of all: a resize granted meanwhile is given up."""
        later = self.postponement.take()
        if later is not None:
            advise(self._session, later, 0.0, last=True)
        if self._asked:
            self._asked = False
            answer = self._session.server().remap_answer(wait=True)
            assert answer is not None, "it waits"
            advise(self._session, answer, 0.0, last=True)

    def decide_alone(self, task_s: float, tasks: int) -> RemapDecision | None:
        """On rank 0 of a task farm: so many more are done, one each `task_s`; what now?

        None: nothing that the others have to know before the round ends.
        """
        protector = self._session.protector
        self._iterations += tasks
        told = self._decide(task_s, task_s, tasks, waits=True)
        told = replace(told, plan=Plan())  # the next iteration may be no task
        if told.copy or told.step in MOVES:
            return told
        self._account(told)
        if protector is not None:
            protector.remap_point(make=False, iterations=tasks)
        carry_out(self._session, told.answer, told.step)  # notes what is being prepared
        return None

    def _decide(
        self,
        slowest_s: float,
        iteration_s: float,
        iterations: int,
        *,
        last: bool = False,
        waits: bool = False,
    ) -> RemapDecision:
        """On rank 0: report if that may be, and decide what all ranks shall do.

        waits: for the answer, however short iterations are: the others are busy meanwhile
        """
        session, protector = self._session, self._session.protector
        later = self.postponement.take()
        answer, answers = self._heard(wait=last or waits)
        if later is not None:
            answer = later
        reported = not self._asked and later is None and answer.what == "continue"
        self._rest(answer, answers)
        passed = reported and not last and self._passes(slowest_s)
        reported = reported and not passed and self._may_report()
        if reported:
            report = self._report(slowest_s, answers)
            if last or waits or not self._may_go_on(iteration_s):
                answer, answers = session.server().remap(report), answers + 1
                self._rest(answer, answers)
            else:
                session.server().begin_remap(report)
                self._asked, self._word = True, ""
        answer, step = advise(session, answer, slowest_s, last=last, alone=waits)
        copy = protector is not None and not last and step is not Step.RESTART  # which makes one
        if protector is not None and copy:
            copy = protector.due(resizing=step in MOVES, iterations=iterations)
        return RemapDecision(
            answer,
            step,
            copy,
            self._next_plan(step, iteration_s, iterations, copy),
            answers,
            reported,
            passed,
        )

    @property
    def _stay(self) -> Stay:
        """What the times of one rest have in common."""
        return self._session.job.resize_id, self._session.loops.label

    def _rest(self, answer: m.RemapAnswer, answers: int) -> None:
        """Rest if this answer, heard just now, allows it."""
        if answers and answer.what == "continue":
            self._silence.begin(answer, self._stay)

    def _passes(self, slowest_s: float) -> bool:
        """Whether this remap point passes without a report."""
        if not self._silence.lasts or self._urgent:
            return False
        server = self._session.server()
        return (
            not server.rung()
            and not server.has_moved()
            and self._silence.passes(slowest_s, self._stay)
        )

    def _heard(self, *, wait: bool) -> tuple[m.RemapAnswer, int]:
        """The answer to what was asked before, if it has come, and how many that are."""
        begun = self._session.job.expanding
        # Without an answer an expansion under way goes on.
        carry_on = m.RemapAnswer(what="continue", resize_id=begun.resize_id if begun else 0)
        answer = self._session.server().remap_answer(wait=wait) if self._asked else None
        if answer is None:
            return carry_on, 0
        self._asked = False
        return answer, 1

    def _may_go_on(self, iteration_s: float) -> bool:
        """Whether iterations may be made while the answer to the report is under way.

        Not where the program waits for it, and where it would meet a change: new ranks that come, a
        rank that is lost, a copy that is made.
        """
        session = self._session
        short = self.interval_s > 0 and iteration_s < GO_ON_BELOW_S
        changing = session.job.expanding is not None or session.protector is not None
        return short and not changing and not self._urgent and session.in_place is None

    def _may_report(self) -> bool:
        allowed = self._allowance.take(time.perf_counter())
        return allowed or self._urgent or self.interval_s == 0

    def _report(self, slowest_s: float, answers: int) -> m.RemapPoint:
        """What the server is told. answers: heard at this remap point already."""
        session, job = self._session, self._session.job
        silent, passed = self._silence.end(self._stay)
        return m.RemapPoint(
            seq=job.seq + answers + 1,
            processors=session.size,
            resize_id=job.resize_id,
            iteration_time_s=slowest_s,
            redistribution_time_s=job.redistribution_s,
            step=session.step,
            preparing=job.expanding.resize_id if job.expanding is not None else 0,
            iterations=self._iterations,
            loop=session.loops.label[:LABEL_MAX],
            rests=self.interval_s > 0,
            silent=silent,
            passed=passed,
        )

    def _interval(self, *, awaits: bool) -> float:
        """Between two remap points. awaits: ranks that are to join start."""
        return min(QUIET_S, self.interval_s) if awaits else self.interval_s

    def _next_plan(self, step: Step, iteration_s: float, iterations: int, copy: bool) -> Plan:
        """On rank 0: when the next remap point is."""
        session = self._session
        # A job that can go on without ranks it has lost hears of them at remap points only. The
        # first iteration on another size tells nothing of those that follow.
        if session.in_place is not None or step in MOVES:
            return Plan()
        awaits = step is Step.BEGIN or session.job.expanding is not None
        check_s = CHECK_SOON_S if awaits else CHECK_S
        plan = plan_for(iteration_s, self._interval(awaits=awaits), check_s, asked=self._asked)
        protector = session.protector
        left = (
            protector.iterations_left(copy=copy, iterations=iterations)
            if protector is not None
            else None
        )
        return plan if left is None or left >= plan.iterations else replace(plan, iterations=left)

    def _slowest(self, time_s: float) -> float:
        """The longest of the ranks' times (collective). Mistake if they are in other iterations."""
        session = self._session
        if session.size == 1:
            return time_s
        value = np.array([time_s, *same_iterations.bounds(session.loops)])
        requests = [session.comm.Iallreduce(MPI.IN_PLACE, value, MPI.MAX)]
        if session.in_place is not None:
            wait_all(requests)  # a grid's ranks may block where nothing but MPI can wake them
        session.grid.wait(requests)
        if same_iterations.differ(value[1:]):
            raise same_iterations.mistake(session.grid.own_comm, session.loops)
        return float(value[0])
