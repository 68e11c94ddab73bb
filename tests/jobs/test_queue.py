"""The queue: what waits, who may take it, and who may write what he made of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

import pytest

from evireform import ingestion
from evireform.errors import CorpusNotFound
from evireform.ingestion import working
from evireform.ingestion.leases import Leases
from evireform.records import BatchDone, EnqueueSummary, ExtractedProposition, Extraction, Passage, Rejected
from evireform.settings import WorkerSettings
from evireform.store import corpora, queue
from evireform.store.connection import Store
from evireform.store.queue import QueuedPassage
from tests.conftest import SCHEMA
from tests.database.roles import new_member
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage
from tests.jobs.indexes import contents, differences, ingest, rows, untrue
from tests.jobs.processes import wait_until

ADA = Passage(key="ada", title="Ada", text="Ada met Babbage.")
BOB = Passage(key="bob", title="Bob", text="Bob saw Ada. Ada left.")
EVE = Passage(key="eve", title="Eve", text="Eve knows Bob.")
NEWER = Passage(key="ada", title="Ada", text="Ada wrote a program.")

LONG_S = 600.0

names = (f"queue-{number}" for number in count())


@pytest.fixture
def name(shared_store: Store) -> str:
    made = next(names)
    with shared_store.transaction() as tx:
        corpora.create_corpus(tx, made, titles="on")
    return made


@pytest.fixture
def other_store(shared_store: Store) -> Iterator[Store]:
    """A second process's view of the same database."""
    with shared_store.transaction(read_only=True) as tx:
        url = tx.driver.info.dsn
    opened = Store(url, schema=SCHEMA)
    yield opened
    opened.close()


def enqueue(store: Store, name: str, passages: Iterable[Passage | Rejected], **more: Any) -> EnqueueSummary:
    return ingestion.enqueue(store, name, passages, **more)


class Hand:
    """A worker's hand without the worker: claims, and writes only when it is told to."""

    def __init__(self, store: Store, name: str, *, lease_s: float = LONG_S, **settings: Any) -> None:
        self.store = store
        self.told: list[BatchDone] = []
        self.settings = WorkerSettings(lease_s=lease_s, **settings)
        with store.transaction() as tx:
            corpus = corpora.get_corpus(tx, name)
            self.worker_id = queue.add_worker(tx, corpus.tenant_id, host="here", process=1)
        self.language = ScriptedLanguage()
        self.leases = Leases(
            store=store,
            corpus=corpus,
            worker_id=self.worker_id,
            settings=self.settings,
            on_batch=self.told.append,
        )
        self.job = ingestion._open(
            store, name, encoder=HashEncoder(), language=self.language, batch=self.settings.batch,
            extractions=None, progress=None, working_on=None,
        )  # fmt: skip
        self.job.leases = self.leases

    def claim(self) -> list[str]:
        """Keys of what it takes on lease; `write` writes them."""
        self.works = list(next(self.job.queued(self.leases, most=1), []))
        return [work.passage.key for work in self.works]

    def write(self) -> BatchDone:
        """Extract and write what was claimed; gives what came of it in all."""
        self.told.clear()
        self.job.run([self.works])
        return BatchDone(
            corpus=self.told[0].corpus,
            written=sum(done.written for done in self.told),
            failed=tuple(one for done in self.told for one in done.failed),
            returned=tuple(one for done in self.told for one in done.returned),
            lost=sum(done.lost for done in self.told),
        )


def run_worker(store: Store, *, language: ScriptedLanguage | None = None, **more: Any) -> Any:
    settings = WorkerSettings(**more.pop("settings", {}))
    corpus = more.pop("corpus", None)
    worker = ingestion.worker(
        store,
        encoder=HashEncoder(),
        language=language or ScriptedLanguage(),
        settings=settings,
        corpus=corpus,
        **more,
    )
    return worker.run(drain=True)


def queued(store: Store, name: str) -> list[tuple[Any, ...]]:
    """Key, text, attempts, reason and whether it is on lease, of what waits."""
    return rows(
        store,
        """
        SELECT passage_key, body, attempts, reason, COALESCE(leased_until > now(), false)
        FROM queued_passage JOIN corpus USING (corpus_id) WHERE name = %(name)s ORDER BY passage_key""",
        name=name,
    )


