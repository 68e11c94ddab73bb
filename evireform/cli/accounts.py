"""Costs and estimates drawn for people."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table

from evireform.cli.render import counted, note, safe, shortened

if TYPE_CHECKING:
    from evireform.records import CostReport, CostRow, Estimate

ROWS = 50
"""Groups that are drawn; all of them are in the JSON."""


def costs(report: CostReport) -> RenderableType:
    """One row a group, and the sum of all. What is part of a figure stands below it: names need the room."""
    if not report.total.calls:
        return safe(
            "no model call is in the ledger" + (f" for corpus {report.corpus}" if report.corpus else "")
        )
    table = Table(
        show_footer=len(report.rows) > 1,
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
    )
    table.add_column(report.by, footer="all", overflow="fold")
    heads = ("calls", "tokens in", "tokens out", "seconds", "cost")
    for name, footer in zip(heads, _cells(report.total), strict=True):
        table.add_column(name, footer=footer, justify="right", no_wrap=True)
    for row in report.rows[:ROWS]:
        table.add_row(safe(_name(row, report.by)), *_cells(row))
    parts: list[RenderableType] = [table]
    if len(report.rows) > ROWS:
        parts.append(safe(f"and {len(report.rows) - ROWS} more (all with --json)"))
    if report.total.unpriced:
        calls = counted(report.total.unpriced, "call")
        parts.append(
            note(
                f"what {calls} cost is not known (`?`) and stays so; a price file (language.prices) counts "
                "for calls from now on"
            )
        )
    return Group(*parts)


def estimate(expected: Estimate, corpus: str) -> Group:
    """What an ingestion would take, and what that rests on."""
    table = Table(
        title=safe(f"corpus {corpus}: what an ingestion would ask of {expected.model or 'no model'}")
    )
    table.title_justify = "left"
    for name in ("to extract", "in the ledger", "ready-made", "unchanged", "rejected"):
        table.add_column(name, justify="right")
    for name in ("calls", "tokens in", "tokens out", "cost"):
        table.add_column(name, justify="right", style="bold")
    passages = (expected.passages, expected.answered, expected.given, expected.unchanged, expected.rejected)
    asked = (expected.calls, expected.tokens_in, expected.tokens_out)
    table.add_row(*(f"{count:,}" for count in (*passages, *asked)), money(expected.cost))
    parts: list[RenderableType] = [table]
    if expected.basis:
        parts.append(note(f"this rests on {expected.basis}"))
    if expected.cost is None:
        parts.append(
            note(f"the price of {expected.model} is not known: a file can give it (language.prices)")
        )
    return Group(*parts)


def money(amount: Decimal | None) -> str:
    """An amount of money with as many digits as a small one needs; unknown is never nothing.

    >>> money(Decimal("1234.5")), money(Decimal("0.000123")), money(Decimal(0)), money(None)
    ('1,234.50', '0.000123', '0', '?')
    """
    if amount is None:
        return "?"
    if not amount:
        return "0"
    return f"{amount:,.2f}" if amount >= 100 else f"{amount:,.6f}"


def _name(row: CostRow, by: str) -> str:
    if by == "question" and row.group:
        return (
            f"{row.corpus} {row.group}: {shortened(row.question)}"
            if row.question
            else f"{row.corpus} {row.group}"
        )
    if by == "passage" and row.group:
        return f"{row.corpus} {row.group}"
    if by == "round" and row.group == "0":
        return "0 (of no round)"
    if by in ("passage", "question"):
        return f"{row.corpus} (of no {'logged ' if by == 'question' else ''}{by})"
    return row.group or "(unknown)"


def _cells(row: CostRow) -> list[str]:
    paid = money(row.cost) + (" + ?" if row.unpriced and row.cost is not None else "")
    calls = _with_parts(row.calls, {"from ledger": row.cached, "failed": row.failed})
    tokens_in = _with_parts(row.tokens_in, {"cached": row.tokens_cached})
    return [calls, tokens_in, f"{row.tokens_out:,}", f"{row.latency_s:,.1f}", paid]


def _with_parts(count: int, parts: Mapping[str, int]) -> str:
    """A count, and on lines of their own those of its parts that are not empty."""
    return "\n".join([f"{count:,}", *(f"{part:,} {name}" for name, part in parts.items() if part)])
