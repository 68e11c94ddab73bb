"""`evireform.formats.datasets`: published files are told apart, read whole, or the faulty field is named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from evireform.errors import InputError, UsageError
from evireform.formats.datasets import FORMATS, Dataset, read_dataset
from evireform.formats.datasets.reading import passage_key
from evireform.records import Passage, Question, Rejected

MILL = ("Old Mill", ["The mill stands in Arve.", " Ida Lund built it."])
LUND = ("Ida Lund", ["Ida Lund was born in Tosk."])
FERRY = ("Ferry", ["A ferry runs daily."])


def key_of(paragraph: tuple[str, list[str]], joint: str = "") -> str:
    title, sentences = paragraph
    return passage_key(title, joint.join(sentences))


def sample(key: str = "q1", **changes: Any) -> dict[str, Any]:
    """A question in the fields of HotpotQA."""
    fields = {
        "_id": key,
        "question": "Where was the builder of the Old Mill born?",
        "answer": "Tosk",
        "type": "bridge",
        "level": "hard",
        "supporting_facts": [["Old Mill", 1], ["Ida Lund", 0]],
        "context": [list(FERRY), list(MILL), list(LUND)],
    }
    return {name: value for name, value in {**fields, **changes}.items() if value is not ...}


def musique(key: str = "2hop__1_2", **changes: Any) -> dict[str, Any]:
    """A question in the fields of MuSiQue."""
    fields = {
        "id": key,
        "paragraphs": [
            {"idx": 0, "title": "Ferry", "paragraph_text": "A ferry runs daily.", "is_supporting": False},
            {"idx": 1, "title": "Old Mill", "paragraph_text": "Ida Lund built it.", "is_supporting": True},
            {"idx": 2, "title": "Ida Lund", "paragraph_text": "She is from Tosk.", "is_supporting": True},
        ],
        "question": "Where is the builder of the Old Mill from?",
        "question_decomposition": [{"id": 1, "question": "Old Mill >> builder"}, {"id": 2, "question": "#1"}],
        "answer": "Tosk",
        "answer_aliases": ["Tosk, Arve"],
        "answerable": True,
    }
    return {**fields, **changes}


def as_json(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def as_jsonl(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def keys(rows: Iterable[Passage | Rejected]) -> list[str]:
    return [row.key for row in rows if isinstance(row, Passage)]


def make_jsonl(folder: Path) -> None:
    as_jsonl(folder / "corpus.jsonl", {"id": "a", "text": "A."}, {"id": "b", "text": "B."})
    question = {"id": "q1", "question": "Who?", "answers": ["I"], "gold_passage_ids": ["a"]}
    as_jsonl(folder / "questions.jsonl", question)


def make_beir(folder: Path) -> None:
    as_jsonl(
        folder / "corpus.jsonl",
        {"_id": "a", "title": "Mill", "text": "It grinds.", "metadata": {}},
        {"_id": "b", "title": "", "text": "It floats.", "metadata": {}},
    )
    queries = [{"_id": key, "text": f"What is {key}?", "metadata": {}} for key in ("7", "q2", "unasked")]
    as_jsonl(folder / "queries.jsonl", *queries)
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq2\tb\t1\n7\ta\t2\n7\tb\t0\n")


def make_hotpotqa(folder: Path) -> None:
    as_json(folder / "hotpot_dev_distractor_v1.json", [sample("q1"), sample("q2")])


def make_2wiki(folder: Path) -> None:
    evidence = {"evidences": [["Old Mill", "builder", "Ida Lund"]], "evidences_id": []}
    as_json(folder / "dev.json", [sample("q1", **evidence)])


def make_musique(folder: Path) -> None:
    as_jsonl(folder / "musique_ans_v1.0_dev.jsonl", musique())


def make_hipporag(folder: Path) -> None:
    corpus = [{"title": title, "text": "".join(sentences)} for title, sentences in (MILL, LUND, FERRY)]
    as_json(folder / "hotpotqa_corpus.json", corpus)
    as_json(folder / "hotpotqa.json", [sample("q1")])


def make_graphrag(folder: Path) -> None:
    as_json(folder / "Corpus" / "novel.json", [{"corpus_name": "Novel-1", "context": "Once. " * 500}])
    question = {
        "id": "Novel-q1",
        "source": "Novel-1",
        "question": "When?",
        "answer": "Once",
        "question_type": "Fact Retrieval",
        "evidence": ["Once."],
        "evidence_triple": ["(it, was, once)"],
    }
    as_json(folder / "Questions" / "novel_questions.json", [question])


def make_trec(folder: Path) -> None:
    as_jsonl(folder / "corpus.jsonl", {"id": "a b", "text": "A."}, {"id": "c", "text": "C."})
    (folder / "topics.tsv").write_text("1\tWhat is A?\n2\tWhat is B?\n")
    (folder / "qrels.txt").write_text("1 0 a%20b 1\n1 0 c 0\n")


MAKERS: dict[str, Callable[[Path], None]] = {
    "jsonl": make_jsonl,
    "beir": make_beir,
    "hipporag": make_hipporag,
    "graphrag-bench": make_graphrag,
    "trec": make_trec,
    "hotpotqa": make_hotpotqa,
    "2wikimultihopqa": make_2wiki,
    "musique": make_musique,
}


def made(folder: Path, format_name: str) -> Dataset:
    MAKERS[format_name](folder)
    return read_dataset(folder)


def test_every_format_has_its_files_here() -> None:
    assert MAKERS.keys() == FORMATS.keys()


@pytest.mark.parametrize("format_name", list(FORMATS))
def test_the_format_of_a_folder_is_told_from_its_files(tmp_path: Path, format_name: str) -> None:
    dataset = made(tmp_path, format_name)
    assert dataset.format == format_name
    assert read_dataset(tmp_path, format_name=format_name).questions == dataset.questions


@pytest.mark.parametrize("format_name", list(FORMATS))
def test_passages_can_be_read_again_and_each_once(tmp_path: Path, format_name: str) -> None:
    dataset = made(tmp_path, format_name)
    first = keys(dataset.passages())
    assert first == keys(dataset.passages())
    assert len(first) == len(set(first)) > 0


@pytest.mark.parametrize("format_name", list(FORMATS))
def test_every_gold_passage_is_among_the_passages(tmp_path: Path, format_name: str) -> None:
    dataset = made(tmp_path, format_name)
    assert {gold for question in dataset.questions for gold in question.gold} <= set(keys(dataset.passages()))
    assert not any("gold passages are not in" in note for note in dataset.notes)


@pytest.mark.parametrize("format_name", list(FORMATS))
def test_a_set_is_also_named_by_its_file(tmp_path: Path, format_name: str) -> None:
    MAKERS[format_name](tmp_path)
    [path] = FORMATS[format_name].find(tmp_path)
    assert read_dataset(path).questions == read_dataset(tmp_path).questions


def test_hotpotqa_takes_gold_from_the_titles_of_supporting_facts(tmp_path: Path) -> None:
    first, second = made(tmp_path, "hotpotqa").questions
    assert first == Question(
        key="q1",
        text="Where was the builder of the Old Mill born?",
        gold=(key_of(MILL), key_of(LUND)),
        answers=("Tosk",),
        kind="bridge",
        hops=2,
    )
    assert second.gold == first.gold


def test_paragraphs_that_many_questions_bring_are_one_passage(tmp_path: Path) -> None:
    dataset = made(tmp_path, "hotpotqa")
    assert [row.title for row in dataset.passages() if isinstance(row, Passage)] == [
        "Ferry",
        "Old Mill",
        "Ida Lund",
    ]
    everything = (key_of(FERRY), key_of(MILL), key_of(LUND))
    assert dataset.brings == {"q1": everything, "q2": everything}


def test_the_same_title_with_another_text_is_another_passage(tmp_path: Path) -> None:
    other = ["Ferry", ["Another ferry runs at night."]]
    as_json(tmp_path / "x.json", [sample("q1"), sample("q2", context=[other, list(MILL), list(LUND)])])
    assert len(keys(read_dataset(tmp_path).passages())) == 4


def test_sentences_are_joined_as_each_set_writes_them(tmp_path: Path) -> None:
    made_2wiki = made(tmp_path, "2wikimultihopqa")
    texts = [row.text for row in made_2wiki.passages() if isinstance(row, Passage)]
    assert "The mill stands in Arve.  Ida Lund built it." in texts
    (tmp_path / "dev.json").unlink()
    texts = [row.text for row in made(tmp_path, "hotpotqa").passages() if isinstance(row, Passage)]
    assert "The mill stands in Arve. Ida Lund built it." in texts


def test_a_hidden_test_file_has_questions_without_gold(tmp_path: Path) -> None:
    as_json(tmp_path / "test.json", [sample(answer=..., supporting_facts=...)])
    [question] = read_dataset(tmp_path).questions
    assert (question.gold, question.answers, question.hops) == ((), (), None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"_id": ...}, "_id: field required"),
        ({"_id": 1.5}, "_id: text or a whole number is expected, not a number"),
        ({"_id": " "}, "_id: is empty"),
        ({"question": " "}, "question: text is expected, not empty text"),
        ({"question": "a\0b"}, "question: holds a NUL character"),
        ({"context": ...}, "context: field required"),
        ({"context": [["Old Mill"]]}, "context.0.1: field required"),
        ({"context": [["Old Mill", ["One.", 2]]]}, "context.0.1.1: input should be a valid string"),
        ({"supporting_facts": [["Old Mill", "x"]]}, "supporting_facts.0.1: input should be a valid integer"),
        ({"supporting_facts": []}, "supporting_facts: at least one is expected where there is an answer"),
        (
            {"supporting_facts": [["Tower", 0]]},
            "supporting_facts: no paragraph of the context is called 'Tower'",
        ),
    ],
)
def test_a_wrong_field_is_named_with_its_record(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = as_json(tmp_path / "x.json", [sample("q0"), sample(**change)])
    with pytest.raises(InputError) as caught:
        read_dataset(path)
    assert str(caught.value).startswith(f"{path} record 2: {message}")
    assert caught.value.path == path


def test_half_a_json_file_names_the_record_that_is_cut(tmp_path: Path) -> None:
    path = as_json(tmp_path / "x.json", [sample("q0"), sample("q1")])
    path.write_text(path.read_text()[:-40])
    with pytest.raises(InputError, match=r"x\.json record 2: malformed or half a JSON file"):
        read_dataset(path)


def test_a_second_use_of_an_id_names_the_first(tmp_path: Path) -> None:
    path = as_json(tmp_path / "x.json", [sample(), sample()])
    with pytest.raises(InputError, match="record 2: id: already given by record 1"):
        read_dataset(path)


def test_a_paragraph_without_text_is_refused_on_its_own(tmp_path: Path) -> None:
    path = as_json(tmp_path / "x.json", [sample(context=[["Ferry", []], list(MILL), list(LUND)])])
    dataset = read_dataset(path)
    [refused] = [row for row in dataset.passages() if isinstance(row, Rejected)]
    assert refused.reason == "record 1: paragraph 1 (Ferry) has no text"
    assert dataset.brings["q1"] == (key_of(MILL), key_of(LUND))


def test_a_file_in_another_encoding_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps([sample(answer="Łódź")], ensure_ascii=False), encoding="utf-16")
    assert read_dataset(path).questions[0].answers == ("Łódź",)


def test_musique_takes_gold_from_is_supporting(tmp_path: Path) -> None:
    [question] = made(tmp_path, "musique").questions
    assert question == Question(
        key="2hop__1_2",
        text="Where is the builder of the Old Mill from?",
        gold=(passage_key("Old Mill", "Ida Lund built it."), passage_key("Ida Lund", "She is from Tosk.")),
        answers=("Tosk", "Tosk, Arve"),
        kind="2hop",
        hops=2,
    )


def test_musique_questions_that_cannot_be_answered_are_left_out_and_counted(tmp_path: Path) -> None:
    path = as_jsonl(tmp_path / "musique_full_v1.0_dev.jsonl", musique(), musique(answerable=False))
    dataset = read_dataset(path)
    assert [question.key for question in dataset.questions] == ["2hop__1_2"]
    assert dataset.notes == ("1 questions were left out: they cannot be answered (answerable: false)",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"paragraphs": [{"title": "Mill"}]}, "paragraphs.0.paragraph_text: field required"),
        ({"paragraphs": []}, "paragraphs: one with is_supporting is expected where there is an answer"),
        ({"answer_aliases": "Tosk"}, "answer_aliases: input should be a valid list"),
        ({"answerable": "yes"}, "answerable: input should be a valid boolean"),
    ],
)
def test_a_wrong_field_of_musique_is_named_with_its_line(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = as_jsonl(tmp_path / "m.jsonl", musique("2hop__0"), musique(**change))
    with pytest.raises(InputError) as caught:
        read_dataset(path)
    assert str(caught.value) == f"{path} line 2: {message}"
    assert caught.value.line_number == 2


def test_beir_asks_what_the_qrels_judge(tmp_path: Path) -> None:
    dataset = made(tmp_path, "beir")
    assert dataset.questions == (
        Question(key="7", text="What is 7?", gold=("a",)),
        Question(key="q2", text="What is q2?", gold=("b",)),
    )
    assert next(dataset.passages()) == Passage(key="a", title="Mill", text="It grinds.")
    assert dataset.name == f"{tmp_path.name}-test"


def test_of_several_splits_beir_takes_test_unless_one_is_named(tmp_path: Path) -> None:
    make_beir(tmp_path)
    dev = tmp_path / "qrels" / "dev.tsv"
    dev.write_text("query-id\tcorpus-id\tscore\nunasked\ta\t1\n")
    assert [question.key for question in read_dataset(tmp_path).questions] == ["7", "q2"]
    assert [question.key for question in read_dataset(dev).questions] == ["unasked"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q2\tb", "three columns separated by tabs are expected, not 2"),
        ("q2\tb\thigh", "score: a whole number is expected, not 'high'"),
        ("q9\tb\t1", "query-id: 'q9' is not in"),
    ],
)
def test_a_wrong_line_of_beir_qrels_is_named(tmp_path: Path, line: str, message: str) -> None:
    make_beir(tmp_path)
    path = tmp_path / "qrels" / "test.tsv"
    path.write_text(f"query-id\tcorpus-id\tscore\n{line}\n")
    with pytest.raises(InputError) as caught:
        read_dataset(tmp_path)
    assert str(caught.value).startswith(f"{path} line 2: {message}")


def test_beir_qrels_without_their_header_are_refused(tmp_path: Path) -> None:
    make_beir(tmp_path)
    (tmp_path / "qrels" / "test.tsv").write_text("q2\tb\t1\n")
    with pytest.raises(InputError, match="line 1: the header"):
        read_dataset(tmp_path)


@pytest.mark.parametrize("format_name", ["jsonl", "beir", "trec"])
def test_gold_that_the_corpus_lacks_is_noted(tmp_path: Path, format_name: str) -> None:
    MAKERS[format_name](tmp_path)
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(corpus.read_text().splitlines(keepends=True)[1:]))
    [note] = read_dataset(tmp_path).notes
    assert note.startswith("1 gold passages are not in corpus.jsonl and count as missed (the first: ")


def test_hipporag_finds_its_gold_in_the_corpus(tmp_path: Path) -> None:
    dataset = made(tmp_path, "hipporag")
    assert dataset.name == "hotpotqa"
    assert dataset.questions[0].gold == (key_of(MILL), key_of(LUND))
    assert (dataset.questions[0].kind, dataset.questions[0].hops) == ("bridge", 2)


def test_hipporag_joins_sentences_as_the_corpus_does(tmp_path: Path) -> None:
    corpus = [{"title": title, "text": " ".join(sentences), "idx": 0} for title, sentences in (MILL, LUND)]
    as_json(tmp_path / "2wikimultihopqa_corpus.json", corpus)
    as_json(tmp_path / "2wikimultihopqa.json", [sample()])
    assert read_dataset(tmp_path).questions[0].gold == (key_of(MILL, " "), key_of(LUND))


def test_hipporag_reads_the_corpus_of_its_first_release(tmp_path: Path) -> None:
    as_json(tmp_path / "hotpotqa_corpus.json", dict([MILL, LUND, FERRY]))
    as_json(tmp_path / "hotpotqa.json", [sample()])
    dataset = read_dataset(tmp_path)
    assert keys(dataset.passages()) == [key_of(MILL), key_of(LUND), key_of(FERRY)]


def test_hipporag_reads_questions_of_musique_and_of_single_hop_sets(tmp_path: Path) -> None:
    corpus = [
        {"title": "Old Mill", "text": "Ida Lund built it."},
        {"title": "Ida Lund", "text": "She is from Tosk."},
    ]
    contexts = [{"title": "Old Mill", "text": "Ida Lund built it.", "is_supporting": True}]
    single = {
        "id": 5,
        "question": "Who built it?",
        "possible_answers": ["Ida Lund", "Lund"],
        "contexts": contexts,
    }
    as_json(tmp_path / "mixed_corpus.json", corpus)
    as_json(tmp_path / "mixed.json", [musique(), single])
    first, second = read_dataset(tmp_path).questions
    assert (first.kind, first.hops, len(first.gold)) == ("2hop", 2, 2)
    assert (second.key, second.answers, second.hops) == ("5", ("Ida Lund", "Lund"), 1)


def test_hipporag_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    make_hipporag(tmp_path)
    as_json(tmp_path / "hotpotqa_corpus.json", [{"title": "Ferry", "text": "A ferry runs daily."}])
    with pytest.raises(InputError, match=r"hotpotqa\.json record 1: gold paragraph 1 is not in"):
        read_dataset(tmp_path)


def test_graphrag_bench_texts_are_split_and_judge_no_passage(tmp_path: Path) -> None:
    dataset = made(tmp_path, "graphrag-bench")
    assert dataset.questions == (
        Question(key="Novel-q1", text="When?", answers=("Once",), kind="Fact Retrieval"),
    )
    assert keys(dataset.passages()) == ["Novel-1#1", "Novel-1#2"]
    assert any("no gold passage" in note for note in dataset.notes)


def test_trec_topics_and_qrels_go_with_any_corpus(tmp_path: Path) -> None:
    assert made(tmp_path, "trec").questions == (
        Question(key="1", text="What is A?", gold=("a b",)),
        Question(key="2", text="What is B?"),
    )


def test_trec_topics_may_be_those_of_the_collections(tmp_path: Path) -> None:
    make_trec(tmp_path)
    (tmp_path / "topics.tsv").unlink()
    (tmp_path / "topics.txt").write_text(
        "<top>\n<num> Number: 1\n<title> old\nmills\n<desc> Description:\nWhich?\n</top>\n"
        "<top>\n<num> 2 <title> ferries\n</top>\n"
    )
    assert [(q.key, q.text) for q in read_dataset(tmp_path).questions] == [
        ("1", "old mills"),
        ("2", "ferries"),
    ]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("topics.tsv", "1 What is A?\n", "topics.tsv line 1: 'number<TAB>text' is expected"),
        ("topics.tsv", "1\tA?\n\n1\tB?\n", "topics.tsv line 3: the topic '1' was given before"),
        ("topics.tsv", "<top>\n<num> 1 <title> A\n", "topics.tsv line 1: <top> has no </top>"),
        ("qrels.txt", "1 0 c 1\n1 c 1\n", "qrels.txt line 2: 'topic 0 passage relevance' is expected"),
        ("qrels.txt", "1 0 c high\n", "qrels.txt line 1: 'topic 0 passage relevance' is expected"),
    ],
)
def test_a_wrong_line_of_trec_files_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    make_trec(tmp_path)
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as caught:
        read_dataset(tmp_path)
    assert message in str(caught.value)


def test_a_folder_with_several_sets_asks_for_one(tmp_path: Path) -> None:
    make_hotpotqa(tmp_path)
    as_json(tmp_path / "hotpot_train_v1.1.json", [sample()])
    with pytest.raises(
        UsageError, match=r"holds several sets of hotpotqa: name the file of one \(hotpot_dev_"
    ):
        read_dataset(tmp_path)


def test_a_folder_of_nothing_known_lists_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(InputError, match="holds no evaluation set of a format that is read: jsonl"):
        read_dataset(tmp_path)


@pytest.mark.parametrize("name", ["corpus.jsonl", "questions.jsonl"])
def test_one_of_our_two_files_alone_names_the_other(tmp_path: Path, name: str) -> None:
    make_jsonl(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(InputError, match=f"there is no {name} in .*: evaluate needs it"):
        read_dataset(tmp_path)


def test_an_unknown_format_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no format is called 'squad'; there are jsonl, beir"):
        read_dataset(tmp_path, format_name="squad")


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read_dataset(tmp_path / "none")


@pytest.mark.parametrize(
    ("format_name", "name"), [("musique", "m.jsonl"), ("hotpotqa", "h.json"), ("2wikimultihopqa", "w.json")]
)
def test_a_file_without_questions_is_an_error(tmp_path: Path, format_name: str, name: str) -> None:
    (tmp_path / name).write_text("" if name.endswith("l") else "[]")
    with pytest.raises(InputError, match="holds no question"):
        read_dataset(tmp_path / name, format_name=format_name)
