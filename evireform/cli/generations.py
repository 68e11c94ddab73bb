"""Generations drawn for people: what a shadow lacks, and how it ranks beside what serves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from evireform.cli.render import LISTED, counted, note, safe

if TYPE_CHECKING:
    from evireform.generations import Standing
    from evireform.generations.comparing import GenerationComparison, SearchCost

_WORDS = {
    "missing": "it does not have",
    "changed": "with another title, text or metadata",
    "extra": "it has alone",
    "failed": "whose extraction failed for it alone",
}


def standings(found: Sequence[Standing]) -> RenderableType:
    """Both generations of each corpus, and what the new one still lacks."""
    if not found:
        return Text("no corpus has another generation: `evireform generation start` makes one")
    return Group(*(part for one in found for part in _standing(one)))


def _standing(one: Standing) -> list[RenderableType]:
    table = Table("", "corpus", "titles", "extractor", "embedded with")
    for name in ("ready", "empty", "failed", "propositions", "entities"):
        table.add_column(name, justify="right")
    for part, side in (("serves", one.serving), ("beside it", one.shadow)):
        models = [space.model for space in side.spaces if space.active and space.kind == "proposition"]
        counts = (side.ready, side.empty, side.failed, side.propositions, side.entities)
        table.add_row(
            part,
            safe(side.name, "cyan"),
            side.titles,
            safe(side.extractor),
            safe(", ".join(models)),
            *(f"{count:,}" for count in counts),
        )
    lacking = [
        note(
            f"{counted(found.passages, 'passage')} {_WORDS[found.kind]}: {', '.join(found.keys)}"
            + (" …" if found.passages > len(found.keys) else "")
        )
        for found in one.differences
    ]
    if one.decisions:
        lacking.append(note(f"{counted(one.decisions, 'decision')} about entities only one of both knows"))
    if one.waiting:
        lacking.append(note(f"{counted(one.waiting, 'passage')} wait for a worker"))
    done = Text("it has all that the corpus has, and can be switched to", "green")
    return [table, *(lacking or [done])]


def comparison(found: GenerationComparison) -> Group:
    """Measures with their differences, how far the rankings agree, and whose changed."""
    asked = f"{counted(found.questions, 'question')}, {found.judged:,} of them with gold passages"
    parts: list[RenderableType] = [
        safe(f"{found.serving} → {found.shadow}, first {found.k} passages: {asked}")
    ]
    if found.measures:
        table = Table("measure")
        for name in ("before", "after", "difference", "95 % interval", "better", "worse"):
            table.add_column(name, justify="right")
        for one in found.measures:
            table.add_row(
                one.measure,
                f"{100 * one.first:.1f}",
                f"{100 * one.second:.1f}",
                Text(f"{100 * one.difference:+.1f}", "bold" if one.significant else ""),
                f"{100 * one.low:+.1f} … {100 * one.high:+.1f}",
                str(one.better),
                str(one.worse),
            )
        parts.append(table)
    alike = f"{found.same_first:,} questions have the same first passage, {found.same:,} the same ranking"
    parts.append(Text(f"{100 * found.shared:.1f} % of the passages are shared; {alike}"))
    if found.changed:
        parts.append(_changes(found))
    costs = Table("searches of", "model calls", "tokens in", "tokens out", "seconds", "degraded")
    for name, cost in ((found.serving, found.serving_cost), (found.shadow, found.shadow_cost)):
        costs.add_row(safe(name), *_cost(cost))
    parts.append(costs)
    return Group(*parts)


def _changes(found: GenerationComparison) -> Table:
    table = Table(
        "question", "shared", "entered", "left", title="rankings that changed", title_justify="left"
    )
    for one in found.changed[:LISTED]:
        longest = one.shared + max(len(one.entered), len(one.left))
        entered, left = (safe(", ".join(keys), "cyan") for keys in (one.entered, one.left))
        table.add_row(safe(one.question), f"{one.shared} of {longest}", entered, left)
    if len(found.changed) > LISTED:
        table.caption = f"and {len(found.changed) - LISTED:,} more (all with --json)"
    return table


def _cost(cost: SearchCost) -> list[str]:
    tokens = (cost.model_calls, cost.tokens_in, cost.tokens_out)
    return [*(f"{count:,}" for count in tokens), f"{cost.seconds:,.2f}", f"{cost.degraded:,}"]
