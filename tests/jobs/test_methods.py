"""Every method on a bench of five passages: rankings told by hand, and nothing made or asked twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from evireform import reranking
from evireform.errors import UsageError
from evireform.evaluation.method import by_name, names
from evireform.records import ModelCall, Question, Reading, Reformulation, Selection
from evireform.settings import SearchSettings
from evireform.store.connection import Store
from tests.jobs.indexes import ingest, passages_of
from tests.jobs.sets import QUESTIONS, bench_of, judging, keys, language, rank

corpora = (f"methods-{number}" for number in count())


@pytest.fixture
def name() -> str:
    return next(corpora)


# Names.


def test_names_are_variants_and_the_files_of_baselines() -> None:
    assert {"full", "rounds", "bm25", "cross-encoder", "dense", "dense-proposition", "direct"} <= set(names())


def test_a_name_may_carry_settings() -> None:
    method = by_name("full@alpha=0.25@selected=6", SearchSettings())
    assert (method.settings["alpha"], method.settings["selected"]) == (0.25, 6)


def test_a_name_of_a_baseline_may_carry_settings() -> None:
    assert by_name("bm25@k1=0.9", SearchSettings()).settings["k1"] == 0.9


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("magic", "no method is called 'magic'; there are base, "),
        ("full@temperature=1", "there is no setting 'temperature'"),
        ("full@alpha=much", "alpha cannot be 'much'"),
        ("full@propagate=1", "propagate cannot be '1'"),
        ("full@alpha=2", "alpha must lie between 0 and 1"),
        ("dense@k1=1", "there is no setting 'k1'; there are none"),
        ("bm25@k1=-1", "k1 must be a finite number of at least 0, not -1"),
        ("bm25@k1=inf", "k1 must be a finite number of at least 0, not inf"),
        ("bm25@k1=nan", "k1 must be a finite number of at least 0, not nan"),
        ("bm25@b=1.5", "b must lie between 0 and 1, not 1.5"),
        ("cross-encoder@pool=0", "pool must be at least 1, not 0"),
        ("listwise@pool=0", "pool must be at least 1, not 0"),
        ("reorder@pool=-1", "pool must be at least 1, not -1"),
    ],
)
def test_a_name_that_means_nothing_is_refused(method: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        by_name(method, SearchSettings())


# Rankings.


def test_dense_passages_rank_whole_texts(shared_store: Store, name: str) -> None:
    assert [keys(one)[0] for one in rank(bench_of(shared_store, name), "dense")] == ["a", "c", "d"]


def test_a_passage_is_as_similar_as_its_most_similar_proposition(shared_store: Store, name: str) -> None:
    bench = bench_of(shared_store, name)
    ingest(shared_store, name, passages_of({"f": [("alpha engine noise", []), ("hail", [])]}))
    (found,) = rank(bench, "dense-proposition", QUESTIONS[:1])
    assert keys(found)[:2] == "af"
    scores = dict(found.passages)
    assert scores["a"] == pytest.approx(1.0, abs=1e-3)
    assert scores["f"] == max(
        c.similarity
        for c in bench.observations(QUESTIONS[:1], bench.settings).observations[0].candidates
        if c.passage_key == "f"
    )


def test_dense_propositions_go_on_until_enough_passages_are_found(shared_store: Store, name: str) -> None:
    script = {f"p{number}": [(f"alpha engine {number} {n}", []) for n in range(4)] for number in range(6)}
    ingest(shared_store, name, passages_of(script))
    bench = bench_of(shared_store, name, candidates=2, k=5)
    (found,) = rank(bench, "dense-proposition", QUESTIONS[:1])
    assert len(found.passages) == 5


def test_bm25_ranks_what_shares_words(shared_store: Store, name: str) -> None:
    pytest.importorskip("bm25s", reason="the extra 'evaluation' is not installed")
    bench = bench_of(shared_store, name)
    ingest(shared_store, name, passages_of({"f": [("alpha alpha engine", [])], "g": [("engine", [])]}))
    assert keys(rank(bench, "bm25", QUESTIONS[:1])[0]) == "fag"


def test_bm25_scores_are_those_of_the_formula(shared_store: Store, name: str) -> None:
    pytest.importorskip("bm25s", reason="the extra 'evaluation' is not installed")
    bench = bench_of(shared_store, name)
    (found,) = rank(bench, "bm25@k1=1.2@b=0.5", QUESTIONS[:1])
    # Five passages of two words, of which one has each word: ln(1 + (5 - 1 + 1/2) / (1 + 1/2)).
    weight = 1.3862943611198906
    assert found.passages == (("a", pytest.approx(2 * weight * 1 / (1 + 1.2), rel=1e-5)),)


def test_bm25_ties_stand_by_key(shared_store: Store, name: str) -> None:
    pytest.importorskip("bm25s", reason="the extra 'evaluation' is not installed")
    bench = bench_of(shared_store, name)
    ingest(shared_store, name, passages_of({key: [("zeta hail", [])] for key in ("ä", "B", "z", "A")}))
    assert keys(rank(bench, "bm25", [Question(key="q", text="zeta")])[0]) == "ABzä"


def test_bm25_says_why_it_ranks_nothing(shared_store: Store, name: str) -> None:
    pytest.importorskip("bm25s", reason="the extra 'evaluation' is not installed")
    (found,) = rank(bench_of(shared_store, name), "bm25", [Question(key="q", text="of the")])
    assert (found.passages, found.reason) == ((), "no passage shares a word with the question")


class LastLetter:
    """A cross-encoder by which later letters fit better."""

    model = "last-letter"

    def score(self, _question: str, passages: Sequence[str]) -> Any:
        return [float(ord(text[0])) for text in passages]


def test_a_cross_encoder_orders_the_pool(
    shared_store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reranking, "load", lambda _: LastLetter())
    assert keys(rank(bench_of(shared_store, name), "cross-encoder", QUESTIONS[:1])[0]) == "cedba"


def test_nothing_enters_a_pool(shared_store: Store, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reranking, "load", lambda _: LastLetter())
    bench = bench_of(shared_store, name)
    (dense,) = rank(bench, "dense", QUESTIONS[:1])
    (found,) = rank(bench, "cross-encoder@pool=2", QUESTIONS[:1])
    assert set(keys(found)) == set(keys(dense)[:2])


def test_a_judge_orders_the_pool_and_what_it_leaves_out_follows(shared_store: Store, name: str) -> None:
    asked = language(judge=judging(lambda passages: [len(passages) - 1, 1, 99, 1]))
    bench = bench_of(shared_store, name, asked)
    (dense,), (found,) = rank(bench, "dense", QUESTIONS[:1]), rank(bench, "listwise", QUESTIONS[:1])
    first, second, third, fourth, last = keys(dense)
    assert keys(found) == last + second + first + third + fourth
    assert asked.judged_from[0][1] == ()


def test_the_reordering_judge_has_read_the_first_evidence(shared_store: Store, name: str) -> None:
    asked = language(judge=judging(lambda _: [0]))
    rank(bench_of(shared_store, name, asked), "reorder", QUESTIONS[:1])
    assert [passage.passage_key for passage in asked.judged_from[0][1]] == ["a"]
    assert asked.reformulated_from == []


@pytest.mark.parametrize("method", ["listwise", "reorder"])
def test_a_judge_that_fails_leaves_the_pool_as_it_is_and_says_so(
    shared_store: Store, name: str, method: str
) -> None:
    bench = bench_of(shared_store, name, language(judge=judging(lambda _: [], degraded="timed out")))
    (dense,), (found,) = rank(bench, "dense", QUESTIONS[:1]), rank(bench, method, QUESTIONS[:1])
    assert (keys(found), found.degraded) == (keys(dense), ("timed out",))


def test_direct_inference_answers_and_ranks_nothing(shared_store: Store, name: str) -> None:
    asked = language(read=lambda _question, passages: Reading(text=f"{len(passages)} passages"))
    (found,) = rank(bench_of(shared_store, name, asked), "direct", QUESTIONS[:1])
    assert (found.answer, found.passages) == ("0 passages", ())


@pytest.mark.parametrize("method", ["full", "dense", "dense-proposition", "bm25"])
def test_no_ranking_is_deeper_than_asked(shared_store: Store, name: str, method: str) -> None:
    if method == "bm25":
        pytest.importorskip("bm25s", reason="the extra 'evaluation' is not installed")
    bench = bench_of(shared_store, name, k=1)
    assert all(len(one.passages) == 1 for one in rank(bench, method))


def test_rankings_do_not_depend_on_the_batch(shared_store: Store, name: str) -> None:
    bench = bench_of(shared_store, name)
    for method in ("full", "dense", "dense-proposition"):
        together = [one.passages for one in rank(bench, method)]
        alone = [rank(bench, method, [question])[0].passages for question in QUESTIONS]
        assert together == alone


# What is shared.


def test_repeat_question_searches_as_often_as_the_full_method(shared_store: Store, name: str) -> None:
    asked = language()
    asked._reformulate = lambda *_: Reformulation(queries=("gamma card", "GAMMA card", "", "delta rain"))
    bench = bench_of(shared_store, name, asked)
    (full,), (repeated,) = (rank(bench, m, QUESTIONS[:1]) for m in ("full", "repeat-question"))
    assert full.ranking is not None
    assert repeated.ranking is not None
    assert [q.text for q in full.ranking.residual_queries] == ["gamma card", "delta rain"]
    assert [q.text for q in repeated.ranking.residual_queries] == ["alpha engine", "alpha engine"]


def test_fewer_residual_queries_are_the_first_of_the_same_output(shared_store: Store, name: str) -> None:
    asked = language()
    asked._reformulate = lambda *_: Reformulation(queries=("gamma card", "delta rain", "epsilon snow"))
    bench = bench_of(shared_store, name, asked)
    methods = [by_name(f"full@residual_queries={n}", bench.settings) for n in (1, 2, 3)]
    bench.expect([method.search for method in methods if method.search])
    bench.begin()
    found = [method.rank(bench, QUESTIONS[:1])[0].ranking for method in methods]
    asked_for = [[q.text for q in ranking.residual_queries] for ranking in found if ranking]
    assert asked_for == [["gamma card", "delta rain", "epsilon snow"][:n] for n in (1, 2, 3)]
    assert len(asked.reformulated_from) == 1


def test_what_a_method_asks_does_not_depend_on_its_company(shared_store: Store, name: str) -> None:
    bench = bench_of(shared_store, name)
    many, full = replace(bench.settings, residual_queries=9), bench.settings
    bench.expect([many, full])
    assert bench.observing(full).residual_queries == full.residual_queries
    assert bench.observing(many).residual_queries == 9


def test_another_selection_is_another_observation(shared_store: Store, name: str) -> None:
    bench = bench_of(shared_store, name)
    fewer = replace(bench.settings, selected=3)
    bench.expect([bench.settings, fewer])
    assert bench.observing(fewer) != bench.observing(bench.settings)


def test_one_round_and_three_share_the_first(shared_store: Store, name: str) -> None:
    bench = bench_of(shared_store, name)
    bench.expect([bench.settings, bench.settings.variant("rounds")])
    assert bench.observing(bench.settings) == bench.observing(bench.settings.variant("rounds"))
    assert bench.observing(bench.settings).rounds == 3


def test_rounds_with_other_hits_are_another_observation(shared_store: Store, name: str) -> None:
    bench = bench_of(shared_store, name)
    rounds = bench.settings.variant("rounds")
    more = replace(rounds, hits_per_query=8)
    bench.expect([rounds, more])
    assert bench.observing(more).hits_per_query == 8
    assert bench.observing(rounds).hits_per_query == rounds.hits_per_query


def test_without_a_method_that_asks_nobody_reformulates(shared_store: Store, name: str) -> None:
    asked = language()
    bench = bench_of(shared_store, name, asked)
    rank(bench, "propagation")
    assert asked.reformulated_from == []


def test_a_question_is_embedded_once_for_all_methods(shared_store: Store, name: str) -> None:
    bench = bench_of(shared_store, name)
    rank(bench, "dense")  # makes the vectors of the passages
    encoder = bench.encoder._encoder
    before = list(encoder.encoded)  # type: ignore[attr-defined]
    for method in ("dense", "full", "propagation", "dense-proposition"):
        rank(bench, method, [Question(key="new", text="beta card")])
    assert encoder.encoded[len(before) :] == ["beta card"]  # type: ignore[attr-defined]


# Cost.


def test_a_method_is_counted_the_steps_that_it_takes(shared_store: Store, name: str) -> None:
    def call(purpose: str, tokens: int) -> ModelCall:
        return ModelCall(
            purpose=purpose, model="m", prompt_version="1", prompt_hash="h",
            tokens_in=tokens, tokens_out=1, round_number=1,
        )  # fmt: skip

    asked = language()
    asked._select = lambda *_: Selection(positions=(0,), calls=(call("select", 100),))
    asked._reformulate = lambda *_: Reformulation(queries=("gamma card",), calls=(call("reformulate", 10),))
    bench = bench_of(shared_store, name, asked)
    methods = {m: by_name(m, bench.settings) for m in ("base", "full", "dense")}
    bench.expect([method.search for method in methods.values() if method.search])
    bench.begin()
    costs = {m: method.rank(bench, QUESTIONS[:1])[0].cost for m, method in methods.items()}
    assert {m: (c.model_calls, c.tokens_in, c.tokens_out) for m, c in costs.items()} == {
        "base": (1, 100, 1), "full": (2, 110, 2), "dense": (0, 0, 0),
    }  # fmt: skip


def test_shared_steps_cost_time_for_every_method_that_takes_them(shared_store: Store, name: str) -> None:
    bench = bench_of(shared_store, name)
    bench.begin()
    first, again = (by_name("base", bench.settings).rank(bench, QUESTIONS[:1])[0] for _ in range(2))
    observed = bench.observations(QUESTIONS[:1], bench.settings.variant("base")).stage_s
    assert min(first.cost.seconds, again.cost.seconds) >= observed["embed"] + observed["candidates"]