def texts(store: Store, name: str) -> dict[str, str]:
    """The index: key to text."""
    return {row[0]: row[2] for row in contents(store, name, "passage")}


def expire(store: Store, name: str) -> None:
    """Let every lease of a corpus be over."""
    with store.transaction() as tx:
        tx.driver.execute(
            b"UPDATE queued_passage SET leased_until = now() - interval '1 second' FROM corpus "
            b"WHERE corpus.corpus_id = queued_passage.corpus_id AND name = %s AND leased_until IS NOT NULL",
            (name,),
        )


# Enqueuing


def test_passages_wait_and_none_is_written(shared_store: Store, name: str) -> None:
    summary = enqueue(shared_store, name, [ADA, BOB])
    assert (summary.queued, summary.replaced, summary.waiting, summary.unchanged) == (2, 0, 0, 0)
    assert queued(shared_store, name) == [
        ("ada", "Ada met Babbage.", 0, "", False),
        ("bob", "Bob saw Ada. Ada left.", 0, "", False),
    ]
    assert texts(shared_store, name) == {}


def test_enqueuing_again_changes_nothing(shared_store: Store, name: str) -> None:
    enqueue(shared_store, name, [ADA, BOB])
    before = rows(shared_store, "SELECT * FROM queued_passage ORDER BY ticket")
    summary = enqueue(shared_store, name, [BOB, ADA])
    assert (summary.queued, summary.waiting) == (0, 2)
    assert rows(shared_store, "SELECT * FROM queued_passage ORDER BY ticket") == before


def test_the_newest_text_waits(shared_store: Store, name: str) -> None:
    enqueue(shared_store, name, [ADA])
    summary = enqueue(shared_store, name, [NEWER])
    assert (summary.queued, summary.replaced) == (0, 1)
    assert queued(shared_store, name) == [("ada", "Ada wrote a program.", 0, "", False)]


def test_what_the_index_has_already_is_skipped(shared_store: Store, name: str) -> None:
    ingest(shared_store, name, [ADA, BOB])
    summary = enqueue(shared_store, name, [ADA, BOB, EVE])
    assert (summary.queued, summary.unchanged) == (1, 2)
    assert [row[0] for row in queued(shared_store, name)] == ["eve"]


def test_what_failed_waits_again(shared_store: Store, name: str) -> None:
    ingest(shared_store, name, [ADA], language=ScriptedLanguage(errors={"ada": "no answer"}))
    assert enqueue(shared_store, name, [ADA]).queued == 1


def test_new_metadata_of_an_unchanged_text_need_no_worker(shared_store: Store, name: str) -> None:
    ingest(shared_store, name, [ADA])
    labelled = Passage(key="ada", title="Ada", text=ADA.text, metadata={"year": 1843})
    summary = enqueue(shared_store, name, [labelled])
    assert (summary.relabelled, summary.unchanged, summary.queued) == (1, 0, 0)
    assert [row[4] for row in contents(shared_store, name, "passage")] == [{"year": 1843}]


def test_an_older_text_that_waits_goes_when_the_index_has_the_newest(shared_store: Store, name: str) -> None:
    ingest(shared_store, name, [NEWER])
    enqueue(shared_store, name, [ADA])
    assert enqueue(shared_store, name, [NEWER]).unchanged == 1
    assert queued(shared_store, name) == []


def test_an_ingestion_takes_older_texts_out_of_the_queue(shared_store: Store, name: str) -> None:
    enqueue(shared_store, name, [ADA, BOB, EVE])
    ingest(shared_store, name, [NEWER])
    ingest(shared_store, name, [NEWER, BOB])
    assert [row[0] for row in queued(shared_store, name)] == ["eve"]
    assert texts(shared_store, name) == {"ada": "Ada wrote a program.", "bob": BOB.text}


def test_retrying_leaves_a_newer_text_waiting(shared_store: Store, name: str) -> None:
    ingest(shared_store, name, [ADA], language=ScriptedLanguage(errors={"ada": "no answer"}))
    enqueue(shared_store, name, [NEWER])
    ingestion.retry(shared_store, name, encoder=HashEncoder(), language=ScriptedLanguage())
    assert [row[:2] for row in queued(shared_store, name)] == [("ada", "Ada wrote a program.")]


