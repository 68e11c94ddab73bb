"""Searches by hand: every edge of the method, on vectors that sixteen bits hold exactly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from evireform import ingestion
from evireform.embedding import Encoder
from evireform.errors import CorpusNotFound, UsageError, VectorSpaceMismatch
from evireform.language import Language
from evireform.records import ModelCall, Passage, Ranking, Reformulation, Selection, SpaceRow
from evireform.retrieval import pipeline
from evireform.retrieval.replay import replay
from evireform.settings import LanguageSettings, SearchSettings
from evireform.store import spaces
from evireform.store.calls import Calls
from evireform.store.connection import Store
from evireform.store.corpora import create_corpus, get_corpus
from evireform.store.filtering import UNFILTERED
from evireform.store.statements import statement
from tests.conftest import SCHEMA
from tests.database.roles import new_member
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage
from tests.jobs.indexes import Script, TableEncoder, ingest, keys, passages_of, rows, scores, search

names = (f"searched-{number}" for number in count())

QUESTION = "which engine"
HALF = (0.5, 0.5, 0.5, 0.5)
AWAY = (-0.5, -0.5, -0.5, -0.5)

CHAIN: Script = {
    "a": [("the engine", ["Ada"])],
    "b": [("the loom", ["Ada", "Card"])],
    "c": [("the card", ["Card"]), ("the punch", [])],
    "d": [("the rain", [])],
}
"""Ada joins a and b, Card joins b and c, d stands alone."""

VECTORS = {
    "the engine": (1, 0, 0, 0),
    "the loom": (0, 1, 0, 0),
    "the card": (0, 0, 1, 0),
    "the punch": (0, 0, 0, -1),
    "the rain": AWAY,
    QUESTION: HALF,
    "whose card": (0, 0, 1, 0),
    "no such thing": (0, 0, -0.5, 0.5),
    "away": AWAY,
    "nowhere": (-0.5, -0.5, -0.5, 0.5),
}
"""The question is as near to the engine, the loom and the card (0.5), and away from the rest."""


def language(
    *,
    selected: Sequence[int] = (0,),
    queries: Sequence[str] = (),
    degraded: str = "",
) -> ScriptedLanguage:
    """Selects these positions and asks these residual queries, whatever the question."""
    return ScriptedLanguage(
        extract=CHAIN,
        select=lambda *_: Selection(positions=tuple(selected)),
        reformulate=lambda *_: Reformulation(queries=tuple(queries), degraded=degraded),
    )


@dataclass(frozen=True)
class Corpus:
    """A corpus of the test's own in the database of the module."""

    store: Store
    name: str

    def ingest(self, passages: list[Passage], encoder: Encoder, language: Language) -> None:
        ingest(self.store, self.name, passages, encoder=encoder, language=language, titles="off")

    def delete(self, passage_keys: Sequence[str], *, keep_log: bool = False) -> None:
        ingestion.delete(self.store, self.name, passage_keys, keep_log=keep_log)

    def logged(self, columns: str) -> list[tuple[Any, ...]]:
        """Columns of the searches that were logged of this corpus."""
        query = f"SELECT {columns} FROM question_log JOIN corpus USING (corpus_id) WHERE name = %(name)s"
        return rows(self.store, query, name=self.name)


@pytest.fixture
def corpus(shared_store: Store) -> Corpus:
    """A corpus that is not made yet."""
    return Corpus(shared_store, next(names))


@pytest.fixture
def chain(corpus: Corpus) -> Corpus:
    """A corpus that holds the chain, without titles."""
    corpus.ingest(passages_of(CHAIN), TableEncoder(VECTORS), language())
    return corpus


@pytest.fixture
def ada(corpus: Corpus) -> Corpus:
    """A corpus of one passage, with vectors that know words."""
    corpus.ingest([Passage(key="a", text="Ada ran.")], HashEncoder(), ScriptedLanguage())
    return corpus


def ask(corpus: Corpus, question: str = QUESTION, **options: Any) -> Ranking:
    """Search the chain."""
    defaults = {"encoder": TableEncoder(VECTORS), "language": language()}
    return search(corpus.store, corpus.name, question, **(defaults | options))


