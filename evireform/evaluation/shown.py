"""One question of a study: what every method made of it, and where its gold passages were lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evireform.errors import UsageError
from evireform.evaluation import funnel
from evireform.evaluation.files import read_outcomes, read_questions, read_study
from evireform.evaluation.records import Trace
from evireform.records import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodShown:
    """What one method made of the question. ``trace`` is there for a miss of a search."""

    method: str
    condition: str
    measures: Mapping[str, float]
    gold: tuple[funnel.Ending, ...]
    passages: tuple[tuple[str, float], ...]
    answer: str | None
    degraded: tuple[str, ...]
    reason: str
    trace: Trace | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionShown:
    """A question of a study, with what every method made of it."""

    question: Question
    methods: tuple[MethodShown, ...]


def show(directory: Path, key: str) -> QuestionShown:
    """One question of the study in a folder. Nothing is searched again.

    Raises:
        InputError: the folder holds no study, or a malformed one.
        UsageError: the study did not ask this question.
    """
    study = read_study(directory)
    question = next((question for question in read_questions(directory) if question.key == key), None)
    if question is None:
        raise UsageError(f"the study in {directory} asked no question with the key {key!r}")
    shown = []
    for result in study.results:
        outcome = next((o for o in read_outcomes(directory, result) if o.question == key), None)
        if outcome is None:
            continue
        shown.append(
            MethodShown(
                method=result.method,
                condition=result.condition,
                measures=outcome.measures,
                gold=funnel.endings(outcome, question.gold),
                passages=outcome.passages,
                answer=outcome.answer,
                degraded=outcome.degraded,
                reason=outcome.reason,
                trace=outcome.trace,
            )
        )
    return QuestionShown(question=question, methods=tuple(shown))