def test_what_cannot_go_in_is_listed(shared_store: Store, name: str) -> None:
    before = Rejected(reason="not JSON", path="a.jsonl", line_number=3)
    summary = enqueue(shared_store, name, [before, ADA, ADA, Passage(key="blank", text=" ")])
    assert summary.queued == 1
    assert [(one.passage_key, one.reason) for one in summary.rejected] == [
        ("", "not JSON"),
        ("ada", "the key was given before in this ingestion"),
        ("blank", "the text is empty"),
    ]


def test_passages_are_read_a_few_at_a_time(shared_store: Store, name: str) -> None:
    waiting_when_read = []

    def read() -> Iterator[Passage]:
        for number in range(200):
            if number % 100 == 99:
                waiting_when_read.append(len(queued(shared_store, name)))
            yield Passage(key=f"p{number:03}", text="Ada met Bob.")

    enqueue(shared_store, name, read())
    assert waiting_when_read == [64, 192]


def test_a_corpus_that_is_not_there_is_named(shared_store: Store) -> None:
    with pytest.raises(CorpusNotFound, match="no corpus is called 'absent'"):
        enqueue(shared_store, "absent", [ADA])


# Leases


def test_no_passage_is_claimed_twice(shared_store: Store, other_store: Store, name: str) -> None:
    enqueue(shared_store, name, [ADA, BOB, EVE])
    one, other = Hand(shared_store, name, batch=2), Hand(other_store, name, batch=2)
    assert [one.claim(), other.claim(), one.claim(), other.claim()] == [["ada", "bob"], ["eve"], [], []]


def test_a_claim_waits_for_nobody(shared_store: Store, other_store: Store, name: str) -> None:
    enqueue(shared_store, name, [ADA, BOB])
    other = Hand(other_store, name)
    with shared_store.transaction() as tx:
        corpus = corpora.get_corpus(tx, name)
        queue.claim_queued(tx, corpus.corpus_id, 1, fetch=1, lease_s=LONG_S)
        assert other.claim() == ["bob"]


def test_what_was_tried_least_comes_first_and_then_what_came_first(shared_store: Store, name: str) -> None:
    enqueue(shared_store, name, [EVE])
    hand = Hand(shared_store, name, batch=1)
    hand.claim()
    expire(shared_store, name)
    enqueue(shared_store, name, [BOB])
    enqueue(shared_store, name, [ADA])
    assert [hand.claim(), hand.claim(), hand.claim()] == [["bob"], ["ada"], ["eve"]]


def test_what_is_written_leaves_the_queue(shared_store: Store, name: str) -> None:
    enqueue(shared_store, name, [ADA, BOB])
    hand = Hand(shared_store, name)
    hand.claim()
    assert hand.write() == BatchDone(corpus=name, written=2)
    assert queued(shared_store, name) == []
    ingest(shared_store, f"{name}-straight", [ADA, BOB])
    assert differences(shared_store, name, f"{name}-straight") == {}


def test_an_expired_lease_is_taken_over_and_the_loser_writes_nothing(
    shared_store: Store, other_store: Store, name: str
) -> None:
    enqueue(shared_store, name, [ADA])
    loser, winner = Hand(shared_store, name), Hand(other_store, name)
    loser.claim()
    expire(shared_store, name)
    assert winner.claim() == ["ada"]
    assert loser.write() == BatchDone(corpus=name, lost=1)
    assert texts(shared_store, name) == {}
    assert winner.write() == BatchDone(corpus=name, written=1)
    assert texts(shared_store, name) == {"ada": ADA.text}


def test_a_lease_runs_out_by_itself(shared_store: Store, other_store: Store, name: str) -> None:
    enqueue(shared_store, name, [ADA])
    vanished, other = Hand(shared_store, name, lease_s=0.1), Hand(other_store, name)
    assert vanished.claim() == ["ada"]
    wait_until(lambda: other.claim() == ["ada"])


def test_an_expired_lease_that_nobody_took_over_is_still_held(shared_store: Store, name: str) -> None:
    enqueue(shared_store, name, [ADA])
    hand = Hand(shared_store, name)
    hand.claim()
    expire(shared_store, name)
    assert hand.write() == BatchDone(corpus=name, written=1)


