"""Sensitivity: one setting of the full method at a time."""

from __future__ import annotations

from evireform.evaluation.plan import Findings, Plan, Setup, Summary, each_against
from evireform.evaluation.records import Column, Plot, Series, Table
from evireform.settings import SearchSettings

SWEEPS: dict[str, tuple[float, ...]] = {
    "alpha": (0.25, 0.375, 0.5, 0.625, 0.75),
    "beta": (0.25, 0.375, 0.5, 0.625, 0.75),
    "hits_per_query": (1, 2, 4, 8),
    "residual_queries": (1, 2, 3),
    "selected": (1, 3, 6, 12),
}
"""Setting to its values; fewer residual queries are the first of the same model output (SPEC section 4)."""

_LABELS = {
    "alpha": "α, share of the direct signal",
    "beta": "β, share of the question's signal",
    "hits_per_query": "propositions per residual query",
    "residual_queries": "residual queries at most",
    "selected": "selected propositions at most",
}
_MEASURES = ("recall@5", "chain@5", "recall@10")


def name_of(settings: SearchSettings, field: str, value: float) -> str:
    """The method with one setting; the full method itself where that is its own value."""
    return "full" if getattr(settings, field) == value else f"full@{field}={value:g}"


def methods(setup: Setup) -> list[str]:
    names = [name_of(setup.settings, field, value) for field, values in SWEEPS.items() for value in values]
    return list(dict.fromkeys(["full", *names]))


def summarise(findings: Findings) -> Summary:
    settings = findings.setup.settings
    tables, plots = [], []
    for field, values in SWEEPS.items():
        results = [findings.result(name_of(settings, field, value)) for value in values]
        own = getattr(settings, field)
        tables.append(
            Table(
                title=f"Sensitivity to {field}",
                columns=(Column(name=field, unit="text"), *(Column(name=m, unit="share") for m in _MEASURES)),
                rows=tuple(
                    (f"{value:g}", *(result.means.get(measure) for measure in _MEASURES))
                    for value, result in zip(values, results, strict=True)
                ),
                note=f"the setting of the other studies is {own:g}",
            )
        )
        if any(measure not in result.means for measure in _MEASURES for result in results):
            continue  # no gold: nothing to draw
        plots.append(
            Plot(
                title=f"Sensitivity to {field}",
                kind="lines",
                x_label=_LABELS[field],
                y_label="share of questions or gold passages",
                series=tuple(
                    Series(
                        label=measure,
                        x=values,
                        y=tuple(result.means[measure] for result in results),
                    )
                    for measure in _MEASURES
                ),
                mark=own if own in values else None,
            )
        )
    return Summary(tables=tuple(tables), plots=tuple(plots))


PLAN = Plan(
    title="How much the full method depends on its settings",
    methods=methods,
    pairs=each_against("full"),
    summarise=summarise,
)
