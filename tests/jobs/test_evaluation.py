"""Evaluation of a folder: measures by hand, runs that common evaluators read, and nothing done twice."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Literal

import ir_measures
import pytest
from ir_measures import R, Success

from evireform.errors import (
    BudgetSpent,
    CorpusSwitched,
    EvireformError,
    InputError,
    ModelCallFailed,
    UsageError,
)
from evireform.evaluation import Evaluation, evaluate
from evireform.evaluation.bench import Bench
from evireform.evaluation.method import by_name
from evireform.evaluation.passage_space import ensure_passage_space
from evireform.filters import parse
from evireform.records import (
    Control,
    Extraction,
    Judgement,
    Passage,
    Question,
    Reformulation,
    Selection,
)
from evireform.settings import SearchSettings
from evireform.spaces import filling
from evireform.store import corpora, generations
from evireform.store.connection import Store
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage
from tests.jobs.indexes import contents, ingest, passages_of, rows

names = (f"evaluated-{number}" for number in count())

SCRIPT = {
    "a": [("alpha engine", ["Ada"])],
    "b": [("beta loom", ["Ada", "Card"])],
    "c": [("gamma card", ["Card"])],
    "d": [("delta rain", [])],
}

QUESTIONS = [
    {"id": "q1", "question": "alpha engine", "answers": [], "gold_passage_ids": ["a", "b"]},
    {"id": "q2", "question": "gamma card", "answers": [], "gold_passage_ids": ["c", "d"]},
    {"id": "q3", "question": "delta rain", "answers": [], "gold_passage_ids": []},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four passages and three questions, the last one without gold."""
    corpus = [{"id": p.key, "title": "", "text": p.text} for p in passages_of(SCRIPT)]
    for name, objects in (("corpus.jsonl", corpus), ("questions.jsonl", QUESTIONS)):
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in objects), encoding="utf-8")
    return tmp_path


@pytest.fixture
def name() -> str:
    return next(names)


def language() -> ScriptedLanguage:
    """Selects the best candidate; for the first question it asks for the card, for the others nothing."""
    return ScriptedLanguage(
        extract=SCRIPT,
        select=lambda *_: Selection(positions=(0,)),
        reformulate=lambda question, _: Reformulation(
            queries=("gamma card",) if question == "alpha engine" else ()
        ),
    )


def run(store: Store, folder: Path, name: str, **options: Any) -> Evaluation:
    defaults: dict[str, Any] = {
        "encoder": HashEncoder(),
        "language": language(),
        "settings": SearchSettings(exact=True, hits_per_query=1),
        "corpus_name": name,
    }
    return evaluate(store, folder, **(defaults | options))


def test_base_finds_what_was_selected(shared_store: Store, folder: Path, name: str) -> None:
    measured = run(shared_store, folder, name, methods=["base"]).methods["base"]
    assert {key: measured[key] for key in ("recall@1", "recall@5", "chain@5", "hit@1")} == {
        "recall@1": 0.5, "recall@5": 0.5, "chain@5": 0.0, "hit@1": 1.0,
    }  # fmt: skip


def test_propagation_finds_the_neighbour_too(shared_store: Store, folder: Path, name: str) -> None:
    # q1: a, b. q2: b, c, which tie.
    measured = run(shared_store, folder, name, methods=["propagation"]).methods["propagation"]
    assert {key: measured[key] for key in ("recall@1", "recall@5", "chain@5", "hit@5")} == {
        "recall@1": 0.25, "recall@5": 0.75, "chain@5": 0.5, "hit@5": 1.0,
    }  # fmt: skip


def missing(_question: str, _observed: object, _round: int) -> Control:
    return Control(sufficient=False, queries=("beta loom", "delta rain"), degraded="the window is full")


def test_variants_are_the_same_whether_or_not_others_take_more_rounds(
    shared_store: Store, folder: Path, name: str
) -> None:
    asked = language()
    asked._control = missing
    alone, together = folder / "alone", folder / "together"
    run(shared_store, folder, name, methods=["full"], language=asked, output=alone)
    assert asked.controlled_from == []
    run(shared_store, folder, name, methods=["full", "rounds"], language=asked, output=together)
    assert (together / "runs/full.run").read_text() == (alone / "runs/full.run").read_text()
    lines = [(together / f"runs/{method}.run").read_text().splitlines() for method in ("full", "rounds")]
    assert [len(of_method) for of_method in lines] == [6, 7]  # the rounds find d for the first question


