"""How a study looks on a terminal: its measures and differences; the report holds the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table

from evireform.cli.render import degraded, note, safe

if TYPE_CHECKING:
    from evireform.evaluation.records import Study

_MEASURES = {
    "recall@5": "R@5",
    "recall@10": "R@10",
    "recall@20": "R@20",
    "chain@5": "Chain@5",
    "f1": "F1",
    "em": "EM",
}


def study(result: Study) -> Group:
    """One row a method and condition, and one a difference, in percent."""
    shown = {name: label for name, label in _MEASURES.items() if any(name in r.means for r in result.results)}
    table = Table(title=safe(f"{result.title}: {result.dataset}, {result.questions} questions"))
    if any(one.condition for one in result.results):
        table.add_column("index")
    table.add_column("method")
    for label in shown.values():
        table.add_column(label, justify="right")
    for one in result.results:
        cells = [f"{100 * one.means[name]:.2f}" if name in one.means else "" for name in shown]
        table.add_row(*([safe(one.condition)] if one.condition else []), safe(one.method), *cells)
    differences = Table(title="differences in points, with 95 % intervals")
    for column in ("method", "against", "measure"):
        differences.add_column(column)
    differences.add_column("difference", justify="right")
    differences.add_column("interval", justify="right")
    for d in result.differences:
        differences.add_row(
            safe(d.method),
            safe(d.against),
            _MEASURES.get(d.measure, d.measure),
            f"{100 * d.difference:+.2f}",
            f"{100 * d.low:+.2f} to {100 * d.high:+.2f}",
        )
    fallen = [degraded(text) for text in result.shortfalls]
    parts: list[RenderableType] = [table, *([differences] if result.differences else []), *fallen]
    return Group(*parts, *(note(text) for text in result.notes))
