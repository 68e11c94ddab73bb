"""`evireform.evaluation.funnel`, `compare` and `shown`: where gold was lost, worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from evireform.bootstrap import paired, seed_of
from evireform.cli import app
from evireform.errors import InputError, UsageError
from evireform.evaluation import compare, files, funnel, shown
from evireform.evaluation.records import (
    Outcome,
    Pools,
    Trace,
    TracedPassage,
    TracedQuery,
    TracedSeed,
    TracedTerm,
)
from evireform.records import Question
from tests.unit.studies import result, study

POOLS = Pools(candidates=("a", "b", "c"), observed=("a",), found=("d", "e"))


def paths(ranking: Sequence[str], *gold: str) -> list[tuple[str, int | None, str]]:
    return [(p.reached, p.rank, p.fate) for p in funnel.gold_paths(POOLS, ranking, gold)]


@pytest.mark.parametrize(
    ("gold", "ranking", "expected"),
    [
        ("a", ["a"], ("selection", 1, "")),
        ("d", ["a", "d"], ("residual query", 2, "")),
        ("z", ["a", "z"], ("propagation", 2, "")),
        ("b", ["x", "b"], ("propagation", 2, "")),
        ("z", ["a"], ("nothing", None, "unseen")),
        ("b", ["a"], ("nothing", None, "not selected")),
        ("a", ["x"], ("selection", None, "unranked")),
        ("e", [], ("residual query", None, "unranked")),
        ("a", list("vwxyza"), ("selection", 6, "low, by selection")),
        ("d", list("vwxyzd"), ("residual query", 6, "low, by residual query")),
        ("z", list("uvwxyz"), ("propagation", 6, "low, by propagation")),
        ("z", list("vwxyz"), ("propagation", 5, "")),
    ],
)
def test_the_path_of_a_gold_passage(
    gold: str, ranking: list[str], expected: tuple[str, int | None, str]
) -> None:
    assert paths(ranking, gold) == [expected]


def test_c_0_is_the_first_twenty_sources() -> None:
    pools = Pools(candidates=tuple(f"p{number}" for number in range(25)))
    first, last = funnel.gold_paths(pools, [], ["p19", "p20"])
    assert (first.initial, first.candidate) == (True, True)
    assert (last.initial, last.candidate) == (False, True)


def test_a_funnel_counts_stages_and_fates() -> None:
    counted = funnel.summed(
        funnel.gold_paths(POOLS, ["a", "z", "u", "v", "w", "d"], ["a", "b", "d", "e", "y", "z"])
    )
    assert counted.stages == {
        "gold": 6, "candidates": 2, "initial": 2, "observed": 1, "in hand": 3, "propagation": 1, "ranked": 3,
        "first": 2,
    }  # fmt: skip
    assert {name: count for name, count in counted.fates.items() if count} == {
        "unseen": 1, "not selected": 1, "unranked": 1, "low, by residual query": 1,
    }  # fmt: skip
    assert counted.missed == 4


def test_every_fate_is_explained() -> None:
    lows = {f"low, by {way}" for way in ("selection", "residual query", "propagation")}
    assert set(funnel.FATES) == lows | {"unseen", "not selected", "unranked"}


def test_of_a_method_without_pools_only_the_rank_is_known() -> None:
    outcome = Outcome(question="q", passages=tuple((key, 1.0) for key in "abcdef"))
    assert [(e.words, e.missed, e.path) for e in funnel.endings(outcome, ["b", "f", "z"])] == [
        ("rank 2", False, None),
        ("rank 6", True, None),
        ("not ranked", True, None),
    ]


GOLD = ("a", "d")


def outcome(key: str, ranking: str, *, trace: Trace | None = None) -> Outcome:
    """An outcome over one-letter passages, its measures worked out from the ranking."""
    found = len(set(GOLD) & set(ranking[:5]))
    return Outcome(
        question=key,
        passages=tuple((passage, 1 / rank) for rank, passage in enumerate(ranking, start=1)),
        measures={"recall@5": found / 2, "chain@5": float(found == 2)},
        pools=POOLS,
        trace=trace,
    )


def make(folder: Path, *outcomes: Outcome, method: str = "full", **changes: Any) -> Path:
    """A study of one method in a folder."""
    outcomes = outcomes or (
        outcome("q1", "ad"),
        outcome("q2", "ax"),
        outcome("q3", "da"),
        outcome("q4", "xy"),
    )
    made = study(**{"results": (result(method, 0.5, 0.5),), "differences": (), **changes})
    files.write_study(folder, made)
    questions = [
        Question(key=one.question, text=f"Who is {one.question}?", gold=GOLD, hops=2, answers=("I",))
        for one in outcomes
    ]
    files.write_questions(folder, questions)
    lines = "".join(files.to_json(one) + "\n" for one in outcomes)
    files.write_whole(folder / "outcomes" / f"{method}.jsonl", lines)
    return folder


def two(folder: Path) -> tuple[Path, Path]:
    """Two studies: in the second, q2 is won and q3 lost."""
    second = (outcome("q1", "ad"), outcome("q2", "adx"), outcome("q3", "axyzvd"), outcome("q4", "xy"))
    return make(folder / "one"), make(folder / "two", *second, settings={"alpha": 0.4, "k": 20})


def test_a_comparison_has_means_and_the_paired_interval(tmp_path: Path) -> None:
    [method] = compare.compare(*two(tmp_path)).methods
    recall, chain = method.measures
    assert (recall.measure, recall.first, recall.second) == ("recall@5", 0.625, 0.625)
    assert (chain.measure, chain.better, chain.worse) == ("chain@5", 1, 1)
    expected = paired(
        np.array([1.0, 1.0, 0.5, 0.0]), np.array([1.0, 0.5, 1.0, 0.0]), seed=seed_of("toy", "recall@5")
    )
    assert (recall.difference, recall.low, recall.high) == (expected.difference, expected.low, expected.high)
    assert not recall.significant


def test_flipped_questions_say_what_became_of_their_gold(tmp_path: Path) -> None:
    [method] = compare.compare(*two(tmp_path)).methods
    assert [(flip.question, flip.first, flip.second) for flip in method.flips] == [("q2", 0, 1), ("q3", 1, 0)]
    assert [(g.passage_key, g.first, g.second) for flip in method.flips for g in flip.gold] == [
        ("d", "unranked", "rank 2 by residual query"),
        ("d", "rank 1 by residual query", "rank 6 by residual query"),
    ]


def test_a_comparison_names_what_was_changed_and_nothing_else(tmp_path: Path) -> None:
    first, second = two(tmp_path)
    index = replace(study().conditions[0], corpus_digest="def456")
    make(second, settings={"alpha": 0.4, "k": 20}, conditions=(index,), models={"embedding": "other"})
    changes = compare.compare(first, second).changes
    assert [(change.what, change.first, change.second) for change in changes] == [
        ("index corpus_digest", "abc123", "def456"),
        ("model embedding", "hash", "other"),
        ("model language", "rules/en", ""),
        ("setting alpha", "0.5", "0.4"),
    ]


def test_a_setting_of_one_method_is_named_with_it(tmp_path: Path) -> None:
    first = make(tmp_path / "one")
    changed = replace(result("full", 0.5, 0.5), settings={"alpha": 0.5, "beta": 1.0})
    second = make(tmp_path / "two", results=(changed,))
    [change] = compare.compare(first, second).changes
    assert (change.what, change.first, change.second) == ("full: beta", "", "1.0")


def test_a_study_does_not_differ_from_itself(tmp_path: Path) -> None:
    comparison = compare.compare(make(tmp_path), tmp_path)
    assert comparison.changes == ()
    assert comparison.methods[0].flips == ()
    assert all(item.difference == item.low == item.high == 0 for item in comparison.methods[0].measures)
    assert "Nothing that the studies write down." in compare.markdown(comparison)


def test_methods_that_only_one_study_has_are_named(tmp_path: Path) -> None:
    first = make(tmp_path / "one", results=(result("full", 0.5, 0.5), result("base", 0.5, 0.5)))
    comparison = compare.compare(first, make(tmp_path / "two"))
    assert (comparison.only_first, comparison.only_second) == (("base",), ())
    assert "Only the first has base." in compare.markdown(comparison)


def test_studies_of_other_questions_are_not_compared(tmp_path: Path) -> None:
    first = make(tmp_path / "one")
    second = make(tmp_path / "two", outcome("q1", "ad"), outcome("q9", "ad"))
    with pytest.raises(UsageError, match=r"3 of 4 questions of .*one were not asked in .*two, such as 'q2'"):
        compare.compare(first, second)


@pytest.mark.parametrize(
    ("change", "problem"), [({"gold": ("a",)}, "gold passages"), ({"text": "Who else?"}, "words")]
)
def test_studies_whose_questions_differ_are_not_compared(
    tmp_path: Path, change: dict[str, Any], problem: str
) -> None:
    first, second = make(tmp_path / "one"), make(tmp_path / "two")
    questions = files.read_questions(second)
    files.write_questions(second, [replace(questions[0], **change), *questions[1:]])
    with pytest.raises(UsageError, match=f"question 'q1' has other {problem}"):
        compare.compare(first, second)


def test_studies_without_a_common_method_are_not_compared(tmp_path: Path) -> None:
    first, second = make(tmp_path / "one"), make(tmp_path / "two", method="base")
    with pytest.raises(
        UsageError, match="no method in common, so there is nothing to compare: full and base"
    ):
        compare.compare(first, second)


def test_a_folder_without_a_study_cannot_be_compared(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no results\.json in"):
        compare.compare(make(tmp_path / "one"), tmp_path)


def test_a_comparison_reads_as_markdown(tmp_path: Path) -> None:
    text = compare.markdown(compare.compare(*two(tmp_path)))
    assert "| setting alpha | 0.5 | 0.4 |" in text
    assert "| full | Chain@5 | 50.0 | 50.0 | +0.00 |" in text
    assert "full, by Chain@5: 1 won, 1 lost." in text
    assert "| q2 | won | d | unranked | rank 2 by residual query |" in text
    assert "Who is" not in text


def test_many_flips_are_listed_in_part(tmp_path: Path) -> None:
    keys = [f"q{number}" for number in range(compare.LISTED + 3)]
    first = make(tmp_path / "one", *(outcome(key, "ax") for key in keys))
    second = make(tmp_path / "two", *(outcome(key, "ad") for key in keys))
    comparison = compare.compare(first, second)
    assert len(comparison.methods[0].flips) == len(keys)
    assert "… and 3 more, which the JSON lists." in compare.markdown(comparison)


def test_compare_writes_markdown_or_json(tmp_path: Path) -> None:
    first, second = map(str, two(tmp_path))
    plain = CliRunner().invoke(app, ["compare", first, second])
    assert plain.exit_code == 0, plain.output
    assert plain.stdout.startswith("# ")
    assert "## What was changed" in plain.stdout
    as_json = json.loads(CliRunner().invoke(app, ["compare", first, second, "--json"]).stdout)
    assert as_json == json.loads(json.dumps(asdict(compare.compare(Path(first), Path(second)))))


TRACE = Trace(
    seeds=(
        TracedSeed(passage_key="a", ordinal=0, text="Ada built it.", mass=0.75),
        TracedSeed(passage_key="e", ordinal=1, text="Eve sold it.", mass=0.25),
    ),
    queries=(TracedQuery(text="Where was Ada born?", round_number=1, passages=("e",)),),
    passages=(
        TracedPassage(
            passage_key="a",
            rank=1,
            score=0.5,
            terms=(
                TracedTerm(query=0, seed=0, entity="", value=0.375),
                TracedTerm(query=1, seed=1, entity="Ada", value=0.125),
            ),
        ),
    ),
)


def test_one_question_is_shown_with_every_method(tmp_path: Path) -> None:
    make(tmp_path, outcome("q1", "ad"), outcome("q2", "ax", trace=TRACE))
    found = shown.show(tmp_path, "q2")
    [method] = found.methods
    assert found.question.text == "Who is q2?"
    assert [(e.passage_key, e.words) for e in method.gold] == [
        ("a", "rank 1 by selection"),
        ("d", "unranked"),
    ]
    assert method.trace == TRACE


def test_a_question_that_was_not_asked_cannot_be_shown(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="asked no question with the key 'q9'"):
        shown.show(make(tmp_path), "q9")


def test_a_miss_is_drawn_with_its_trace(tmp_path: Path) -> None:
    from evireform.cli.shown import question
    from tests.unit.test_cli_output import drawn

    make(tmp_path, outcome("q2", "ax", trace=TRACE))
    text = drawn(question(shown.show(tmp_path, "q2")))
    for part in (
        "q2  Who is q2?",
        "full  recall@5 50  chain@5 0",
        "✓ a  rank 1 by selection",
        "✗ d  unranked",
        "residual query 1 Where was Ada born?",
        "1 a gold  0.500000",
        "0.375000 direct, from the question by a Ada built it.",
        "0.125000 through Ada, from residual query 1 by e Eve sold it.",
    ):
        assert part in text


@pytest.mark.parametrize("place", ["data", "--output"])
def test_evaluate_shows_one_question_of_an_earlier_run(tmp_path: Path, place: str) -> None:
    make(tmp_path / "run", outcome("q1", "ad"), outcome("q2", "ax", trace=TRACE))
    (tmp_path / "set").mkdir()
    where = (
        [str(tmp_path / "run")] if place == "data" else [str(tmp_path / "set"), place, str(tmp_path / "run")]
    )
    drawn = CliRunner().invoke(app, ["evaluate", *where, "--show", "q2"])
    assert drawn.exit_code == 0, drawn.output
    assert "d  unranked" in drawn.stdout
    found = json.loads(CliRunner().invoke(app, ["evaluate", *where, "--show", "q2", "--json"]).stdout)
    assert found["methods"][0]["gold"][1]["words"] == "unranked"


def test_a_run_that_was_not_made_cannot_be_shown(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["evaluate", str(tmp_path), "--output", str(tmp_path / "no"), "--show", "q"]
    )
    assert result.exit_code == 1
    assert "there is no results.json in" in result.stderr
