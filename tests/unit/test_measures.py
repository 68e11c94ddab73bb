"""`evireform.measures`: by hand, by property, and against ir-measures."""

from __future__ import annotations

import ir_measures
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evireform.measures import chain_at, grouped_means, hit_at, means, measure, recall_at

RANKING = ["a", "x", "b", "y", "c"]
GOLD = {"a", "b", "c"}


@pytest.mark.parametrize(("k", "expected"), [(1, 1 / 3), (2, 1 / 3), (3, 2 / 3), (5, 1.0), (20, 1.0)])
def test_recall_is_the_share_of_gold_found(k: int, expected: float) -> None:
    assert recall_at(RANKING, GOLD, k) == expected


@pytest.mark.parametrize(("k", "expected"), [(1, 0.0), (4, 0.0), (5, 1.0)])
def test_chain_needs_every_gold_passage(k: int, expected: float) -> None:
    assert chain_at(RANKING, GOLD, k) == expected


@pytest.mark.parametrize(("k", "expected"), [(1, 0.0), (2, 0.0), (3, 1.0)])
def test_hit_needs_one_gold_passage(k: int, expected: float) -> None:
    assert hit_at(RANKING, {"b", "z"}, k) == expected


@pytest.mark.parametrize("function", [recall_at, chain_at, hit_at])
def test_an_empty_ranking_counts_zero(function) -> None:  # type: ignore[no-untyped-def]
    assert function([], {"a"}, 5) == 0.0


@pytest.mark.parametrize("function", [recall_at, chain_at, hit_at])
def test_a_question_without_gold_has_no_value(function) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="gold must hold at least one passage"):
        function(["a"], set(), 5)


def test_a_depth_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="k must be at least 1, not 0"):
        recall_at(["a"], {"a"}, 0)


def test_a_ranking_that_names_a_passage_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        recall_at(["a", "a"], {"a"}, 5)


def test_gold_named_twice_counts_once() -> None:
    assert recall_at(["a"], ["a", "a", "b"], 5) == 0.5


def test_means_count_a_judged_question_without_a_ranking_as_zero() -> None:
    measured = measure(
        {"q1": ["a"], "q2": []}, {"q1": {"a"}, "q2": {"b"}, "q3": {"c"}, "q4": {"d"}}, cutoffs=[5]
    )
    assert measured.means == {"recall@5": 0.25, "chain@5": 0.25, "hit@5": 0.25}


def test_questions_without_gold_are_left_out_and_counted() -> None:
    measured = measure({"q1": ["a"], "q2": ["a"]}, {"q1": ["a"], "q2": []}, cutoffs=[1])
    assert (measured.questions, measured.unjudged, measured.means["hit@1"]) == (("q1",), 1, 1.0)


def test_values_stand_in_the_order_of_the_questions() -> None:
    measured = measure({"q2": ["b"], "q1": ["x"]}, {"q1": ["a"], "q2": ["b"]}, cutoffs=[1])
    assert measured.values["recall@1"].tolist() == [0.0, 1.0]


def test_the_default_cutoffs_are_those_of_the_method() -> None:
    names = measure({}, {"q": ["a"]}).means
    assert list(names) == [f"{name}@{k}" for name in ("recall", "chain", "hit") for k in (1, 5, 10, 20)]


def test_without_a_judged_question_there_is_no_mean() -> None:
    with pytest.raises(ValueError, match="at least one question"):
        measure({}, {"q": []})


def test_a_ranking_of_an_unknown_question_is_refused() -> None:
    with pytest.raises(ValueError, match="'q2'"):
        measure({"q2": ["a"]}, {"q1": ["a"]})


passages = st.sampled_from([f"p{number}" for number in range(12)])
rankings = st.lists(passages, unique=True, max_size=12)
golds = st.lists(passages, unique=True, min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(rankings, golds), min_size=1, max_size=5), st.sampled_from([1, 2, 5, 10]))
def test_ir_measures_agrees(questions: list[tuple[list[str], list[str]]], k: int) -> None:
    run = [
        ir_measures.ScoredDoc(f"q{number}", passage, -float(rank))
        for number, (ranking, _) in enumerate(questions)
        for rank, passage in enumerate(ranking)
    ]
    qrels = [
        ir_measures.Qrel(f"q{number}", passage, 1)
        for number, (_, gold) in enumerate(questions)
        for passage in gold
    ]
    # A run without a single line is no run for ir-measures: an unjudged question makes it one.
    run.append(ir_measures.ScoredDoc("other", "p0", 1.0))
    theirs = ir_measures.calc_aggregate([ir_measures.R @ k, ir_measures.Success @ k], qrels, run)
    ours = measure(
        {f"q{number}": ranking for number, (ranking, _) in enumerate(questions)},
        {f"q{number}": gold for number, (_, gold) in enumerate(questions)},
        cutoffs=[k],
    ).means
    assert ours[f"recall@{k}"] == pytest.approx(theirs[ir_measures.R @ k], abs=1e-12)
    assert ours[f"hit@{k}"] == pytest.approx(theirs[ir_measures.Success @ k], abs=1e-12)


@given(rankings, golds, st.integers(1, 12))
def test_chain_is_at_most_recall_and_recall_at_most_hit(ranking: list[str], gold: list[str], k: int) -> None:
    assert chain_at(ranking, gold, k) <= recall_at(ranking, gold, k) <= hit_at(ranking, gold, k)


def test_means_leave_out_the_questions_that_lack_a_measure() -> None:
    values = [{"recall@5": 1.0, "f1": 0.5}, {"recall@5": 0.0}, {}]
    assert means(values) == {"recall@5": 0.5, "f1": 0.5}


def test_means_by_group_say_how_many_questions_they_rest_on() -> None:
    hit, miss = {"hit@1": 1.0}, {"hit@1": 0.0}
    values = {"q1": hit, "q2": miss, "q3": hit, "q4": {}, "q5": hit}
    assert grouped_means(values, {"q1": "3", "q2": "2", "q3": "2", "q4": "2"}) == {
        "2": {"questions": 2, "hit@1": 0.5},
        "3": {"questions": 1, "hit@1": 1.0},
    }
