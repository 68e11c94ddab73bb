"""`evireform.formats.runs`: files that every evaluator ranks as we do."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evireform.errors import InputError, UsageError
from evireform.formats.runs import read_run, strictly_decreasing, write_qrels, write_run
from evireform.records import Question


def test_a_run_line_has_six_columns(tmp_path: Path) -> None:
    write_run(tmp_path / "r", {"q1": [("a", 0.5), ("b", 0.25)], "q2": [], "q3": [("a", 0.1)]}, tag="full")
    assert (tmp_path / "r").read_text() == "q1 Q0 a 1 0.5 full\nq1 Q0 b 2 0.25 full\nq3 Q0 a 1 0.1 full\n"


def test_qrels_hold_every_gold_passage_and_no_unjudged_question(tmp_path: Path) -> None:
    questions = [Question(key="q1", text="?", gold=("b", "a")), Question(key="q2", text="?")]
    write_qrels(tmp_path / "q", questions)
    assert (tmp_path / "q").read_text() == "q1 0 b 1\nq1 0 a 1\n"


@pytest.mark.parametrize(
    "scores",
    [
        [0.3, 0.3, 0.3],
        [1.0, 1.0 - 1e-12, 1.0 - 2e-12],
        [0.5, 0.7],
        [0.0, 0.0],
        [1e-45, 1e-46, 0.0],
        [-1.0, -1.0],
    ],
)
def test_tied_scores_are_lowered_until_they_strictly_decrease(scores: list[float]) -> None:
    lowered = strictly_decreasing(scores)
    assert lowered[0] == np.float32(scores[0])
    assert all(after < before for before, after in pairwise(lowered))


def test_scores_that_strictly_decrease_are_kept() -> None:
    assert strictly_decreasing([3.0, 1.5, 0.1, -2.0]) == [np.float32(x) for x in (3.0, 1.5, 0.1, -2.0)]


@pytest.mark.parametrize("score", [float("nan"), float("inf"), 1e39])
def test_a_score_beyond_32_bits_is_refused(score: float) -> None:
    with pytest.raises(ValueError, match="finite 32-bit number"):
        strictly_decreasing([score])


def test_a_ranking_that_names_a_passage_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'q' names a passage twice"):
        write_run(tmp_path / "r", {"q": [("a", 2.0), ("a", 1.0)]}, tag="t")


keys = st.text(alphabet=st.sampled_from("ab%20F \t\n\u00a0\u2028\x1céß東#"), min_size=1, max_size=8)


@given(
    st.dictionaries(keys, st.lists(keys, unique=True, min_size=1, max_size=5), max_size=4),
    st.floats(0, 1, width=32),
)
@example({"a%20b": ["50%", "a b", "a%20b"]}, 0.0)
def test_any_key_comes_back_and_in_the_same_order(
    tmp_path_factory: pytest.TempPathFactory, rankings: dict[str, list[str]], score: float
) -> None:
    path = tmp_path_factory.mktemp("runs") / "run.txt"
    write_run(
        path, {question: [(key, score) for key in ranking] for question, ranking in rankings.items()}, tag="t"
    )
    read = read_run(path)
    assert {question: [key for key, _ in ranking] for question, ranking in read.items()} == rankings


def test_ir_measures_ranks_ties_as_we_do(tmp_path: Path) -> None:
    """Without lowering, an evaluator would order the tied passages by id, downwards: the gold one last."""
    write_run(tmp_path / "run", {"q": [("a", 0.5), ("b", 0.5), ("c", 0.5)]}, tag="t")
    write_qrels(tmp_path / "qrels", [Question(key="q", text="?", gold=("a",))])
    run = list(ir_measures.read_trec_run(str(tmp_path / "run")))
    qrels = list(ir_measures.read_trec_qrels(str(tmp_path / "qrels")))
    assert ir_measures.calc_aggregate([ir_measures.Success @ 1], qrels, run) == {ir_measures.Success @ 1: 1.0}


def test_an_existing_file_is_replaced_and_nothing_stays_beside_it(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("old")
    write_run(tmp_path / "run", {"q": [("a", 1.0)]}, tag="t")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert read_run(tmp_path / "run") == {"q": [("a", 1.0)]}


def test_a_refused_run_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("old")
    with pytest.raises(ValueError, match="32-bit"):
        write_run(tmp_path / "run", {"q": [("a", 1.0)], "r": [("a", float("nan"))]}, tag="t")
    assert (tmp_path / "run").read_text() == "old"


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        write_run(tmp_path / "no" / "run", {}, tag="t")


@pytest.mark.parametrize("line", ["q Q0 a 1 0.5", "q Q0 a 1 high t", "q Q0 a 1 0.5 t more"])
def test_a_line_that_is_not_of_a_run_is_an_error(tmp_path: Path, line: str) -> None:
    (tmp_path / "run").write_text(f"q Q0 b 1 0.9 t\n{line}\n")
    with pytest.raises(InputError, match="line 2: 'question Q0 passage rank score tag'") as caught:
        read_run(tmp_path / "run")
    assert caught.value.line_number == 2


def test_a_run_is_read_by_falling_score(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("q Q0 a 2 0.1 t\nq Q0 b 1 0.9 t\n")
    assert read_run(tmp_path / "run") == {"q": [("b", 0.9), ("a", 0.1)]}


def test_equal_scores_of_a_run_stand_by_key(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("q Q0 b 1 0.5 t\nq Q0 c 2 0.9 t\nq Q0 a 3 0.5 t\n")
    assert [key for key, _ in read_run(tmp_path / "run")["q"]] == ["c", "a", "b"]


def test_a_passage_twice_in_a_ranking_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("q Q0 a 1 0.9 t\nr Q0 a 1 0.9 t\nq Q0 a 2 0.5 t\n")
    with pytest.raises(InputError, match="line 3: question 'q' has passage 'a' already") as caught:
        read_run(tmp_path / "run")
    assert caught.value.line_number == 3


@pytest.mark.parametrize("score", ["nan", "inf", "-inf", "1e39"])
def test_a_score_of_a_run_that_is_no_finite_number_is_an_error(tmp_path: Path, score: str) -> None:
    (tmp_path / "run").write_text(f"q Q0 b 1 0.9 t\nq Q0 a 2 {score} t\n")
    with pytest.raises(InputError, match=f"line 2: the score must be a finite 32-bit number, not {score}"):
        read_run(tmp_path / "run")
