"""Residual queries of the rules: a bridge entity, and the question asked of it."""

from __future__ import annotations

from evireform.language.rules import RulesLanguage
from evireform.language.rules.reformulation import asked_of
from evireform.records import ObservedPassage


def observed(title: str, *propositions: tuple[str, tuple[str, ...]], selected: int = 1) -> ObservedPassage:
    """A passage of these propositions with their entities; the first ones are selected."""
    texts = tuple(text for text, _ in propositions)
    return ObservedPassage(
        passage_key=title,
        title=title,
        text=" ".join(texts),
        selected=texts[:selected],
        propositions=propositions,
    )


METROPOLIS = observed(
    "Metropolis",
    (
        "Metropolis stars Brigitte Helm and was directed by Fritz Lang.",
        ("Brigitte Helm", "Fritz Lang", "Metropolis"),
    ),
    ("Metropolis was shot near Berlin.", ("Berlin", "Metropolis")),
)


def queries(question: str, *passages: ObservedPassage, limit: int = 3) -> tuple[str, ...]:
    return RulesLanguage().reformulate(question, passages, limit=limit).queries


def test_the_entity_next_to_the_asked_relation_comes_first():
    found = queries("Where was the director of Metropolis born?", METROPOLIS)
    assert found[0].startswith("Fritz Lang: ")


def test_the_entity_takes_the_place_of_the_topic():
    found = queries("Where was the director of Metropolis born?", METROPOLIS)
    assert found[0] == "Fritz Lang: Where was the director of Fritz Lang born?"


def test_another_relation_picks_another_entity():
    found = queries("Where was the star of Metropolis born?", METROPOLIS)
    assert found[0].startswith("Brigitte Helm: ")


def test_only_selected_propositions_give_entities():
    assert not any("Berlin" in query for query in queries("Who made Metropolis?", METROPOLIS))


def test_entities_that_the_question_names_are_no_bridge():
    found = queries("Did Fritz Lang direct Metropolis?", METROPOLIS)
    assert [query.split(":")[0] for query in found] == ["Brigitte Helm"]


def test_an_entity_of_two_observed_passages_is_preferred():
    first = observed("A", ("Anna Moe met Karl Lie.", ("Anna Moe", "Karl Lie")))
    second = observed("B", ("There Karl Lie built boats.", ("Karl Lie",)))
    assert queries("Which boats?", first, second)[0].startswith("Karl Lie: ")


def test_an_entity_of_a_named_passage_is_preferred():
    other = observed("Nosferatu", ("Nosferatu was shot by Fritz Wagner.", ("Fritz Wagner", "Nosferatu")))
    assert queries("Who made Metropolis?", other, METROPOLIS)[-1].startswith("Fritz Wagner: ")


def test_each_entity_is_asked_once():
    twice = observed(
        "Otra",
        ("Otra was written by Karl Lie.", ("Karl Lie",)),
        ("Otra made KARL LIE rich.", ("KARL LIE",)),
        selected=2,
    )
    assert len(queries("Who is the father of the author of Otra?", twice)) == 1


def test_no_more_than_the_limit():
    assert len(queries("Where was the film shot?", METROPOLIS, limit=1)) == 1
    assert queries("Where was the film shot?", METROPOLIS, limit=0) == ()


def test_no_observed_passages_give_no_queries():
    assert queries("Where?") == ()


def test_without_a_title_the_question_stays_whole():
    untitled = observed("", ("The mill was built by Karl Lie.", ("Karl Lie",)))
    assert queries("Who was the builder of the mill?", untitled) == (
        "Karl Lie: Who was the builder of the mill?",
    )


def test_the_queries_are_the_same_each_time():
    assert len({queries("Where was the film shot?", METROPOLIS) for _ in range(5)}) == 1


def test_the_topic_is_found_in_any_case_and_punctuation():
    assert asked_of("Who is MARY STUART, queen of Scots's mother?", "Mary Stuart, Queen of Scots", "X") == (
        "Who is X's mother?"
    )


def test_a_qualifier_goes_with_the_topic():
    assert asked_of("Who made Oslo (1990 film)?", "Oslo", "Anna") == "Who made Anna?"


def test_an_entity_with_signs_of_regular_expressions_is_taken_literally():
    assert asked_of("Who uses C++ in Oslo?", "Oslo", r"A\1 (B)") == r"Who uses C++ in A\1 (B)?"


def test_t11_odd_text_does_not_stop_it():
    odd = observed("🙂", ("مرحبا \0 東京 \ud800", ("東京", "🙂", "مرحبا")))
    assert all(": " in query for query in queries("🙂?", odd))
