"""The final set: what the judge sees, and how its order and that of the scores make one ranking."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from evireform.records import Judgement, ModelCall, Passage, Ranking, Reformulation, Selection, Spending
from evireform.retrieval import pipeline
from evireform.retrieval.replay import replay
from evireform.settings import SearchSettings
from evireform.store.connection import Store
from tests.doubles.scripted_language import ScriptedLanguage
from tests.jobs.indexes import TableEncoder, ingest, keys, rows, scores, search

names = (f"judged-{number}" for number in count())

SIMILARITY = {f"p{number}": (8 - number) / 8 for number in range(7)}
"""Seven passages of one proposition each, p0 the nearest to both questions."""

ENCODER = TableEncoder(
    {
        **{f"about {key}": (u, math.sqrt(1 - u * u)) for key, u in SIMILARITY.items()},
        "q": (1, 0),
        "q2": (1, 0),
        "": (-1, 0),
    }
)


def language(*listed: Any, degraded: str = "", **verbs: Any) -> ScriptedLanguage:
    """Selects every candidate, and lists these positions of the pool."""
    return ScriptedLanguage(
        select=lambda *_: Selection(positions=tuple(range(7))),
        judge=verbs.pop("judge", lambda *_: Judgement(positions=listed, degraded=degraded)),
        **verbs,
    )


@pytest.fixture
def name(shared_store: Store) -> str:
    name = next(names)
    passages = [Passage(key=key, title=f"Title {key}", text=f"about {key}") for key in SIMILARITY]
    whole = ScriptedLanguage(extract={key: [(f"about {key}", [])] for key in SIMILARITY})
    ingest(shared_store, name, passages, encoder=ENCODER, language=whole, titles="off")
    return name


@pytest.fixture
def ask(shared_store: Store, name: str) -> Any:
    def ask(asked: ScriptedLanguage, **options: Any) -> Ranking:
        options = {"set_weight": 0.5, "set_pool": 4, "k": 7, **options}
        return search(shared_store, name, "q", encoder=ENCODER, language=asked, **options)

    return ask


def decisions(ranking: Ranking) -> list[tuple[str, int | None, float | None]]:
    return [(p.passage_key, p.judged, p.blended) for p in ranking.passages]


def test_both_orders_are_blended_by_percentile_rank(ask: Any) -> None:
    # Score: 1, 3/4, 1/2, 1/4 for p0 to p3. Judge: p3 1, p1 3/4, and 1/4 for the others. Half of each.
    ranking = ask(language(3, 1))
    assert decisions(ranking) == [
        ("p1", 2, 0.75),
        ("p0", None, 0.625),
        ("p3", 1, 0.625),
        ("p2", None, 0.375),
        ("p4", None, None),
        ("p5", None, None),
        ("p6", None, None),
    ]
    assert [passage.rank for passage in ranking.passages] == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("weight", "order"),
    [(0.25, ["p0", "p1", "p2", "p3"]), (0.75, ["p3", "p0", "p1", "p2"]), (1.0, ["p3", "p0", "p1", "p2"])],
)
def test_the_weight_says_how_much_the_judge_counts(ask: Any, weight: float, order: list[str]) -> None:
    assert keys(ask(language(3), set_weight=weight))[:4] == order


def test_a_weight_of_zero_asks_no_judge(ask: Any) -> None:
    asked = language(3, 1)
    ranking = ask(asked, set_weight=0.0)
    assert (asked.judged_from, keys(ranking)) == ([], sorted(SIMILARITY))
    assert decisions(ranking)[0] == ("p0", None, None)


def test_a_ranking_shorter_than_the_pool_is_the_head_of_the_longer(ask: Any) -> None:
    assert decisions(ask(language(3, 1), k=2)) == decisions(ask(language(3, 1)))[:2]
    assert keys(ask(language(3), set_weight=1.0, k=1)) == ["p3"]


@pytest.mark.parametrize("k", [1, 7])
def test_the_judge_sees_the_pool_whatever_the_length_of_the_ranking(ask: Any, k: int) -> None:
    asked = language()
    ask(asked, k=k)
    assert [passage.passage_key for passage in asked.judged_from[0][2]] == ["p0", "p1", "p2", "p3"]


def test_the_judge_reads_texts_with_what_earned_them_and_the_evidence(ask: Any) -> None:
    asked = language()
    ask(asked, selected=3)
    _, evidence, pool = asked.judged_from[0]
    assert [passage.passage_key for passage in evidence] == ["p0", "p1", "p2"]
    assert (pool[0].text, pool[0].title, pool[0].selected) == ("about p0", "", ("about p0",))


def test_titles_are_shown_to_the_judge_where_the_corpus_uses_them(shared_store: Store) -> None:
    name = next(names)
    asked = ScriptedLanguage()
    passages = [Passage(key=key, title=f"Title {key}", text="Ada ran.") for key in ("a", "b")]
    ingest(shared_store, name, passages, language=asked, titles="on")
    search(shared_store, name, "Ada ran", language=asked, set_weight=0.5)
    assert [passage.title for passage in asked.judged_from[0][2]] == ["Title a", "Title b"]


def test_t17_the_terms_of_a_judged_passage_sum_to_its_score(ask: Any) -> None:
    ranking = ask(language(3, 1))
    assert scores(ranking) == scores(ask(language(), set_weight=0.0))
    for passage in ranking.passages:
        assert math.fsum(term.value for term in passage.trace) == pytest.approx(passage.score, abs=1e-12)


def test_the_ranking_says_what_the_judge_listed(ask: Any) -> None:
    ranking = ask(language(3, 1), k=1)
    assert ranking.judged == ("p3", "p1")
    (note,) = ranking.notes
    assert note == (
        "final set: the judge listed 2 of 4 passages; "
        "places go by 0.5 of the score's order and 0.5 of the judge's"
    )


def test_a_judge_that_failed_leaves_the_order_and_that_is_said(ask: Any) -> None:
    ranking = ask(language(degraded="timed out"))
    assert keys(ranking) == sorted(SIMILARITY)
    assert ranking.degraded == ("final set: timed out",)
    assert ranking.notes == ("final set: the order of the scores stays",)


@pytest.mark.parametrize("listed", [(), (4, -1, 99), ("A0", None, True)], ids=str)
def test_without_a_valid_passage_the_order_stays_and_that_is_said(ask: Any, listed: Sequence[Any]) -> None:
    ranking = ask(language(*listed))
    assert keys(ranking) == sorted(SIMILARITY)
    assert ranking.degraded == ("final set: the judge listed no passage of the pool",)


def test_what_is_invalid_in_a_judgement_is_left_out(ask: Any) -> None:
    assert ask(language("x", 3, 99, 3, 1)).judged == ("p3", "p1")


def test_the_first_five_that_a_judge_lists_count(ask: Any) -> None:
    assert ask(language(*range(7)), set_pool=7).judged == ("p0", "p1", "p2", "p3", "p4")


def test_one_passage_is_no_choice(shared_store: Store) -> None:
    name = next(names)
    asked = language(0)
    ingest(shared_store, name, [Passage(key="a", text="Ada ran.")], language=asked)
    ranking = search(shared_store, name, "Ada ran", language=asked, set_weight=0.5)
    assert (asked.judged_from, keys(ranking), ranking.degraded) == ([], ["a"], ())
    assert (ranking.judged, ranking.notes, decisions(ranking)) == ((), (), [("a", None, None)])


def test_an_empty_ranking_asks_no_judge(shared_store: Store, name: str) -> None:
    asked = language(0)
    ranking = search(shared_store, name, "", encoder=ENCODER, language=asked, set_weight=0.5)
    assert (asked.judged_from, ranking.degraded, ranking.reason) == ([], (), "the question is empty")


@pytest.mark.parametrize("variant", ["base", "propagation"])
def test_a_variant_without_residual_queries_is_judged_on_the_selected_evidence(
    ask: Any, variant: str
) -> None:
    asked = language(3)
    ask(asked, variant=variant, selected=2)
    assert [passage.passage_key for passage in asked.judged_from[0][1]] == ["p0", "p1"]
    assert asked.reformulated_from == []


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_batch_is_judged_as_its_questions_one_by_one(shared_store: Store, name: str, at_once: int) -> None:
    def judge(question: str, *_: object) -> Judgement:
        return Judgement(positions=(3,) if question == "q" else (2, 1))

    asked = language(judge=judge)
    asked.concurrency = at_once
    settings = SearchSettings(set_weight=0.5, set_pool=4, log=False)
    options = {"encoder": ENCODER, "language": asked, "settings": settings}
    questions = ["q2", "", "q", "q2"]
    together = pipeline.search(shared_store, name, questions, **options)
    alone = [pipeline.search(shared_store, name, [question], **options)[0] for question in questions]
    assert [decisions(ranking) for ranking in together] == [decisions(ranking) for ranking in alone]
    assert [ranking.judged for ranking in together] == [("p2", "p1"), (), ("p3",), ("p2", "p1")]


@pytest.mark.parametrize("k", [1, 3, 7])
@pytest.mark.parametrize("listed", [(2, 3, 1), (3,)], ids=str)
def test_a_judged_search_replays_to_the_same_ranking(
    shared_store: Store, name: str, ask: Any, listed: tuple[int, ...], k: int
) -> None:
    # Where the ranking is short, what the judge listed lies beyond it.
    ranking = ask(language(*listed), set_weight=0.25, k=k, log=True)
    again = replay(shared_store, name, ranking.log_id)
    assert again.same
    assert again.passages == ranking.passages


def test_the_log_holds_the_judges_decision_on_every_ranked_passage(shared_store: Store, ask: Any) -> None:
    ranking = ask(language(3, 1), k=3, log=True)
    query = """
        SELECT one ->> 'passage_key', (one ->> 'judged')::integer, (one ->> 'blended')::double precision
        FROM question_log, jsonb_array_elements(ranking) AS one WHERE question_id = %(log_id)s"""
    assert rows(shared_store, query, log_id=ranking.log_id) == decisions(ranking)


def test_the_judges_calls_count_in_the_cost(ask: Any) -> None:
    def call(purpose: str, number: int) -> ModelCall:
        return ModelCall(
            purpose=purpose, model="m", prompt_version="1", prompt_hash="h",
            tokens_in=7, tokens_out=1, round_number=number,
        )  # fmt: skip

    asked = language(
        reformulate=lambda *_: Reformulation(calls=(call("reformulate", 1),)),
        judge=lambda *_: Judgement(positions=(3,), calls=(call("judge", 0),)),
    )
    cost = ask(asked).cost
    assert (cost.model_calls, cost.tokens_in, cost.tokens_out) == (2, 14, 2)
    assert cost.spending == (
        Spending(purpose="reformulate", round_number=1, calls=1, tokens_in=7, tokens_out=1),
        Spending(purpose="judge", round_number=0, calls=1, tokens_in=7, tokens_out=1),
    )
    assert "judge" in cost.stage_s
