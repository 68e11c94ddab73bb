"""Tables of vector spaces and of their indexes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from evireform.cli.render import safe

if TYPE_CHECKING:
    from evireform.records import IndexReport, SpaceReport


def table(found: Mapping[str, Sequence[SpaceReport]]) -> Table | Text:
    """The spaces of some corpora."""
    if not any(found.values()):
        return Text("there are no vectors yet: `evireform ingest` makes them")
    drawn = Table("corpus", "space", "vectors of", "model", "state", "vectors", "index", "recall@100")
    for corpus, reports in found.items():
        for one in reports:
            drawn.add_row(safe(corpus), *_space(one), _held(one), _index(one), _recall(one))
    return drawn


def indexes(found: Mapping[str, Sequence[IndexReport]]) -> Table | Text:
    """What was done to the indexes of some corpora, and what they find."""
    if not any(found.values()):
        return Text("there are no vectors yet: `evireform ingest` makes them")
    drawn = Table(
        "corpus", "space", "vectors of", "model", "state", "vectors", "index", "done", "recall@100", "worst"
    )
    for corpus, reports in found.items():
        for one in reports:
            report = one.report
            done = f"{one.action} in {one.build_s:.1f} s" if one.build_s else one.action
            drawn.add_row(
                safe(corpus),
                *_space(report),
                _held(report),
                _index(report),
                "" if one.action == "none" else done,
                f"{_recall(report)} of {one.sampled}" if one.sampled else _recall(report),
                "" if one.worst is None else f"{one.worst:.2f}",
            )
    return drawn


def _space(one: SpaceReport) -> tuple[str, str, Text, Text]:
    space = one.space
    state = Text("active", "green") if space.active else Text("not active", "dim")
    return str(space.space_id), f"{space.kind}s", safe(f"{space.model} ({space.dimensions}-d)"), state


def _held(one: SpaceReport) -> Text:
    """How many vectors there are, and of how many where some are missing."""
    if one.vectors == one.items:
        return Text(f"{one.vectors:,}")
    return Text(f"{one.vectors:,} of {one.items:,}", "yellow")


def _index(one: SpaceReport) -> str:
    return f"HNSW, {one.index_bytes / 2**20:,.1f} MB" if one.index_bytes else "none (exact scan)"


def _recall(one: SpaceReport) -> str:
    if not one.index_bytes:
        return "exact"
    return "not measured" if one.recall is None else f"{one.recall:.3f}"