def flat(corpus: Corpus, similarities: Mapping[str, float]) -> TableEncoder:
    """Fill a corpus with one-proposition passages without entities, with these similarities to ``q``.

    They go in by halves, since within one batch passages are written in the order of their keys.
    """
    vectors = {f"about {key}": (value, (1 - value * value) ** 0.5) for key, value in similarities.items()}
    encoder = TableEncoder({**vectors, "q": (1, 0), "r": (1, 0)})
    extraction = ScriptedLanguage(extract={key: [(f"about {key}", [])] for key in similarities})
    passages = [Passage(key=key, text=f"about {key}") for key in similarities]
    half = len(passages) // 2
    corpus.ingest(passages[:half], encoder, extraction)
    corpus.ingest(passages[half:], encoder, extraction)
    return encoder


def ask_flat(corpus: Corpus, similarities: Mapping[str, float], **options: Any) -> Ranking:
    """Fill a corpus so, and ask it ``q``."""
    return search(corpus.store, corpus.name, "q", encoder=flat(corpus, similarities), **options)


def select(*positions: int) -> ScriptedLanguage:
    return ScriptedLanguage(select=lambda *_: Selection(positions=positions))


# The method by hand.


def test_the_base_variant_reads_out_the_selected_propositions(chain: Corpus) -> None:
    ranking = ask(chain, variant="base", language=language(selected=(0, 2)))
    assert scores(ranking) == pytest.approx({"a": 0.5, "c": 0.5 / 2**0.5}, rel=0, abs=1e-12)


def test_propagation_hands_half_of_the_signal_to_the_neighbour(chain: Corpus) -> None:
    ranking = ask(chain, variant="propagation")
    assert scores(ranking) == {"a": 0.5, "b": 0.5}


def test_propagation_shares_out_over_two_entities(chain: Corpus) -> None:
    # b's edges to a and to c weigh 1/2 each, so a quarter of its signal goes to either.
    ranking = ask(chain, variant="propagation", language=language(selected=(1,)))
    assert scores(ranking) == pytest.approx({"b": 0.5, "a": 0.25, "c": 0.25 / 2**0.5}, rel=0, abs=1e-12)


def test_the_full_method_mixes_the_residual_signal_in(chain: Corpus) -> None:
    # s: the engine 1/2, the card 1/2; half of each goes to the loom.
    ranking = ask(chain, language=language(queries=("whose card",)), hits_per_query=1)
    assert scores(ranking) == pytest.approx({"b": 0.5, "a": 0.25, "c": 0.25 / 2**0.5}, rel=0, abs=1e-12)


def test_reformulation_alone_does_not_propagate(chain: Corpus) -> None:
    ranking = ask(chain, variant="reformulation", language=language(queries=("whose card",)))
    assert scores(ranking) == pytest.approx({"a": 0.5, "c": 0.5 / 2**0.5}, rel=0, abs=1e-12)


def test_residual_only_leaves_the_question_out(chain: Corpus) -> None:
    ranking = ask(chain, variant="residual-only", language=language(queries=("whose card",)))
    assert scores(ranking) == pytest.approx({"b": 0.5, "c": 0.5 / 2**0.5}, rel=0, abs=1e-12)


def test_repeat_question_makes_as_many_searches_as_the_full_method(chain: Corpus) -> None:
    ranking = ask(chain, variant="repeat-question", language=language(queries=("whose card", "away")))
    assert [query.text for query in ranking.residual_queries] == [QUESTION, QUESTION]
    assert [[u for _, u in query.hits] for query in ranking.residual_queries] == [[0.5, 0.5], [0.5, 0.5]]


def test_repeat_question_makes_no_search_where_the_full_method_makes_none(chain: Corpus) -> None:
    assert ask(chain, variant="repeat-question").residual_queries == ()


def test_masses_of_a_proposition_that_is_found_twice_add(chain: Corpus) -> None:
    ranking = ask(
        chain, variant="reformulation", language=language(selected=(2,), queries=("whose card",)), k=1
    )
    assert [seed.mass for seed in ranking.seeds] == [1.0]


def test_observed_passages_get_no_place_of_their_own(chain: Corpus) -> None:
    ranking = ask(chain, variant="reformulation", language=language(queries=("whose card",)), beta=0.0, k=10)
    assert (ranking.observed, keys(ranking)) == (("a",), ["c"])


# Candidates.


def test_candidates_are_positive_and_equal_ones_stand_by_key_and_ordinal(chain: Corpus) -> None:
    found = [(c.passage_key, c.ordinal, c.similarity) for c in ask(chain).candidates]
    assert found == [("a", 0, 0.5), ("b", 0, 0.5), ("c", 0, 0.5)]


