"""Tables 1 and 2 of Klein & Pérez 2011 (the same figures as in RR-7205) as data.

(least, average, most) as printed: averages look truncated, not rounded, and `ε`, less than one
unit, is 0 here. `unit` is one unit of the last printed digit.
"""

from __future__ import annotations

from dataclasses import dataclass

Range = tuple[float, float, float]
ALGORITHMS = ("rigid", "noX", "2X", "2X+c", "infX", "infX+c")


@dataclass(frozen=True, slots=True)
class Metric:
    """One column of the tables; `field` is its name in PlanMetrics."""

    table: int
    field: str
    title: str
    unit: float
    printed: dict[str, Range]
    judged: bool = True  # False: depends on the machine


def _column(*rows: Range) -> dict[str, Range]:
    return dict(zip(ALGORITHMS, rows, strict=True))


METRICS = (
    Metric(
        1,
        "waste_percent",
        "waste (% of the area used)",
        1,
        _column((43, 70, 116), (0, 0, 0), (0, 2, 11), (0, 0, 4), (0, 7, 22), (0, 1, 11)),
    ),
    Metric(
        1,
        "utilisation_rel",
        "utilisation (relative to rigid)",
        0.01,
        _column(
            (1, 1, 1),
            (0.46, 0.58, 0.69),
            (0.47, 0.60, 0.71),
            (0.46, 0.59, 0.70),
            (0.49, 0.63, 0.78),
            (0.46, 0.59, 0.71),
        ),
    ),
    Metric(
        1,
        "effective_utilisation_percent",
        "effective utilisation (%)",
        1,
        _column((30, 40, 51), (49, 61, 73), (50, 63, 75), (53, 63, 75), (52, 64, 73), (55, 64, 74)),
    ),
    Metric(
        1,
        "makespan_rel",
        "makespan (relative to rigid)",
        0.01,
        _column(
            (1, 1, 1),
            (0.49, 0.65, 0.82),
            (0.48, 0.64, 0.82),
            (0.48, 0.63, 0.82),
            (0.49, 0.63, 0.78),
            (0.47, 0.62, 0.78),
        ),
    ),
    Metric(
        1,
        "schedule_time_ms",
        "schedule time (ms; theirs on a 2.53 GHz Core 2 Duo)",
        0.1,
        _column(
            (4.64, 6.2, 9.41),
            (11.4, 24.7, 55.8),
            (11.4, 24.4, 45.4),
            (17.1, 36.7, 88.6),
            (11.4, 23.4, 49.2),
            (17.6, 36, 124),
        ),
        judged=False,
    ),
    Metric(
        2,
        "completion_rel",
        "average completion time (relative to rigid)",
        0.01,
        _column(
            (1, 1, 1),
            (0.42, 0.61, 0.84),
            (0.45, 0.61, 0.84),
            (0.44, 0.60, 0.84),
            (0.43, 0.62, 0.81),
            (0.44, 0.60, 0.81),
        ),
    ),
    Metric(
        2,
        "waiting_rel",
        "average waiting time (relative to rigid)",
        0.01,
        _column(
            (1, 1, 1),
            (0.36, 0.55, 0.81),
            (0.36, 0.54, 0.80),
            (0.37, 0.54, 0.81),
            (0.27, 0.53, 0.76),
            (0.35, 0.53, 0.76),
        ),
    ),
    Metric(
        2,
        "expanded_percent",
        "expanded applications (%)",
        1,
        _column((0, 0, 0), (0, 0, 0), (0, 22, 56), (0, 7, 40), (0, 26, 62), (0, 13, 47)),
    ),
    Metric(
        2,
        "expansion_percent",
        "expansion of an application (% of its duration)",
        1,
        _column((0, 0, 0), (0, 0, 0), (0, 4, 76), (0, 0, 60), (0, 19, 884), (0, 5, 1354)),
    ),
    Metric(
        2,
        "application_waste_percent",
        "waste of an application (% of the area it used)",
        1,
        _column((0, 67, 681), (0, 0, 0), (0, 2, 75), (0, 0, 41), (0, 6, 360), (0, 1, 119)),
    ),
)
