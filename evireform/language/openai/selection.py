"""`select` by a model: labelled candidates in, positions out."""

from __future__ import annotations

from collections.abc import Sequence

from evireform.language.openai.answers import SelectionAnswer, selection_schema
from evireform.language.openai.asking import Asking, label, reasons
from evireform.language.prompts import load
from evireform.records import Candidate, Selection


def select(asking: Asking, question: str, candidates: Sequence[Candidate], *, limit: int) -> Selection:
    """Positions of the chosen candidates. A label that names none is dropped, and said so."""
    prompt = load("select")
    texts = [candidate.text for candidate in candidates]
    shown = [text for text, whole in asking.within(texts, prompt, question) if whole]
    position_of = {label(position): position for position in range(len(shown))}
    data = {
        "question": question,
        "at_most": limit,
        "candidates": [{"id": name, "text": shown[position]} for name, position in position_of.items()],
    }
    outcome = asking.ask(
        prompt, data, SelectionAnswer, selection_schema(list(position_of), limit), round_number=1
    )
    if outcome.answer is None:
        return Selection(degraded=outcome.problem, calls=outcome.calls)
    chosen = [name.strip() for name in outcome.answer.selected]
    unknown = sum(name not in position_of for name in chosen)
    cut = len(candidates) - len(shown)
    return Selection(
        positions=tuple(position_of[name] for name in chosen if name in position_of),
        degraded=reasons(
            outcome.forgiven,
            unknown and f"{unknown} of {len(chosen)} labels name no candidate",
            cut and f"{cut} of {len(candidates)} candidates were cut, the window is full",
        ),
        calls=outcome.calls,
    )
