"""A real model's output goes through ingestion, search and answering; what came of it is reported."""

from __future__ import annotations

from tests.llm.trial import Trial


def test_every_passage_is_in_or_has_failed_with_a_reason(tried: Trial) -> None:
    status = tried.status
    assert status.ready + status.empty + status.failed == 20
    assert len([row for row in status.failures if row.reason]) == status.failed


def test_nearly_every_passage_has_propositions_and_entities(tried: Trial) -> None:
    assert tried.status.ready >= 18
    assert tried.status.propositions >= 60
    assert tried.status.incidence >= tried.status.propositions


def test_every_question_has_a_ranking_and_an_answer_or_a_reason(tried: Trial) -> None:
    assert [asked.question.key for asked in tried.asked if not asked.ranked] == []
    assert [a.question.key for a in tried.asked if a.answer.unknown and not a.answer.reason] == []


def test_every_purpose_was_paid_and_counted_once_at_least(tried: Trial) -> None:
    counted = {row.group for row in tried.costs if row.tokens_in and row.tokens_out}
    assert counted >= {"extract", "select", "reformulate", "read", "control", "judge"}
