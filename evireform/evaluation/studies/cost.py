"""Cost: what an index takes to make, and what a question takes under each method."""

from __future__ import annotations

from evireform.evaluation.plan import Findings, Plan, Setup, Summary, each_against
from evireform.evaluation.records import Column, Plot, Series, Table, Unit, Value
from evireform.store import calls, status

_BARS: tuple[tuple[str, str, str, Unit], ...] = (
    ("Time of a question", "seconds", "seconds", "seconds"),
    ("Tokens of a question", "tokens in", "tokens_in", "mean"),
)
"""Title, label, field of the cost and unit of each plot."""


def methods(setup: Setup) -> list[str]:
    """The methods that differ in the steps they take; those that need a language model where one is set."""
    asking = ["reorder", "listwise"] if setup.has_model else []
    return ["full", "base", "propagation", "rounds", "dense", "bm25", "cross-encoder", *asking]


def summarise(findings: Findings) -> Summary:
    setup = findings.setup
    with setup.store.transaction(read_only=True) as tx:
        held = status.corpus_status(tx, setup.corpus_name)
        spent = calls.costs(tx, corpus=setup.corpus_name, by="purpose")
    extracted = [row for row in spent.rows if row.group == "extract"]
    made = findings.ingestion
    rows: list[tuple[Value, ...]] = [
        ("passages", held.ready + held.empty + held.failed),
        ("propositions", held.propositions),
        ("entities", held.entities),
        ("incidences of proposition and entity", held.incidence),
        ("model calls", sum(row.calls for row in extracted)),
        ("tokens in", sum(row.tokens_in for row in extracted)),
        ("tokens out", sum(row.tokens_out for row in extracted)),
    ]
    construction = Table(
        title="Construction of the index",
        columns=(Column(name="of", unit="text"), Column(name="amount", unit="count")),
        rows=tuple(rows),
        note=(
            f"{made.added + made.changed} passages were indexed by this run in {made.seconds:.0f} s"
            if made.added + made.changed
            else "the index was there before; the ledger holds the calls that made it"
        ),
    )
    names = [result.method for result in findings.results]
    plots = tuple(
        Plot(
            title=title,
            kind="bars",
            x_label="method",
            y_label=label,
            unit=unit,
            series=(Series(label=label, x=tuple(names), y=tuple(r.cost[field] for r in findings.results)),),
        )
        for title, label, field, unit in _BARS
        if any(result.cost[field] for result in findings.results)
    )
    return Summary(
        tables=(construction,),
        plots=plots,
        notes=(
            "seconds are those of a batch shared by its questions; what methods share is counted for each",
        ),
    )


PLAN = Plan(
    title="What the index and a question cost",
    methods=methods,
    pairs=each_against("full"),
    summarise=summarise,
)