def test_a_heartbeat_keeps_a_lease(shared_store: Store, other_store: Store, name: str) -> None:
    enqueue(shared_store, name, [ADA, BOB])
    hand, other = Hand(shared_store, name), Hand(other_store, name)
    hand.claim()
    expire(shared_store, name)
    hand.leases.extend()
    assert other.claim() == []


def test_a_heartbeat_takes_nothing_back(shared_store: Store, other_store: Store, name: str) -> None:
    enqueue(shared_store, name, [ADA])
    loser, winner = Hand(shared_store, name), Hand(other_store, name)
    loser.claim()
    expire(shared_store, name)
    winner.claim()
    expire(shared_store, name)
    loser.leases.extend()
    assert queued(shared_store, name) == [("ada", ADA.text, 2, "", False)]


def test_what_is_given_back_was_no_attempt(shared_store: Store, other_store: Store, name: str) -> None:
    enqueue(shared_store, name, [ADA])
    hand = Hand(shared_store, name)
    hand.claim()
    hand.leases.give_back()
    assert queued(shared_store, name) == [("ada", ADA.text, 0, "", False)]
    assert Hand(other_store, name).claim() == ["ada"]


def test_what_was_taken_over_is_not_given_back(shared_store: Store, other_store: Store, name: str) -> None:
    enqueue(shared_store, name, [ADA])
    loser, winner = Hand(shared_store, name), Hand(other_store, name)
    loser.claim()
    expire(shared_store, name)
    winner.claim()
    loser.leases.give_back()
    assert queued(shared_store, name) == [("ada", ADA.text, 2, "", True)]


def test_a_text_that_is_replaced_while_on_lease_is_not_written(shared_store: Store, name: str) -> None:
    enqueue(shared_store, name, [ADA, BOB])
    hand = Hand(shared_store, name)
    hand.claim()
    enqueue(shared_store, name, [NEWER])
    assert hand.write() == BatchDone(corpus=name, written=1, lost=1)
    assert texts(shared_store, name) == {"bob": BOB.text}
    assert queued(shared_store, name) == [("ada", "Ada wrote a program.", 0, "", False)]


def test_the_same_worker_may_not_write_the_old_text_under_its_lease_on_the_new_one(
    shared_store: Store, name: str
) -> None:
    enqueue(shared_store, name, [ADA])
    hand = Hand(shared_store, name)
    hand.claim()
    old = hand.works
    enqueue(shared_store, name, [NEWER])
    hand.claim()
    new, hand.works = hand.works, old
    assert hand.write() == BatchDone(corpus=name, lost=1)
    hand.works = new
    assert hand.write() == BatchDone(corpus=name, written=1)
    assert texts(shared_store, name) == {"ada": "Ada wrote a program."}


def test_a_passage_that_is_deleted_while_on_lease_is_not_written(shared_store: Store, name: str) -> None:
    ingest(shared_store, name, [ADA])
    enqueue(shared_store, name, [NEWER])
    hand = Hand(shared_store, name)
    hand.claim()
    assert ingestion.delete(shared_store, name, ["ada"]) == ["ada"]
    assert hand.write() == BatchDone(corpus=name, lost=1)
    assert (texts(shared_store, name), queued(shared_store, name)) == ({}, [])


def test_a_key_that_only_waits_counts_as_deleted(shared_store: Store, name: str) -> None:
    ingest(shared_store, name, [BOB])
    enqueue(shared_store, name, [ADA])
    assert ingestion.delete(shared_store, name, ["ada", "bob", "eve"]) == ["ada", "bob"]
    assert queued(shared_store, name) == []


def test_the_queue_goes_with_its_corpus(shared_store: Store, name: str) -> None:
    enqueue(shared_store, name, [ADA])
    hand = Hand(shared_store, name)
    hand.claim()
    with shared_store.transaction() as tx:
        corpora.delete_corpus(tx, name)
        corpora.create_corpus(tx, name, titles="on")
    with pytest.raises(CorpusNotFound, match="deleted meanwhile"):
        hand.write()
    assert (texts(shared_store, name), queued(shared_store, name)) == ({}, [])


# Workers


