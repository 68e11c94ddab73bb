"""Genuine output of a small model, recorded once, on its way through ingestion, search and answering.

The figures are what the recorded answers make of `tests.llm.trial`; they move with a new recording.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import evireform
from evireform.language.prompts import load_all
from tests.conftest import database
from tests.doubles.recorded import Recording, key_of
from tests.doubles.scripted_openai import ScriptedOpenAI
from tests.llm import trial
from tests.llm.trial import Trial


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedOpenAI]:
    with ScriptedOpenAI() as scripted:
        yield scripted


@pytest.fixture(scope="module")
def recording() -> Recording:
    return Recording.read()


@pytest.fixture(scope="module")
def tried(server_url: str, template_database: str, server: ScriptedOpenAI, recording: Recording) -> Trial:
    """The trial, with every answer out of the recording."""
    recording.play(server, [prompt.purpose for prompt in load_all()])
    with pytest.MonkeyPatch.context() as patch, database(server_url, template_database) as url:
        patch.setenv("OPENAI_API_KEY", "none")
        with evireform.connect(url, settings=trial.recorded_settings(server.base_url)) as db:
            done = trial.run(db)
    if recording.missing:
        purposes = ", ".join(sorted(set(recording.missing)))
        pytest.fail(f"the recording is stale, other requests are made now ({purposes}): make record-llm")
    return done


def test_every_passage_is_extracted(tried: Trial) -> None:
    assert (tried.status.ready, tried.status.empty, tried.status.failed) == (20, 0, 0)


def test_propositions_and_entities_are_counted(tried: Trial) -> None:
    status = tried.status
    assert (status.propositions, status.entities, status.incidence) == (89, 168, 270)


def test_a_name_that_no_passage_has_is_found_out(tried: Trial) -> None:
    assert tried.ingestion.unsupported == 1


def test_questions_find_their_passages(tried: Trial) -> None:
    assert {asked.question.key: round(asked.recall_at_5, 3) for asked in tried.asked} == {
        "sample-01": 1.0,
        "sample-02": 1.0,
        "sample-03": 1.0,
        "sample-04": 1.0,
        "sample-05": 0.333,
    }


def test_answers_are_the_readers(tried: Trial) -> None:
    assert {asked.question.key: asked.answer.text for asked in tried.asked} == {
        "sample-01": "Larvik",
        "sample-02": "gyroscope",
        "sample-03": "unknown",
        "sample-04": "Exeter",
        "sample-05": "unknown",
    }


def test_nothing_is_degraded(tried: Trial) -> None:
    assert [asked.question.key for asked in tried.asked if asked.answer.degraded] == []
    assert tried.judged.degraded == ()


def test_the_judge_chooses_a_final_set(tried: Trial) -> None:
    assert tried.judged.judged == ("leon-foucault", "marie-curie")


def test_the_controller_asks_for_what_is_missing(tried: Trial) -> None:
    later = [query.text for query in tried.judged.residual_queries if query.round_number == 2]
    assert later == ["Who hung a pendulum in the building where Marie Curie is buried?"]


def test_the_ledger_counts_what_the_model_counted(
    tried: Trial, server: ScriptedOpenAI, recording: Recording
) -> None:
    sent = [recording.answers[key_of(request)] for request in server.requests if request.purpose != "embed"]
    assert sum(row.tokens_in for row in tried.costs) == sum(answer.tokens_in for answer in sent)
    assert sum(row.tokens_out for row in tried.costs) == sum(answer.tokens_out for answer in sent)
    assert len(sent) == sum(row.calls - row.cached for row in tried.costs)