def test_without_a_positive_candidate_the_ranking_is_empty_and_says_why(chain: Corpus) -> None:
    encoder = TableEncoder({**VECTORS, "the rain": HALF, QUESTION: (0, 0, 0, 1)})
    chain.delete(["d"])
    ranking = ask(chain, encoder=encoder)
    assert (ranking.passages, ranking.degraded) == ((), ())
    assert ranking.reason == "no proposition of the corpus has positive similarity to the question"


FORTY = dict.fromkeys([f"p{number:02}" for number in range(39, -1, -1)], 1.0)
"""Passages of one similarity, the last key first."""


def test_ties_that_run_past_the_limit_are_cut_by_passage_key(corpus: Corpus) -> None:
    ranking = ask_flat(corpus, FORTY, candidates=5)
    assert [c.passage_key for c in ranking.candidates] == ["p00", "p01", "p02", "p03", "p04"]


def test_ties_within_a_passage_are_cut_by_ordinal(corpus: Corpus) -> None:
    texts = [f"same {number}" for number in range(30)]
    encoder = TableEncoder({**dict.fromkeys(texts, (1, 0)), "q": (1, 0)})
    extraction = ScriptedLanguage(extract={"p": [(text, []) for text in texts]})
    corpus.ingest([Passage(key="p", text="x")], encoder, extraction)
    ranking = ask(corpus, "q", encoder=encoder, candidates=3)
    assert [c.text for c in ranking.candidates] == ["same 0", "same 1", "same 2"]


def test_ties_of_residual_hits_are_cut_by_passage_key(corpus: Corpus) -> None:
    asking = ScriptedLanguage(select={"q": [39]}, reformulate={"q": ["r"]})
    ranking = ask_flat(corpus, FORTY, language=asking, variant="reformulation")
    assert [seed.passage_key for seed in ranking.seeds] == ["p39", "p00", "p01"]


def test_more_candidates_than_propositions_are_no_fault(chain: Corpus) -> None:
    ranking = ask(chain, candidates=10_000)
    assert (len(ranking.candidates), ranking.notes, ranking.degraded) == (3, (), ())


def test_more_passages_than_there_are_is_no_fault(chain: Corpus) -> None:
    assert keys(ask(chain, k=10_000, variant="propagation")) == ["a", "b"]


# Selection.


@pytest.mark.parametrize("positions", [(), (99,), (-1,), ("x", None, 0.0), (True,), (False,)], ids=str)
def test_without_a_valid_selection_the_best_candidate_stands_alone_and_it_is_said(
    chain: Corpus, positions: tuple[Any, ...]
) -> None:
    ranking = ask(chain, variant="base", language=language(selected=positions))
    assert keys(ranking) == ["a"]
    assert ranking.degraded == ("selection: nothing valid was selected; the best candidate stands alone",)


def test_what_is_invalid_in_a_selection_is_left_out(chain: Corpus) -> None:
    chosen: Any = (2, 99, 2, "x", 1)
    ranking = ask(chain, language=language(selected=chosen))
    text_of = {c.proposition_id: c.text for c in ranking.candidates}
    assert [text_of[i] for i in ranking.selected] == ["the card", "the loom"]
    assert ranking.degraded == ()


def test_only_the_first_twelve_of_a_selection_count(corpus: Corpus) -> None:
    ranking = ask_flat(corpus, FORTY, language=select(*range(19, 0, -1)), k=100)
    assert ranking.observed == tuple(f"p{number:02}" for number in range(19, 7, -1))


def test_a_selector_that_failed_is_reported(chain: Corpus) -> None:
    failing = ScriptedLanguage(select=lambda *_: Selection(degraded="timed out"))
    ranking = ask(chain, variant="base", language=failing)
    assert (keys(ranking), ranking.degraded) == (["a"], ("selection: timed out",))


def test_observed_passages_come_in_the_order_of_selection_each_once(chain: Corpus) -> None:
    asked = language(selected=(2, 0, 1))
    ranking = ask(chain, language=asked)
    observed = [passage.passage_key for passage in asked.reformulated_from[0][1]]
    assert observed == list(ranking.observed) == ["c", "a", "b"]


def test_an_observed_passage_is_whole_and_names_what_was_selected(chain: Corpus) -> None:
    asked = language(selected=(2,))
    ask(chain, language=asked)
    (observed,) = asked.reformulated_from[0][1]
    assert (observed.text, observed.selected) == ("the card the punch", ("the card",))
    assert observed.propositions == (("the card", ("Card",)), ("the punch", ()))


