"""The tree of one ranking: what was selected, what was asked, and what every score is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text
from rich.tree import Tree

from evireform.cli.render import counted, name_of, remarks, safe, shortened

if TYPE_CHECKING:
    from evireform.records import EarningProposition, RankedPassage, Ranking, Spending, TraceTerm

TERMS = 5
"""Terms and routes shown of a score; the rest stands summed in one. All of them are in the JSON."""

Places = Mapping[int, tuple[str, str]]


def explanation(ranking: Ranking) -> Tree:
    """Question → selected propositions → residual queries with their hits → passages with their terms.

    Residual queries of later rounds say so, here and in the terms; a judged passage says what placed it.
    """
    places = {c.proposition_id: (c.passage_key, c.text) for c in ranking.candidates}
    places |= {seed.proposition_id: (seed.passage_key, seed.text) for seed in ranking.seeds}
    similarity = {c.proposition_id: c.similarity for c in ranking.candidates}
    tree = Tree(safe(ranking.question, "bold"))
    candidates = counted(len(ranking.candidates), "candidate")
    selected = tree.add(f"selected {len(ranking.selected)} of {candidates}")
    for proposition_id in ranking.selected:
        selected.add(_hit(similarity[proposition_id], places[proposition_id]))
    queries = tree.add("residual queries" if ranking.residual_queries else "no residual query")
    for number, query in enumerate(ranking.residual_queries, start=1):
        later = f" (round {query.round_number})" if query.round_number > 1 else ""
        branch = queries.add(Text.assemble((f"{number} ", "magenta"), safe(query.text), later))
        for proposition_id, value in query.hits:
            if proposition_id in places:
                branch.add(_hit(value, places[proposition_id]))
        if not query.valid:
            branch.add(Text("found nothing, and does not count", "yellow"))
    rounds = [1, *(query.round_number for query in ranking.residual_queries)]
    ranked = tree.add(
        f"ranking ({ranking.method})" if ranking.passages else safe(f"no passage: {ranking.reason}", "yellow")
    )
    for passage in ranking.passages:
        _add_passage(ranked, passage, places, rounds)
    if ranking.judged:
        tree.add(Text.assemble("final set: the judge listed ", safe(", ".join(ranking.judged), "cyan")))
    for line in remarks(ranking):
        tree.add(line)
    cost = tree.add(_cost(ranking))
    for spending in ranking.cost.spending:
        cost.add(_spending(spending))
    return tree


def _hit(value: float, place: tuple[str, str]) -> Text:
    key, text = place
    return Text.assemble(f"{value:.4f} ", safe(key, "cyan"), " ", safe(text))


def _add_passage(tree: Tree, passage: RankedPassage, places: Places, rounds: Sequence[int]) -> None:
    branch = tree.add(
        Text.assemble(
            (f"{passage.rank} ", "bold"),
            name_of(passage.passage_key, passage.title),
            (f"  {passage.score:.6f}", "bold green"),
        )
    )
    if passage.blended is not None:
        judge = f"place {passage.judged}" if passage.judged else "no place"
        branch.add(f"placed by {passage.blended:.4f}: its place by score blended with {judge} by the judge")
    score = branch.add(_sum(passage))
    for term in passage.trace[:TERMS]:
        score.add(_term(term, places, rounds))
    rest = passage.trace[TERMS:]
    if rest:
        amount = math.fsum(term.value for term in rest)
        score.add(Text(f"{amount:.6f} in {counted(len(rest), 'more term')}", "dim"))
    earned = branch.add("earned by")
    for proposition in passage.propositions:
        earned.add(_earning(proposition))


def _sum(passage: RankedPassage) -> Text:
    """``score = direct + through each entity``, the entities by what they brought."""
    routes: dict[str, list[float]] = {}
    for term in passage.trace:
        routes.setdefault(term.entity, []).append(term.value)
    amounts = {entity: math.fsum(values) for entity, values in routes.items()}
    direct = amounts.pop("", 0.0)
    line = Text(f"{passage.score:.6f} = {direct:.6f} direct")
    order = sorted(amounts, key=lambda name: (-amounts[name], name))
    for entity in order[:TERMS]:
        line.append(f" + {amounts[entity]:.6f} through ")
        line.append(safe(entity, "magenta"))
    if rest := order[TERMS:]:
        line.append(f" + {math.fsum(amounts[name] for name in rest):.6f} through {len(rest)} more")
    return line


def _term(term: TraceTerm, places: Places, rounds: Sequence[int]) -> Text:
    route = safe(f"through {term.entity}", "magenta") if term.entity else Text("direct")
    source = "the question" if term.query == 0 else f"residual query {term.query}"
    if rounds[term.query] > 1:
        source += f" (round {rounds[term.query]})"
    key, text = places[term.seed_id]
    seed = safe(shortened(text), "dim")
    return Text.assemble(f"{term.value:.6f} ", route, f", from {source} by ", safe(key, "cyan"), " ", seed)


def _earning(proposition: EarningProposition) -> Text:
    span = "" if proposition.span is None else f" [{proposition.span[0]}–{proposition.span[1]}]"
    return Text.assemble(f"{proposition.score:.6f}", (span, "dim"), " ", safe(proposition.text))


def _cost(ranking: Ranking) -> Text:
    cost = ranking.cost
    batch = f", for {cost.questions} questions together" if cost.questions > 1 else ""
    calls = f", {counted(cost.model_calls, 'model call')} ({cost.tokens_in} + {cost.tokens_out} tokens)"
    return Text(
        f"{counted(cost.statements, 'statement')}, {counted(cost.rows, 'row')}, "
        f"{sum(cost.stage_s.values()):.2f} s{batch}{calls if cost.model_calls else ''}",
        "dim",
    )


def _spending(spending: Spending) -> Text:
    place = f"round {spending.round_number}, " if spending.round_number else ""
    calls = counted(spending.calls, "call")
    tokens = f"{spending.tokens_in} + {spending.tokens_out} tokens"
    return safe(f"{place}{spending.purpose}: {calls} ({tokens})", "dim")
