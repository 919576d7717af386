"""Applications whose needs are known in advance: Klein & Pérez, Euro-Par 2011 and RR-7205 (2010).

`profile` says what an application asks for and gets, `rules` names the ways to place it, `fit` and
`compact` place one application, `plan` a queue of them, `online` those that arrive over time,
`horizon` says what is known of each at a time, `mapping` turns node counts into node ids and
`metrics` measures a plan.
"""

from dq_server.core.evolution.mapping import MappingError, NodeMap, map_nodes
from dq_server.core.evolution.metrics import PlanMetrics, measure
from dq_server.core.evolution.online import OnlinePlanner, PlannerError, plan_ahead
from dq_server.core.evolution.plan import Plan, check_plan, place, plan_offline
from dq_server.core.evolution.rules import FIT_RULES, FitRule, UnknownFitError, fit_rule
from dq_server.core.model.profile import (
    EvolutionProfile,
    InfeasibleProfileError,
    ProfileError,
    ScheduledProfile,
    Step,
)

__all__ = [
    "FIT_RULES",
    "EvolutionProfile",
    "FitRule",
    "InfeasibleProfileError",
    "MappingError",
    "NodeMap",
    "OnlinePlanner",
    "Plan",
    "PlanMetrics",
    "PlannerError",
    "ProfileError",
    "ScheduledProfile",
    "Step",
    "UnknownFitError",
    "check_plan",
    "fit_rule",
    "map_nodes",
    "measure",
    "place",
    "plan_ahead",
    "plan_offline",
]
