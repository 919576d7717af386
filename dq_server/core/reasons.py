"""Why the scheduler did what it did: a code and the figures used, as data.

The text is made from the code's template on demand, so that a reason costs next to nothing when a
million jobs are simulated and still reads as a sentence in `dq why`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Figure = int | float | str | bool | None

TEMPLATES: dict[str, str] = {
    # starting
    "started": "on {size} of {idle} idle processors",
    "backfilled": "backfilled on {size} of {idle} idle processors: {why}",
    "waits_for_processors": "the job needs {size} processors, {idle} are idle",
    "waits_behind": "job {head} is ahead in the queue and needs {head_size}, {idle} are idle",
    "paused": "no processors are granted at the moment: {why}",
    "held": "the job is on hold: dq release {job}",
    "waits_for_jobs": "the job waits for {jobs}",
    "dependencies_met": "job {other}, the last it waited for, has ended",
    "dependency_failed": "job {other}, which had to end successfully first, is {state}: {why}",
    # remap points
    "measuring": "measuring on {size}: {have} of {want} iterations counted",
    "no_idle": "no processor is idle",
    "next_too_large": "the next size {next_size} needs {more} more, {idle} are idle",
    "largest_size": "the job runs on its largest size {size}",
    "at_sweet_spot": "the sweet spot is {size}: going to {worse_size} changed the iteration time"
    " from {time_s:.4g} s to {worse_time_s:.4g} s",
    "no_gain": "{time_s:.4g} s per iteration on {size}, {previous_time_s:.4g} s on"
    " {previous_size}: a gain of {gain_pct:.1f} % does not exceed {threshold_pct:.1f} %,"
    " back to the sweet spot {previous_size}",
    "probe": "{time_s:.4g} s per iteration on {size}, {idle} idle and nobody waits: try"
    " {next_size}",
    "probe_gained": "{time_s:.4g} s per iteration on {size}, a gain of {gain_pct:.1f} % over"
    " {previous_time_s:.4g} s on {previous_size}; {idle} idle and nobody waits: try {next_size}",
    "expand_point": "{time_s:.4g} s per iteration on {size}, {next_time_s:.4g} s on {next_size} (a"
    " gain of {gain_pct:.1f} %, measured before), {idle} idle and nobody waits",
    "known_no_gain": "no larger size that is known and fits gains more than {threshold_pct:.1f} %",
    "expand_point_elsewhere": "the idle processors go to job {winner}, which gains"
    " {gain_pct:.1f} %",
    "grid_probe": "{time_s:.4g} s per iteration on {grid}: try another grid of {size} processors,"
    " {next_grid}",
    "grid_kept": "of {tried} grids of {size} processors {grid} is used from now on:"
    " {time_s:.4g} s per iteration, {other_time_s:.4g} s on {other_grid}; another one would have to"
    " gain more than {threshold_pct:.1f} % over one before it",
    "settling": "gave way or failed to resize lately: {left} iterations before expanding again",
    "shrink_for_waiting": "job {head} waits for {head_size} processors, {idle} are idle; shrinking"
    " from {size} to {next_size} frees {freed} for a penalty of {penalty_pct:.1f} %",
    "waiting_no_shrink": "job {head} waits for {head_size} processors, {idle} are idle and"
    " {incoming} on their way; {why}",
    "resize_policy_none": "resizing is switched off",
    "not_malleable": "a {kind} job is not resized by the scheduler",
    "user_resize": "asked for by the user: from {size} to {next_size}",
    "user_regrid": "asked for by the user: from {grid} to {next_grid}",
    "user_resize_waits": "the user asked for {next_size}: {more} more are needed, {idle} are idle",
    "stale_answer": "this remap point was answered before",
    "mebf_expand": "{idle} are idle, {left_s:.0f} s are left: from {size} to {next_size}",
    "mebf_shrink": "job {head} waits: from {size} to {next_size}, {left_s:.0f} s are left",
    "mebf_continue": "other jobs are resized first, or nobody needs to be: stays on {size},"
    " {idle} are idle",
    "mebf_no_estimate": "how long the job runs is not known, so it stays on {size}: submit it with"
    " --estimate or --walltime",
    # dynamic requests
    "dyn_first": "{more} more processors granted, {idle} were idle; requests of running jobs come"
    " first",
    "dyn_fair": "{more} more processors granted, {idle} were idle; within the limits it delays"
    " {delayed} waiting jobs by {delay_s:.0f} s in all",
    "dyn_too_few": "{more} more processors asked for, {idle} are idle{where}",
    "dyn_never": "{more} more processors asked for: dynamic requests are switched off",
    "dyn_not_permitted": "{more} more processors would delay job {delayed_job} of {who} by"
    " {delay_s:.0f} s, which is not permitted",
    "dyn_single": "{more} more processors would delay job {delayed_job} of {who} by {delay_s:.0f} s"
    " to {total_s:.0f} s in all, one job's limit is {limit_s:.0f} s",
    "dyn_target": "{more} more processors would delay jobs of {who} by {delay_s:.0f} s to"
    " {total_s:.0f} s in this interval, the limit is {limit_s:.0f} s",
    "dyn_timeout": "{more} more processors asked for, not to be had within {timeout_s:g} s: {why}",
    "dyn_waits": "{more} more processors asked for, {left_s:.0f} s left to wait: {why}",
    "dyn_expand": "the {more} processors that the application asked for, from {size} to"
    " {next_size}",
    "dyn_release": "the application gives back {count} of {size} processors",
    "dyn_asks_itself": "an evolving job is resized when it asks for it",
    # evolution known in advance
    "profile_promised": "its profile starts on {size} of up to {peak} processors in {in_s:.0f} s"
    " and takes {run_s:.0f} s ({requested_s:.0f} s asked for, fit {fit})",
    "profile_not_in_sight": "its profile needs up to {peak} processors: {idle} are idle, and it is"
    " not known when others end",
    "profile_on_time": "step {step} of {steps} of its profile: {size} processors, {next_size} in"
    " {in_s:.0f} s",
    "profile_last_step": "step {step} of {steps}, the last of its profile: {size} processors",
    "profile_expand": "step {step} of {steps} of its profile: from {size} to {next_size},"
    " {late_s:.1f} s after the moment",
    "profile_shrink": "step {step} of {steps} of its profile: from {size} to {next_size},"
    " {late_s:.1f} s after the moment",
    "profile_short": "step {step} of {steps} of its profile needs {next_size}: {more} more, {idle}"
    " are idle; what was to end by now has not, so all later steps are put off",
    "profile_over": "its profile is over and the job still holds {size} processors: it is killed"
    " after {grace_s:g} s",
    "profile_overstays": "the job holds {size} processors, its profile gives it {due}, and the"
    " {grace_s:g} s of grace are over",
    # earlier runs
    "history_known": "earlier runs of {application} ({runs}) have measured {sizes} processors;"
    " {spot}",
    "history_differs": "{time_s:.4g} s per iteration on {size}, {expected_s:.4g} s in earlier runs:"
    " more than {pct:g} % apart, they are not relied on any more",
    # a fitted model
    "model_probe": "{time_s:.4g} s per iteration on {size}; {model} through {points} sizes expects"
    " {next_time_s:.4g} s on {next_size}: try that",
    "model_found": "{points} sizes were tried: the sweet spot is {size} with {time_s:.4g} s",
    "model_no_room": "the next size {next_size} needs {more} more than can be had now",
    # advance reservations
    "started_inside": "inside reservation {reservation}, on {size} of {idle} idle processors",
    "reservation_later": "reservation {reservation} begins in {in_s:.0f} s",
    "reservation_short": "of reservation {reservation} {left_s:.0f} s are left, less than the"
    " walltime",
    "reservation_full": "the job needs {size} processors; of the {processors} of reservation"
    " {reservation} its jobs hold {held}, {idle} are idle, and jobs start in their order",
    "inside_reservation": "a job inside a reservation ({reservation}) keeps its size {size}",
    "shrink_for_reservation": "reservation {reservation} begins in {in_s:.0f} s: from {size} to"
    " {next_size}",
    "reservation_begins": "past its planned end, and reservation {reservation} begins",
    "reservation_over": "reservation {reservation} is over",
    "waits_for_profiles": "the job needs {size} processors; of {idle} idle ones {free} can be used"
    " for as long as it runs, the others are promised to others: profiles, reservations",
    # resizes
    "resize_under_way": "the ranks for {next_size} are starting, the job goes on with {size}",
    "resize_committed": "{size} to {next_size} done, {redistribution_s:.3g} s of redistribution",
    "resize_aborted": "{size} to {next_size} did not happen: {why}",
    "regrid_committed": "{grid} to {next_grid} done, {redistribution_s:.3g} s of redistribution",
    "regrid_aborted": "{grid} to {next_grid} did not happen: {why}",
    # ends
    "exit": "the application ended with exit code {exit_code}",
    "killed_by_user": "killed by {user}",
    "launch_failed": "could not be started: {why}",
    "node_lost": "node {node} was lost",
    "torn_down": "its processes were killed (exit code {exit_code})",
    "vanished": "it ended before its work was done, a rank was lost (exit code {exit_code})",
    "processes_lost": "its processes were lost: {why}",
    "gave_up": "the application gave up: {why}",
    "restart": "restart {restarts} of {limit} from the copy of turn {step}: {why}",
    "restart_afresh": "restart {restarts} of {limit} from the beginning, no copy was made yet:"
    " {why}",
    "restarts_used": "not restarted again after {restarts} restarts: {why}",
    "restarting": "interrupted: it starts again once its nodes confirm that nothing of it is left",
    "too_small_left": "the job's smallest size is {size}, the nodes that are up have {capacity}"
    " processors",
    "protected": "{count} copies in all, of turn {step} the last: {last_s:.3g} s for {mib:.4g} MiB,"
    " {total_s:.3g} s in total",
    "unprotected": "no copy of its data can be made, the last one stays: {why}",
    "protected_again": "copies of its data are made again, the last of turn {step}",
    "walltime": "the walltime of {walltime_s:g} s was exceeded",
    "walltime_warning": "{left_s:g} s of the walltime of {walltime_s:g} s are left",
    "no_remap_point": "the application has not reached a remap point in {running_s:.0f} s since it"
    " started, so it can be neither measured nor resized",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """A code out of TEMPLATES and the figures that its sentence needs (and more, if useful)."""

    code: str
    figures: dict[str, Figure] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The sentence for people."""
        return TEMPLATES[self.code].format(**self.figures)


def because(code: str, **figures: Figure) -> Reason:
    """Short constructor; an unknown code is a bug and fails at once."""
    if code not in TEMPLATES:
        raise KeyError(f"no reason {code!r}")
    return Reason(code, figures)
