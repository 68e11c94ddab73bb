"""Records drawn for people: what must be seen is there, and is what the record says."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from rich.console import Console, RenderableType

from evireform.cli import render
from evireform.cli.explain import explanation
from evireform.cli.psql import libpq_environment
from evireform.evaluation import Evaluation
from evireform.records import (
    Candidate,
    Check,
    Cost,
    EarningProposition,
    IngestionSummary,
    InitReport,
    RankedPassage,
    Ranking,
    Rejected,
    ResidualQuery,
    Seed,
    Spending,
    TraceTerm,
)
from evireform.retrieval.replay import Replay


def drawn(renderable: RenderableType, *, terminal: bool = False) -> str:
    console = Console(file=io.StringIO(), width=300, force_terminal=terminal, highlight=False)
    console.print(renderable)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return str(text)


def candidate(proposition_id: int, key: str, text: str, similarity: float) -> Candidate:
    return Candidate(
        proposition_id=proposition_id,
        passage_id=proposition_id,
        passage_key=key,
        ordinal=0,
        title="",
        text=text,
        similarity=similarity,
    )


def seed(proposition_id: int, key: str, text: str, mass: float) -> Seed:
    return Seed(
        proposition_id=proposition_id, passage_key=key, ordinal=0, text=text, mass=mass, entities=("Fram",)
    )


TERMS = (
    TraceTerm(query=0, seed_id=1, entity="", value=0.25),
    TraceTerm(query=1, seed_id=2, entity="Fram", value=0.125),
    TraceTerm(query=0, seed_id=1, entity="Oslo", value=0.0625),
    TraceTerm(query=1, seed_id=2, entity="Oslo", value=0.03125),
    TraceTerm(query=0, seed_id=1, entity="Fram", value=0.015625),
    TraceTerm(query=1, seed_id=2, entity="", value=0.0078125),
    TraceTerm(query=2, seed_id=2, entity="", value=0.00390625),
)
SCORE = 0.49609375


def a_ranking(**changed: Any) -> Ranking:
    fields: dict[str, Any] = {
        "question": "Where was the designer born?",
        "method": "full",
        "passages": (
            RankedPassage(
                rank=1,
                passage_key="p1",
                score=SCORE,
                title="The ship",
                text="Fram is a ship. It is in Oslo.",
                metadata={},
                propositions=(
                    EarningProposition(
                        proposition_id=1, ordinal=0, text="Fram is a ship.", score=0.375, span=(0, 15)
                    ),
                    EarningProposition(
                        proposition_id=3, ordinal=1, text="Fram is in Oslo.", score=0.12109375, span=None
                    ),
                ),
                trace=TERMS,
            ),
        ),
        "candidates": (
            candidate(1, "p1", "Fram is a ship.", 0.75),
            candidate(4, "p4", "Belgica is a ship.", 0.5),
        ),
        "selected": (1,),
        "observed": ("p1",),
        "residual_queries": (
            ResidualQuery(text="Who designed Fram?", hits=((2, 0.625),)),
            ResidualQuery(text="When?"),
        ),
        "seeds": (seed(1, "p1", "Fram is a ship.", 0.5), seed(2, "p2", "Archer designed Fram.", 0.5)),
        "degraded": (),
        "notes": (),
        "reason": "",
        "cost": Cost(
            statements=7, rows=42, model_calls=0, tokens_in=0, tokens_out=0, stage_s={"a": 0.5, "b": 1}
        ),
        "log_id": 12,
    }
    return Ranking(**(fields | changed))


EXPLAINED = drawn(explanation(a_ranking()))


def test_the_tree_begins_with_the_question() -> None:
    assert EXPLAINED.startswith("Where was the designer born?\n")


def test_the_tree_shows_what_was_selected_of_how_many() -> None:
    assert "selected 1 of 2 candidates" in EXPLAINED
    assert "0.7500 p1 Fram is a ship." in EXPLAINED
    assert "Belgica" not in EXPLAINED


def test_the_tree_shows_residual_queries_with_their_hits() -> None:
    assert re.search(r"1 Who designed Fram\?\n.*0\.6250 p2 Archer designed Fram\.", EXPLAINED)


def test_the_tree_says_which_residual_query_does_not_count() -> None:
    assert re.search(r"2 When\?\n.*found nothing, and does not count", EXPLAINED)


def test_the_parts_of_a_score_sum_to_it() -> None:
    assert "0.496094 = 0.261719 direct + 0.140625 through Fram + 0.093750 through Oslo" in EXPLAINED


def test_each_term_says_which_way_it_came_and_from_where() -> None:
    assert "0.250000 direct, from the question by p1 Fram is a ship." in EXPLAINED
    assert "0.125000 through Fram, from residual query 1 by p2 Archer designed Fram." in EXPLAINED


def test_terms_that_are_not_shown_stand_as_their_sum() -> None:
    assert "0.011719 in 2 more terms" in EXPLAINED


def test_entities_that_are_not_shown_stand_as_their_sum() -> None:
    trace = tuple(TraceTerm(query=0, seed_id=1, entity=f"E{n}", value=2.0**-n) for n in range(1, 9))
    passage = a_ranking().passages[0]
    many = RankedPassage(
        rank=1,
        passage_key="p",
        score=sum(term.value for term in trace),
        title="",
        text="",
        metadata={},
        propositions=passage.propositions,
        trace=trace,
    )
    assert "+ 0.027344 through 3 more" in drawn(explanation(a_ranking(passages=(many,))))


def test_propositions_stand_with_their_place_in_the_text() -> None:
    assert "0.375000 [0–15] Fram is a ship." in EXPLAINED
    assert "0.121094 Fram is in Oslo." in EXPLAINED


def test_the_tree_ends_with_what_it_took() -> None:
    assert "logged as 12" in EXPLAINED
    assert "7 statements, 42 rows, 1.50 s\n" in EXPLAINED


def test_model_calls_and_a_shared_batch_are_part_of_what_it_took() -> None:
    cost = Cost(statements=1, rows=1, model_calls=2, tokens_in=30, tokens_out=4, stage_s={}, questions=5)
    text = drawn(explanation(a_ranking(cost=cost)))
    assert "1 statement, 1 row, 0.00 s, for 5 questions together, 2 model calls (30 + 4 tokens)" in text


def test_what_it_took_is_told_by_round_and_purpose() -> None:
    spending = (
        Spending(purpose="control", round_number=2, calls=1, tokens_in=30, tokens_out=4),
        Spending(purpose="judge", round_number=0, calls=2, tokens_in=50, tokens_out=5),
    )
    cost = Cost(
        statements=1, rows=1, model_calls=3, tokens_in=80, tokens_out=9, stage_s={}, spending=spending
    )
    text = drawn(explanation(a_ranking(cost=cost)))
    assert "round 2, control: 1 call (30 + 4 tokens)\n" in text
    assert " judge: 2 calls (50 + 5 tokens)\n" in text


def test_a_residual_query_of_a_later_round_says_so_wherever_it_stands() -> None:
    queries = (
        ResidualQuery(text="Who designed Fram?", hits=((2, 0.625),), round_number=2),
        ResidualQuery(text="When?"),
    )
    text = drawn(explanation(a_ranking(residual_queries=queries)))
    assert "1 Who designed Fram? (round 2)\n" in text
    assert "2 When?\n" in text
    assert "through Fram, from residual query 1 (round 2) by p2" in text


def test_a_judged_passage_says_what_placed_it() -> None:
    (first,) = a_ranking().passages
    listed = replace(first, judged=2, blended=0.75)
    other = replace(first, rank=2, blended=0.5)
    text = drawn(explanation(a_ranking(passages=(listed, other), judged=("p9", "p1"))))
    assert "placed by 0.7500: its place by score blended with place 2 by the judge" in text
    assert "placed by 0.5000: its place by score blended with no place by the judge" in text
    assert "final set: the judge listed p9, p1" in text


def test_a_passage_that_was_not_judged_says_nothing_of_it() -> None:
    assert "placed by" not in EXPLAINED


@pytest.mark.parametrize("draw", [explanation, render.ranking])
def test_a_fall_back_is_shown(draw: Any) -> None:
    text = drawn(draw(a_ranking(degraded=("selection: timeout",), notes=("exact scan",))))
    assert "degraded: selection: timeout" in text
    assert "note: exact scan" in text


@pytest.mark.parametrize("draw", [explanation, render.ranking])
def test_an_empty_ranking_says_why(draw: Any) -> None:
    assert "no passage: nothing is similar" in drawn(
        draw(a_ranking(passages=(), reason="nothing is similar"))
    )


def test_a_seed_that_vanished_is_left_out_of_the_hits() -> None:
    query = ResidualQuery(text="Who?", hits=((99, 0.5),))
    assert "0.5000" not in drawn(explanation(a_ranking(residual_queries=(query,))))


def test_a_ranking_names_passage_score_and_best_proposition() -> None:
    (row,) = [line for line in drawn(render.ranking(a_ranking())).splitlines() if "p1" in line]
    assert [cell.strip() for cell in row.strip("│").split("│")] == [
        "1",
        "0.4961",
        "p1 The ship",
        "Fram is a ship.",
    ]


def test_text_cannot_steer_the_terminal() -> None:
    text = drawn(
        render.ranking(a_ranking(question="a \x1b[31mred\x07 \u202egnorw [bold]\ud800")), terminal=True
    )
    first = text.splitlines()[0]
    assert "\x1b[31m" not in first
    assert "a ?[31mred? ?gnorw [bold]?" in first


def test_rejected_lines_are_listed_with_file_line_and_reason() -> None:
    summary = IngestionSummary(
        added=3, rejected=(Rejected(reason="text is empty", path="a.jsonl", line_number=7, passage_key="p7"),)
    )
    text = drawn(render.ingestion(summary, "wiki"))
    assert re.search(r"a\.jsonl line 7 +│ p7 +│ text is empty", text)


def test_a_long_list_of_faults_is_cut_and_says_so() -> None:
    rows = [Rejected(reason="bad", path="a.jsonl", line_number=n) for n in range(1, 26)]
    text = drawn(render.rejections("rejected", rows))
    assert "line 20" in text
    assert "line 21" not in text
    assert "and 5 more (all with --json)" in text


@pytest.mark.parametrize(("cost", "shown"), [(Decimal("0.25"), "0.250000"), (None, "?")])
def test_what_an_ingestion_took_is_one_line(cost: Decimal | None, shown: str) -> None:
    summary = IngestionSummary(model_calls=12, cached=3, tokens_in=1234, tokens_out=None, cost=cost)
    said = f"12 model calls, 3 of them answered from the ledger: 1,234 tokens in, ? out, cost {shown}"
    assert said in drawn(render.ingestion(summary, "wiki"))


def test_an_ingestion_without_a_model_call_says_nothing_of_any() -> None:
    assert "model call" not in drawn(render.ingestion(IngestionSummary(added=1), "wiki"))


def test_failed_passages_are_shown_as_part_of_those_that_were_added() -> None:
    summary = IngestionSummary(added=60, failed=(Rejected(reason="bad"),) * 56)
    text = drawn(render.ingestion(summary, "wiki"))
    head, row = (next(line for line in text.splitlines() if word in line) for word in ("added", "60"))
    names, values = ([cell.strip() for cell in re.split("[┃│]", line)[1:-1]] for line in (head, row))
    cells = dict(zip(names, values, strict=True))
    assert (cells["added"], cells["of them failed"], cells["new propositions"]) == ("60", "56", "0")


def test_failed_passages_and_notes_are_shown() -> None:
    summary = IngestionSummary(
        failed=(Rejected(reason="the model refused", passage_key="p2"),),
        notes=("two kinds",),
        dropped_entities=4,
        truncated=5,
    )
    text = drawn(render.ingestion(summary, "wiki"))
    assert re.search(r"p2 +│ the model refused", text)
    assert "note: two kinds" in text
    assert "note: 4 entity names" in text
    assert "note: 5 propositions were longer" in text


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("", "created at migration 0002"),
        ("0001", "migrated from 0001 to 0002"),
        ("0002", "up to date at migration 0002"),
    ],
)
def test_init_says_what_it_did(before: str, said: str) -> None:
    report = InitReport(
        schema="evireform",
        server_version="18.6",
        extension_version="0.8.6",
        extension_schema="public",
        migrated_from=before,
        migrated_to="0002",
    )
    assert said in drawn(render.init_report(report))


def an_evaluation(**changed: Any) -> Evaluation:
    values = {
        f"{measure}@{cutoff}": 0.5 for measure in ("recall", "chain", "hit") for cutoff in (1, 5, 10, 20)
    }
    fields: dict[str, Any] = {
        "dataset": "small",
        "corpus": "small-rules",
        "titles": "on",
        "questions": 8,
        "unjudged": 0,
        "methods": {"dense": values, "full": values | {"recall@5": 0.97753, "chain@20": 1.0}},
        "answers": None,
        "degraded": {"full": 0},
        "ingestion": IngestionSummary(),
        "settings": {},
        "models": {},
        "corpus_digest": "",
        "version": "",
        "notes": (),
    }
    return Evaluation(**(fields | changed))


def test_measures_are_shown_in_percent() -> None:
    rows = [re.findall(r"[\w.]+", line) for line in drawn(render.evaluation(an_evaluation())).splitlines()]
    assert ["Recall", "dense", "50.00", "50.00", "50.00", "50.00"] in rows
    assert ["full", "50.00", "97.75", "50.00", "50.00"] in rows
    assert ["full", "50.00", "50.00", "50.00", "100.00"] in rows


def test_an_evaluation_says_what_was_left_out() -> None:
    text = drawn(
        render.evaluation(
            an_evaluation(
                unjudged=2, shortfalls=("1 of 9 passages are not in the corpus", "full: 3 of 8 questions")
            )
        )
    )
    assert "degraded: 1 of 9 passages are not in the corpus" in text
    assert "degraded: full: 3 of 8 questions" in text
    assert "2 questions have no gold passages" in text


def test_each_check_says_how_to_mend_it() -> None:
    text = drawn(
        render.checks([Check(name="tables", ok=False, detail="missing", remedy="run `evireform init`")])
    )
    assert re.search(r"problem +│ tables +│ missing +│ run `evireform init`", text)


def test_a_replay_that_differs_shows_both_scores() -> None:
    replay = Replay(
        question="Who?",
        method="full",
        passages=a_ranking().passages,
        seeds=(),
        logged=(("p1", 0.5), ("p9", 0.25)),
        same=False,
        missing=1,
    )
    text = drawn(render.replay(replay))
    assert re.search(r"p1 The ship +│ 0\.496094 +│ 0\.500000", text)
    assert re.search(r"p9 +│ not ranked +│ 0\.250000", text)
    assert "1 of its seeds is gone or changed" in text


def test_no_password_is_left_in_the_arguments_of_psql() -> None:
    url = "postgresql://user:hunter2@host:5433/index?keepalives_idle=7&sslmode=require"
    environment, rest = libpq_environment(url, {"LANG": "C"}, search_path='"a", public')
    assert environment == {
        "LANG": "C",
        "PGHOST": "host",
        "PGPORT": "5433",
        "PGUSER": "user",
        "PGPASSWORD": "hunter2",
        "PGDATABASE": "index",
        "PGSSLMODE": "require",
        "PGOPTIONS": '-c search_path="a",\\ public',
    }
    assert rest == "keepalives_idle=7"


def test_options_that_are_set_already_stay() -> None:
    environment, _ = libpq_environment("", {"PGOPTIONS": "-c jit=off"}, search_path="a")
    assert environment["PGOPTIONS"] == "-c jit=off -c search_path=a"