def test_a_worker_drains_every_corpus(store: Store) -> None:
    for corpus, passage in (("first", ADA), ("second", BOB)):
        with store.transaction() as tx:
            corpora.create_corpus(tx, corpus, titles="on")
        enqueue(store, corpus, [passage])
    summary = run_worker(store)
    assert (summary.written, summary.failed, summary.reason) == (2, 0, "")
    assert (texts(store, "first"), texts(store, "second")) == ({"ada": ADA.text}, {"bob": BOB.text})
    assert rows(store, "SELECT * FROM queued_passage") == rows(store, "SELECT * FROM worker") == []
    assert untrue(store) == {}


def test_a_worker_of_one_corpus_leaves_the_others(shared_store: Store, name: str) -> None:
    other = f"{name}-other"
    with shared_store.transaction() as tx:
        corpora.create_corpus(tx, other, titles="on")
    enqueue(shared_store, name, [ADA])
    enqueue(shared_store, other, [BOB])
    assert run_worker(shared_store, corpus=name).written == 1
    assert [row[0] for row in queued(shared_store, other)] == ["bob"]


def test_a_worker_of_an_absent_corpus_says_so(shared_store: Store) -> None:
    with pytest.raises(CorpusNotFound):
        run_worker(shared_store, corpus="absent")


def test_ready_made_extractions_wait_with_their_passages(shared_store: Store, name: str) -> None:
    ready = {
        "ada": Extraction(propositions=(ExtractedProposition(text="Ada met Babbage.", entities=("A\0da",)),)),
        "bob": Extraction(error="line 7: propositions must be a list"),
    }
    enqueue(shared_store, name, [ADA, BOB], extractions=ready)
    language = ScriptedLanguage()
    run_worker(shared_store, corpus=name, language=language)
    assert language.extracted == []
    assert contents(shared_store, name, "mention") == [("ada", 0, "Ada", "ada")]
    assert [(row[0], row[6]) for row in contents(shared_store, name, "passage")] == [
        ("ada", ""),
        ("bob", "line 7: propositions must be a list"),
    ]
    assert enqueue(shared_store, name, [ADA], extractions=ready).unchanged == 1
    assert rows(shared_store, "SELECT extractor FROM corpus WHERE name = %(name)s", name=name) == [("file",)]


def test_a_passage_that_fails_every_time_has_failed_with_the_last_reason(
    shared_store: Store, name: str
) -> None:
    enqueue(shared_store, name, [ADA, BOB])
    language = ScriptedLanguage(errors={"ada": "no usable answer"})
    batches: list[BatchDone] = []
    summary = run_worker(shared_store, corpus=name, language=language, on_batch=batches.append)
    assert (summary.written, summary.failed, summary.returned) == (2, 1, 2)
    assert language.extracted.count("ada") == 3
    reason = "given up after 3 attempts: no usable answer"
    assert [one for done in batches for one in done.failed] == [Rejected(passage_key="ada", reason=reason)]
    assert [(row[0], row[5], row[6]) for row in contents(shared_store, name, "passage")] == [
        ("ada", "failed", reason),
        ("bob", "ready", ""),
    ]
    assert queued(shared_store, name) == []


def test_what_a_worker_gave_up_can_be_retried(shared_store: Store, name: str) -> None:
    enqueue(shared_store, name, [ADA])
    failing = ScriptedLanguage(errors={"ada": "no usable answer"})
    run_worker(shared_store, corpus=name, language=failing, settings={"attempts": 1})
    assert [row[6] for row in contents(shared_store, name, "passage")] == [
        "given up after 1 attempt: no usable answer"
    ]
    ingestion.retry(shared_store, name, encoder=HashEncoder(), language=ScriptedLanguage())
    ingest(shared_store, f"{name}-straight", [ADA])
    assert differences(shared_store, name, f"{name}-straight") == {}


def test_a_passage_whose_workers_vanish_is_given_up(shared_store: Store, name: str) -> None:
    enqueue(shared_store, name, [ADA])
    for _ in range(2):
        assert Hand(shared_store, name).claim() == ["ada"]
        expire(shared_store, name)
    language = ScriptedLanguage()
    summary = run_worker(shared_store, corpus=name, language=language, settings={"attempts": 2})
    assert (summary.failed, language.extracted) == (1, [])
    assert [row[6] for row in contents(shared_store, name, "passage")] == [
        "given up after 2 attempts: the worker that had it ended, or lost its lease"
    ]


