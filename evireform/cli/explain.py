"""The tree of one ranking: what was selected, what was asked, and what every score is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text
from rich.tree import Tree

from evireform.cli.render import counted, name_of, remarks, safe, shortened

if TYPE_CHECKING:
    from evireform.records import EarningProposition, RankedPassage, Ranking, TraceTerm

TERMS = 5
"""Terms and routes shown of a score; the rest stands summed in one. All of them are in the JSON."""

Places = Mapping[int, tuple[str, str]]


def explanation(ranking: Ranking) -> Tree:
    """Question → selected propositions → residual queries with their hits → passages with their terms."""
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
        branch = queries.add(Text.assemble((f"{number} ", "magenta"), safe(query.text)))
        for proposition_id, value in query.hits:
            if proposition_id in places:
                branch.add(_hit(value, places[proposition_id]))
        if not query.valid:
            branch.add(Text("found nothing, and does not count", "yellow"))
    ranked = tree.add(
        f"ranking ({ranking.method})" if ranking.passages else safe(f"no passage: {ranking.reason}", "yellow")
    )
    for passage in ranking.passages:
        _add_passage(ranked, passage, places)
    for line in remarks(ranking):
        tree.add(line)
    tree.add(_cost(ranking))
    return tree


def _hit(value: float, place: tuple[str, str]) -> Text:
    key, text = place
    return Text.assemble(f"{value:.4f} ", safe(key, "cyan"), " ", safe(text))


def _add_passage(tree: Tree, passage: RankedPassage, places: Places) -> None:
    branch = tree.add(
        Text.assemble(
            (f"{passage.rank} ", "bold"),
            name_of(passage.passage_key, passage.title),
            (f"  {passage.score:.6f}", "bold green"),
        )
    )
    score = branch.add(_sum(passage))
    for term in passage.trace[:TERMS]:
        score.add(_term(term, places))
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


def _term(term: TraceTerm, places: Places) -> Text:
    route = safe(f"through {term.entity}", "magenta") if term.entity else Text("direct")
    source = "the question" if term.query == 0 else f"residual query {term.query}"
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