def test_what_went_wrong_in_a_later_round_counts_for_the_variants_that_take_it(
    shared_store: Store, folder: Path, name: str
) -> None:
    asked = language()
    asked._control = missing
    evaluation = run(shared_store, folder, name, methods=["propagation", "full", "rounds"], language=asked)
    assert evaluation.degraded == {"propagation": 0, "full": 0, "rounds": 1}


def test_every_variant_is_judged_where_a_final_set_is_chosen(
    shared_store: Store, folder: Path, name: str
) -> None:
    asked = ScriptedLanguage(
        extract=SCRIPT,
        select=lambda *_: Selection(positions=(0,)),
        judge=lambda _question, _observed, passages: Judgement(positions=(len(passages) - 1,)),
    )
    settings = SearchSettings(exact=True, set_weight=1.0)
    evaluation = run(
        shared_store, folder, name, methods=["propagation", "full"], language=asked, settings=settings
    )
    # The last by score comes first: b and c instead of a and b.
    assert [evaluation.methods[m]["recall@1"] for m in ("propagation", "full")] == [0.5, 0.5]
    assert len(asked.judged_from) == 4


def test_every_measure_at_every_cutoff(shared_store: Store, folder: Path, name: str) -> None:
    measured = run(shared_store, folder, name, methods=["full"]).methods["full"]
    assert measured.keys() == {
        f"{measure}@{k}" for measure in ("recall", "chain", "hit") for k in (1, 5, 10, 20)
    }


def test_questions_without_gold_are_counted_and_not_judged(
    shared_store: Store, folder: Path, name: str
) -> None:
    evaluation = run(shared_store, folder, name, methods=["base"])
    assert (evaluation.questions, evaluation.unjudged) == (3, 1)


def test_the_dense_baseline_ranks_whole_passages(shared_store: Store, folder: Path, name: str) -> None:
    run(shared_store, folder, name, methods=["dense"], output=folder / "out")
    lines = [line.split() for line in (folder / "out" / "runs" / "dense.run").read_text().splitlines()]
    assert [line[2] for line in lines if line[3] == "1"] == ["a", "c", "d"]
    assert [line[0] for line in lines] == ["q1"] * 4 + ["q2"] * 4 + ["q3"] * 4


def test_every_method_is_run_by_default(shared_store: Store, folder: Path, name: str) -> None:
    evaluation = run(shared_store, folder, name)
    assert list(evaluation.methods) == ["dense", "base", "propagation", "reformulation", "full"]


def test_the_choices_of_a_question_are_made_once_for_all_variants(
    shared_store: Store, folder: Path, name: str
) -> None:
    asked = language()
    methods = ["base", "propagation", "reformulation", "full", "residual-only", "repeat-question"]
    run(shared_store, folder, name, language=asked, methods=methods)
    assert (len(asked.selected_from), len(asked.reformulated_from)) == (3, 3)


def test_without_a_variant_that_asks_nobody_reformulates(
    shared_store: Store, folder: Path, name: str
) -> None:
    asked = language()
    run(shared_store, folder, name, language=asked, methods=["base", "propagation"])
    assert asked.reformulated_from == []


def test_runs_and_qrels_are_read_alike_by_a_common_evaluator(
    shared_store: Store, folder: Path, name: str
) -> None:
    out = folder / "out"
    evaluation = run(shared_store, folder, name, output=out)
    qrels = list(ir_measures.read_trec_qrels(str(out / "qrels.txt")))
    for method, measured in evaluation.methods.items():
        ranked = list(ir_measures.read_trec_run(str(out / "runs" / f"{method}.run")))
        theirs = ir_measures.calc_aggregate([R @ 1, R @ 5, Success @ 1], qrels, ranked)
        assert theirs == {
            R @ 1: measured["recall@1"], R @ 5: measured["recall@5"], Success @ 1: measured["hit@1"],
        }  # fmt: skip


def test_settings_models_and_corpus_stand_beside_the_runs(
    shared_store: Store, folder: Path, name: str
) -> None:
    evaluation = run(shared_store, folder, name, output=folder / "out", methods=["base"])
    written = json.loads((folder / "out" / "results.json").read_text(encoding="utf-8"))
    assert written["results"][0]["means"]["recall@5"] == 0.5
    assert written["models"] == {
        "embedding": "hash-64", "language": "scripted/1", "extractor": "scripted",
    }  # fmt: skip
    assert (written["titles"], written["settings"]["hits_per_query"]) == ("on", 1)
    assert written["conditions"][0]["corpus_digest"] == evaluation.corpus_digest