def test_what_the_database_refuses_is_tried_again_and_given_up(shared_store: Store, name: str) -> None:
    def refused(passage: Passage) -> Extraction:
        span = (5, 2) if passage.key == "ada" else None
        return Extraction(propositions=(ExtractedProposition(text=passage.text, span=span),))

    enqueue(shared_store, name, [ADA, BOB])
    language = ScriptedLanguage(extract=refused)
    summary = run_worker(shared_store, corpus=name, language=language, settings={"attempts": 2})
    assert (summary.written, summary.failed, summary.returned) == (2, 1, 1)
    states = {row[0]: (row[5], row[6]) for row in contents(shared_store, name, "passage")}
    assert states["bob"] == ("ready", "")
    assert states["ada"][0] == "failed"
    assert states["ada"][1].startswith("given up after 2 attempts: the database refused it")


def test_a_worker_that_can_make_no_call_gives_back_what_it_has(shared_store: Store, name: str) -> None:
    def spent(passage: Passage) -> Extraction:
        if passage.key == "ada":
            return Extraction(propositions=(ExtractedProposition(text=passage.text),))
        return Extraction(error="the budget of 5 tokens is spent", in_vain="budget")

    enqueue(shared_store, name, [ADA, BOB, EVE])
    language = ScriptedLanguage(extract=spent, one_by_one=True)
    summary = run_worker(shared_store, corpus=name, language=language)
    assert (summary.written, summary.reason) == (1, "the budget of 5 tokens is spent")
    assert [row[0::2] for row in queued(shared_store, name)] == [("bob", 0, False), ("eve", 0, False)]


def test_stopping_a_worker_gives_back_what_it_did_not_begin(shared_store: Store, name: str) -> None:
    enqueue(shared_store, name, [ADA, BOB, EVE])
    made: list[Any] = []

    def extract(passage: Passage) -> Extraction:
        made[0].stop()
        return Extraction(propositions=(ExtractedProposition(text=passage.text),))

    made.append(
        ingestion.worker(
            shared_store,
            encoder=HashEncoder(),
            language=ScriptedLanguage(extract=extract, one_by_one=True),
            settings=WorkerSettings(),
            corpus=name,
        )
    )
    summary = made[0].run()
    assert (summary.written, summary.reason) == (1, "")
    assert [row[0::2] for row in queued(shared_store, name)] == [("bob", 0, False), ("eve", 0, False)]


def test_a_worker_keeps_its_leases_while_it_extracts(
    shared_store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working, "_LONGEST_BEAT_S", 0.02)

    def slow(passage: Passage) -> Extraction:
        expire(shared_store, name)
        wait_until(lambda: [row[4] for row in queued(shared_store, name)] == [True])
        return Extraction(propositions=(ExtractedProposition(text=passage.text),))

    enqueue(shared_store, name, [ADA])
    assert run_worker(shared_store, corpus=name, language=ScriptedLanguage(extract=slow)).written == 1


def test_a_worker_follows_a_corpus_whose_name_another_took(store: Store) -> None:
    names_taken = []

    def extract(passage: Passage) -> Extraction:
        if not names_taken:
            names_taken.append(passage.key)
            with store.transaction() as tx:
                tx.driver.execute(b"UPDATE corpus SET name = 'c-before' WHERE name = 'c'")
                corpora.create_corpus(tx, "c", titles="on")
        return Extraction(propositions=(ExtractedProposition(text=passage.text),))

    with store.transaction() as tx:
        corpora.create_corpus(tx, "c", titles="on")
    enqueue(store, "c", [ADA])
    summary = run_worker(store, language=ScriptedLanguage(extract=extract))
    assert (summary.written, summary.reason) == (1, "")
    assert (texts(store, "c"), texts(store, "c-before")) == ({}, {"ada": ADA.text})


