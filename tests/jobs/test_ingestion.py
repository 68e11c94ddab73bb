"""Ingestion: what is counted, what is refused and why, and what is done again."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from evireform import connect, ingestion
from evireform.errors import CorpusNotFound, DatabaseError, UsageError, VectorSpaceMismatch
from evireform.formats.extractions import read_extractions
from evireform.formats.passages import read_passages
from evireform.records import (
    CorpusRow,
    ExtractedProposition,
    Extraction,
    IngestionSummary,
    Passage,
    Rejected,
    SpaceRow,
)
from evireform.store import writing
from evireform.store.connection import Store, Transaction
from evireform.store.corpora import active_space, delete_corpus, get_corpus
from evireform.store.writing import PreparedPassage, Written
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage
from tests.jobs.indexes import contents, differences, ingest, keys, search

names = (f"ingested-{number}" for number in count())

ADA = Passage(key="a", title="Ada", text="Ada met Bob. Ada ran.")
BOB = Passage(key="b", title="Bob", text="Bob sat.")
CARL = Passage(key="c", title="Carl", text="Carl met Ada.")


@pytest.fixture
def name() -> str:
    return next(names)


def counts(summary: IngestionSummary) -> tuple[int, int, int, int, int, int]:
    """Added, changed, unchanged, empty, failed, rejected."""
    return (
        summary.added,
        summary.changed,
        summary.unchanged,
        summary.empty,
        len(summary.failed),
        len(summary.rejected),
    )


def reasons(summary: IngestionSummary) -> dict[str, str]:
    return {rejected.passage_key: rejected.reason for rejected in summary.rejected}


def passage_keys(store: Store, name: str) -> list[str]:
    return [row[0] for row in contents(store, name, "passage")]


def propositions(store: Store, name: str) -> list[str]:
    return [row[2] for row in contents(store, name, "proposition")]


def entities(store: Store, name: str) -> list[str]:
    return [row[0] for row in contents(store, name, "entity")]


# What is counted.


def test_new_passages_are_added(shared_store: Store, name: str) -> None:
    summary = ingest(shared_store, name, [ADA, BOB])
    assert counts(summary) == (2, 0, 0, 0, 0, 0)
    assert (summary.propositions, summary.dropped_entities, summary.truncated) == (3, 0, 0)


def test_what_is_there_is_unchanged(shared_store: Store, name: str) -> None:
    ingest(shared_store, name, [ADA, BOB])
    assert counts(ingest(shared_store, name, [ADA, BOB, CARL])) == (1, 0, 2, 0, 0, 0)


def test_what_is_there_is_neither_extracted_nor_embedded_again(shared_store: Store, name: str) -> None:
    ingest(shared_store, name, [ADA, BOB])
    encoder, language = HashEncoder(), ScriptedLanguage()
    ingest(shared_store, name, [ADA, BOB, CARL], encoder=encoder, language=language)
    assert (language.extracted, encoder.encoded) == (["c"], ["Carl: Carl met Ada."])


def test_a_new_text_under_an_old_key_is_a_change(shared_store: Store, name: str) -> None:
    ingest(shared_store, name, [ADA, BOB])
    summary = ingest(shared_store, name, [ADA, Passage(key="b", title="Bob", text="Bob stood.")])
    assert counts(summary) == (0, 1, 1, 0, 0, 0)
    assert propositions(shared_store, name) == ["Ada met Bob.", "Ada ran.", "Bob stood."]


def test_a_passage_without_propositions_is_empty_and_added(shared_store: Store, name: str) -> None:
    summary = ingest(shared_store, name, [ADA, BOB], language=ScriptedLanguage(extract={"b": []}))
    assert counts(summary) == (2, 0, 0, 1, 0, 0)
    assert [row[5:] for row in contents(shared_store, name, "passage")] == [
        ("ready", "", 2),
        ("empty", "", 0),
    ]


def test_an_empty_passage_is_not_extracted_again(shared_store: Store, name: str) -> None:
    language = ScriptedLanguage(extract={"b": []})
    ingest(shared_store, name, [BOB], language=language)
    assert counts(ingest(shared_store, name, [BOB], language=language)) == (0, 0, 1, 0, 0, 0)
    assert language.extracted == ["b"]


def test_t06_a_failed_passage_is_counted_with_its_reason(shared_store: Store, name: str) -> None:
    summary = ingest(shared_store, name, [ADA, BOB], language=ScriptedLanguage(errors={"b": "HTTP 500"}))
    assert counts(summary) == (2, 0, 0, 0, 1, 0)
    assert summary.failed == (Rejected(passage_key="b", reason="HTTP 500"),)


def test_exact_duplicate_propositions_of_a_passage_are_one(shared_store: Store, name: str) -> None:
    twice = ScriptedLanguage(extract={"a": [("Ada ran.", ["Ada"]), ("Ada ran.", ["Runner"])]})
    assert ingest(shared_store, name, [ADA], language=twice).propositions == 1
    assert contents(shared_store, name, "incidence") == [("a", 0, "ada"), ("a", 0, "runner")]


def test_texts_beyond_the_window_of_the_encoder_are_counted(shared_store: Store, name: str) -> None:
    assert ingest(shared_store, name, [ADA, BOB], encoder=HashEncoder(window=3)).truncated == 1


def test_progress_is_told_of_every_passage_rejected_ones_too(
    shared_store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingestion, "BATCH", 2)
    told: list[int] = []
    ingest(shared_store, name, [ADA, BOB, Rejected(reason="no"), CARL, ADA], progress=told.append)
    assert sum(told) == 5
    assert all(0 < done <= 2 for done in told)


def test_no_passages_are_no_fault(shared_store: Store, name: str) -> None:
    assert counts(ingest(shared_store, name, [])) == (0, 0, 0, 0, 0, 0)


# Titles and metadata.


def test_new_metadata_is_a_change_without_an_extraction(shared_store: Store, name: str) -> None:
    ingest(shared_store, name, [ADA])
    language = ScriptedLanguage()
    relabelled = Passage(key="a", title="Ada", text=ADA.text, metadata={"year": 1843})
    assert counts(ingest(shared_store, name, [relabelled], language=language)) == (0, 1, 0, 0, 0, 0)
    assert language.extracted == []
    assert contents(shared_store, name, "passage")[0][4] == {"year": 1843}


@pytest.mark.parametrize(
    "metadata",
    [
        {"n": 1.0},
        {"n": 0.1},
        {"n": -0.0},
        {"b": 1, "a": [None, {"x": "é\U0001f600"}]},
        {1: "x", "y": 2},
        {"n": 1e23},
        {"n": 1e300},
        {"n": 5e-324},
        {"n": 10**30},
    ],
    ids=str,
)
def test_the_same_metadata_again_is_no_change(shared_store: Store, name: str, metadata: Any) -> None:
    labelled = Passage(key="a", text="Ada ran.", metadata=metadata)
    ingest(shared_store, name, [labelled])
    assert counts(ingest(shared_store, name, [labelled])) == (0, 0, 1, 0, 0, 0)


@pytest.mark.parametrize(("before", "after"), [({"n": 1e23}, {"n": 2e23}), ({}, {"n": None}), ({"n": 1}, {})])
def test_other_metadata_is_a_change(
    shared_store: Store, name: str, before: dict[str, Any], after: dict[str, Any]
) -> None:
    ingest(shared_store, name, [Passage(key="a", text="Ada ran.", metadata=before)])
    summary = ingest(shared_store, name, [Passage(key="a", text="Ada ran.", metadata=after)])
    assert counts(summary) == (0, 1, 0, 0, 0, 0)


def test_with_titles_on_the_title_joins_the_vectors(shared_store: Store, name: str) -> None:
    encoder = HashEncoder()
    ingest(shared_store, name, [BOB], encoder=encoder, titles="on")
    assert encoder.encoded == ["Bob: Bob sat."]


def test_with_titles_off_the_title_stays_out_of_the_vectors(shared_store: Store, name: str) -> None:
    encoder = HashEncoder()
    ingest(shared_store, name, [BOB], encoder=encoder, titles="off")
    assert encoder.encoded == ["Bob sat."]


@pytest.mark.parametrize(("titles", "seen"), [("on", "Bob"), ("off", "")])
def test_titles_are_shown_to_the_extractor_only_where_the_corpus_uses_them(
    shared_store: Store, name: str, titles: Any, seen: str
) -> None:
    given: list[str] = []

    def extract(passage: Passage) -> Extraction:
        given.append(passage.title)
        return Extraction()

    ingest(shared_store, name, [BOB], language=ScriptedLanguage(extract=extract), titles=titles)
    assert given == [seen]


@pytest.mark.parametrize(("titles", "extracted"), [("on", ["b"]), ("off", [])])
def test_a_new_title_is_extracted_anew_only_where_titles_count(
    shared_store: Store, name: str, titles: Any, extracted: list[str]
) -> None:
    ingest(shared_store, name, [BOB], titles=titles)
    language = ScriptedLanguage()
    retitled = Passage(key="b", title="Robert", text=BOB.text)
    summary = ingest(shared_store, name, [retitled], language=language, titles=titles)
    assert (counts(summary), language.extracted) == ((0, 1, 0, 0, 0, 0), extracted)
    assert contents(shared_store, name, "passage")[0][1] == "Robert"


def test_a_corpus_keeps_the_titles_setting_it_was_made_with(shared_store: Store, name: str) -> None:
    ingest(shared_store, name, [BOB], titles="on")
    with pytest.raises(UsageError, match="was made with titles on"):
        ingest(shared_store, name, [BOB], titles="off")


# What is refused.

UNFIT = {
    "NUL in the text": (Passage(key="x", text="a\0b"), "the text holds a NUL character"),
    "NUL in the title": (Passage(key="x", title="\0", text="t"), "the title holds a NUL character"),
    "lone surrogate": (
        Passage(key="x", text="a\ud800b"),
        "the text holds a lone surrogate, which is half of a character",
    ),
    "empty text": (Passage(key="x", text=""), "the text is empty"),
    "white space": (Passage(key="x", text=" \n\t\u00a0"), "the text is empty"),
    "metadata": (Passage(key="x", text="t", metadata={"a": ["\0"]}), "the metadata holds a NUL character"),
    "infinity": (
        Passage(key="x", text="t", metadata={"a": float("inf")}),
        "the metadata holds a number that is too large",
    ),
    "key of zero bytes": (Passage(key="", text="t"), "the key is empty"),
    "long key": (Passage(key="k" * 513, text="t"), "the key has 513 bytes, more than 512"),
    "NUL in the key": (Passage(key="\0", text="t"), "the key holds a NUL character"),
    "key given before": (Passage(key="a", text="t"), "the key was given before in this ingestion"),
}


@pytest.mark.parametrize(("unfit", "reason"), UNFIT.values(), ids=UNFIT)
def test_t11_an_unfit_passage_is_refused_with_a_reason_and_its_neighbours_go_in(
    shared_store: Store, name: str, unfit: Passage, reason: str
) -> None:
    summary = ingest(shared_store, name, [ADA, unfit, BOB])
    assert [rejected.reason for rejected in summary.rejected] == [reason]
    assert passage_keys(shared_store, name) == ["a", "b"]


NO_JSON = {
    "not a number": ({"a": float("nan")}, "the metadata is no JSON: Out of range float values"),
    "a set": ({"a": {1, 2}}, "the metadata is no JSON: Object of type set"),
    "bytes": ({"a": b"x"}, "the metadata is no JSON: Object of type bytes"),
    "a key that is no text": ({(1, 2): "x"}, "the metadata is no JSON: keys must be str"),
}


@pytest.mark.parametrize(("metadata", "reason"), NO_JSON.values(), ids=NO_JSON)
def test_t11_metadata_that_is_no_json_is_refused_and_the_neighbours_go_in(
    shared_store: Store, name: str, metadata: Any, reason: str
) -> None:
    summary = ingest(shared_store, name, [ADA, Passage(key="x", text="t", metadata=metadata), BOB])
    assert passage_keys(shared_store, name) == ["a", "b"]
    assert [rejected.reason.startswith(reason) for rejected in summary.rejected] == [True]


def test_what_a_reader_rejected_is_handed_on(shared_store: Store, name: str) -> None:
    rejected = Rejected(reason="malformed JSON", path="f.jsonl", line_number=3)
    summary = ingest(shared_store, name, [ADA, rejected])
    assert (counts(summary), summary.rejected) == ((1, 0, 0, 0, 0, 1), (rejected,))


def test_of_a_key_given_twice_the_first_counts(
    shared_store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingestion, "BATCH", 1)
    summary = ingest(shared_store, name, [ADA, BOB, Passage(key="a", text="Other.")])
    assert (counts(summary), reasons(summary)) == (
        (2, 0, 0, 0, 0, 1), {"a": "the key was given before in this ingestion"},
    )  # fmt: skip
    assert propositions(shared_store, name)[0] == "Ada met Bob."


T11_LINES = [
    b'{"id": "nul", "text": "a\\u0000b"}',
    b'{"id": "surrogate", "text": "a\\ud800b"}',
    b'{"id": "bytes", "text": "a\xff\xfeb"}',
    b'{"id": "empty", "text": ""}',
    b'{"id": "white", "text": " \\n\\t "}',
    b"not JSON",
    b'{"id": "one", "text": "\xe6\x9d\xb1"}',
    '{"id": "right to left", "text": "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd."}'.encode(),
    '{"id": "joiners", "text": "\U0001f469\u200d\U0001f680 flew."}'.encode(),
    b'{"id": "long", "text": "' + b"Ada ran on. " * 20_000 + b'"}',
    b'{"id": "last", "text": "Ada sat."}',
]


def test_t11_every_line_of_a_file_goes_in_or_is_refused_on_its_own(
    shared_store: Store, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "odd.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + b"\n".join(T11_LINES))
    whole = ScriptedLanguage(extract=lambda p: Extraction(propositions=(ExtractedProposition(text=p.text),)))
    summary = ingest(shared_store, name, read_passages([file]), language=whole)
    assert passage_keys(shared_store, name) == ["joiners", "last", "long", "one", "right to left"]
    assert [(rejected.line_number, bool(rejected.reason)) for rejected in summary.rejected] == [
        (1, True), (2, True), (3, True), (4, True), (5, True), (6, True),
    ]  # fmt: skip


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_t11_a_file_with_a_byte_order_mark_is_read_as_what_it_is(
    shared_store: Store, name: str, tmp_path: Path, encoding: str
) -> None:
    file = tmp_path / "marked.jsonl"
    file.write_text('{"id": "a", "text": "Łódź lies far."}\n', encoding=encoding)
    ingest(shared_store, name, read_passages([file]))
    assert propositions(shared_store, name) == ["Łódź lies far."]


def test_t12_names_that_fold_together_and_names_that_stay_apart(shared_store: Store, name: str) -> None:
    forms = ["東京", "北京大学", "Москва", "Łódź", "Lodz", "C", "C++", "C#", "ŁÓDŹ", "Ｃ"]
    forms += [unicodedata.normalize("NFD", form) for form in forms]
    language = ScriptedLanguage(extract={"a": [("one", forms)]})
    ingest(shared_store, name, [ADA], language=language)
    assert sorted(entities(shared_store, name)) == [
        "c", "c#", "c++", "lodz", "łódź", "москва", "北京大学", "東京",
    ]  # fmt: skip


# What a model wrote.


def test_unstorable_characters_of_a_model_do_not_reach_the_database(shared_store: Store, name: str) -> None:
    odd = ScriptedLanguage(extract={"a": [("Ada\0 ran\ud800.", ["A\0da", "\ud800"])]})
    ingest(shared_store, name, [ADA], language=odd)
    assert propositions(shared_store, name) == ["Ada ran\ufffd."]
    assert entities(shared_store, name) == ["ada", "\ufffd"]


@pytest.mark.parametrize("empty", ["", "  ", "\0"], ids=repr)
def test_propositions_without_text_are_left_out(shared_store: Store, name: str, empty: str) -> None:
    ingest(shared_store, name, [ADA], language=ScriptedLanguage(extract={"a": [(empty, []), ("x", [])]}))
    assert contents(shared_store, name, "proposition") == [("a", 0, "x", None, None)]


@pytest.mark.parametrize("form", ["", "“”", ",", "x" * 301, "\ufdfa" * 20], ids=repr)
def test_names_that_are_empty_or_too_long_are_dropped_and_counted(
    shared_store: Store, name: str, form: str
) -> None:
    summary = ingest(
        shared_store, name, [ADA], language=ScriptedLanguage(extract={"a": [("x", [form, "Ada"])]})
    )
    assert (summary.dropped_entities, entities(shared_store, name)) == (1, ["ada"])


def test_a_reason_with_unstorable_characters_fails_its_passage_alone(shared_store: Store, name: str) -> None:
    failing = ScriptedLanguage(errors={"b": "bad \0 \ud800 end"})
    summary = ingest(shared_store, name, [ADA, BOB, CARL], language=failing)
    assert summary.failed == (Rejected(passage_key="b", reason="bad  \ufffd end"),)


def misplaced(passage: Passage) -> Extraction:
    """For b a span that the database refuses."""
    span = (5, 5) if passage.key == "b" else None
    return Extraction(propositions=(ExtractedProposition(text="x", span=span),))


def test_a_passage_that_the_database_refuses_does_not_harm_its_neighbours(
    shared_store: Store, name: str
) -> None:
    summary = ingest(shared_store, name, [ADA, BOB, CARL], language=ScriptedLanguage(extract=misplaced))
    assert counts(summary) == (2, 0, 0, 0, 0, 1)
    assert passage_keys(shared_store, name) == ["a", "c"]
    assert reasons(summary)["b"].startswith("the database refused it: ")


def test_a_passage_that_takes_the_database_too_long_does_not_harm_its_neighbours(
    shared_store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = writing.write_passages

    def slow(
        tx: Transaction, corpus: CorpusRow, space: SpaceRow, batch: Sequence[PreparedPassage]
    ) -> Written:
        if any(prepared.passage.key == "b" for prepared in batch):
            raise DatabaseError(
                "`insert_mentions` was canceled", sqlstate="57014", statement="insert_mentions"
            )
        return write(tx, corpus, space, batch)

    monkeypatch.setattr(writing, "write_passages", slow)
    summary = ingest(shared_store, name, [ADA, BOB, CARL])
    assert passage_keys(shared_store, name) == ["a", "c"]
    assert reasons(summary) == {"b": "the database refused it: `insert_mentions` was canceled"}


def test_t07_what_a_model_that_ran_wild_gives_too_much_of_is_cut_and_said(
    shared_store: Store, name: str
) -> None:
    forms = [f"E{number}" for number in range(203)]
    wild = ScriptedLanguage(
        extract={"a": [("first", forms), ("first", forms), *((f"x{i:04}", ()) for i in range(2_004))]}
    )
    summary = ingest(shared_store, name, [ADA, BOB], language=wild)
    written = [row for row in contents(shared_store, name, "proposition") if row[0] == "a"]
    assert (len(written), max(row[2] for row in written)) == (2_000, "x1998")
    assert len([row for row in contents(shared_store, name, "incidence") if row[0] == "a"]) == 200
    assert summary.notes == (
        "5 propositions were left out: more than 2,000 in one passage are not taken",
        "6 entity names were left out: more than 200 in one proposition are not taken",
    )


def test_t11_a_long_text_has_as_many_propositions_as_it_can_hold(shared_store: Store, name: str) -> None:
    long = Passage(key="long", text="Ada ran to Bob's. " * 3_000)
    whole = ScriptedLanguage(extract={"long": [(f"x{i}", ()) for i in range(2_500)]})
    summary = ingest(shared_store, name, [long], language=whole)
    assert (summary.propositions, summary.notes) == (2_500, ())


# Ready-made extractions.


def lines(path: Path, *objects: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in objects), encoding="utf-8")
    return path


@pytest.fixture
def ready(tmp_path: Path) -> dict[str, Extraction]:
    """Extractions of a from a file; b has none."""
    proposition = {"text": "Ada ran.", "entities": ["Ada", {"name": "Runner"}]}
    file = lines(tmp_path / "ready.jsonl", {"passage_id": "a", "propositions": [proposition]})
    return read_extractions(file)


def test_ready_made_extractions_are_used_and_the_rest_is_extracted(
    shared_store: Store, name: str, ready: dict[str, Extraction]
) -> None:
    language = ScriptedLanguage()
    ingest(shared_store, name, [ADA, BOB], language=language, extractions=ready)
    assert language.extracted == ["b"]
    assert contents(shared_store, name, "incidence") == [("a", 0, "ada"), ("a", 0, "runner"), ("b", 0, "bob")]


def test_ready_made_propositions_find_their_place_in_the_text(
    shared_store: Store, name: str, ready: dict[str, Extraction]
) -> None:
    ingest(shared_store, name, [ADA], extractions=ready)
    assert contents(shared_store, name, "proposition") == [("a", 0, "Ada ran.", 13, 21)]


def test_ready_made_extractions_again_change_nothing(
    shared_store: Store, name: str, ready: dict[str, Extraction]
) -> None:
    ingest(shared_store, name, [ADA], extractions=ready)
    assert counts(ingest(shared_store, name, [ADA], extractions=ready)) == (0, 0, 1, 0, 0, 0)


def test_a_new_ready_made_extraction_is_a_change(
    shared_store: Store, name: str, ready: dict[str, Extraction]
) -> None:
    ingest(shared_store, name, [ADA], extractions=ready)
    other = {"a": Extraction(propositions=(ExtractedProposition(text="Ada sat."),))}
    assert counts(ingest(shared_store, name, [ADA], extractions=other)) == (0, 1, 0, 0, 0, 0)


def test_a_malformed_ready_made_extraction_fails_its_passage(
    shared_store: Store, name: str, tmp_path: Path
) -> None:
    file = lines(tmp_path / "bad.jsonl", {"passage_id": "a", "propositions": "none"})
    summary = ingest(shared_store, name, [ADA, BOB], extractions=read_extractions(file))
    assert [failed.passage_key for failed in summary.failed] == ["a"]
    assert (counts(summary)[0], propositions(shared_store, name)) == (2, ["Bob sat."])


# Models that change.


def test_another_extractor_is_noted(shared_store: Store, name: str) -> None:
    ingest(shared_store, name, [ADA], language=ScriptedLanguage(name="first/1"))
    summary = ingest(shared_store, name, [BOB], language=ScriptedLanguage(name="second/1"))
    assert summary.notes == (
        "the corpus was extracted by first/1 so far and by second/1 from now on: "
        "its propositions are of two kinds",
    )


def test_the_same_extractor_is_not_noted(shared_store: Store, name: str) -> None:
    ingest(shared_store, name, [ADA])
    assert ingest(shared_store, name, [BOB]).notes == ()


def test_what_another_extractor_passes_over_is_noted(shared_store: Store, name: str) -> None:
    ingest(shared_store, name, [ADA], language=ScriptedLanguage(name="first/1"))
    (note,) = ingest(shared_store, name, [ADA], language=ScriptedLanguage(name="second/1")).notes
    assert note.startswith("the unchanged passages stay as first/1 extracted them")


GERMAN = Passage(
    key="g",
    text="Die Stadt liegt an der Weser und wurde im Jahr 1203 erstmals in einer Urkunde erwähnt. "
    "Sie gehört heute zu Bremen und hat einen alten Hafen.",
)


def rules(extract: dict[str, list[tuple[str, list[str]]]]) -> ScriptedLanguage:
    """A double that goes by the name of the backend that knows English only."""
    return ScriptedLanguage(extract=extract, name="rules/1")


@pytest.mark.parametrize(
    ("passage", "warned"),
    [
        (GERMAN, True),
        (Passage(key="g", text="The town lies on the Weser, and it was first mentioned in 1203."), False),
    ],
    ids=["German", "English"],
)
def test_the_rules_warn_of_a_corpus_that_is_not_english(
    shared_store: Store, name: str, passage: Passage, warned: bool
) -> None:
    summary = ingest(shared_store, name, [passage], language=rules({"g": []}))
    assert any("do not look like English" in note for note in summary.notes) is warned


def test_a_model_that_knows_other_languages_does_not_warn(shared_store: Store, name: str) -> None:
    assert ingest(shared_store, name, [GERMAN]).notes == ()


def test_t09_another_encoder_is_refused_with_both_names(shared_store: Store, name: str) -> None:
    ingest(shared_store, name, [ADA], encoder=HashEncoder(64))
    with pytest.raises(VectorSpaceMismatch, match=r"hash-64 \(64-d\).*hash-96 \(96-d\)") as caught:
        ingest(shared_store, name, [BOB], encoder=HashEncoder(96))
    assert (caught.value.stored, caught.value.offered) == ("hash-64 (64-d)", "hash-96 (96-d)")
    assert passage_keys(shared_store, name) == ["a"]


def test_t09_another_model_of_the_same_length_is_refused(shared_store: Store, name: str) -> None:
    ingest(shared_store, name, [ADA])
    with pytest.raises(VectorSpaceMismatch, match=r"hash-64 \(64-d\).*other \(64-d\)"):
        ingest(shared_store, name, [BOB], encoder=HashEncoder(model="other"))


@pytest.mark.parametrize("dimensions", [1, 4_000, 4_096])
def test_t09_vectors_of_any_length_are_searched(shared_store: Store, name: str, dimensions: int) -> None:
    encoder = HashEncoder(dimensions)
    ingest(shared_store, name, [ADA, BOB], encoder=encoder)
    assert keys(search(shared_store, name, "Bob sat", encoder=encoder, variant="base"))[0] in "ab"


def test_a_corpus_that_is_not_there_is_not_made(shared_store: Store, name: str) -> None:
    with pytest.raises(CorpusNotFound, match=f"no corpus is called '{name}'"):
        ingestion.ingest(shared_store, name, [ADA], encoder=HashEncoder(), language=ScriptedLanguage())


# The index, and interruptions.


def is_indexed(store: Store, name: str) -> bool:
    with store.transaction(read_only=True) as tx:
        return active_space(tx, get_corpus(tx, name).corpus_id, "proposition").indexed


@pytest.mark.parametrize(("threshold", "indexed"), [(3, True), (4, False)])
def test_the_index_is_built_from_the_threshold_on(
    shared_store: Store, name: str, monkeypatch: pytest.MonkeyPatch, threshold: int, indexed: bool
) -> None:
    monkeypatch.setattr(ingestion, "INDEX_THRESHOLD", threshold)
    ingest(shared_store, name, [ADA, BOB])
    assert is_indexed(shared_store, name) is indexed


def test_a_corpus_with_an_index_is_ingested_into_and_searched(
    shared_store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingestion, "INDEX_THRESHOLD", 1)
    ingest(shared_store, name, [ADA, BOB])
    ingest(shared_store, name, [CARL])
    ranking = search(shared_store, name, "Carl met Ada", exact=False, variant="base")
    assert keys(ranking)[0] == "c"


def test_vectors_too_long_for_an_index_of_their_own_get_one_of_their_signs(
    shared_store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingestion, "INDEX_THRESHOLD", 1)
    ingest(shared_store, name, [ADA, BOB], encoder=HashEncoder(4_001))
    assert is_indexed(shared_store, name)


MANY = [Passage(key=f"p{number}", text=f"Ada met number {number}.") for number in range(10)]


class Stopped(Exception):
    """What stops an ingestion in the middle."""


@pytest.fixture
def interrupted(shared_store: Store, name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A corpus whose ingestion stopped after its second batch of three."""
    monkeypatch.setattr(ingestion, "BATCH", 3)
    told: list[int] = []

    def stop(done: int) -> None:
        told.append(done)
        if sum(told) == 6:
            raise Stopped

    with pytest.raises(Stopped):
        ingest(shared_store, name, MANY, progress=stop)
    return name