def test_the_corpus_digest_tells_whether_the_passages_are_the_same(
    shared_store: Store, folder: Path, name: str
) -> None:
    first, again = (run(shared_store, folder, name, methods=["base"]).corpus_digest for _ in range(2))
    line = json.dumps({"id": "e", "text": "epsilon"})
    with (folder / "corpus.jsonl").open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    other = run(shared_store, folder, name, methods=["base"]).corpus_digest
    assert (first == again, first == other) == (True, False)


def test_a_second_run_ingests_and_embeds_no_passage(shared_store: Store, folder: Path, name: str) -> None:
    run(shared_store, folder, name)
    encoder, asked = HashEncoder(), language()
    evaluation = run(shared_store, folder, name, encoder=encoder, language=asked)
    assert (evaluation.ingestion.added, evaluation.ingestion.unchanged, asked.extracted) == (0, 4, [])
    assert set(encoder.encoded) == {"alpha engine", "gamma card", "delta rain"}


def test_a_second_run_measures_the_same(shared_store: Store, folder: Path, name: str) -> None:
    first = run(shared_store, folder, name)
    assert run(shared_store, folder, name).methods == first.methods


def test_searches_of_an_evaluation_are_not_logged(shared_store: Store, folder: Path, name: str) -> None:
    run(shared_store, folder, name, methods=["full"])
    query = "SELECT count(*) FROM question_log JOIN corpus USING (corpus_id) WHERE name = %(name)s"
    assert rows(shared_store, query, name=name) == [(0,)]


def test_degraded_questions_are_counted_by_method(shared_store: Store, folder: Path, name: str) -> None:
    failing = ScriptedLanguage(extract=SCRIPT, reformulate=lambda *_: Reformulation(degraded="timed out"))
    evaluation = run(shared_store, folder, name, language=failing, methods=["full", "dense"])
    assert evaluation.degraded == {"full": 3, "dense": 0}


def test_a_failed_reformulation_does_not_degrade_a_method_without_one(
    shared_store: Store, folder: Path, name: str
) -> None:
    failing = ScriptedLanguage(extract=SCRIPT, reformulate=lambda *_: Reformulation(degraded="timed out"))
    evaluation = run(shared_store, folder, name, language=failing, methods=["base", "full"])
    assert evaluation.degraded == {"base": 0, "full": 3}


def test_a_limit_takes_the_first_questions(shared_store: Store, folder: Path, name: str) -> None:
    assert run(shared_store, folder, name, methods=["base"], limit=2).questions == 2


def test_progress_is_told_by_stage(shared_store: Store, folder: Path, name: str) -> None:
    told: list[tuple[str, int, int]] = []
    run(shared_store, folder, name, progress=lambda *step: told.append(step))
    assert [step for step in told if step[0] != "ingest"] == [
        ("embed passages", 4, 4), *[("search", 3, 15)] * 5,
    ]  # fmt: skip
    assert sum(done for stage, done, total in told if (stage, total) == ("ingest", 4)) == 4


@pytest.mark.parametrize(
    ("extractions", "titles", "expected"),
    [
        (False, "on", "scripted-titles-on"),
        (False, "off", "scripted-titles-off"),
        (True, "on", "file-titles-on"),
    ],
)
def test_a_corpus_of_its_own_for_every_folder_extractor_and_titles_setting(
    shared_store: Store, folder: Path, extractions: bool, titles: Any, expected: str
) -> None:
    ready = folder / "ready.jsonl"
    ready.write_text('{"passage_id": "a", "propositions": [{"text": "alpha", "entities": []}]}\n')
    evaluation = run(
        shared_store, folder, "",
        methods=["base"], titles=titles, extractions=ready if extractions else None,
    )  # fmt: skip
    assert re.fullmatch(rf"{re.escape(folder.name)}-{expected}-[0-9a-f]{{8}}", evaluation.corpus)


def cut(folder: Path, *, to: int) -> None:
    """Leave only the first passages in the set."""
    lines = (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "corpus.jsonl").write_text("".join(lines[:to]), encoding="utf-8")


def ranked(output: Path) -> set[str]:
    lines = (output / "runs" / "dense.run").read_text(encoding="utf-8").splitlines()
    return {line.split()[2] for line in lines}