def test_candidates_carry_their_entities_where_the_selector_asks(chain: Corpus) -> None:
    asked = language()
    asked.wants_entities = True
    ask(chain, language=asked)
    assert [c.entities for c in asked.selected_from[0][1]] == [("Ada",), ("Ada", "Card"), ("Card",)]


@pytest.mark.parametrize(("titles", "seen"), [("on", "The title"), ("off", "")])
def test_titles_are_shown_to_the_models_only_where_the_corpus_uses_them(
    corpus: Corpus, titles: Any, seen: str
) -> None:
    asked = ScriptedLanguage()
    passage = Passage(key="a", title="The title", text="Ada ran.")
    ingest(corpus.store, corpus.name, [passage], language=asked, titles=titles)
    search(corpus.store, corpus.name, "Ada ran", language=asked)
    assert asked.selected_from[0][1][0].title == seen
    assert asked.reformulated_from[0][1][0].title == seen


# Residual queries.


def test_a_reformulator_that_failed_leaves_the_question_alone_and_it_is_said(chain: Corpus) -> None:
    ranking = ask(chain, language=language(degraded="refused"))
    assert scores(ranking) == {"a": 0.5, "b": 0.5}
    assert ranking.degraded == ("reformulation: refused",)


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_a_residual_query_without_a_positive_hit_is_not_valid(chain: Corpus, beta: float) -> None:
    chain.delete(["d"])
    ranking = ask(chain, language=language(queries=("nowhere",)), beta=beta)
    assert [(query.text, query.valid) for query in ranking.residual_queries] == [("nowhere", False)]
    assert scores(ranking) == {"a": 0.5, "b": 0.5}


def test_an_invalid_residual_query_does_not_count_in_the_mean(chain: Corpus) -> None:
    chain.delete(["d"])
    one = ask(chain, language=language(queries=("whose card",)))
    two = ask(chain, language=language(queries=("nowhere", "whose card")))
    assert scores(two) == scores(one)


def test_fewer_positive_hits_than_asked_for_are_those_there_are(chain: Corpus) -> None:
    ranking = ask(chain, language=language(queries=("whose card",)), hits_per_query=8)
    assert [u for _, u in ranking.residual_queries[0].hits] == [1.0]


def test_residual_queries_are_trimmed_and_repeats_dropped_before_the_first_three_count(chain: Corpus) -> None:
    asked = (" whose card ", "WHOSE CARD", "", QUESTION.upper(), "away", "nowhere", "no such thing")
    ranking = ask(chain, language=language(queries=asked))
    assert [query.text for query in ranking.residual_queries] == ["whose card", "away", "nowhere"]


def test_without_residual_queries_allowed_the_reformulator_is_not_asked(chain: Corpus) -> None:
    asked = language(queries=("whose card",))
    ranking = ask(chain, language=asked, residual_queries=0)
    assert (asked.reformulated_from, scores(ranking)) == ([], {"a": 0.5, "b": 0.5})


# Rankings.


def test_equal_scores_stand_by_key_in_code_point_order(corpus: Corpus) -> None:
    unordered = ["b", "a", "Z", "ä", "10", "9", "東京", "_"]
    ranking = ask_flat(corpus, dict.fromkeys(unordered, 1.0), language=select(*range(8)), k=8)
    assert keys(ranking) == ["10", "9", "Z", "_", "a", "b", "ä", "東京"]


def test_equal_scores_at_the_cut_stand_by_key(corpus: Corpus) -> None:
    ranking = ask_flat(corpus, dict.fromkeys(["c", "b", "a"], 1.0), language=select(2, 1, 0), k=2)
    assert keys(ranking) == ["a", "b"]


def test_a_ranking_without_score_says_why(chain: Corpus) -> None:
    # The punch names no entity, and with alpha 0 only what is handed on counts.
    encoder = TableEncoder({**VECTORS, QUESTION: (0, 0, 0, -1)})
    chain.delete(["d"])
    ranking = ask(chain, encoder=encoder, variant="propagation", alpha=0.0)
    assert (ranking.passages, ranking.degraded) == ((), ())
    assert ranking.reason == "no passage has a score above zero"


def test_t17_an_earning_proposition_stands_at_its_place_in_the_text(chain: Corpus) -> None:
    ranking = ask(chain, language=language(queries=("whose card",)))
    places = {
        passage.passage_key: [
            passage.text[slice(*proposition.span)] for proposition in passage.propositions if proposition.span
        ]
        for passage in ranking.passages
    }
    assert places == {"a": ["the engine"], "b": ["the loom"], "c": ["the card"]}


