"""One run of an ingestion: read, skip what is unchanged, extract many at once, write as results arrive."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from evireform.embedding import Encoder
from evireform.errors import CorpusSwitched, DatabaseError, EvireformError
from evireform.formats.extractions import with_spans
from evireform.ingestion.checks import problem
from evireform.ingestion.leases import Leased, Leases
from evireform.ingestion.portions import CHARACTERS, portions, text_length
from evireform.ingestion.preparing import content_hash, prepare, without_parts
from evireform.ingestion.tally import Tally
from evireform.language import Language
from evireform.parallel import in_groups, leaving
from evireform.records import (
    CorpusRow,
    Extraction,
    IngestionSummary,
    Passage,
    Rejected,
    SpaceRow,
    with_title,
)
from evireform.store import corpora, generations, queue, spaces, writing
from evireform.store.connection import Store
from evireform.store.writing import PreparedPassage, Written

PATIENCE_S = 2.0
"""Longest time that an extraction waits for others to be written with; about as long as a call may be."""

_ITS_OWN_FAULT = ("22", "23", "54")
"""Beginnings of SQLSTATE that blame the rows: data exception, constraint violation, limit exceeded."""

_CANCELED = "57014"
"""A statement that took too long, as too many rows do; or one that waited for others: see `_blames`."""

_LARGE = 1_000
"""Passages written to a known corpus until the planner gets new statistics; a new one gets them at once."""

_GROWTH = 4
"""Statistics are made again whenever what was written has grown so many times."""

_AND = " + "
"""Between the extractors of a corpus that has several."""

_SAMPLE = 50
"""Passages whose text is looked at to tell whether the corpus is English."""

Progress = Callable[[int], None]
WorkingOn = Callable[[Passage], None]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of an ingestion; ``summary`` says what was done until then."""

    def __init__(self, summary: IngestionSummary) -> None:
        super().__init__()
        self.summary = summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A passage that is to be extracted and written.

    ``ready`` is its ready-made extraction, where it has one; ``failed_hash`` the hash under which it failed,
    where it is tried again; ``lease`` that under which a worker has it from the queue; ``waiting`` the ticket
    of an older text that waits under its key.
    """

    passage: Passage
    content_hash: bytes
    ready: Extraction | None = None
    failed_hash: bytes | None = None
    lease: Leased | None = None
    waiting: int | None = None


@dataclass(slots=True, kw_only=True)
class Job:
    """A run on one corpus; its fields are the arguments of `evireform.ingestion.ingest`.

    `news`, `failures` and `queued` read, `run` does the rest; ``unwritten`` holds what is extracted and not
    written yet, ``leases`` what a worker has from the queue. All of it happens in the caller's thread, but
    for `_extract`, which runs in as many as the language backend wants.
    """

    store: Store
    corpus: CorpusRow
    space: SpaceRow
    encoder: Encoder
    language: Language
    extractions: Mapping[str, Extraction] | None
    batch: int
    index_threshold: int
    progress: Progress | None
    working_on: WorkingOn | None
    leases: Leases | None = None
    tally: Tally = field(default_factory=Tally)
    sample: list[str] = field(default_factory=list)
    unwritten: list[tuple[Work, Extraction]] = field(default_factory=list)
    extractors: list[str] = field(init=False)
    next_analysis: int = field(init=False)

    def __post_init__(self) -> None:
        self.next_analysis = _LARGE if self.corpus.extractor else 1
        self.extractors = self.corpus.extractor.split(_AND) if self.corpus.extractor else []

    def run(self, works: Iterable[list[Work]]) -> IngestionSummary:
        """Extract and write what is read, until all is done, no call can be made, or Ctrl-C."""
        try:
            groups = in_groups(
                self._extract,
                self._units(works),
                at_once=self.language.concurrency,
                ahead=self.batch,
                size=self.batch,
                patience_s=PATIENCE_S,
            )
            with leaving(groups, left=self._take):
                for group in groups:
                    self._take(group)
                    self._write()
            if self.extractions is None and self.tally.added and self.language.extractor.startswith("rules"):
                self._check_language()
            spaces.ensure_index(self.store, self.space, threshold=self.index_threshold)
        except CorpusSwitched as error:
            self.tally.stop(str(error), "switched")
        except KeyboardInterrupt as error:
            self.tally.stop("interrupted", "interrupted")
            with suppress(KeyboardInterrupt, EvireformError):  # one more Ctrl-C; a database that is gone too
                self._write()
            raise Interrupted(self.tally.summary()) from error
        return self.tally.summary()

    def news(self, passages: Iterable[Passage | Rejected]) -> Iterator[list[Work]]:
        """What is new or changed, in portions; the rest is counted, and relabelled where it must be."""
        seen: set[bytes] = set()
        for portion in portions(passages, most=self.batch, length=text_length):
            accepted = []
            for item in portion:
                refused = item if isinstance(item, Rejected) else problem(item, seen)
                if refused is not None:
                    self.tally.rejected.append(refused)
                elif isinstance(item, Passage):
                    accepted.append(item)
            self._look_at(accepted)
            works = self._changed(accepted)
            self._done(len(portion) - len(works))
            if works:
                yield works
        self._check_unchanged()

    def failures(self) -> Iterator[list[Work]]:
        """The passages of the corpus whose extraction failed, as it holds them."""
        after = ""
        while True:
            with self.store.transaction(read_only=True) as tx:
                found = writing.failed_texts(tx, self.corpus.corpus_id, after=after, fetch=self.batch)
            if not found:
                return
            after = found[-1][0].key
            for portion in portions(found, most=self.batch, length=lambda pair: len(pair[0].text)):
                yield [
                    Work(
                        passage=passage,
                        content_hash=content_hash(passage, self.corpus.titles, None),
                        failed_hash=failed_hash,
                    )
                    for passage, failed_hash in portion
                ]

    def queued(self, leases: Leases, *, most: int) -> Iterator[list[Work]]:
        """What a worker takes on lease, until nothing is to be had or it has had about ``most`` passages."""
        taken = 0
        while taken < most and not self.tally.stopped:
            claimed = leases.claim()
            if not claimed:
                return
            taken += len(claimed)
            self._look_at([one.passage for one in claimed])
            for portion in portions(claimed, most=self.batch, length=lambda one: len(one.passage.text)):
                works = []
                for one in portion:
                    given_up = leases.given_up(one)
                    work = Work(
                        passage=one.passage,
                        content_hash=content_hash(one.passage, self.corpus.titles, one.extraction),
                        ready=Extraction(error=given_up) if given_up else one.extraction,
                        lease=leases.leased(one),
                    )
                    works.append(work)
                yield works

    def _look_at(self, passages: Sequence[Passage]) -> None:
        """Keep the beginnings of the first texts, to tell their language by."""
        self.sample += [p.text[:2_000] for p in passages[: _SAMPLE - len(self.sample)]]

    def _changed(self, passages: Sequence[Passage]) -> list[Work]:
        ready = self.extractions or {}
        works = {
            p.key: Work(
                passage=p,
                content_hash=content_hash(p, self.corpus.titles, ready.get(p.key)),
                ready=ready.get(p.key),
            )
            for p in passages
        }
        with self.store.transaction() as tx:
            corpora.hold_named(tx, self.corpus)
            # From here on no worker can write an older text over these.
            waiting = queue.lock_queued(tx, self.corpus.corpus_id, list(works))
            known = writing.known_passages(tx, self.corpus.corpus_id, passages)
            current = [
                p for p in passages if p.key in known and known[p.key].is_current(works[p.key].content_hash)
            ]
            relabelled = [p for p in current if known[p.key].relabelled]
            older = {p.key: waiting[p.key] for p in current if p.key in waiting}
            queue.withdraw_seen(tx, self.corpus.corpus_id, older)
            if relabelled:
                writing.relabel_passages(tx, self.corpus.corpus_id, relabelled)
        self.tally.changed += len(relabelled)
        self.tally.unchanged += len(current) - len(relabelled)
        for p in current:
            del works[p.key]
        return [replace(work, waiting=waiting.get(key)) for key, work in works.items()]

    def _units(self, batches: Iterable[list[Work]]) -> Iterator[list[Work]]:
        """What goes into one call of `extract`: a passage where the backend wants it so; else as many as take
        about `PATIENCE_S`, for a backend that works by itself likes batches and a slow one is to be heard."""
        alone = self.language.one_by_one
        most = 1
        for works in batches:
            for name in self._extractors_of(works):
                self._check_extractor(name)
            self.tally.begun += len(works)
            if self.tally.stopped:
                return
            while works:
                unit = next(portions(works, most=1 if alone else most, length=_work_length))
                works = works[len(unit) :]
                if self.working_on and _work_length(unit[0]) > CHARACTERS and not self.tally.stopped:
                    self.working_on(unit[0].passage)
                started = time.perf_counter()
                yield unit
                if not alone:
                    took_s = max(time.perf_counter() - started, 0.001)
                    most = min(self.batch, max(1, round(len(unit) * PATIENCE_S / took_s)))

    def _extract(self, unit: list[Work]) -> list[Extraction]:
        """An extraction for each passage of the unit, up to the first that no call can be made for."""
        if self.tally.stopped:
            return []
        titled = self.corpus.titles == "on"
        asked = [
            replace(work.passage, title=work.passage.title if titled else "")
            for work in unit
            if work.ready is None
        ]
        made = dict(zip([p.key for p in asked], self.language.extract(asked) if asked else [], strict=True))
        extractions: list[Extraction] = []
        for work in unit:
            extraction = with_spans(work.ready, work.passage.text) if work.ready else made[work.passage.key]
            self.tally.count_calls(extraction.calls)
            if extraction.in_vain:
                self.tally.stop(extraction.error, extraction.in_vain)
                break
            extractions.append(extraction)
        return extractions

    def _take(self, group: Sequence[tuple[list[Work], list[Extraction]]]) -> None:
        self.unwritten += [pair for unit, made in group for pair in zip(unit, made, strict=False)]

    def _write(self) -> None:
        """Write what was extracted, the short ones first: embedding a huge one takes its time."""
        by_length = sorted(self.unwritten, key=lambda pair: _work_length(pair[0]))
        for portion in portions(by_length, most=self.batch, length=lambda pair: _work_length(pair[0])):
            self._write_batch([(work, self._prepare(work, extraction)) for work, extraction in portion])
            self.unwritten = by_length = by_length[len(portion) :]
            self.tally.finished += len(portion)
            self._analyze()
            self._done(len(portion))

    def _prepare(self, work: Work, extraction: Extraction) -> PreparedPassage:
        prepared, left_out = prepare(work.passage, extraction, self.corpus.titles, self.encoder)
        self.tally.count_extraction(extraction)
        self.tally.count_left_out(left_out)
        texts = [with_title(work.passage.title, p.text, self.corpus.titles) for p in prepared.propositions]
        self.tally.truncated += len(self.encoder.truncated(texts))
        return replace(prepared, content_hash=work.content_hash)

    def _write_batch(self, batch: list[tuple[Work, PreparedPassage]]) -> None:
        """Write a batch in one transaction; where the server refuses it, one by one, as one is to blame."""
        try:
            if self.leases is not None:
                self._write_leased(self.leases, batch)
            else:
                self.tally.count_written([prepared for _, prepared in batch], self._written(batch))
        except DatabaseError as error:
            if not _blames(error, len(batch)):
                raise
            if len(batch) > 1:
                for one in batch:
                    self._write_batch([one])
                return
            reason = f"the database refused it: {error}"
            if self.leases is not None:
                work, prepared = batch[0]
                self._write_leased(
                    self.leases, [(replace(work, ready=None), without_parts(prepared, reason))]
                )
                return
            self.tally.rejected.append(Rejected(reason=reason, passage_key=batch[0][0].passage.key))

    def _written(self, batch: Sequence[tuple[Work, PreparedPassage]]) -> Written:
        again = {work.passage.key: work.failed_hash for work, _ in batch if work.failed_hash is not None}
        older = {work.passage.key: work.waiting for work, _ in batch if work.waiting is not None}
        prepared = [prepared for _, prepared in batch]
        with self.store.transaction() as tx:
            queue.withdraw_seen(tx, self.corpus.corpus_id, older)  # what was queued since is newer
            if again:
                still = writing.lock_failed_passages(tx, self.corpus.corpus_id, again)
                prepared = [one for one in prepared if one.passage.key in still]
            return writing.write_passages(tx, self.corpus, self.space, prepared)

    def _write_leased(self, leases: Leases, batch: Sequence[tuple[Work, PreparedPassage]]) -> None:
        """Write what the worker still holds, and take it out of the queue, in one transaction."""
        prepared = [one for _, one in batch]
        with self.store.transaction() as tx:
            share = leases.share(
                tx, [(work.lease, work.ready is None, one) for work, one in batch if work.lease is not None]
            )
            written = writing.write_passages(tx, self.corpus, self.space, share.written)
            leases.settle(tx, share, written)
        leases.close(prepared, share)
        self.tally.count_written(share.written, written)

    def _analyze(self) -> None:
        if self.tally.written >= self.next_analysis:
            with self.store.transaction() as tx:
                tx.run("analyze_corpus_tables", {})
            self.next_analysis = _GROWTH * self.tally.written

    def _done(self, passages: int) -> None:
        if self.progress and passages:
            self.progress(passages)

    def _extractors_of(self, works: Sequence[Work]) -> set[str]:
        """What makes the propositions of these passages; nothing does where a worker gave one up."""
        if self.leases is None:
            return {"file" if self.extractions is not None else self.language.extractor}
        tried = [work for work in works if work.ready is None or not work.ready.error]
        return {"file" if work.ready else self.language.extractor for work in tried}

    def _check_extractor(self, name: str) -> None:
        """Record what extracts this corpus; say so where another one did before.

        Raises:
            ExtractorMismatch: another one did, and the corpus is a shadow, which has one.
        """
        if name in self.extractors:
            return
        with self.store.transaction() as tx:
            before = corpora.lock_extractor(tx, self.corpus)  # others may have recorded theirs meanwhile
            self.extractors = before.split(_AND) if before else []
            if name in self.extractors:
                return
            if before and (serving := generations.find_served(tx, self.corpus)):
                raise generations.other_extractor(serving, self.corpus.name, extractor=before, offered=name)
            self.extractors.append(name)
            corpora.set_extractor(tx, self.corpus.corpus_id, _AND.join(self.extractors))
        if before:
            self.tally.notes[
                f"the corpus was extracted by {before} so far and by {name} from now on: "
                "its propositions are of two kinds"
            ] = None

    def _check_unchanged(self) -> None:
        """Say so where another backend would have read what was passed over."""
        name, before = self.language.extractor, self.corpus.extractor
        if self.tally.unchanged and self.extractions is None and before not in ("", name):
            self.tally.notes[
                f"the unchanged passages stay as {before} extracted them: to have them extracted by {name}, "
                "make a new generation (`evireform generation start`)"
            ] = None

    def _check_language(self) -> None:
        from evireform.language.rules.english import looks_english

        if not looks_english(self.sample):
            self.tally.notes[
                "the texts do not look like English, which is all that the rules backend knows: "
                "expect poor propositions, or set a language model"
            ] = None


def _blames(error: DatabaseError, passages: int) -> bool:
    """Whether the passages are why the server refused a batch of so many, and not who has them locked."""
    if error.sqlstate != _CANCELED:
        return error.sqlstate.startswith(_ITS_OWN_FAULT)
    # The vectors of a single one are soon written: it has waited for an index.
    return error.statement in writing.AFTER_LOCKS or (passages > 1 and error.statement in writing.ON_VECTORS)


def _work_length(work: Work) -> int:
    return len(work.passage.text)