def test_what_was_done_before_an_interruption_stays(shared_store: Store, interrupted: str) -> None:
    assert passage_keys(shared_store, interrupted) == ["p0", "p1", "p2", "p3", "p4", "p5"]


def test_after_an_interruption_the_rest_alone_is_extracted(shared_store: Store, interrupted: str) -> None:
    language = ScriptedLanguage()
    summary = ingest(shared_store, interrupted, MANY, language=language)
    assert (counts(summary), language.extracted) == ((4, 0, 6, 0, 0, 0), ["p6", "p7", "p8", "p9"])


def test_after_an_interruption_the_index_is_as_if_there_was_none(
    shared_store: Store, interrupted: str
) -> None:
    ingest(shared_store, interrupted, MANY)
    straight = next(names)
    ingest(shared_store, straight, MANY)
    assert differences(shared_store, interrupted, straight) == {}


def test_an_ingestion_ends_when_its_corpus_is_deleted(
    shared_store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingestion, "BATCH", 3)

    def delete(_: int) -> None:
        with shared_store.transaction() as tx:
            delete_corpus(tx, name)

    with pytest.raises(CorpusNotFound, match="was deleted meanwhile"):
        ingest(shared_store, name, MANY, progress=delete)


@pytest.mark.parametrize("concurrency", [1, 2])
def test_passages_are_read_as_they_are_needed(
    shared_store: Store, name: str, monkeypatch: pytest.MonkeyPatch, concurrency: int
) -> None:
    monkeypatch.setattr(ingestion, "BATCH", 2)
    read = 0

    def stream() -> Iterator[Passage]:
        nonlocal read
        for passage in MANY:
            read += 1
            yield passage

    done = 0

    def bounded(passages: int) -> None:
        nonlocal done
        done += passages
        assert read <= done + 2 + concurrency + 2  # a batch read, those in flight, a batch that waits

    language = ScriptedLanguage(concurrency=concurrency)
    ingest(shared_store, name, stream(), progress=bounded, language=language)
    assert done == 10


