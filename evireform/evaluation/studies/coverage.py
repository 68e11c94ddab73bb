"""Coverage: what the pools of a search hold of the gold before propagation, and what the ranking keeps."""

from __future__ import annotations

from collections.abc import Mapping

from evireform import coverage as maths
from evireform.evaluation.files import read_outcomes
from evireform.evaluation.plan import Findings, Plan, Setup, Summary
from evireform.evaluation.records import Column, Outcome, Plot, Pools, Series, Table
from evireform.records import Question

_INITIAL = "C_0: first 20 passages of the candidates"
_EXPANDED = "C_+: with those that residual queries found"


def methods(_: Setup) -> list[str]:
    return ["full"]


def summarise(findings: Findings) -> Summary:
    judged = {q.key: q for q in findings.setup.questions if q.gold}
    pools = _pools(findings)
    groups: list[tuple[str, list[Question]]] = [("all", list(judged.values()))]
    for hops in sorted({q.hops for q in judged.values() if q.hops is not None}):
        groups.append((f"{hops} hops", [q for q in judged.values() if q.hops == hops]))
    groups = [(label, questions) for label, questions in groups if questions]
    if not groups:
        return Summary(notes=("no question has gold passages, so that nothing is covered",))
    found = [
        (
            label,
            maths.coverage(
                [(pools[q.key].initial, pools[q.key].expanded) for q in questions],
                [q.gold for q in questions],
            ),
            _chain(findings.outcomes["", "full"], questions),
        )
        for label, questions in groups
    ]
    share = Table(
        title="Coverage before propagation",
        columns=(
            Column(name="questions", unit="text"),
            Column(name="n", unit="count"),
            Column(name="gold in C_0", unit="share"),
            Column(name="gold in C_+", unit="share"),
            Column(name="complete in C_0", unit="share"),
            Column(name="complete in C_+", unit="share"),
            Column(name="complete in the first 5", unit="share"),
        ),
        rows=tuple(
            (label, c.questions, c.initial, c.expanded, c.initial_chain, c.expanded_chain, chain)
            for label, c, chain in found
        ),
        note=f"{_INITIAL}; {_EXPANDED}",
    )
    moved = Table(
        title="From C_0 to C_+",
        columns=(
            Column(name="questions", unit="text"),
            Column(name="complete before", unit="count"),
            Column(name="became complete", unit="count"),
            Column(name="gained, still incomplete", unit="count"),
            Column(name="gained nothing", unit="count"),
            Column(name="new gold passages", unit="count"),
        ),
        rows=tuple(
            (label, c.complete, c.completed, c.improved, c.unchanged, c.new_gold) for label, c, _ in found
        ),
        note="the four middle columns make all questions",
    )
    labels = tuple(label for label, _, _ in found)
    plot = Plot(
        title="Questions with every gold passage in hand",
        kind="bars",
        x_label="questions",
        y_label="share of questions",
        series=(
            Series(label="C_0", x=labels, y=tuple(c.initial_chain for _, c, _ in found)),
            Series(label="C_+", x=labels, y=tuple(c.expanded_chain for _, c, _ in found)),
            Series(label="first 5 of the ranking", x=labels, y=tuple(chain for _, _, chain in found)),
        ),
    )
    return Summary(tables=(share, moved), plots=(plot,))


def _pools(findings: Findings) -> dict[str, Pools]:
    directory = findings.setup.directory
    if directory is None:
        raise ValueError("the study of coverage reads the files of its outcomes: a directory is needed")
    return {
        outcome.question: outcome.pools or Pools()
        for outcome in read_outcomes(directory, findings.result("full"))
    }


def _chain(outcomes: Mapping[str, Outcome], questions: list[Question]) -> float:
    return sum(outcomes[q.key].measures["chain@5"] for q in questions) / len(questions)


PLAN = Plan(
    title="What is in hand before the ranking, and what residual queries add",
    methods=methods,
    summarise=summarise,
)