def test_sets_of_one_name_in_two_folders_do_not_share_an_index(shared_store: Store, folder: Path) -> None:
    first, second = folder / "a" / "mini", folder / "b" / "mini"
    for place in (first, second):
        place.mkdir(parents=True)
        for file in ("corpus.jsonl", "questions.jsonl"):
            shutil.copy(folder / file, place)
    cut(second, to=2)
    run(shared_store, first, "", methods=["dense"])
    other = run(shared_store, second, "", methods=["dense"], output=folder / "out")
    assert (other.ingestion.added, ranked(folder / "out")) == (2, {"a", "b"})
    assert run(shared_store, first, "", methods=["dense"]).ingestion.unchanged == 4


@pytest.mark.parametrize("file", ["", "questions.jsonl"])
def test_a_set_has_one_corpus_however_it_is_named(
    shared_store: Store, folder: Path, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(shared_store, folder, "", methods=["base"]).corpus
    monkeypatch.chdir(folder.parent)
    assert run(shared_store, Path(folder.name, file), "", methods=["base"]).corpus == whole


def test_passages_that_the_set_lost_leave_its_own_corpus(shared_store: Store, folder: Path) -> None:
    run(shared_store, folder, "", methods=["dense"])
    cut(folder, to=2)
    evaluation = run(shared_store, folder, "", methods=["dense"], output=folder / "out")
    assert ranked(folder / "out") == {"a", "b"}
    assert not any("are not in the set" in note for note in evaluation.notes)


def test_passages_that_the_set_lacks_stay_in_a_corpus_that_was_named(
    shared_store: Store, folder: Path, name: str
) -> None:
    run(shared_store, folder, name, methods=["dense"])
    cut(folder, to=3)
    evaluation = run(shared_store, folder, name, methods=["dense"], output=folder / "out")
    assert ranked(folder / "out") == {"a", "b", "c", "d"}
    assert f"1 passages of the corpus {name} are not in the set, and are ranked too" in evaluation.notes


def test_ready_made_extractions_are_used(shared_store: Store, folder: Path, name: str) -> None:
    ready = folder / "ready.jsonl"
    ready.write_text('{"passage_id": "a", "propositions": [{"text": "alpha", "entities": ["X"]}]}\n')
    run(shared_store, folder, name, methods=["base"], extractions=ready)
    assert ("x", "X", 1, 1.0) in contents(shared_store, name, "entity")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            '{"id": "a", "propositions": [{"text": "alpha", "entities": []}]}\n',
            r"no usable extraction \(the first, on line 1: passage_id is missing",
        ),
        ('{"passage_id": "a", "propositions": "alpha"}\n', "no usable extraction .* must be a list"),
        ("", "no usable extraction$"),
        ('{"passage_id": "z", "propositions": []}\n', "no extraction of a passage of the set"),
    ],
)
def test_a_file_of_extractions_that_is_wholly_wrong_is_refused(
    shared_store: Store, folder: Path, name: str, text: str, reason: str
) -> None:
    ready = folder / "ready.jsonl"
    ready.write_text(text)
    with pytest.raises(InputError, match=reason):
        run(shared_store, folder, name, methods=["base"], extractions=ready)


def test_what_a_file_of_extractions_lost_is_a_shortfall(shared_store: Store, folder: Path, name: str) -> None:
    ready = folder / "ready.jsonl"
    ready.write_text(
        '{"passage_id": "a", "propositions": [{"text": "alpha", "entities": []}]}\n'
        '{"id": "b", "propositions": []}\n{"id": "c", "propositions": []}\n'
    )
    evaluation = run(shared_store, folder, name, methods=["base"], extractions=ready)
    assert evaluation.shortfalls == (
        "2 faults in the file of extractions (the first, on line 2: passage_id is missing, or neither text "
        "nor a whole number)",
    )


@pytest.mark.parametrize("file", ["corpus.jsonl", "questions.jsonl"])
def test_a_missing_file_is_named(shared_store: Store, folder: Path, name: str, file: str) -> None:
    (folder / file).unlink()
    with pytest.raises(InputError, match=f"there is no {file} in ") as caught:
        run(shared_store, folder, name)
    assert caught.value.path == folder


