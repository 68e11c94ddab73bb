"""The tree of one evaluated question: what every method made of it, and where its gold passages were lost."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.text import Text
from rich.tree import Tree

from evireform.cli.render import counted, safe, shortened

if TYPE_CHECKING:
    from evireform.evaluation.records import Trace, TracedPassage
    from evireform.evaluation.shown import MethodShown, QuestionShown

FIRST = 5
"""Passages of a ranking that are drawn where there is no trace; all of them are in the JSON."""

TERMS = 3
"""Terms of a score that are drawn; the rest stands summed in one."""


def question(shown: QuestionShown) -> Tree:
    """Question → method → gold passages and where they ended, the ranking, and the trace of a miss."""
    asked = shown.question
    tree = Tree(Text.assemble((safe(asked.key, "cyan")), "  ", safe(asked.text, "bold")))
    hops = "" if asked.hops is None else counted(asked.hops, "hop")
    if about := ", ".join(part for part in (hops, asked.kind) if part):
        tree.add(safe(about, "dim"))
    if asked.answers:
        tree.add(safe(f"answer: {' | '.join(asked.answers)}"))
    for method in shown.methods:
        _add_method(tree, method)
    return tree


def _add_method(tree: Tree, shown: MethodShown) -> None:
    name = f"{shown.condition}: {shown.method}" if shown.condition else shown.method
    values = "  ".join(
        f"{measure} {100 * shown.measures[measure]:.0f}"
        for measure in ("recall@5", "chain@5", "f1", "em")
        if measure in shown.measures
    )
    branch = tree.add(Text.assemble(safe(name, "bold"), "  ", (values, "green")))
    if shown.answer is not None:
        branch.add(safe(f"answered: {shown.answer or 'nothing'}"))
    for ending in shown.gold:
        mark = ("✗ ", "red") if ending.missed else ("✓ ", "green")
        branch.add(Text.assemble(mark, safe(ending.passage_key, "cyan"), f"  {ending.words}"))
    if shown.reason:
        branch.add(safe(f"no passage: {shown.reason}", "yellow"))
    for reason in shown.degraded:
        branch.add(safe(f"degraded: {reason}", "yellow"))
    gold = {ending.passage_key for ending in shown.gold}
    if shown.trace is not None:
        _add_trace(branch, shown.trace, gold)
    elif shown.passages:
        ranking = branch.add("ranking")
        for rank, (key, score) in enumerate(shown.passages[:FIRST], start=1):
            ranking.add(_ranked(rank, key, score, gold))


def _add_trace(tree: Tree, trace: Trace, gold: set[str]) -> None:
    for number, query in enumerate(trace.queries, start=1):
        branch = tree.add(Text.assemble((f"residual query {number} ", "magenta"), safe(query.text)))
        for key in query.passages:
            branch.add(_key(key, gold))
    ranking = tree.add("ranking")
    for passage in trace.passages:
        branch = ranking.add(_ranked(passage.rank, passage.passage_key, passage.score, gold))
        _add_terms(branch, passage, trace)


def _add_terms(tree: Tree, passage: TracedPassage, trace: Trace) -> None:
    for term in passage.terms[:TERMS]:
        seed = trace.seeds[term.seed]
        route = safe(f"through {term.entity}", "magenta") if term.entity else Text("direct")
        source = "the question" if term.query == 0 else f"residual query {term.query}"
        place = safe(seed.passage_key, "cyan")
        words = safe(shortened(seed.text), "dim")
        tree.add(Text.assemble(f"{term.value:.6f} ", route, f", from {source} by ", place, " ", words))
    if rest := passage.terms[TERMS:]:
        amount = math.fsum(term.value for term in rest)
        tree.add(Text(f"{amount:.6f} in {counted(len(rest), 'more term')}", "dim"))


def _ranked(rank: int, key: str, score: float, gold: set[str]) -> Text:
    return Text.assemble((f"{rank} ", "bold"), _key(key, gold), (f"  {score:.6f}", "bold green"))


def _key(key: str, gold: set[str]) -> Text:
    return Text.assemble(safe(key, "cyan"), (" gold", "bold") if key in gold else "")