def test_a_corpus_of_another_model_is_left_to_other_workers(store: Store) -> None:
    for corpus, encoder in (("foreign", HashEncoder(32)), ("own", HashEncoder())):
        ingest(store, corpus, [ADA], encoder=encoder)
        enqueue(store, corpus, [BOB])
    summary = run_worker(store)
    assert summary.written == 1
    assert [text[:45] for text in summary.refused] == ["corpus 'foreign' is left to other workers: th"]
    assert [row[0] for row in queued(store, "foreign")] == ["bob"]


def test_a_worker_brings_the_title_of_a_text_that_somebody_else_wrote(store: Store) -> None:
    with store.transaction() as tx:
        corpora.create_corpus(tx, "c", titles="off")
    ingest(store, "c", [ADA], titles="off", language=ScriptedLanguage(errors={"ada": "no answer"}))
    enqueue(store, "c", [Passage(key="ada", title="Countess", text=ADA.text)])
    ingestion.retry(store, "c", encoder=HashEncoder(), language=ScriptedLanguage())
    run_worker(store)
    assert [row[:2] for row in contents(store, "c", "passage")] == [("ada", "Countess")]


def test_progress_counts_what_waits_what_is_done_and_how_fast(store: Store) -> None:
    ingest(store, "c", [ADA], language=ScriptedLanguage(errors={"ada": "no answer"}))
    ingest(store, "c", [BOB])
    enqueue(store, "c", [EVE, NEWER])
    Hand(store, "c", batch=1).claim()
    with store.transaction() as tx:
        tx.driver.execute(b"UPDATE passage SET updated_at = now() - interval '20 seconds'")
        found = queue.progress(tx, corpora.get_corpus(tx, "c"))
    assert (found.waiting, found.leased, found.tried) == (1, 1, 0)
    assert (found.ready, found.empty, found.failed) == (1, 0, 1)
    assert found.rate == pytest.approx(0.1)
    assert found.left_s == pytest.approx(20)
    assert found.failures == (Rejected(passage_key="ada", reason="no answer"),)


def test_a_worker_that_was_not_heard_of_is_not_alive(store: Store) -> None:
    with store.transaction() as tx:
        tenant_id = corpora.current_tenant(tx)
        alive, lost, forgotten = (queue.add_worker(tx, tenant_id, host="h", process=n) for n in (1, 2, 3))
        tx.driver.execute(
            b"UPDATE worker SET seen_at = now() - interval '61 s' WHERE worker_id = %s", (lost,)
        )
        tx.driver.execute(
            b"UPDATE worker SET seen_at = now() - interval '25 h' WHERE worker_id = %s", (forgotten,)
        )
        queue.count_work(tx, alive, written=3, failed=1)
    with store.transaction() as tx:
        assert [(w.process, w.alive, w.written, w.failed) for w in queue.workers(tx)] == [
            (1, True, 3, 1), (2, False, 0, 0), (3, False, 0, 0),
        ]  # fmt: skip
        queue.drop_worker(tx, tenant_id, alive)
        assert [w.process for w in queue.workers(tx)] == [2]


def test_a_claimed_passage_knows_its_turn(shared_store: Store, name: str) -> None:
    enqueue(shared_store, name, [ADA])
    with shared_store.transaction() as tx:
        corpus = corpora.get_corpus(tx, name)
        (claimed,) = queue.claim_queued(tx, corpus.corpus_id, 7, fetch=9, lease_s=LONG_S)
    assert claimed == QueuedPassage(
        passage=ADA, extraction=None, ticket=claimed.ticket, attempts=1, reason=""
    )


# Tenants


def test_t14_a_worker_of_one_tenant_neither_drains_nor_sees_the_queue_of_another(database_url: str) -> None:
    with new_member(database_url, "one") as own, new_member(database_url, "other") as foreign:
        stores = [Store(url, schema=SCHEMA) for url in (own, foreign)]
        for opened in stores:
            with opened.transaction() as tx:
                corpora.create_corpus(tx, "c", titles="on")
            enqueue(opened, "c", [ADA])
        mine, other = stores
        Hand(other, "c", batch=1)
        assert run_worker(mine).written == 1
        assert [texts(opened, "c") for opened in stores] == [{"ada": ADA.text}, {}]
        assert rows(mine, "SELECT * FROM queued_passage") == rows(mine, "SELECT * FROM worker") == []
        assert [row[0] for row in queued(other, "c")] == ["ada"]
        for opened in stores:
            opened.close()
