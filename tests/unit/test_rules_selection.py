"""Which candidates the rules select: named passages first, then what covers the rest of the question."""

from __future__ import annotations

from evireform.language.rules import RulesLanguage
from evireform.language.rules.question import content_words, find, related, specific_words, words
from evireform.language.rules.selection import named_passages
from evireform.records import Candidate


def candidates(*rows: tuple[str, str, float]) -> list[Candidate]:
    """Candidates (title, text, similarity) in the order given; one title is one passage."""
    titles = list(dict.fromkeys(title for title, _, _ in rows))
    return [
        Candidate(
            proposition_id=position,
            passage_id=titles.index(title),
            passage_key=f"p{titles.index(title)}",
            ordinal=position,
            title=title,
            text=text,
            similarity=similarity,
        )
        for position, (title, text, similarity) in enumerate(rows)
    ]


def select(question: str, *rows: tuple[str, str, float], limit: int = 12) -> tuple[int, ...]:
    return RulesLanguage().select(question, candidates(*rows), limit=limit).positions


def test_each_passage_that_the_question_names_is_selected():
    chosen = select(
        "Which river is longer, the Glomma or the Otra?",
        ("Rivers", "A list of rivers by length.", 0.9),
        ("Lakes", "A list of lakes by length.", 0.89),
        ("Deltas", "A list of deltas.", 0.88),
        ("Glomma", "Glomma is 600 kilometres long.", 0.7),
        ("Otra", "Otra is 245 kilometres long.", 0.6),
    )
    assert chosen == (3, 4)


def test_two_propositions_of_a_named_passage_are_selected():
    chosen = select(
        "Who designed the Glomma bridge?",
        ("Glomma", "Glomma flows south.", 0.8),
        ("Glomma", "Glomma has a bridge.", 0.79),
        ("Glomma", "Glomma freezes over.", 0.78),
    )
    assert chosen == (0, 1)


def test_a_proposition_that_states_the_relation_is_preferred():
    chosen = select(
        "Who is the director of Metropolis?",
        ("Metropolis", "Metropolis had costly sets.", 0.80),
        ("Metropolis", "Metropolis was shot in Berlin.", 0.79),
        ("Metropolis", "Metropolis was directed by Fritz Lang.", 0.77),
    )
    assert 2 in chosen


def test_a_passage_that_covers_another_name_of_the_question_joins():
    chosen = select(
        "Which prize did the author of Otra win in Bergen?",
        ("Otra", "Otra is a novel about an author.", 0.8),
        ("Novels", "An author may win a prize.", 0.79),
        ("Festival", "The prize is given in Bergen.", 0.78),
    )
    assert 2 in chosen


def test_a_third_passage_that_covers_nothing_new_stays_out():
    chosen = select(
        "Which prize did the author of Otra win?",
        ("Otra", "Otra won its author a prize.", 0.8),
        ("Novels", "An author may win a prize.", 0.79),
        ("Authors", "Every author wants a prize.", 0.78),
    )
    assert chosen == (0, 1)


def test_without_titles_the_most_similar_passages_are_selected():
    rows = [
        Candidate(
            proposition_id=n, passage_id=n // 2, passage_key=f"p{n // 2}", ordinal=n, title="",
            text=text, similarity=0.9 - n / 100,
        )
        for n, text in enumerate(["The mill burned.", "The mill stood.", "A mill ground rye.", "Rye grows."])
    ]  # fmt: skip
    assert RulesLanguage().select("When did the mill burn?", rows, limit=12).positions == (0, 2)


def test_no_more_than_the_limit():
    rows = [(f"Town {n}", f"Town {n} is old.", 0.9 - n / 100) for n in range(4)]
    assert select("Is Town 0, Town 1 or Town 2 older?", *rows, limit=2) == (0, 1)


def test_no_candidates_give_an_empty_selection():
    assert select("Who?") == ()


def test_the_selection_is_the_same_each_time():
    rows = [(f"Town {n}", "An old town by a lake.", 0.5) for n in range(20)]
    assert len({select("Which old town lies by a lake?", *rows) for _ in range(5)}) == 1


def test_a_name_inside_a_longer_name_does_not_count():
    titles = {1: "Wood", 2: "Ed Wood (film)"}
    assert named_passages(words("Who directed Ed Wood?"), titles) == {2: (2, 4)}


def test_of_one_name_the_most_similar_passage_counts():
    titles = {1: "Mercury (planet)", 2: "Mercury (element)"}
    assert named_passages(words("How dense is Mercury?"), titles) == {1: (3, 4)}


def test_a_qualifier_in_the_question_decides_between_passages_of_one_name():
    titles = {1: "Mercury (planet)", 2: "Mercury (element)"}
    assert named_passages(words("How dense is Mercury (element)?"), titles) == {2: (3, 5)}


def test_a_title_that_is_a_function_word_is_not_a_name():
    assert named_passages(words("Is it who we think?"), {1: "It", 2: "Who"}) == {}


def test_t12_a_japanese_title_is_found_in_a_japanese_question():
    assert named_passages(words("東京都の人口は?"), {1: "東京都"}) == {1: (0, 3)}


def test_t11_an_odd_question_selects_something():
    for question in ("", "🙂", "\0", "\ud800", "؟", "x"):
        assert select(question, ("Oslo", "Oslo is big.", 0.3)) == (0,)


def test_words_fold_case_accents_and_possessives():
    assert words("Éva's BROTHERS' house") == ("eva", "brothers", "house")


def test_content_words_leave_function_words_out():
    assert content_words("Who is the mother of the mother of Boris?") == ("mother", "boris")


def test_specific_words_are_names_and_numbers():
    assert specific_words("Which town did Boris leave in 1396?") == {"boris", "1396"}


def test_find_wants_whole_words():
    assert find(words("Ed Wood"), words("Ed Woodward met Ed Wood")) == 3
    assert find(words("Wood"), words("Woodward")) == -1
    assert find((), words("Wood")) == -1


def test_words_of_one_relation_are_related():
    assert related("director", "directed")
    assert related("mother", "daughter")
    assert not related("mother", "bridge")