def test_t17_the_trace_names_the_query_the_seed_and_the_entity_of_each_term(chain: Corpus) -> None:
    ranking = ask(chain, language=language(queries=("whose card",)))
    text_of = {seed.proposition_id: seed.text for seed in ranking.seeds}
    terms = {(t.query, text_of[t.seed_id], t.entity): t.value for t in ranking.trace["b"]}
    assert terms == pytest.approx({(0, "the engine", "Ada"): 0.25, (1, "the card", "Card"): 0.25})


def test_a_ranked_passage_comes_with_its_title_and_metadata(corpus: Corpus) -> None:
    given = Passage(key="a", title="Ada", text="Ada ran.", metadata={"year": 1843, "tags": ["x"]})
    corpus.ingest([given], HashEncoder(), ScriptedLanguage())
    (ranked,) = search(corpus.store, corpus.name, "Ada ran").passages
    assert (ranked.title, ranked.text, ranked.metadata) == ("Ada", "Ada ran.", {"year": 1843, "tags": ["x"]})


# What others do meanwhile.


def test_a_passage_deleted_between_selection_and_ranking_is_reported_and_never_returned(
    chain: Corpus,
) -> None:
    def delete_a(*_: object) -> Reformulation:
        chain.delete(["a"])
        return Reformulation(queries=("whose card",))

    asked = ScriptedLanguage(select=lambda *_: Selection(positions=(0,)), reformulate=delete_a)
    ranking = ask(chain, language=asked)
    assert keys(ranking) == ["b", "c"]
    assert ranking.degraded == ("seeds: 1 were deleted between selection and ranking",)


def test_a_passage_deleted_before_it_is_observed_is_reported(chain: Corpus) -> None:
    def delete_a(*_: object) -> Selection:
        chain.delete(["a"])
        return Selection(positions=(0, 2))

    asked = ScriptedLanguage(select=delete_a)
    ranking = ask(chain, language=asked, variant="full")
    assert [passage.passage_key for passage in asked.reformulated_from[0][1]] == ["c"]
    assert ranking.degraded == (
        "observation: a selected passage was deleted meanwhile",
        "seeds: 1 were deleted between selection and ranking",
    )


def test_with_every_seed_deleted_the_ranking_is_empty_and_says_why(chain: Corpus) -> None:
    def delete_all(*_: object) -> Reformulation:
        chain.delete(["a", "b", "c", "d"])
        return Reformulation()

    asked = ScriptedLanguage(select=lambda *_: Selection(positions=(0,)), reformulate=delete_all)
    ranking = ask(chain, language=asked)
    assert (ranking.passages, ranking.reason) == ((), "every selected proposition was deleted meanwhile")


# Questions and corpora that cannot be searched.


def ask_ada(ada: Corpus, question: str = "Ada ran", **options: Any) -> Ranking:
    return search(ada.store, ada.name, question, **options)


@pytest.mark.parametrize("question", ["", "  \n "])
def test_an_empty_question_has_an_empty_ranking_with_a_reason(ada: Corpus, question: str) -> None:
    ranking = ask_ada(ada, question)
    assert (ranking.passages, ranking.reason) == ((), "the question is empty")


def test_an_empty_question_does_not_harm_its_neighbours(ada: Corpus) -> None:
    found = pipeline.search(
        ada.store, ada.name, ["", "Ada ran"],
        encoder=HashEncoder(), language=ScriptedLanguage(), settings=SearchSettings(),
    )  # fmt: skip
    assert [keys(ranking) for ranking in found] == [[], ["a"]]


@pytest.mark.parametrize("strange", ["\0", "\ud800"])
def test_a_question_with_characters_that_no_database_holds_is_searched_and_logged(
    ada: Corpus, strange: str
) -> None:
    ranking = ask_ada(ada, f"Ada ran {strange}", log=True)
    assert (keys(ranking), ranking.notes) == (["a"], ())
    assert ada.logged("question") == [("Ada ran \ufffd",)]


@pytest.mark.parametrize("strange", ["\0", "\ud800"])
def test_a_residual_query_with_characters_that_no_database_holds_is_logged(ada: Corpus, strange: str) -> None:
    asked = ScriptedLanguage(reformulate={"Ada ran": [f"Ada {strange}"]})
    assert ask_ada(ada, language=asked, log=True).notes == ()
    assert ada.logged("residual_queries -> 0 ->> 'text'") == [("Ada \ufffd",)]


