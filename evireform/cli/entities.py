"""The tree of one entity, and the tables of what was decided about entities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from evireform.canonical import canonical
from evireform.cli.render import counted, name_of, note, safe

if TYPE_CHECKING:
    from evireform.records import EntityChange, EntityDecision, EntityDetail, EntityLogEntry, EntityPair

_WIDTH = 24
"""Characters of the longest bar."""


def detail(entity: EntityDetail) -> Tree:
    """Entity → forms, passages and neighbours with bars by number of propositions, and decisions."""
    weight = f", largest weight {entity.max_weight:.4f}" if entity.degree else ""
    size = f"  {counted(entity.degree, 'proposition')}{weight}"
    tree = Tree(Text.assemble(_name(entity.display, entity.canonical, "bold magenta"), size))
    if entity.asked != entity.canonical:
        tree.add(Text.assemble(safe(entity.asked, "magenta"), " stands for it"))
    if entity.forms:
        forms = tree.add(counted(len(entity.forms), "form"))
        _bars(forms, [(safe(form.form), form.mentions) for form in entity.forms])
    if entity.passages:
        passages = tree.add(_first("passage", len(entity.passages), entity.passage_count))
        _bars(passages, [(name_of(p.passage_key, p.title), p.propositions) for p in entity.passages])
    if entity.neighbours:
        neighbours = tree.add(_first("neighbour", len(entity.neighbours), entity.neighbour_count))
        _bars(neighbours, [(_name(n.display, n.canonical, "magenta"), n.shared) for n in entity.neighbours])
    if entity.decisions:
        decisions = tree.add("decided")
        for decision in entity.decisions:
            decisions.add(_decision(decision))
    if entity.log:
        tree.add(log(entity.log))
    return tree


def change(made: EntityChange) -> Group:
    """What a decision changed: the log it left, the mentions that moved, and degrees before and after."""
    parts: list[RenderableType] = []
    if made.dry_run:
        parts.append(safe("nothing was changed; this is what would be:", "yellow"))
    for entry in made.log:
        parts.append(_said(entry))
    for move in made.moves:
        where = f"{counted(move.propositions, 'proposition')} of {counted(move.passages, 'passage')}"
        parts.append(Text.assemble("moved from ", safe(move.canonical, "magenta"), f": {where}"))
    if made.degrees:
        table = Table("entity", "degree before", "after")
        for degree in made.degrees:
            table.add_row(safe(degree.canonical), str(degree.before), str(degree.after))
        parts.append(table)
    return Group(*parts, *(note(text) for text in made.notes))


def log(entries: Sequence[EntityLogEntry]) -> RenderableType:
    """Decisions, made and taken back, with who and when."""
    if not entries:
        return Text("nothing was decided about entities")
    table = Table("#", "when", "who", "what")
    for entry in entries:
        when = f"{entry.decided_at:%Y-%m-%d %H:%M}"
        table.add_row(str(entry.log_id), when, safe(entry.decided_by), _said(entry))
    return table


def pairs(found: Sequence[EntityPair]) -> RenderableType:
    """Entities that are probably one, with their degrees."""
    if not found:
        return Text("no two names look like one")
    table = Table("entity", "degree", "probably the same", "degree", "alike in")
    for pair in found:
        table.add_row(
            safe(pair.canonical, "magenta"),
            str(pair.degree),
            safe(pair.other, "magenta"),
            str(pair.other_degree),
            pair.reason,
        )
    return table


def _said(entry: EntityLogEntry) -> Text:
    one, other = safe(entry.canonical, "magenta"), safe(entry.target, "magenta")
    if not entry.passage_key:
        if entry.action == "merge":
            return Text.assemble("merged ", one, " into ", other)
        return Text.assemble("split ", one, " from ", other)
    place = safe(entry.passage_key, "cyan")
    if entry.action == "split":
        return Text.assemble("split ", one, " in ", place, " as ", other)
    return Text.assemble("merged ", other, " in ", place, " into ", one)


def _decision(decision: EntityDecision) -> Text:
    where = Text.assemble(" in ", safe(decision.passage_key, "cyan")) if decision.passage_key else Text("")
    return Text.assemble(
        safe(decision.canonical, "magenta"), " stands for ", safe(decision.target, "magenta"), where
    )


def _name(display: str, name: str, style: str) -> Text:
    """An entity as it is mentioned most, and its name where that is another: two may be mentioned alike."""
    if canonical(display) == name:
        return safe(display, style)
    return Text(" ").join([*([safe(display, style)] if display else []), safe(f"({name})", "dim")])


def _first(noun: str, shown: int, there_are: int) -> str:
    return counted(there_are, noun) if shown == there_are else f"{shown} of {counted(there_are, noun)}"


def _bars(tree: Tree, rows: Sequence[tuple[Text, int]]) -> None:
    """Each row with its number, and a bar as long as that is beside the largest."""
    most = max(number for _, number in rows)
    digits = len(str(most))
    for label, number in rows:
        bar = "█" * max(1, round(_WIDTH * number / most))
        tree.add(Text.assemble(f"{number:>{digits}} ", (bar, "green"), " ", label))
