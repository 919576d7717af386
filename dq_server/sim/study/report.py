"""The report of a study: what would be gained, all means, and the paragraph on methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from importlib.metadata import PackageNotFoundError, version

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.options import plain
from dq_server.core.policies.registry import SETS, named_settings
from dq_server.sim.intervals import mean_and_interval
from dq_server.sim.malleable_settings import described
from dq_server.sim.study.file import Source, Study, Variant
from dq_server.sim.study.results import FIGURES, Group, Results, StudyCase
from dq_server.sim.swf import OTHER, header_of

HEADS = {
    "mean_turnaround_s": "turnaround (s)",
    "mean_wait_s": "wait (s)",
    "makespan_s": "makespan (s)",
    "utilisation": "utilisation (%)",
    "mean_bounded_slowdown": "bounded slowdown",
}
CREDITED = ("Computer", "Installation", "Acknowledge", "Information")


def report(results: Results, simulated: int) -> str:
    """The whole page in Markdown."""
    study = results.study
    parts = [f"# {study.path.stem}", "## What would be gained", *_gains(results), "## Means"]
    parts.append(
        "Means over the seeds with 95 % confidence intervals. A change is against"
        f" {study.policies[0]}, paired by seed; where it has no interval there is one seed."
    )
    for source in study.sources:
        for variant in study.variants:
            for share in study.shares:
                title = [source.title, variant.name, f"{100 * share:g} % malleable"]
                parts.append(f"### {', '.join(filter(None, title))}")
                parts.append(_markdown(rows(results, source.title, variant.name, share)))
    parts += ["## Methods", methods(study, results.notes), "## Notes on the logs"]
    notes = [
        f"* {log}: {count} jobs: {note}"
        for log, found in results.notes.items()
        for note, count in sorted(found.items())
    ]
    parts.append("\n".join(notes) or "None.")
    parts.append(f"{len(study)} runs, which took {simulated} different simulations.")
    return "\n\n".join(parts) + "\n"


def rows(results: Results, log: str, variant: str, share: float) -> list[list[str]]:
    """A table of the policies: heads, then one row each."""
    first = results.study.policies[0]
    found = [["policy", *HEADS.values(), f"turnaround against {first} (%)"]]
    for policy in results.study.policies:
        place = StudyCase(log, variant, share, policy)
        group = results.groups[place]
        cells = [_plus_minus(group.figures[name], name) for name in FIGURES]
        changes = group.changes_pct(results.base(place), "mean_turnaround_s")
        found.append([policy, *cells, _change(changes) if policy != first else ""])
    return found


def _plus_minus(values: Sequence[float], name: str) -> str:
    scale = 100 if name == "utilisation" else 1
    mean, half = mean_and_interval([scale * value for value in values])
    digits = 0 if name.endswith("_s") and abs(mean) >= 100 else 2
    text = f"{mean:.{digits}f}"
    return text if half != half else f"{text} ± {half:.{digits}f}"


def _change(changes: Sequence[float]) -> str:
    if not changes:
        return "–"
    mean, half = mean_and_interval(changes)
    return f"{mean:+.1f}" if half != half else f"{mean:+.1f} ± {half:.1f}"


def _markdown(table: Sequence[Sequence[str]]) -> str:
    lines = [table[0], ["---"] + ["---:"] * (len(table[0]) - 1), *table[1:]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _gains(results: Results) -> Iterator[str]:
    """Per log and share: the policy with the least mean turnaround, over all variants."""
    study = results.study
    first = study.policies[0]
    for source in study.sources:
        lines = [f"On {source.title}, against {first}:"]
        for share in study.shares:
            best, changes = _best(results, source, share)
            if best == first:
                lines.append(f"* {100 * share:g} % malleable jobs: no policy does better.")
                continue
            words = []
            for name in ("mean_turnaround_s", "mean_wait_s", "makespan_s"):
                low, high = min(changes[name]), max(changes[name])
                span = f"{low:+z.1f} %" if high - low < 0.05 else f"{low:+z.1f} to {high:+z.1f} %"
                words.append(f"{HEADS[name].removesuffix(' (s)')} {span}")
            over = (
                f" (range over {len(study.variants)} variants)" if len(study.variants) > 1 else ""
            )
            lines.append(f"* {100 * share:g} % malleable jobs, {best}: {', '.join(words)}{over}.")
        yield "\n".join((lines[0], "", *lines[1:]))


def _best(results: Results, source: Source, share: float) -> tuple[str, dict[str, list[float]]]:
    """The policy, and by figure its mean change under each variant, percent."""
    study = results.study

    def group(policy: str, variant: Variant) -> Group:
        return results.groups[StudyCase(source.title, variant.name, share, policy)]

    def turnaround_s(policy: str) -> float:
        found = [group(policy, variant).figures["mean_turnaround_s"] for variant in study.variants]
        return sum(sum(values) / len(values) for values in found)

    best = min(study.policies, key=turnaround_s)
    changes: dict[str, list[float]] = {name: [] for name in FIGURES}
    for variant in study.variants:
        for name in FIGURES:
            base = group(study.policies[0], variant)
            found = group(best, variant).changes_pct(base, name) or [0.0]
            changes[name].append(sum(found) / len(found))
    return best, changes


def methods(study: Study, notes: Mapping[str, Mapping[str, int]]) -> str:
    """Every parameter of the study, in words, for a paper. `notes`: jobs, by log and note."""
    seeds, shares = study.seeds, ", ".join(f"{100 * share:g} %" for share in study.shares)
    drawn = (
        f"seeds {seeds[0]} to {seeds[-1]}"
        if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds)))
        else f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    )
    text = [
        f"Simulated with DQ {_version()}, a discrete-event simulator that runs the scheduler of a"
        " live server.",
        *(_log_sentence(source, notes.get(source.title, {})) for source in study.sources),
        f"Of the jobs {shares} were made malleable, drawn at random ({drawn}; the same jobs under"
        " every policy).",
        *(["The study's file gives these shares in percent."] if study.percent else []),
    ]
    for variant in study.variants:
        named = f"Variant {variant.name}: " if variant.name else "Malleable jobs: "
        text.append(f"{named}{described(variant.how)}.")
        settings = _settings(variant.base)
        if settings:
            text.append(f"Settings of the scheduler: {settings}.")
    text += [
        "Policies: " + "; ".join(_policy(name) for name in study.policies) + ".",
        "Wait: start - submission. Turnaround: end - submission. Bounded slowdown: turnaround over"
        " the larger of 10 s and the run time on the preferred size without resizes, at least 1."
        " Makespan: last end - first submission. Utilisation: processor-seconds held by jobs over"
        " processors times makespan.",
        f"Means over {len(seeds)} seeds with 95 % confidence intervals by Student's t; changes are"
        f" paired by seed against {study.policies[0]}."
        if len(seeds) > 1
        else f"One seed, so no intervals; changes are against {study.policies[0]}.",
    ]
    return " ".join(text)


def _version() -> str:
    try:
        return version("dq-mpi")
    except PackageNotFoundError:
        return "(version unknown)"


def _log_sentence(source: Source, notes: Mapping[str, int]) -> str:
    header = header_of(source.path)
    credit = "; ".join(f"{name.lower()}: {header[name]}" for name in CREDITED if name in header)
    days = f" of {source.days:g} days" if source.days < float("inf") else ""
    window = f", submissions{days} from day {source.first_day:g} on" if (
        days or source.first_day
    ) else ""  # fmt: skip
    rules = [
        "jobs that run longer than their estimate are killed" if source.enforce_estimates else
        "jobs that run longer than their estimate are not killed",
        "dependencies of fields 17 and 18 are honoured" if source.dependencies else
        "dependencies are not honoured",
    ]  # fmt: skip
    for wanted, name, number in (
        (source.queues, "queue", 15),
        (source.partitions, "partition", 16),
    ):
        if wanted:
            count = notes.get(OTHER.format(name, number), 0)
            rules.append(
                f"only jobs of {name} {', '.join(map(str, wanted))} are simulated"
                f" (field {number}; {count} of others left out)"
            )
    if source.sets:
        sets = "; ".join(map(str, source.sets))
        rules.append(f"processors by node set, each scheduled by itself ({sets})")
    if source.leave_out_large:
        rules.append("jobs larger than the machine are left out")
    rules += [
        f"{r.processors} processors are out of use from {r.start_s:g} s after the first submission"
        f" on, for {r.end_s - r.start_s:g} s ({r.name})"
        for r in source.reservations
    ]
    if source.warm_up_days:
        rules.append(f"jobs submitted in the first {source.warm_up_days:g} days are not counted")
    return (
        f"Log: {source.title} ({credit}){window}, on {source.nodes} processors; {'; '.join(rules)}."
        if credit
        else f"Log: {source.title}{window}, on {source.nodes} processors; {'; '.join(rules)}."
    )


def _policy(name: str) -> str:
    settings = named_settings(name)
    words = ", ".join(f"{key} = {plain(value)}" for key, value in settings.items())
    return f"{name} ({words})" if name in SETS or "+" in name else name


def _settings(config: SchedulerConfig) -> str:
    """Settings that are not the defaults."""
    usual = SchedulerConfig()
    found = [
        f"{f.name} = {plain(getattr(config, f.name))}"
        for f in fields(SchedulerConfig)
        if getattr(config, f.name) != getattr(usual, f.name) and f.name != "options"
    ]
    found += [f"[{table}] {plain(given)}" for table, given in config.options.items()]
    return ", ".join(found)