@pytest.mark.parametrize("strange", ["\0", "\ud800"])
def test_a_reason_with_characters_that_no_database_holds_is_logged(ada: Corpus, strange: str) -> None:
    call = ModelCall(
        purpose="select", model="m", prompt_version="1", prompt_hash="h", error=f"not JSON: {strange}"
    )
    asked = ScriptedLanguage(select=lambda *_: Selection(degraded=call.error, calls=(call,)))
    assert ask_ada(ada, language=asked, log=True).notes == ()
    assert ada.logged("degraded ->> 0") == [("selection: not JSON: \ufffd",)]


def test_no_questions_have_no_rankings(chain: Corpus) -> None:
    found = pipeline.search(
        chain.store, chain.name, [],
        encoder=TableEncoder(VECTORS), language=language(), settings=SearchSettings(),
    )  # fmt: skip
    assert found == []


def test_a_corpus_without_vectors_cannot_be_searched(corpus: Corpus) -> None:
    with corpus.store.transaction() as tx:
        create_corpus(tx, corpus.name, titles="off")
    with pytest.raises(UsageError, match="holds no proposition vectors yet: ingest into it first"):
        ask(corpus)


def test_a_corpus_without_propositions_has_empty_rankings_with_a_reason(corpus: Corpus) -> None:
    corpus.ingest([Passage(key="a", text="x")], TableEncoder(VECTORS), ScriptedLanguage(extract={"a": []}))
    ranking = ask(corpus)
    assert ranking.passages == ()
    assert ranking.reason == "no proposition of the corpus has positive similarity to the question"


def test_a_missing_corpus_is_named_with_its_neighbours(chain: Corpus) -> None:
    with pytest.raises(
        CorpusNotFound, match=rf"no corpus is called '{chain.name}x'; there is .*'{chain.name}'"
    ):
        search(chain.store, f"{chain.name}x", QUESTION)


def test_t09_a_search_with_another_model_is_refused_with_both_names(chain: Corpus) -> None:
    with pytest.raises(VectorSpaceMismatch, match=r"embedded with table \(4-d\).*opened with hash-8 \(8-d\)"):
        ask(chain, encoder=HashEncoder(8))


# Cost.


def test_statements_and_rows_are_counted(chain: Corpus) -> None:
    # Statements: three transactions begin; space; candidates; seeds, neighbourhood, keys, winners.
    # Rows: one for each begin, the space; five propositions; a seed, an entity, two tied keys, two winners.
    cost = ask(chain, variant="propagation", exact=False).cost
    assert (cost.statements, cost.rows) == (9, 15)


def test_a_batch_takes_as_many_statements_as_one_question(chain: Corpus) -> None:
    asked = language(queries=("whose card",))
    options = {"encoder": TableEncoder(VECTORS), "language": asked, "settings": SearchSettings(log=False)}
    one, many = (
        pipeline.search(chain.store, chain.name, [QUESTION] * number, **options)[0].cost for number in (1, 20)
    )
    assert (one.statements, one.questions, many.questions) == (many.statements, 1, 20)


def test_model_calls_are_counted_and_kept_with_the_question(chain: Corpus) -> None:
    def call(purpose: str, tokens: int) -> ModelCall:
        made = ModelCall(
            purpose=purpose, model="m", prompt_version="1", prompt_hash="h", tokens_in=tokens, tokens_out=1
        )
        with chain.store.transaction() as tx:
            corpus = get_corpus(tx, chain.name)
        return Calls(chain.store, LanguageSettings()).record(corpus, made, key="", answer=None)

    asked = ScriptedLanguage(
        select=lambda *_: Selection(positions=(0,), calls=(call("select", 7),)),
        reformulate=lambda *_: Reformulation(calls=(call("reformulate", 11),)),
    )
    ranking = ask(chain, language=asked, log=True)
    assert (ranking.cost.model_calls, ranking.cost.tokens_in, ranking.cost.tokens_out) == (2, 18, 2)
    query = "SELECT purpose, tokens_in FROM model_call WHERE question_id = %(log_id)s ORDER BY call_id"
    assert rows(chain.store, query, log_id=ranking.log_id) == [("select", 7), ("reformulate", 11)]


# Log and replay.


