"""What rounds and the final set rest on, without a database: cleaning, blending, and the rules' two verbs."""

from __future__ import annotations

import numpy as np
import pytest

from evireform import readout, seeds
from evireform.errors import UsageError
from evireform.language.rules import RulesLanguage
from evireform.records import ObservedPassage
from evireform.settings import SearchSettings

RULES = RulesLanguage()


def passage(title: str, text: str, entities: tuple[str, ...] = (), *, titles: bool = True) -> ObservedPassage:
    """A passage of one proposition, which is selected."""
    return ObservedPassage(
        passage_key=title,
        title=title if titles else "",
        text=text,
        selected=(text,),
        propositions=((text, entities),),
    )


METROPOLIS = passage("Metropolis", "Metropolis was directed by Fritz Lang.", ("Fritz Lang", "Metropolis"))
LANG = passage("Fritz Lang", "Fritz Lang was born in Vienna.", ("Fritz Lang", "Vienna"))
BORN = "Where was the director of Metropolis born?"


# Cleaning


def test_queries_of_earlier_rounds_are_dropped_before_the_first_ones_count():
    found = seeds.clean_queries(["WHO ", "When", "Where"], "q", limit=2, asked=["who"])
    assert found == ["When", "Where"]


# Blending


def test_percentile_ranks_are_blended_by_weight():
    # Five passages; the judge puts the last first and the second second.
    places = np.array([0, 2, 0, 0, 1])
    by_score = [1.0, 0.8, 0.6, 0.4, 0.2]
    by_judge = [0.2, 0.8, 0.2, 0.2, 1.0]
    assert readout.blended(places, weight=0.0).tolist() == by_score
    assert readout.blended(places, weight=1.0).tolist() == by_judge
    assert readout.blended(places, weight=0.25).tolist() == [0.8, 0.8, 0.5, 0.35, 0.4]


def test_values_that_are_equal_on_paper_are_equal():
    # 0.9 * 1 + 0.1 * 1/10 and 0.9 * 9/10 + 0.1 * 1.
    values = readout.blended(np.array([0, 1, *[0] * 8]), weight=0.1)
    assert values[0] == values[1] == 0.91


def test_a_place_beyond_the_pool_counts_as_not_listed():
    assert readout.blended(np.array([0, 9]), weight=1.0).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan")])
def test_a_weight_outside_0_to_1_is_refused(weight):
    with pytest.raises(ValueError, match=r"weight must lie in \[0, 1\], not"):
        readout.blended(np.array([1]), weight=weight)


# Settings


@pytest.mark.parametrize(
    ("name", "value"),
    [("rounds", 0), ("rounds", 4), ("set_weight", 1.5), ("set_weight", "half"), ("set_pool", 1)],
)
def test_a_setting_that_cannot_be_meant_is_refused_by_name(name, value):
    with pytest.raises(UsageError, match=name):
        SearchSettings(**{name: value})


def test_rankings_are_as_deep_as_the_pool_only_where_a_judge_is_asked():
    assert SearchSettings(k=3).depth == 3
    assert SearchSettings(k=3, set_weight=0.5).depth == 20
    assert SearchSettings(k=30, set_weight=0.5).depth == 30


# The rules' controller


def test_the_rules_ask_for_what_new_evidence_leads_to():
    said = RULES.control(BORN, [METROPOLIS, LANG], limit=3, round_number=2)
    assert not said.sufficient
    assert "Vienna: " in " ".join(said.queries)


def test_the_rules_find_evidence_sufficient_where_nothing_leads_on():
    oslo = passage("Oslo", "Oslo is a city.", ("Oslo",))
    said = RULES.control("What is Oslo?", [oslo], limit=3, round_number=2)
    assert (said.sufficient, said.queries, said.degraded) == (True, (), "")


# The rules' judge

POOL = [
    passage("Vienna", "Vienna is a city."),
    passage("Fritz Lang", "Fritz Lang was a film maker."),
    passage("Berlin", "Metropolis was shot near Berlin."),
    METROPOLIS,
]


def judge(pool: list[ObservedPassage], *, limit: int = 5) -> tuple[int, ...]:
    return RULES.judge(BORN, [METROPOLIS, LANG], pool, limit=limit).positions


def test_the_rules_choose_what_the_question_or_the_evidence_names_in_the_order_of_the_scores():
    assert judge(POOL) == (0, 1, 3)


def test_the_rules_choose_no_more_than_asked_for():
    assert judge(POOL, limit=2) == (0, 1)


def test_without_titles_the_rules_say_that_they_cannot_choose():
    pool = [passage("Vienna", "Vienna is a city.", titles=False)]
    judgement = RULES.judge(BORN, [METROPOLIS], pool, limit=5)
    assert judgement.positions == ()
    assert judgement.degraded == "without titles the rules cannot tell what a passage is about"