def test_keys_that_are_not_there_are_not_deleted(shared_store: Store, name: str) -> None:
    ingest(shared_store, name, [ADA, BOB])
    assert ingestion.delete(shared_store, name, ["b", "b", "x"]) == ["b"]
    assert passage_keys(shared_store, name) == ["a"]


@pytest.mark.parametrize("key", ["a\0", "\ud800"], ids=repr)
def test_a_key_that_no_database_holds_is_not_there(shared_store: Store, name: str, key: str) -> None:
    ingest(shared_store, name, [ADA])
    assert ingestion.delete(shared_store, name, [key]) == []


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"text": None}, "the text must be text, not NoneType"),
        ({"title": None}, "the title must be text, not NoneType"),
        ({"key": 5}, "the key must be text, not int"),
        ({"metadata": {"a": ("x\0",)}}, "the metadata holds a NUL character"),
        (
            {"metadata": {"a": ("x\ud800",)}},
            "the metadata holds a lone surrogate, which is half of a character",
        ),
    ],
)
def test_t11_a_passage_that_a_program_got_wrong_is_refused_alone(
    shared_store: Store, name: str, wrong: dict[str, Any], reason: str
) -> None:
    good = Passage(key="good", text="Ada saw Bob.")
    bad = Passage(**{"key": "bad", "text": "Ada saw Cy.", **wrong})
    summary = ingest(shared_store, name, [bad, good], language=ScriptedLanguage())
    assert ([rejected.reason for rejected in summary.rejected], summary.added) == ([reason], 1)


def test_a_text_is_not_taken_for_a_list_of_keys_or_questions(database_url: str) -> None:
    with connect(database_url, encoder=HashEncoder(), language=ScriptedLanguage()) as db:
        corpus = db.corpus("letters", create=True)
        corpus.ingest([Passage(key=key, text="Ada saw Bob.") for key in ("p", "5")])
        with pytest.raises(UsageError, match="passage_keys must be a list"):
            corpus.delete("p5")
        with pytest.raises(UsageError, match="questions must be a list"):
            corpus.search_many("ab")
        assert corpus.status().ready == 2