def test_a_search_is_logged_with_its_choices_and_its_ranking(chain: Corpus) -> None:
    ranking = ask(chain, language=language(queries=("whose card",)), log=True)
    (logged,) = chain.logged(
        """
        question_id, question, method, jsonb_array_length(candidates), selected -> 0 ->> 'passage_key',
        residual_queries -> 0 ->> 'text', degraded,
        (SELECT array_agg(one ->> 'passage_key') FROM jsonb_array_elements(ranking) AS one)"""
    )
    assert logged == (ranking.log_id, QUESTION, "full", 3, "a", "whose card", [], keys(ranking))


def test_a_search_that_is_not_to_be_logged_leaves_no_row(chain: Corpus) -> None:
    assert ask(chain, log=False).log_id is None
    assert chain.logged("question_id") == []


def logged(chain: Corpus) -> Ranking:
    return ask(chain, language=language(queries=("whose card",)), log=True, alpha=0.25, k=10)


def test_a_replay_gives_the_ranking_again(chain: Corpus) -> None:
    ranking = logged(chain)
    assert ranking.log_id
    again = replay(chain.store, chain.name, ranking.log_id)
    assert (again.same, again.missing, again.method) == (True, 0, "full")
    assert again.passages == ranking.passages


def test_a_replay_outlives_a_new_ingestion_in_another_order(chain: Corpus) -> None:
    ranking = logged(chain)
    chain.delete(list(CHAIN), keep_log=True)
    for passage in reversed(passages_of(CHAIN)):
        chain.ingest([passage], TableEncoder(VECTORS), language())
    assert ranking.log_id
    again = replay(chain.store, chain.name, ranking.log_id)
    assert (again.same, again.missing) == (True, 0)
    assert [(p.passage_key, p.score) for p in again.passages] == [
        (p.passage_key, pytest.approx(p.score, rel=0, abs=1e-12)) for p in ranking.passages
    ]


def test_a_replay_counts_the_seeds_whose_passage_is_gone(chain: Corpus) -> None:
    ranking = logged(chain)
    chain.delete(["a"], keep_log=True)
    assert ranking.log_id
    again = replay(chain.store, chain.name, ranking.log_id)
    assert (again.same, again.missing) == (False, 1)


def test_a_replay_counts_the_seeds_whose_proposition_changed(chain: Corpus) -> None:
    ranking = logged(chain)
    changed = ScriptedLanguage(extract={"a": [("the rain", ["Ada"])]})
    chain.ingest([Passage(key="a", text="the rain")], TableEncoder(VECTORS), changed)
    assert ranking.log_id
    again = replay(chain.store, chain.name, ranking.log_id)
    assert (again.same, again.missing) == (False, 1)


def test_an_unknown_entry_of_the_log_is_a_usage_error(chain: Corpus) -> None:
    with pytest.raises(UsageError, match=f"corpus '{chain.name}' has no logged question 1000000000"):
        replay(chain.store, chain.name, 10**9)


def test_an_entry_of_another_corpus_is_not_replayed(chain: Corpus) -> None:
    ranking = logged(chain)
    other = next(names)
    ingest(chain.store, other, [])
    assert ranking.log_id
    with pytest.raises(UsageError, match=f"corpus '{other}' has no logged question {ranking.log_id}"):
        replay(chain.store, other, ranking.log_id)


@pytest.fixture
def reader(chain: Corpus) -> Iterator[Corpus]:
    """The chain as a role sees it that may read it and no more."""
    with chain.store.transaction() as tx:
        url = tx.driver.info.dsn
    with new_member(url, access="reader") as as_role:
        as_reader = Store(as_role, schema=SCHEMA)
        with closing(as_reader):
            yield Corpus(as_reader, chain.name)


def test_a_search_that_cannot_be_logged_is_answered_and_says_so(reader: Corpus) -> None:
    ranking = ask(reader, log=True, variant="propagation")
    assert (keys(ranking), ranking.log_id, ranking.degraded) == (["a", "b"], None, ())
    assert ranking.notes == ("not logged: the database role only reads",)


# The index.

MANY = {f"p{number:03}": round(1 - number / 512, 6) for number in range(400)}
"""Passages of falling similarity."""


def build_index(corpus: Corpus, encoder: Encoder) -> SpaceRow:
    with corpus.store.transaction() as tx:
        space = spaces.open_or_create(tx, get_corpus(tx, corpus.name), "proposition", encoder)
    assert spaces.ensure_index(corpus.store, space, threshold=1)
    return space


