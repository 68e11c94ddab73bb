"""Costs and estimates as people read them."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from decimal import Decimal

import pytest
from rich.console import Console, RenderableType

from evireform.cli import accounts
from evireform.records import CostReport, CostRow, Estimate


def drawn(renderable: RenderableType, *, width: int = 300) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(renderable)
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def row(group: str = "wiki", **values: object) -> CostRow:
    given = {"calls": 3, "tokens_in": 1_200, "tokens_out": 30, "cost": Decimal("0.5"), **values}
    return CostRow(group=group, **given)  # type: ignore[arg-type]


def report(by: str, *rows: CostRow) -> CostReport:
    return CostReport(by=by, corpus="", since="", rows=rows, total=row("", calls=len(rows) * 3))


def test_an_empty_ledger_is_said_to_be() -> None:
    empty = CostReport(by="corpus", corpus="wiki", since="", rows=(), total=CostRow(group=""))
    assert drawn(accounts.costs(empty)).strip() == "no model call is in the ledger for corpus wiki"


def test_one_group_needs_no_sum() -> None:
    text = drawn(accounts.costs(report("corpus", row())))
    assert "1,200" in text
    assert " all " not in text


@pytest.mark.parametrize(
    ("by", "given", "shown"),
    [
        ("corpus", row("wiki"), "wiki"),
        ("corpus", row(""), r"\(unknown\)"),
        ("passage", row("oslo", corpus="wiki"), "wiki oslo"),
        ("passage", row("", corpus="wiki"), r"wiki \(of no passage\)"),
        ("question", row("7", corpus="wiki", question="Which capital?"), r"wiki 7: Which capital\?"),
        ("question", row("7", corpus="wiki"), "wiki 7"),
        ("question", row("", corpus="wiki"), r"wiki \(of no logged question\)"),
        ("day", row("2026-11-30"), "2026-11-30"),
        ("round", row("0"), r"0 \(of no round\)"),
    ],
)
def test_a_group_is_named(by: str, given: CostRow, shown: str) -> None:
    assert re.search(rf"^{shown}  +3  +1,200 ", drawn(accounts.costs(report(by, given))), re.MULTILINE)


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("by", ["purpose", "question", "passage", "round", "day"])
def test_names_and_figures_are_whole_however_narrow_the_terminal_is(by: str, columns: int) -> None:
    given = row(
        "extraction" if by == "purpose" else "2026-11-30",
        corpus="wikipedia",
        question="Where was the designer of the polar ship Fram born?",
        calls=3_000,
        cached=1_234,
        failed=12,
        tokens_in=12_345_678,
        tokens_cached=123_456,
        tokens_out=234_567,
        cost=Decimal("12.345678"),
    )
    text = drawn(accounts.costs(report(by, given)), width=columns)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= columns
    figures = (
        "3,000",
        "1,234 from ledger",
        "12 failed",
        "12,345,678",
        "123,456 cached",
        "234,567",
        "12.345678",
    )
    assert [figure for figure in figures if figure not in text] == []
    heads = (by, "calls", "tokens in", "tokens out", "seconds", "cost")
    assert [head for head in heads if head not in text.splitlines()[0]] == []
    assert re.search(r"^(extraction|2026-11-30|wikipedia) ", text, re.MULTILINE)


def test_what_is_known_of_a_cost_stands_beside_what_is_not() -> None:
    text = drawn(accounts.costs(report("corpus", row(unpriced=1))))
    assert re.search(r" 0\.500000 \+ \?$", text, re.MULTILINE)


def test_a_group_whose_cost_is_unknown_shows_no_amount() -> None:
    text = drawn(accounts.costs(report("corpus", row(unpriced=3, cost=None))))
    assert re.search(r" \?$", text, re.MULTILINE)


def test_a_name_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in drawn(accounts.costs(report("passage", row("\x1b[31m", corpus="wiki"))))


def test_many_groups_are_cut_and_said_to_be() -> None:
    text = drawn(accounts.costs(report("passage", *(row(f"p{n}", corpus="wiki") for n in range(60)))))
    assert "wiki p49" in text
    assert "wiki p50" not in text
    assert "and 10 more (all with --json)" in text


ESTIMATE = Estimate(
    model="m-1",
    passages=12,
    answered=3,
    given=4,
    unchanged=5,
    rejected=6,
    calls=10,
    tokens_in=12_345,
    tokens_out=678,
    cost=Decimal("0.25"),
    basis="what was seen",
)


def test_an_estimate_is_drawn_with_what_it_rests_on() -> None:
    text = drawn(accounts.estimate(ESTIMATE, "wiki"))
    assert "corpus wiki: what an ingestion would ask of m-1" in text
    assert re.search(r"12 │ +3 │ +4 │ +5 │ +6 │ +10 │ +12,345 │ +678 │ +0\.250000", text)
    assert "this rests on what was seen" in text


def test_an_estimate_without_a_price_says_so() -> None:
    text = drawn(accounts.estimate(replace(ESTIMATE, cost=None), "wiki"))
    assert re.search(r"678 │ +\? │", text)
    assert "the price of m-1 is not known" in text
