"""The index after any history equals a fresh build: writers, failures, crashes, queues, operators, at random.

Hypothesis makes up the histories. A model of a few lines knows what the corpus should hold at the end; the
tables are compared with those of a corpus that was given exactly that, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from evireform import auditing, entities, ingestion
from evireform.errors import DatabaseError, UsageError
from evireform.language import Language
from evireform.records import Extraction, Passage
from evireform.settings import WorkerSettings
from evireform.store import corpora
from evireform.store.connection import Store, Transaction
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage
from tests.jobs.histories import FORMS, extract, language, passage, rankings
from tests.jobs.indexes import dangling, differences, ingest, rows, search, untrue
from tests.scale import scaled

names = (f"history-{number}" for number in count())


@dataclass(frozen=True, slots=True)
class Held:
    """What the corpus holds under a key: which text, which label, and whether its extraction failed."""

    version: int
    label: int
    failed: bool = False


Corpus = dict[str, Held]
"""The model: key to what is held under it."""


class Crash(Exception):
    """What happens in the middle of a transaction."""


def given(key: str, held: Held) -> Passage:
    return replace(passage(key, held.version), metadata={"label": held.label})


def added(corpus: Corpus, batch: Mapping[str, Held]) -> Corpus:
    """What a corpus holds after a batch: the same text is not read again, but takes its new label."""
    after = dict(corpus)
    for key, new in batch.items():
        old = corpus.get(key)
        unread = old is not None and not old.failed and old.version == new.version
        after[key] = replace(new, failed=False) if unread else new
    return after


@contextmanager
def crashing(*, at: int, server: bool) -> Iterator[None]:
    """Let the statement of this number fail: by an error of the program, or as the server process dies."""
    run, numbers = Transaction.run, count(1)

    def crash(self: Transaction, name: str, parameters: Mapping[str, Any], **options: Any) -> Any:
        if next(numbers) == at:
            if not server:
                raise Crash
            with psycopg.connect(self.driver.info.dsn) as other:
                other.execute("SELECT pg_terminate_backend(%s, 10000)", [self.driver.info.backend_pid])
        return run(self, name, parameters, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Transaction, "run", crash)
        with suppress(Crash, DatabaseError):
            yield


keys = st.sampled_from([f"p{number}" for number in range(6)])
held = st.builds(
    Held,
    version=st.integers(0, 2),
    label=st.integers(0, 1),
    failed=st.sampled_from((False, False, False, True)),
)
batches = st.dictionaries(keys, held, min_size=1, max_size=4)
some_keys = st.lists(keys, min_size=1, max_size=3, unique=True)
name_of_entity = st.sampled_from(FORMS)


class History(RuleBasedStateMachine):
    """Everything that may happen to a corpus. The rules change the tables and the model beside each other."""

    store: Store

    @initialize()
    def begin(self) -> None:
        self.name = next(names)
        self.corpus: Corpus = {}
        ingest(self.store, self.name, [])

    @rule(batch=batches)
    def give(self, batch: Mapping[str, Held]) -> None:
        self._give(batch)
        self.corpus = added(self.corpus, batch)

    def _give(self, batch: Mapping[str, Held], speaking: Language | None = None) -> None:
        failing = [key for key, new in batch.items() if new.failed]
        passages = [given(key, new) for key, new in batch.items()]
        ingest(self.store, self.name, passages, language=speaking or language(*failing))

    @rule(deleted=some_keys)
    def delete(self, deleted: list[str]) -> None:
        assert sorted(self._delete(deleted)) == sorted(set(deleted) & self.corpus.keys())
        self.corpus = without(self.corpus, deleted)

    def _delete(self, deleted: list[str]) -> list[str]:
        return ingestion.delete(self.store, self.name, deleted)

    @rule(failing=some_keys)
    def retry(self, failing: list[str]) -> None:
        ingestion.retry(self.store, self.name, encoder=HashEncoder(), language=language(*failing))
        self.corpus = {
            key: replace(old, failed=old.failed and key in failing) for key, old in self.corpus.items()
        }

    @rule(batch=batches)
    def queue(self, batch: Mapping[str, Held]) -> None:
        """A worker drains what another process queued."""
        ingestion.enqueue(self.store, self.name, [given(key, new) for key, new in batch.items()])
        ingestion.worker(
            self.store,
            encoder=HashEncoder(),
            language=language(*(key for key, new in batch.items() if new.failed)),
            settings=WorkerSettings(attempts=1, poll_s=0.01),
            corpus=self.name,
        ).run(drain=True)
        self.corpus = added(self.corpus, batch)

    @rule(batch=batches, other=batches, deleted=st.none() | some_keys)
    def two_writers(
        self, batch: Mapping[str, Held], other: Mapping[str, Held], deleted: list[str] | None
    ) -> None:
        """A second writer comes and goes while the first one extracts; the first one writes last."""
        before = self.corpus
        waiting: list[Callable[[], None]] = [lambda: self._second(other, deleted)]

        def slow(given_passage: Passage) -> Extraction:
            while waiting:
                waiting.pop()()
            return extract(given_passage)

        self._give(batch, ScriptedLanguage(extract=slow))
        known = [
            key for key, new in batch.items()
            if key in before and not before[key].failed and before[key].version == new.version
        ]  # fmt: skip
        relabelled = added(before, {key: batch[key] for key in known})
        if waiting:  # nothing was to be extracted
            self.corpus = relabelled
            return
        after = without(added(relabelled, other), deleted or ())
        for key, new in batch.items():
            if key in known:
                continue
            current = after.get(key)
            if current is None or current.failed or current.version != new.version:
                after[key] = replace(new, failed=False)
        self.corpus = after

    def _second(self, batch: Mapping[str, Held], deleted: list[str] | None) -> None:
        self._give(batch)
        if deleted:
            self._delete(deleted)

    @rule(batch=batches, at=st.integers(1, 40), server=st.booleans())
    def crash_while_giving(self, batch: Mapping[str, Held], at: int, server: bool) -> None:
        with crashing(at=at, server=server):
            self._give(batch)
        self._found_as(self.corpus, added(self.corpus, batch))

    @rule(deleted=some_keys, at=st.integers(1, 16), server=st.booleans())
    def crash_while_deleting(self, deleted: list[str], at: int, server: bool) -> None:
        with crashing(at=at, server=server):
            self._delete(deleted)
        self._found_as(self.corpus, without(self.corpus, deleted))

    def _found_as(self, before: Corpus, after: Corpus) -> None:
        """Every passage is as it was or as it was to be, whole; the model takes what is there."""
        there = {
            row[0]: row[1:]
            for row in rows(
                self.store,
                """
                SELECT passage_key, body, (metadata ->> 'label')::integer, state = 'failed'
                FROM passage JOIN corpus USING (corpus_id) WHERE name = %(name)s""",
                name=self.name,
            )
        }
        found: Corpus = {}
        for key in before.keys() | after.keys():
            may_be = [one[key] for one in (before, after) if key in one]
            if key not in there:
                assert key not in before or key not in after
                continue
            now = [
                one for one in may_be if there[key] == (passage(key, one.version).text, one.label, one.failed)
            ]
            assert now, (key, there[key], may_be)
            found[key] = now[0]
        assert there.keys() == found.keys()
        self.corpus = found

    @rule()
    def recreate(self) -> None:
        with self.store.transaction() as tx:
            corpora.delete_corpus(tx, self.name)
        self.corpus = {}
        ingest(self.store, self.name, [])

    @rule(kept=name_of_entity, other=name_of_entity)
    def merge(self, kept: str, other: str) -> None:
        with suppress(UsageError):
            entities.merge(self.store, self.name, kept, [other])

    @rule(one=name_of_entity)
    def take_a_merge_back(self, one: str) -> None:
        with suppress(UsageError):
            entities.split(self.store, self.name, one)

    @rule(one=name_of_entity, where=keys)
    def tell_two_apart(self, one: str, where: str) -> None:
        with suppress(UsageError):
            entities.split(self.store, self.name, one, passage_keys=[where], into=f"the other {one}")

    @rule()
    def ask(self) -> None:
        search(self.store, self.name, "Who met Ada Lovelace?", language=language(), log=True)

    def teardown(self) -> None:
        if not hasattr(self, "name"):
            return
        fresh = next(names)
        failed = {key for key, one in self.corpus.items() if one.failed}
        reasons = reasons_of(self.store, self.name)
        assert reasons.keys() == failed
        ingest(self.store, fresh, [])
        copy_decisions(self.store, self.name, fresh)
        passages = [given(key, one) for key, one in self.corpus.items()]
        ingest(self.store, fresh, passages, language=ScriptedLanguage(extract=extract, errors=reasons))
        assert differences(self.store, self.name, fresh) == {}
        assert auditing.verify(self.store, [self.name], encoder=HashEncoder).findings == ()
        assert rankings(self.store, self.name) == rankings(self.store, fresh)
        assert untrue(self.store) == {}
        assert set(dangling(self.store).values()) == {0}
        assert told_of(self.store, self.name) <= self.corpus.keys()
        for name in (self.name, fresh):
            with self.store.transaction() as tx:
                corpora.delete_corpus(tx, name)


def without(corpus: Corpus, deleted: Any) -> Corpus:
    return {key: old for key, old in corpus.items() if key not in deleted}


def reasons_of(store: Store, name: str) -> dict[str, str]:
    """Why extractions failed, by key; a queue says more than an ingestion."""
    query = """
        SELECT passage_key, reason FROM passage JOIN corpus USING (corpus_id)
        WHERE name = %(name)s AND state = 'failed'"""
    return dict(rows(store, query, name=name))


def copy_decisions(store: Store, source: str, target: str) -> None:
    """What operators decided about one corpus, for another."""
    with store.transaction() as tx:
        tx.driver.execute(
            """
            INSERT INTO entity_decision (corpus_id, tenant_id, canonical, passage_key, target)
            SELECT target.corpus_id, target.tenant_id, canonical, passage_key, decision.target
            FROM entity_decision AS decision
            JOIN corpus AS source ON source.corpus_id = decision.corpus_id AND source.name = %s
            JOIN corpus AS target ON target.name = %s""",
            (source, target),
        )


def told_of(store: Store, name: str) -> set[str]:
    """Keys of the passages that the log of questions tells of."""
    told = rows(
        store,
        """
        SELECT DISTINCT told ->> 'passage_key'
        FROM question_log JOIN corpus USING (corpus_id)
        CROSS JOIN LATERAL jsonb_array_elements(candidates || selected || ranking) AS told
        WHERE name = %(name)s
        UNION
        SELECT passage_key FROM question_passage JOIN corpus USING (corpus_id) WHERE name = %(name)s""",
        name=name,
    )
    return {key for (key,) in told}


def test_t02_after_any_history_the_index_equals_a_fresh_build(shared_store: Store) -> None:
    class OnThisServer(History):
        store = shared_store

    run_state_machine_as_test(
        OnThisServer,
        settings=settings(
            max_examples=scaled(6, 100),
            stateful_step_count=scaled(12, 40),
            deadline=None,
            phases=scaled((Phase.explicit, Phase.reuse, Phase.generate), tuple(Phase)),
            suppress_health_check=list(HealthCheck),
        ),
    )
