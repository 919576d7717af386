"""Applications whose needs are known in advance: Klein & Pérez, Euro-Par 2011 and RR-7205 (2010).

`offline` plans a queue of them, `online` those that arrive over time, and `horizon` says what is
known of each at a time. One is placed by dq_server/core/evolution.
"""

from dq_server.core.evolution.plan import place
from dq_server.core.evolution.rules import FIT_RULES, FitRule, UnknownFitError, fit_rule
from dq_server.core.model.profile import (
    EvolutionProfile,
    InfeasibleProfileError,
    ProfileError,
    ScheduledProfile,
    Step,
)
from dq_server.sim.evolution.offline import Plan, check_plan, plan_offline
from dq_server.sim.evolution.online import OnlinePlanner, PlannerError, plan_ahead

__all__ = [
    "FIT_RULES",
    "EvolutionProfile",
    "FitRule",
    "InfeasibleProfileError",
    "OnlinePlanner",
    "Plan",
    "PlannerError",
    "ProfileError",
    "ScheduledProfile",
    "Step",
    "UnknownFitError",
    "check_plan",
    "fit_rule",
    "place",
    "plan_ahead",
    "plan_offline",
]
