"""A study made up by hand, with every part that a report can have; the figures mean nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from evireform.evaluation.records import (
    Column,
    Condition,
    Difference,
    MethodResult,
    Plot,
    Series,
    Study,
    Table,
)


def result(method: str, recall: float, chain: float, *, condition: str = "") -> MethodResult:
    means = {"recall@1": 0.3, "recall@5": recall, "recall@10": 0.9, "chain@5": chain, "hit@5": 1.0}
    parts = {"2": {**means, "questions": 30.0}, "3": {**means, "recall@5": recall - 0.1, "questions": 10.0}}
    return MethodResult(
        method=method,
        condition=condition,
        settings={"alpha": 0.5},
        models={"embedding": "hash"},
        outcomes=f"outcomes/{method}.jsonl",
        questions=40,
        judged=40,
        means=means,
        by_hops=parts,
        by_kind={},
        degraded=0,
        cost={"model_calls": 0.0, "tokens_in": 0.0, "tokens_out": 0.0, "seconds": 0.0123},
    )


def difference(method: str, against: str, middle: float, low: float, high: float) -> Difference:
    return Difference(
        method=method,
        against=against,
        measure="recall@5",
        difference=middle,
        low=low,
        high=high,
        questions=40,
        better=9,
        worse=4,
        seed=7,
    )


def study(**changes: Any) -> Study:
    sweep = Plot(
        title="Sensitivity to alpha",
        kind="lines",
        x_label="alpha",
        y_label="R@5",
        series=(
            Series(
                label="full",
                x=(0.25, 0.5, 0.75),
                y=(0.81, 0.86, 0.84),
                low=(0.79, 0.84, 0.82),
                high=(0.83, 0.88, 0.87),
            ),
            Series(label="propagation", x=(0.25, 0.5, 0.75), y=(0.78, 0.8, 0.79)),
            Series(label="residual-only", x=(0.25, 0.5, 0.75), y=(0.74, 0.77, 0.76)),
        ),
        mark=0.5,
    )
    growth = replace(
        sweep,
        title="Growth of the corpus",
        x_label="passages",
        series=(
            Series(
                label="full", x=(1200.0, 2400.0, 3600.0, 4800.0, 6000.0), y=(0.9, 0.89, 0.885, 0.88, 0.878)
            ),
            Series(
                label="dense", x=(1200.0, 2400.0, 3600.0, 4800.0, 6000.0), y=(0.8, 0.76, 0.75, 0.73, 0.72)
            ),
        ),
        mark=None,
    )
    coverage = Plot(
        title="Coverage of the pools",
        kind="bars",
        x_label="pool",
        y_label="share",
        series=(
            Series(label="gold passages", x=("C_0", "C_+"), y=(0.72, 0.91)),
            Series(label="complete chains", x=("C_0", "C_+"), y=(0.5, 0.8)),
        ),
    )
    made = Study(
        name="ablation",
        title="What each part brings",
        dataset="toy",
        titles="on",
        questions=41,
        unjudged=1,
        conditions=(
            Condition(label="", corpus="toy-rules", corpus_digest="abc123", passages=60, embedding="hash"),
        ),
        results=(
            result("base", 0.65, 0.3),
            result("propagation", 0.8, 0.5),
            result("reformulation", 0.78, 0.55),
            result("full", 0.86, 0.7),
        ),
        differences=(
            difference("full", "propagation", 0.06, 0.02, 0.1),
            difference("full", "reformulation", 0.08, 0.03, 0.13),
            difference("reformulation", "propagation", -0.02, -0.06, 0.02),
        ),
        tables=(
            Table(
                title="Transitions",
                columns=(Column(name="pool | state", unit="text"), Column(name="questions", unit="count")),
                rows=(("incomplete <to> complete", 12), ("complete", None)),
                note="A note with *stars*.",
            ),
        ),
        plots=(sweep, growth, coverage),
        settings={"alpha": 0.5, "k": 20},
        command="--study ablation --titles on",
        models={"embedding": "hash", "language": "rules/en"},
        versions={"evireform": "0.1.0"},
        seeds={"bootstrap": 202707},
        notes=("Nothing here was measured.",),
    )
    return replace(made, **changes)