def plan(store: Store, space: SpaceRow, *, exact: bool = False) -> str:
    """How the server would search for candidates."""
    parameters = {
        "corpus_id": space.corpus_id,
        "space_id": space.space_id,
        "vectors": np.array([1, 0], dtype=np.float32),
        "dimensions": 2,
        "fetch": 10,
        "sample": 10,
        "with_entities": False,
        **UNFILTERED,
    }
    with store.transaction(read_only=True, exact=exact, ef_search=8) as tx:
        text = statement("candidates", dimensions=2, exact=tx.exact)
        return str(tx.driver.execute(f"EXPLAIN {text}".encode(), parameters).fetchall())


def test_a_new_index_is_used_at_once(corpus: Corpus) -> None:
    space = build_index(corpus, flat(corpus, MANY))
    assert "hnsw" in plan(corpus.store, space)


def test_an_exact_search_leaves_the_index_alone(corpus: Corpus) -> None:
    space = build_index(corpus, flat(corpus, MANY))
    assert "hnsw" not in plan(corpus.store, space, exact=True)


def test_ties_are_cut_by_passage_key_with_an_index_too(corpus: Corpus) -> None:
    tied = dict.fromkeys([f"o{number:02}" for number in range(29, -1, -1)], 1.0)
    encoder = flat(corpus, {**MANY, **tied, "p000": 0.5})
    build_index(corpus, encoder)
    ranking = ask(corpus, "q", encoder=encoder, exact=False, ef_search=8, candidates=5)
    assert [c.passage_key for c in ranking.candidates] == ["o00", "o01", "o02", "o03", "o04"]


def test_hundreds_of_equal_vectors_are_cut_by_passage_key_with_an_index_too(corpus: Corpus) -> None:
    encoder = flat(corpus, dict.fromkeys(reversed(MANY), 1.0))
    build_index(corpus, encoder)
    ranking = ask(corpus, "q", encoder=encoder, exact=False, ef_search=8, candidates=5)
    assert [c.passage_key for c in ranking.candidates] == ["p000", "p001", "p002", "p003", "p004"]


def test_deleted_vectors_do_not_starve_a_search(corpus: Corpus) -> None:
    encoder = flat(corpus, MANY)
    build_index(corpus, encoder)
    corpus.delete(list(MANY)[:390])
    ranking = ask(corpus, "q", encoder=encoder, exact=False, ef_search=8, candidates=10)
    assert [c.passage_key for c in ranking.candidates] == list(MANY)[390:]


@pytest.fixture
def hasty(store: Store, database_url: str) -> Iterator[tuple[Corpus, TableEncoder]]:
    """A database whose index scans stop after their first step, as they do at the limits of a large index."""
    filled = Corpus(store, "c")
    encoder = flat(filled, MANY)
    build_index(filled, encoder)
    name = sql.Identifier(str(conninfo_to_dict(database_url)["dbname"]))
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(sql.SQL("ALTER DATABASE {} SET hnsw.max_scan_tuples = 1").format(name))
    with closing(Store(database_url, schema=SCHEMA)) as opened:
        yield Corpus(opened, "c"), encoder


def test_what_the_index_leaves_out_is_found_by_exact_scan_and_that_is_said(
    hasty: tuple[Corpus, TableEncoder],
) -> None:
    # The scan stops at about thirty of the hundred.
    corpus, encoder = hasty
    ranking = ask(corpus, "q", encoder=encoder, exact=False, ef_search=8, candidates=100)
    assert [c.passage_key for c in ranking.candidates] == list(MANY)[:100]
    assert ranking.notes == ("candidates: the index brought too few, so the exact scan was run",)


def test_what_the_index_leaves_out_of_residual_hits_is_found_too(hasty: tuple[Corpus, TableEncoder]) -> None:
    corpus, encoder = hasty
    ranking = ask(
        corpus, "q",
        encoder=encoder, language=ScriptedLanguage(reformulate={"q": ["r"]}),
        exact=False, ef_search=8, candidates=1, hits_per_query=100,
    )  # fmt: skip
    assert len(ranking.residual_queries[0].hits) == 100
    assert ranking.notes == ("residual queries: the index brought too few, so the exact scan was run",)


def test_an_index_that_brings_enough_is_all_that_is_read(hasty: tuple[Corpus, TableEncoder]) -> None:
    corpus, encoder = hasty
    ranking = ask(corpus, "q", encoder=encoder, exact=False, ef_search=200, candidates=20)
    assert [c.passage_key for c in ranking.candidates] == list(MANY)[:20]
    assert ranking.notes == ()
