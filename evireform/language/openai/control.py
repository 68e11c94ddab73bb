"""`control` by a model: all evidence so far in, whether it suffices or a query for each gap out."""

from __future__ import annotations

from collections.abc import Sequence

from evireform.language.openai.answers import ControlAnswer, control_schema
from evireform.language.openai.asking import Asking, reasons
from evireform.language.prompts import load
from evireform.records import Control, ObservedPassage


def control(
    asking: Asking, question: str, observed: Sequence[ObservedPassage], *, limit: int, round_number: int
) -> Control:
    """The controller's word. Evidence that the window has no room for is cut, and said so.

    An answer that calls the evidence sufficient and names gaps too counts as sufficient.
    """
    prompt = load("control")
    shown = asking.within([passage.text for passage in observed], prompt, question)
    evidence = [
        ({"title": passage.title} if passage.title else {}) | {"text": text}
        for passage, (text, _) in zip(observed, shown, strict=False)
    ]
    data = {"question": question, "at_most": limit, "evidence": evidence}
    outcome = asking.ask(prompt, data, ControlAnswer, control_schema(limit), round_number=round_number)
    cut = len(observed) - sum(whole for _, whole in shown)
    cut_reason = cut and f"control: {cut} of {len(observed)} observed passages were cut, the window is full"
    answer = outcome.answer
    if answer is None:
        return Control(
            sufficient=False,
            degraded=reasons(f"control failed: {outcome.problem}", cut_reason),
            calls=outcome.calls,
        )
    both = answer.sufficient and bool(answer.gaps)
    return Control(
        sufficient=answer.sufficient,
        queries=() if answer.sufficient else tuple(gap.query for gap in answer.gaps),
        degraded=reasons(
            outcome.forgiven and f"control: {outcome.forgiven}",
            both and f"control: the evidence suffices, yet {len(answer.gaps)} gaps were named",
            cut_reason,
        ),
        calls=outcome.calls,
    )
