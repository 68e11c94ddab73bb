"""The Python face given what it cannot take, and used after it was closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evireform import Corpus, Database, Passage, connect
from evireform.errors import UsageError
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage

Use = Callable[[Any], object]


@pytest.fixture
def db(emptied_url: str) -> Iterator[Database]:
    with connect(emptied_url, encoder=HashEncoder(), language=ScriptedLanguage()) as opened:
        yield opened


@pytest.fixture
def corpus(db: Database) -> Corpus:
    return db.corpus("c", create=True)


@pytest.mark.parametrize(
    ("use", "problem"),
    [
        (lambda c: c.search("q", where=5), "a filter is a mapping of names to values"),
        (lambda c: c.search("q", where=True), "a filter is a mapping of names to values"),
        (lambda c: c.answer("q", where=lambda: 0), "a filter is a mapping of names to values"),
        (lambda c: c.search(None), "question must be a text, not None"),
        (lambda c: c.search(5), "question must be a text, not 5"),
        (lambda c: c.answer(None), "question must be a text, not None"),
        (lambda c: c.search_many(None), "questions must be a list of texts, not None"),
        (lambda c: c.search_many("q"), r"write \['q'\]"),
        (lambda c: c.search_many(["q", 5]), "questions must be a list of texts, but 5 is none"),
        (lambda c: c.merge_entities("a", None), "others must be a list of texts, not None"),
        (lambda c: c.merge_entities(5, ["a"]), "kept must be a text, not 5"),
        (lambda c: c.merge_entities("a", 5), "others must be a list of texts, not 5"),
        (lambda c: c.split_entity(5), "name must be a text, not 5"),
        (lambda c: c.split_entity("a", passage_keys=["k"], into=5), "into must be a text, not 5"),
        (lambda c: c.split_entity("a", passage_keys=["\ud800"], into="b"), "holds a lone surrogate"),
        (lambda c: c.entity(None), "name must be a text, not None"),
        (lambda c: c.entity("a", limit=-1), "limit must be a whole number from 1 to 1,000,000, not -1"),
        (lambda c: c.entity_log(limit=10**30), "limit must be a whole number"),
        (lambda c: c.suggest_entities(limit="5"), "limit must be a whole number"),
        (lambda c: c.delete([5]), "passage_keys must be a list of texts, but 5 is none"),
        (lambda c: c.delete(5), "passage_keys must be a list of texts, not 5"),
        (lambda c: c.ingest([{}]), r"unlike \{\}: write Passage\(key=…, text=…\)"),
        (lambda c: c.ingest(5), "passages must be a list or another iterable, not 5"),
        (lambda c: c.enqueue("abc"), "passages must be a list or another iterable, not 'abc'"),
        (lambda c: c.enqueue([None]), "unlike None"),
        (lambda c: c.database.estimate("c", [5]), "unlike 5"),
        (lambda c: c.database.corpus(5), "name must be a text, not 5"),
        (lambda c: c.database.corpus("\ud800", create=True), "a corpus needs a name"),
    ],
)
def test_what_is_of_another_kind_is_refused_with_what_to_write(
    corpus: Corpus, use: Use, problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        use(corpus)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"settings": {}}, "settings must be of evireform.Settings, unlike {}"),
        ({"settings": "evireform.toml"}, "settings must be of evireform.Settings"),
        ({"home": 5}, "home must be a folder, not 5"),
        ({"url": 5}, "url must be a text, not 5"),
        ({"url": "postgresql://a\ud800@b/c"}, "libpq does not understand the database URL"),
        ({"url": "", "read_url": None}, "read_url must be a text, not None"),
    ],
)
def test_a_connection_is_refused_with_what_to_write(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        connect(**arguments)


def test_the_home_may_be_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[object] = []

    class Started(Exception):
        """The server was asked to start."""

    class Server:
        def __init__(self, home: object) -> None:
            taken.append(home)

        def start(self) -> str:
            raise Started

    monkeypatch.setattr("evireform.embedded.EmbeddedServer", Server)
    with pytest.raises(Started):
        connect(home=str(tmp_path))
    assert taken == [tmp_path]


@pytest.mark.parametrize(
    "use",
    [
        lambda db: db.corpora(),
        lambda db: db.corpus("c"),
        lambda db: db.init(),
        lambda db: Corpus(db, "c").search("q"),
        lambda db: Corpus(db, "c").ingest([]),
    ],
)
def test_a_closed_database_says_so(db: Database, use: Use) -> None:
    db.close()
    with pytest.raises(UsageError, match="the database was closed: connect to it again"):
        use(db)


class Torn(Exception):
    """The source of passages broke."""


def torn(count: int) -> Iterator[Passage]:
    for number in range(count):
        yield Passage(key=f"k{number}", text=f"Ada met Bob{number}.")
    raise Torn


@pytest.mark.parametrize("concurrency", [1, 4])
def test_what_was_read_before_its_source_broke_is_written(db: Database, concurrency: int) -> None:
    db.language.concurrency = concurrency
    corpus = db.corpus("c", create=True)
    with pytest.raises(Torn):
        corpus.ingest(torn(70))
    assert corpus.status().ready == 70


def test_what_was_read_before_its_source_broke_is_queued(corpus: Corpus) -> None:
    with pytest.raises(Torn):
        corpus.enqueue(torn(70))
    assert corpus.status().waiting == 70


@pytest.mark.parametrize("ingest", [Corpus.ingest, Corpus.enqueue])
def test_a_number_that_nothing_could_read_back_is_refused(corpus: Corpus, ingest: Callable[..., Any]) -> None:
    given = [
        Passage(key=f"k{place}", text="Ada met Bob.", metadata={"n": value})
        for place, value in enumerate((10**5000, [-(10**5000)], (10**5000,), 10**3999))
    ]
    summary = ingest(corpus, given)
    reason = "the metadata holds a number of more than 4,000 digits: write it as text"
    assert [(one.passage_key, one.reason) for one in summary.rejected] == [
        ("k0", reason), ("k1", reason), ("k2", reason),
    ]  # fmt: skip
