"""Rounds: what a controller reads after each of them, what it asks, and what that brings to a ranking."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from evireform import ingestion
from evireform.records import Control, ModelCall, Ranking, Reformulation, Spending
from evireform.retrieval import pipeline
from evireform.retrieval.replay import replay
from evireform.settings import SearchSettings
from evireform.store.connection import Store
from tests.doubles.scripted_language import ScriptedLanguage
from tests.jobs.indexes import Script, TableEncoder, ingest, passages_of, rows, scores, search

names = (f"rounds-{number}" for number in count())

QUESTION = "which engine"
OTHER = "which rain"

CHAIN: Script = {
    "a": [("the engine", [])],
    "b": [("the loom", [])],
    "c": [("the card", [])],
    "d": [("the punch", [])],
}
ENCODER = TableEncoder(
    {
        "the engine": (1, 0, 0, 0),
        "the loom": (0, 1, 0, 0),
        "the card": (0, 0, 1, 0),
        "the punch": (0, 0, 0, 1),
        QUESTION: (1, 0, 0, 0),
        OTHER: (0.5, 0.5, 0.5, 0.5),
        "whose loom": (0, 1, 0, 0),
        "whose card": (0, 0, 1, 0),
        "whose punch": (0, 0, 0, 1),
        "nowhere": (-0.5, -0.5, -0.5, -0.5),
        "": (-0.5, -0.5, -0.5, -0.5),
    }
)
"""Every query finds one passage, the question the first; without entities nothing is handed on."""

GAPS = {2: ["whose card"], 3: ["whose punch"]}


def missing(*gaps: str, degraded: str = "") -> Control:
    return Control(sufficient=False, queries=gaps, degraded=degraded)


def language(
    *, queries: Sequence[str] = ("whose loom",), control: Any = lambda _q, _o, n: missing(*GAPS[n])
) -> ScriptedLanguage:
    """Asks these residual queries in round 1, and what the controller says from then on."""
    return ScriptedLanguage(
        extract=CHAIN, reformulate=lambda *_: Reformulation(queries=tuple(queries)), control=control
    )


@pytest.fixture
def name(shared_store: Store) -> str:
    """A corpus that holds the chain, without titles."""
    name = next(names)
    ingest(shared_store, name, passages_of(CHAIN), encoder=ENCODER, language=language(), titles="off")
    return name


@pytest.fixture
def ask(shared_store: Store, name: str) -> Any:
    def ask(asked: ScriptedLanguage, **options: Any) -> Ranking:
        options = {"rounds": 3, "k": 10, **options}
        return search(shared_store, name, QUESTION, encoder=ENCODER, language=asked, **options)

    return ask


def queries(ranking: Ranking) -> list[tuple[str, int]]:
    return [(query.text, query.round_number) for query in ranking.residual_queries]


def test_the_evidence_grows_by_the_passages_that_each_round_found(ask: Any) -> None:
    asked = language()
    ranking = ask(asked)
    assert asked.controlled_from == [(QUESTION, ("a", "b")), (QUESTION, ("a", "b", "c"))]
    assert ranking.observed == ("a", "b", "c")


def test_every_residual_query_says_its_round(ask: Any) -> None:
    assert queries(ask(language())) == [("whose loom", 1), ("whose card", 2), ("whose punch", 3)]


def test_the_mean_runs_over_the_queries_of_all_rounds(ask: Any) -> None:
    expected = {"a": 1 / 2, "b": 1 / 6, "c": 1 / 6, "d": 1 / 6}
    assert scores(ask(language(), propagate=False)) == pytest.approx(expected, rel=0, abs=1e-12)


def test_a_query_of_a_later_round_that_finds_nothing_does_not_count_in_the_mean(ask: Any) -> None:
    asked = language(control=lambda _q, _o, n: missing("nowhere", "whose card") if n == 2 else Control())
    expected = {"a": 1 / 2, "b": 1 / 4, "c": 1 / 4}
    assert scores(ask(asked, propagate=False)) == pytest.approx(expected, rel=0, abs=1e-12)


def test_a_found_passage_is_observed_whole_with_the_proposition_that_was_found(ask: Any) -> None:
    seen = []

    def control(_question: str, observed: Any, _number: int) -> Control:
        seen.append(observed[-1])
        return Control()

    ask(language(control=control))
    assert [(passage.text, passage.selected) for passage in seen] == [("the loom", ("the loom",))]


def test_one_round_asks_no_controller(ask: Any) -> None:
    asked = language()
    assert queries(ask(asked, rounds=1)) == [("whose loom", 1)]
    assert asked.controlled_from == []


def test_no_more_rounds_are_taken_than_allowed(ask: Any) -> None:
    assert queries(ask(language(), rounds=2)) == [("whose loom", 1), ("whose card", 2)]


def test_sufficient_evidence_ends_the_rounds(ask: Any) -> None:
    asked = language(control=lambda *_: Control(sufficient=True, queries=("whose card",)))
    ranking = ask(asked)
    assert (len(asked.controlled_from), ranking.degraded) == (1, ())
    assert scores(ranking) == scores(ask(language(), rounds=1))


def test_queries_that_were_asked_before_end_the_rounds_and_that_is_no_fall_back(ask: Any) -> None:
    asked = language(control=lambda *_: missing("WHOSE LOOM ", "", QUESTION.upper()))
    ranking = ask(asked)
    assert (len(asked.controlled_from), queries(ranking)) == (1, [("whose loom", 1)])
    assert ranking.degraded == ()


def test_evidence_that_is_missing_without_a_query_for_it_ends_the_rounds_and_that_is_said(ask: Any) -> None:
    ranking = ask(language(control=lambda *_: missing()))
    assert queries(ranking) == [("whose loom", 1)]
    assert ranking.degraded == ("round 2: evidence is missing, and no query for it was written",)


def test_each_round_counts_its_first_new_queries(ask: Any) -> None:
    asked = language(control=lambda *_: missing("whose loom", "whose card", "whose punch"))
    assert queries(ask(asked, residual_queries=1, rounds=2)) == [("whose loom", 1), ("whose card", 2)]


def test_a_controller_that_failed_ends_the_rounds_and_that_is_said(ask: Any) -> None:
    ranking = ask(language(control=lambda *_: missing(degraded="timed out")))
    assert (queries(ranking), ranking.degraded) == ([("whose loom", 1)], ("round 2: timed out",))


def test_without_a_query_of_the_first_round_the_controller_is_not_asked(ask: Any) -> None:
    asked = language(queries=())
    assert queries(ask(asked)) == []
    assert asked.controlled_from == []


def test_a_variant_without_residual_queries_asks_no_controller(ask: Any) -> None:
    asked = language()
    ask(asked, variant="propagation")
    assert asked.controlled_from == []


def test_repeat_question_makes_as_many_searches_as_all_rounds(ask: Any) -> None:
    ranking = ask(language(), variant="repeat-question")
    assert queries(ranking) == [(QUESTION, 1), (QUESTION, 2), (QUESTION, 3)]


def test_the_rounds_variant_takes_three(ask: Any) -> None:
    assert [number for _, number in queries(ask(language(), rounds=1, variant="rounds"))] == [1, 2, 3]


def test_evidence_that_was_deleted_meanwhile_is_left_out_and_that_is_said(
    shared_store: Store, name: str, ask: Any
) -> None:
    def delete_a(*_: object) -> Reformulation:
        ingestion.delete(shared_store, name, ["a"])
        return Reformulation(queries=("whose loom",))

    asked = ScriptedLanguage(reformulate=delete_a)
    ranking = ask(asked)
    assert asked.controlled_from == [(QUESTION, ("b",))]
    assert "round 2: a passage of the evidence was deleted meanwhile" in ranking.degraded


@pytest.mark.parametrize("at_once", [1, 4])
def test_a_batch_ranks_as_its_questions_one_by_one(shared_store: Store, name: str, at_once: int) -> None:
    def control(question: str, _observed: object, number: int) -> Control:
        return missing(*GAPS[number]) if question == QUESTION else Control()

    asked = language(control=control)
    asked.concurrency = at_once
    options = {"encoder": ENCODER, "language": asked, "settings": SearchSettings(rounds=3, log=False)}
    questions = [OTHER, "", QUESTION, OTHER, QUESTION]
    together = pipeline.search(shared_store, name, questions, **options)
    alone = [pipeline.search(shared_store, name, [question], **options)[0] for question in questions]
    assert [queries(ranking) for ranking in together] == [queries(ranking) for ranking in alone]
    assert [ranking.passages for ranking in together] == [ranking.passages for ranking in alone]
    assert [len(queries(ranking)) for ranking in together] == [1, 0, 3, 1, 3]


def test_a_further_round_takes_three_statements(ask: Any) -> None:
    # One that begins the transaction, the search for its queries, the passages.
    one, three = (ask(language(), rounds=number).cost for number in (1, 3))
    assert three.statements == one.statements + 2 * 3


def test_the_cost_is_told_by_round_and_purpose(ask: Any) -> None:
    def call(purpose: str, number: int) -> ModelCall:
        return ModelCall(
            purpose=purpose, model="m", prompt_version="1", prompt_hash="h",
            tokens_in=10 * number, tokens_out=1, round_number=number,
        )  # fmt: skip

    def control(_question: str, _observed: object, number: int) -> Control:
        calls = (call("control", number),) * number
        return Control(sufficient=False, queries=tuple(GAPS[number]), calls=calls)

    asked = ScriptedLanguage(
        reformulate=lambda *_: Reformulation(queries=("whose loom",), calls=(call("reformulate", 1),)),
        control=control,
    )
    assert ask(asked).cost.spending == (
        Spending(purpose="reformulate", round_number=1, calls=1, tokens_in=10, tokens_out=1),
        Spending(purpose="control", round_number=2, calls=2, tokens_in=40, tokens_out=2),
        Spending(purpose="control", round_number=3, calls=3, tokens_in=90, tokens_out=3),
    )


def test_a_logged_search_in_rounds_replays_to_the_same_ranking(
    shared_store: Store, name: str, ask: Any
) -> None:
    ranking = ask(language(), log=True)
    again = replay(shared_store, name, ranking.log_id)
    assert (again.same, again.passages) == (True, ranking.passages)


def test_the_log_says_the_round_of_every_residual_query(shared_store: Store, ask: Any) -> None:
    ranking = ask(language(), log=True)
    query = """
        SELECT one ->> 'text', (one ->> 'round')::integer
        FROM question_log, jsonb_array_elements(residual_queries) AS one WHERE question_id = %(log_id)s"""
    assert rows(shared_store, query, log_id=ranking.log_id) == queries(ranking)
