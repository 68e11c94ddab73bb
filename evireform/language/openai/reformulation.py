"""`reformulate` by a model: observed passages in, residual queries out."""

from __future__ import annotations

from collections.abc import Sequence

from evireform.language.openai.answers import ReformulationAnswer, reformulation_schema
from evireform.language.openai.asking import Asking, reasons
from evireform.language.prompts import load
from evireform.records import ObservedPassage, Reformulation


def reformulate(
    asking: Asking, question: str, observed: Sequence[ObservedPassage], *, limit: int
) -> Reformulation:
    """Queries for what is missing. Evidence that the window has no room for is cut, and said so."""
    prompt = load("reformulate")
    shown = asking.within([passage.text for passage in observed], prompt, question)
    evidence = [
        ({"title": passage.title} if passage.title else {}) | {"text": text}
        for passage, (text, _) in zip(observed, shown, strict=False)
    ]
    data = {"question": question, "at_most": limit, "evidence": evidence}
    outcome = asking.ask(prompt, data, ReformulationAnswer, reformulation_schema(limit), round_number=1)
    cut = len(observed) - sum(whole for _, whole in shown)
    cut_reason = cut and f"{cut} of {len(observed)} observed passages were cut, the window is full"
    if outcome.answer is None:
        return Reformulation(degraded=reasons(outcome.problem, cut_reason), calls=outcome.calls)
    return Reformulation(
        queries=tuple(outcome.answer.queries),
        degraded=reasons(outcome.forgiven, cut_reason),
        calls=outcome.calls,
    )
