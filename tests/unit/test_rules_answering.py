"""`read` by rules, on propositions written out here."""

from __future__ import annotations

import pytest

from evireform.language.rules import RulesLanguage
from evireform.language.rules.answering import kinds_asked
from evireform.records import ObservedPassage, Reading


def passage(title: str, *propositions: tuple[str, tuple[str, ...]]) -> ObservedPassage:
    return ObservedPassage(
        passage_key=title,
        title=title,
        text=" ".join(text for text, _ in propositions),
        propositions=propositions,
    )


FRAM = passage(
    "Fram (ship)",
    ("Fram was launched in 1892.", ("Fram",)),
    ("Fram was designed by Colin Archer.", ("Fram", "Colin Archer")),
    ("Fram carried Roald Amundsen to Antarctica.", ("Fram", "Roald Amundsen", "Antarctica")),
)
ARCHER = passage(
    "Colin Archer",
    ("Colin Archer was born in Larvik, Norway in 1832.", ("Colin Archer", "Larvik", "Norway")),
    ("Colin Archer built 200 boats.", ("Colin Archer",)),
)
AMUNDSEN = passage(
    "Roald Amundsen",
    ("Roald Amundsen was born in Borge, Norway in 1872.", ("Roald Amundsen", "Borge", "Norway")),
)
GJOA = passage("Gjoa", ("Gjoa was launched in 1872.", ("Gjoa",)))
PASSAGES = [FRAM, ARCHER, AMUNDSEN, GJOA]


def read(question: str, *passages: ObservedPassage) -> Reading:
    return RulesLanguage().read(question, passages or PASSAGES)


@pytest.mark.parametrize(
    ("question", "answer", "cited"),
    [
        ("Where was the designer of the ship Fram born?", "Larvik, Norway", (1, 0)),
        ("In what year was the designer of Fram born?", "1832", (1, 0)),
        ("Who designed Fram?", "Colin Archer", (1, 0)),
        ("How many boats did Colin Archer build?", "200", (1,)),
    ],
)
def test_the_answer_is_of_the_asked_kind_and_cites_its_steps(
    question: str, answer: str, cited: tuple[int, ...]
) -> None:
    reading = read(question)
    assert (reading.text, reading.cited, reading.degraded) == (answer, cited, "")


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which ship was launched first, Fram or Gjoa?", "Gjoa"),
        ("Which ship was launched later, Fram or Gjoa?", "Fram"),
        ("Were Fram and Gjoa both launched?", "yes"),
        ("Were Fram and Gjoa both sold?", "no"),
        ("Were Colin Archer and Roald Amundsen born in the same country?", "yes"),
        ("Do Gjoa and Roald Amundsen lie in the same town?", "no"),
    ],
)
def test_comparisons(question: str, answer: str) -> None:
    assert read(question).text == answer


@pytest.mark.parametrize(
    "question", ["", "Where does the emperor penguin breed?", "Were they happy?", "Who composed Aida?"]
)
def test_nothing_that_fits_is_unknown(question: str) -> None:
    assert read(question, GJOA) == Reading(text="unknown")


def test_without_passages_the_answer_is_unknown_and_that_is_said() -> None:
    reading = RulesLanguage().read("Who?", ())
    assert reading.text == "unknown"
    assert "knows nothing without passages" in reading.degraded


def test_an_answer_is_not_what_the_question_names() -> None:
    assert read("Who is Roald Amundsen?", AMUNDSEN).text == "unknown"


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("When was the ship built that Amundsen sailed?", "DATE"),
        ("Who owned the ship when it sank?", "PERSON"),
        ("How many ships sank?", "CARDINAL"),
        ("In which town was he born?", "GPE"),
        ("What nationality is the composer?", "NORP"),
    ],
)
def test_the_first_words_that_tell_decide_the_kind(question: str, kind: str) -> None:
    assert kind in kinds_asked(question)


def test_a_question_may_ask_for_any_name() -> None:
    assert kinds_asked("Which instrument did he play?") == ()
