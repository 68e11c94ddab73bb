"""Ingestion: passages in, index rows out; incremental, resumable, one passage all or none."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from evireform.canonical import MAX_ENTITY_CHARACTERS, canonical
from evireform.embedding import Encoder
from evireform.errors import DatabaseError
from evireform.formats.extractions import with_spans
from evireform.formats.text import json_problem, key_problem, storable, text_problem
from evireform.language import Language
from evireform.records import (
    CorpusRow,
    Extraction,
    IngestionSummary,
    ModelCall,
    Passage,
    Rejected,
    SpaceRow,
    Titles,
    with_title,
)
from evireform.store import corpora, spaces, writing
from evireform.store.connection import Store
from evireform.store.writing import KnownPassage, PreparedPassage, PreparedProposition

BATCH = 64
"""Passages that are extracted, embedded and written together; memory grows with it, not with the corpus."""

INDEX_THRESHOLD = 3_000
"""Vectors from which a space gets its HNSW index: below, the exact scan is as fast."""

_ITS_OWN_FAULT = ("22", "23", "54")
"""Classes of SQLSTATE that blame the rows: data exception, constraint violation, limit exceeded."""

_LARGE = 1_000
"""Passages written to a known corpus until the planner gets new statistics; a new one gets them at once."""

_GROWTH = 4
"""Statistics are made again whenever what was written has grown so many times."""

_SAMPLE = 50
"""Passages whose text is looked at to tell whether the corpus is English."""

Progress = Callable[[int], None]


@dataclass(slots=True)
class _Tally:
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    empty: int = 0
    failed: list[Rejected] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    propositions: int = 0
    dropped_entities: int = 0
    truncated: int = 0
    extractor_checked: bool = False
    notes: dict[str, None] = field(default_factory=dict)


def ingest(
    store: Store,
    corpus_name: str,
    passages: Iterable[Passage | Rejected],
    *,
    encoder: Encoder,
    language: Language,
    extractions: Mapping[str, Extraction] | None = None,
    progress: Progress | None = None,
) -> IngestionSummary:
    """Bring passages into a corpus: skip what is unchanged, extract, embed and write the rest.

    Running it again with the same passages changes nothing; after an interruption it goes on where it was.
    A passage that is refused or whose extraction fails is listed with the reason, and the others go in.

    Args:
        store: The database.
        corpus_name: An existing corpus.
        passages: Passages in any order, and what a reader rejected. Of a key given twice the first counts.
        encoder: Embeds the propositions; must be the model of the corpus's active space.
        language: Extracts propositions and entities.
        extractions: Ready-made extractions by passage key, used instead of the language backend.
        progress: Called with the number of passages done since the last call.

    Raises:
        CorpusNotFound: no corpus has this name, or it was deleted meanwhile.
        VectorSpaceMismatch: the corpus was embedded with another model.
        DatabaseError: the server vanished or refused a whole batch.
    """
    start = time.perf_counter()
    tally = _Tally()
    corpus, space = _open(store, corpus_name, encoder)
    sample: list[str] = []
    seen: set[bytes] = set()
    next_analysis = 1 if not corpus.extractor else _LARGE
    for batch in _batches(passages):
        accepted = []
        for item in batch:
            problem = item if isinstance(item, Rejected) else _problem(item, seen)
            if problem is not None:
                tally.rejected.append(problem)
            elif isinstance(item, Passage):
                accepted.append(item)
        sample += [p.text[:2_000] for p in accepted[: _SAMPLE - len(sample)]]
        _ingest_batch(store, corpus, space, accepted, encoder, language, extractions, tally)
        if tally.added + tally.changed >= next_analysis:
            with store.transaction() as tx:
                tx.run("analyze_corpus_tables", {})
            next_analysis = _GROWTH * (tally.added + tally.changed)
        if progress:
            progress(len(batch))
    if language.name.startswith("rules") and extractions is None and tally.added:
        _check_language(sample, tally)
    spaces.ensure_index(store, space, threshold=INDEX_THRESHOLD)
    return IngestionSummary(
        added=tally.added,
        changed=tally.changed,
        unchanged=tally.unchanged,
        empty=tally.empty,
        failed=tuple(tally.failed),
        rejected=tuple(tally.rejected),
        notes=tuple(tally.notes),
        propositions=tally.propositions,
        dropped_entities=tally.dropped_entities,
        truncated=tally.truncated,
        seconds=time.perf_counter() - start,
    )


def delete(store: Store, corpus_name: str, passage_keys: Sequence[str]) -> list[str]:
    """Delete passages with everything that derives from them. Returns the keys that existed."""
    deleted: list[str] = []
    keys = sorted(key for key in set(passage_keys) if not key_problem(key))
    for start in range(0, len(keys), BATCH):
        with store.transaction() as tx:
            corpus = corpora.get_corpus(tx, corpus_name)
            deleted += writing.delete_passages(tx, corpus.corpus_id, keys[start : start + BATCH])
    return deleted


def prepare(
    passage: Passage, extraction: Extraction, titles: Titles, encoder: Encoder
) -> tuple[PreparedPassage, int]:
    """A passage ready to be written, and how many entity names were dropped.

    Exact duplicate propositions are one; a name that is empty in canonical form, or longer than
    `canonical.MAX_ENTITY_CHARACTERS`, is dropped.
    """
    dropped = 0
    propositions: dict[str, PreparedProposition] = {}
    for proposition in extraction.propositions:
        text = storable(proposition.text).strip()
        if not text:
            continue
        earlier = propositions.get(text)
        mentions = dict(earlier.mentions) if earlier else {}
        for surface in proposition.entities:
            form = " ".join(storable(surface).split())
            name = canonical(form)
            if name and len(form) <= MAX_ENTITY_CHARACTERS and len(name) <= MAX_ENTITY_CHARACTERS:
                mentions[form] = name
            else:
                dropped += 1
        propositions[text] = PreparedProposition(
            text=text,
            span=earlier.span if earlier else proposition.span,
            mentions=tuple(sorted(mentions.items())),
        )
    ready = () if extraction.error else tuple(propositions.values())
    texts = [with_title(passage.title, proposition.text, titles) for proposition in ready]
    return (
        PreparedPassage(
            passage=passage,
            content_hash=b"",
            state="failed" if extraction.error else "ready" if ready else "empty",
            reason=storable(extraction.error),
            propositions=ready,
            vectors=encoder.encode_propositions(texts),
        ),
        dropped,
    )


def content_hash(passage: Passage, titles: Titles, extraction: Extraction | None) -> bytes:
    """Fingerprint of what a passage's propositions derive from: its text, its title where titles are on,
    and a ready-made extraction."""
    parts: list[object] = [passage.title if titles == "on" else "", passage.text]
    if extraction is not None:
        parts.append([[p.text, list(p.entities)] for p in extraction.propositions])
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).digest()


def _batches(passages: Iterable[Passage | Rejected]) -> Iterator[list[Passage | Rejected]]:
    iterator = iter(passages)
    while batch := list(islice(iterator, BATCH)):
        yield batch


def _problem(passage: Passage, seen: set[bytes]) -> Rejected | None:
    """Why a passage cannot go in, or None; remembers its key."""
    reason = ""
    wrong = next((n for n in ("key", "text", "title") if not isinstance(getattr(passage, n), str)), "")
    if wrong:
        kind = type(getattr(passage, wrong)).__name__
        return Rejected(
            reason=f"the {wrong} must be text, not {kind}", passage_key=storable(str(passage.key))
        )
    if problem := key_problem(passage.key):
        reason = f"the key {problem}"
    elif not passage.text.strip():
        reason = "the text is empty"
    else:
        for name, problem in (
            ("text", text_problem(passage.text)),
            ("title", text_problem(passage.title)),
            ("metadata", _metadata_problem(passage.metadata)),
        ):
            if problem:
                reason = f"the {name} {problem}"
                break
    if not reason:
        digest = hashlib.blake2b(passage.key.encode(), digest_size=16).digest()
        if digest not in seen:
            seen.add(digest)
            return None
        reason = "the key was given before in this ingestion"
    return Rejected(reason=reason, passage_key=storable(passage.key))


def _metadata_problem(metadata: Mapping[str, object]) -> str:
    """Why a JSON column cannot hold metadata that a program made up; empty when it can."""
    try:
        return json_problem(dict(metadata)) or json_problem(_as_stored(metadata))
    except (TypeError, ValueError) as error:
        return f"is no JSON: {error}"


def _open(store: Store, corpus_name: str, encoder: Encoder) -> tuple[CorpusRow, SpaceRow]:
    """The corpus and its active proposition space, made on the first ingestion."""
    with store.transaction() as tx:
        corpus = corpora.get_corpus(tx, corpus_name)
        space = spaces.open_or_create(tx, corpus, "proposition", encoder)
    return corpus, space


def _check_extractor(
    store: Store,
    corpus: CorpusRow,
    language: Language,
    extractions: Mapping[str, Extraction] | None,
    tally: _Tally,
) -> None:
    """Record what extracts this corpus; say so where another one did before."""
    name = "file" if extractions is not None else language.name
    if corpus.extractor and corpus.extractor != name:
        tally.notes[
            f"the corpus was extracted by {corpus.extractor} so far and by {name} from now on: "
            "its propositions are of two kinds"
        ] = None
    elif not corpus.extractor:
        with store.transaction() as tx:
            corpora.set_extractor(tx, corpus.corpus_id, name)


def _check_language(sample: Sequence[str], tally: _Tally) -> None:
    from evireform.language.rules.english import looks_english

    if not looks_english(sample):
        tally.notes[
            "the texts do not look like English, which is all that the rules backend knows: "
            "expect poor propositions, or set a language model"
        ] = None


def _ingest_batch(
    store: Store,
    corpus: CorpusRow,
    space: SpaceRow,
    passages: Sequence[Passage],
    encoder: Encoder,
    language: Language,
    extractions: Mapping[str, Extraction] | None,
    tally: _Tally,
) -> None:
    """One batch: leave what is unchanged, relabel what only changed its title or metadata, write the rest."""
    ready = {p.key: extractions[p.key] for p in passages if p.key in extractions} if extractions else {}
    hashes = {p.key: content_hash(p, corpus.titles, ready.get(p.key)) for p in passages}
    with store.transaction() as tx:
        known = writing.known_passages(tx, corpus.corpus_id, list(hashes))
        current = [p for p in passages if _is_current(known.get(p.key), hashes[p.key])]
        relabelled = [
            p for p in current
            if (known[p.key].title, known[p.key].metadata) != (p.title, _as_stored(p.metadata))
        ]  # fmt: skip
        if relabelled:
            writing.relabel_passages(tx, corpus.corpus_id, relabelled)
    tally.changed += len(relabelled)
    tally.unchanged += len(current) - len(relabelled)
    kept = {p.key for p in current}
    work = [p for p in passages if p.key not in kept]
    if not work:
        return
    if not tally.extractor_checked:
        _check_extractor(store, corpus, language, extractions, tally)
        tally.extractor_checked = True
    to_extract = [p for p in work if p.key not in ready]
    seen_by_model = [replace(p, title=p.title if corpus.titles == "on" else "") for p in to_extract]
    made = dict(zip([p.key for p in to_extract], language.extract(seen_by_model), strict=True))
    batch: list[PreparedPassage] = []
    calls: list[tuple[str | None, ModelCall]] = []
    for passage in work:
        given = ready.get(passage.key)
        extraction = with_spans(given, passage.text) if given else made[passage.key]
        prepared, dropped = prepare(passage, extraction, corpus.titles, encoder)
        batch.append(replace(prepared, content_hash=hashes[passage.key]))
        tally.dropped_entities += dropped
        texts = [with_title(passage.title, p.text, corpus.titles) for p in prepared.propositions]
        tally.truncated += len(encoder.truncated(texts))
        calls += [(passage.key, call) for call in extraction.calls]
    _write(store, corpus, space, batch, calls, tally)


def _is_current(known: KnownPassage | None, wanted: bytes) -> bool:
    return known is not None and known.content_hash == wanted and known.state != "failed"


def _as_stored(metadata: Mapping[str, object]) -> object:
    """Metadata as it comes back from the database, tuples as lists and keys as texts."""
    return json.loads(json.dumps(dict(metadata), allow_nan=False))


def _write(
    store: Store,
    corpus: CorpusRow,
    space: SpaceRow,
    batch: Sequence[PreparedPassage],
    calls: Sequence[tuple[str | None, ModelCall]],
    tally: _Tally,
) -> None:
    """Write a batch in one transaction; where the server refuses it, passage by passage, to find the one."""
    try:
        with store.transaction() as tx:
            written = writing.write_passages(tx, corpus, space, batch)
            writing.insert_model_calls(tx, corpus, calls)
    except DatabaseError as error:
        its_own_fault = error.sqlstate[:2] in _ITS_OWN_FAULT
        if len(batch) == 1 and its_own_fault:
            key = batch[0].passage.key
            tally.rejected.append(Rejected(reason=f"the database refused it: {error}", passage_key=key))
            if error.statement != "insert_model_calls":
                with store.transaction() as tx:
                    writing.insert_model_calls(tx, corpus, calls)
            return
        if len(batch) == 1 or not its_own_fault:
            raise
        for prepared in batch:
            own = [call for call in calls if call[0] == prepared.passage.key]
            _write(store, corpus, space, [prepared], own, tally)
        return
    tally.added += len(written.added)
    tally.changed += len(written.changed)
    current = {*written.added, *written.changed}
    tally.unchanged += len(batch) - len(current)
    for prepared in batch:
        if prepared.passage.key not in current:
            continue
        tally.propositions += len(prepared.propositions)
        if prepared.state == "empty":
            tally.empty += 1
        elif prepared.state == "failed":
            tally.failed.append(Rejected(reason=prepared.reason, passage_key=prepared.passage.key))
