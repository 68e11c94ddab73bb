"""`judge` by a model: labelled passages and the evidence in, the positions of a set out."""

from __future__ import annotations

from collections.abc import Sequence

from evireform.language.openai.answers import JudgementAnswer, judgement_schema
from evireform.language.openai.asking import Asking, label, reasons
from evireform.language.prompts import load
from evireform.records import Judgement, ObservedPassage


def judge(
    asking: Asking,
    question: str,
    observed: Sequence[ObservedPassage],
    passages: Sequence[ObservedPassage],
    *,
    limit: int,
) -> Judgement:
    """Positions of the chosen passages. A label that names none is dropped, and said so.

    Evidence that is among the passages is sent as their labels alone. Where the window is full, what
    comes last is cut: the evidence first, then the end of the pool.
    """
    prompt = load("judge")
    label_of = {passage.passage_key: label(position) for position, passage in enumerate(passages)}
    outside = [passage for passage in observed if passage.passage_key not in label_of]
    texts = [passage.text for passage in (*passages, *outside)]
    shown = asking.within(texts, prompt, question)
    data = {
        "question": question,
        "at_most": limit,
        "passages": [
            {"id": label_of[passage.passage_key], **_quoted(passage, text)}
            for passage, (text, _) in zip(passages, shown, strict=False)
        ],
        "evidence": [
            *(label_of[passage.passage_key] for passage in observed if passage.passage_key in label_of),
            *(
                _quoted(passage, text)
                for passage, (text, _) in zip(outside, shown[len(passages) :], strict=False)
            ),
        ],
    }
    position_of = {label(position): position for position in range(min(len(passages), len(shown)))}
    outcome = asking.ask(prompt, data, JudgementAnswer, judgement_schema(list(position_of), limit))
    cut = len(texts) - sum(whole for _, whole in shown)
    cut_reason = cut and f"judging: {cut} of {len(texts)} passages were cut, the window is full"
    if outcome.answer is None:
        return Judgement(
            degraded=reasons(f"judging failed: {outcome.problem}", cut_reason), calls=outcome.calls
        )
    listed = [name.strip() for name in outcome.answer.passages]
    unknown = sum(name not in position_of for name in listed)
    return Judgement(
        positions=tuple(position_of[name] for name in listed if name in position_of),
        degraded=reasons(
            outcome.forgiven and f"judging: {outcome.forgiven}",
            unknown and f"judging: {unknown} of {len(listed)} labels name no passage",
            cut_reason,
        ),
        calls=outcome.calls,
    )


def _quoted(passage: ObservedPassage, text: str) -> dict[str, str]:
    return ({"title": passage.title} if passage.title else {}) | {"text": text}
