"""`read` by a model: labelled passages in, a short answer and the passages it rests on out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

from evireform.language.openai.answers import ReadingAnswer, reading_schema
from evireform.language.openai.asking import Asking, label, reasons
from evireform.language.prompts import load
from evireform.records import ObservedPassage, Reading, with_title
from evireform.wellformed import well_formed

_BEGINNING = re.compile(r'"answer"\s*:\s*"((?:[^"\\]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*)')
_THINKING = re.compile(r"\A\s*<think>.*?(?:</think>|\Z)", re.DOTALL)
_ANSWER_TOKENS = 40


def read(
    asking: Asking,
    question: str,
    passages: Sequence[ObservedPassage],
    *,
    on_text: Callable[[str], None] | None = None,
) -> Reading:
    """A short answer with the positions of the passages that it cites; without passages from knowledge alone.

    A passage that the window has no room for is left out, with all after it; where that is every one, the
    model is not asked. A label that names no passage is dropped. All of it is said.
    """
    prompt = load("read" if passages else "direct")
    sizes = asking.within([with_title(p.title, p.text, "on") for p in passages], prompt, question)
    shown = passages[: sum(whole for _, whole in sizes)]
    cut = len(passages) - len(shown)
    cut_reason = cut and f"{cut} of {len(passages)} passages were left out, the window is full"
    if passages and not shown:
        return Reading(left_out=cut, degraded=reasons(cut_reason))
    position_of = {label(position): position for position in range(len(shown))}
    quoted = [
        {"id": name} | ({"title": passage.title} if passage.title else {}) | {"text": passage.text}
        for name, passage in zip(position_of, shown, strict=True)
    ]
    outcome = asking.ask(
        prompt,
        {"question": question} | ({"passages": quoted} if passages else {}),
        ReadingAnswer,
        reading_schema(list(position_of)),
        answer_tokens=_ANSWER_TOKENS,
        on_text=on_text and (lambda message: on_text(answer_so_far(message))),
    )
    if outcome.answer is None:
        return Reading(left_out=cut, degraded=reasons(outcome.problem, cut_reason), calls=outcome.calls)
    cited = [name.strip() for name in outcome.answer.passages]
    unknown = sum(name not in position_of for name in cited)
    return Reading(
        text=outcome.answer.answer,
        cited=tuple(position_of[name] for name in cited if name in position_of),
        left_out=cut,
        degraded=reasons(
            outcome.forgiven, unknown and f"{unknown} of {len(cited)} labels name no passage", cut_reason
        ),
        calls=outcome.calls,
    )


def answer_so_far(message: str) -> str:
    """The answer in the beginning of a message, as far as it is written; empty before it begins.

    >>> answer_so_far('{"answer": "Lar')
    'Lar'
    >>> answer_so_far('{"answer": "Larvik", "passages": ["A0"')
    'Larvik'
    """
    beginning = _BEGINNING.search(_THINKING.sub("", message))
    return "" if beginning is None else well_formed(json.loads(f'"{beginning[1]}"', strict=False))