@pytest.mark.parametrize(
    ("kind", "reason", "error"),
    [
        ("budget", "12 of 12 tokens are spent", BudgetSpent),
        ("server", "http://127.0.0.1:9/budget does not answer", ModelCallFailed),
    ],
)
def test_half_a_corpus_is_not_measured(
    shared_store: Store,
    folder: Path,
    name: str,
    kind: Literal["budget", "server"],
    reason: str,
    error: type[EvireformError],
) -> None:
    stopping = ScriptedLanguage(extract=lambda _: Extraction(error=reason, in_vain=kind))
    with pytest.raises(error, match=reason):
        run(shared_store, folder, name, methods=["base"], language=stopping)


def test_a_corpus_that_is_switched_while_it_is_made_is_not_measured(
    shared_store: Store, folder: Path, name: str
) -> None:
    def switch(_: Passage) -> Extraction:
        with shared_store.transaction() as tx:
            generations.rename(tx, corpora.get_corpus(tx, name), f"{name}-next")
        return Extraction()

    with pytest.raises(CorpusSwitched, match=f"this one is called '{name}-next' now"):
        run(shared_store, folder, name, methods=["base"], language=ScriptedLanguage(extract=switch))


def test_a_method_that_does_not_exist_is_refused_before_anything_is_done(
    shared_store: Store, folder: Path, name: str
) -> None:
    with pytest.raises(UsageError, match="no method is called 'best'; there are base, propagation, "):
        run(shared_store, folder, name, methods=["full", "best"])
    assert rows(shared_store, "SELECT FROM corpus WHERE name = %(name)s", name=name) == []


def test_a_corpus_of_the_other_titles_setting_is_refused(
    shared_store: Store, folder: Path, name: str
) -> None:
    ingest(shared_store, name, [], titles="off")
    with pytest.raises(UsageError, match="was made with titles off"):
        run(shared_store, folder, name, titles="on")


# The dense baseline.


class Flaky(HashEncoder):
    """Stops at the second batch of passages."""

    def encode_passages(self, texts: Any) -> Any:
        if self.encoded:
            raise RuntimeError("out of memory")
        return super().encode_passages(texts)


@pytest.fixture
def ten(shared_store: Store, name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A corpus of ten passages, embedded three at a time."""
    monkeypatch.setattr(filling, "PAGE", 3)
    ingest(shared_store, name, passages_of({f"p{number}": [(f"word{number}", [])] for number in range(10)}))
    return name


def test_the_embedding_of_passages_goes_on_where_it_stopped(shared_store: Store, ten: str) -> None:
    with pytest.raises(RuntimeError, match="out of memory"):
        ensure_passage_space(shared_store, ten, Flaky())
    encoder = HashEncoder()
    ensure_passage_space(shared_store, ten, encoder)
    assert encoder.encoded == [f"word{number}" for number in range(3, 10)]


def test_passages_that_are_embedded_are_not_embedded_again(shared_store: Store, ten: str) -> None:
    ensure_passage_space(shared_store, ten, HashEncoder())
    encoder = HashEncoder()
    ensure_passage_space(shared_store, ten, encoder)
    assert encoder.encoded == []


def test_a_changed_passage_is_embedded_again(shared_store: Store, ten: str) -> None:
    ensure_passage_space(shared_store, ten, HashEncoder())
    ingest(shared_store, ten, passages_of({"p4": [("other", [])]}))
    encoder = HashEncoder()
    ensure_passage_space(shared_store, ten, encoder)
    assert encoder.encoded == ["other"]


def test_dense_ties_stand_by_key(shared_store: Store, name: str) -> None:
    ingest(shared_store, name, passages_of({key: [("same words", [])] for key in ("b", "ä", "a", "Z")}))
    bench = Bench(
        shared_store, name,
        encoder=HashEncoder(), language=language(), settings=SearchSettings(k=3, exact=True),
    )  # fmt: skip
    (found,) = by_name("dense", bench.settings).rank(bench, [Question(key="q", text="same words")])
    assert [key for key, _ in found.passages] == ["Z", "a", "b"]


def test_an_evaluation_does_not_change_the_settings_it_was_given(
    shared_store: Store, folder: Path, name: str
) -> None:
    given = SearchSettings(k=1)
    run(shared_store, folder, name, methods=["base"], settings=given)
    assert given == replace(SearchSettings(), k=1)


def test_an_evaluation_takes_no_filter(shared_store: Store, folder: Path, name: str) -> None:
    filtered = SearchSettings(where=parse(["year=2020"]))
    with pytest.raises(UsageError, match="an evaluation is of the whole corpus"):
        run(shared_store, folder, name, methods=["base"], settings=filtered)
