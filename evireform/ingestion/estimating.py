"""What an ingestion would ask of a model, before it does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from evireform.ingestion.checks import problem
from evireform.ingestion.portions import portions, text_length
from evireform.ingestion.preparing import content_hash
from evireform.ingestion.reading import readable
from evireform.language import Language
from evireform.language.tokens import BYTES_PER_TOKEN
from evireform.prices import price_of
from evireform.records import CorpusRow, Estimate, ExpectedCall, Extraction, Passage, Rejected, Titles
from evireform.settings import LanguageSettings
from evireform.store import calls, corpora, writing
from evireform.store.calls import Rates
from evireform.store.connection import Store, Transaction

BATCH = 64
"""Passages looked up together."""

ANSWER_PER_DATA = 2
"""Bytes of an answer for each of the passage that it is about, where nothing better is known.

Measured: 2.1 on the extractions of 1,890 paragraphs of Wikipedia that MuSiQue asks about.
"""

ENOUGH = 20
"""Earlier calls in the same corpus from which it is calibrated on its own."""


@dataclass(slots=True)
class _Sum:
    """What is known of the passages so far."""

    passages: int = 0
    answered: int = 0
    given: int = 0
    unchanged: int = 0
    rejected: int = 0
    calls: int = 0
    prompt_bytes: int = 0
    data_bytes: int = 0
    keys: set[str] = field(default_factory=set)
    any_call: ExpectedCall | None = None


def estimate(
    store: Store,
    corpus_name: str,
    passages: Iterable[Passage | Rejected],
    *,
    language: Language,
    settings: LanguageSettings,
    titles: Titles,
    extractions: Mapping[str, Extraction] | None = None,
) -> Estimate:
    """What `ingest` would ask of a model for these passages. Asks none, and writes nothing.

    Tokens are estimated from what earlier extractions with the same model and prompt took for each byte that
    was sent, repairs and failures included: those in the corpus where there are enough, else all of the
    tenant's. Without any, or where those about most passages failed, a token stands for four bytes, and an
    answer is twice as long as its passage. A call that the ledger would answer is free.

    Args:
        store: The database.
        corpus_name: A corpus, which need not be there yet.
        passages: As for `ingest`.
        language: Says which calls it would make.
        settings: Cache and prices.
        titles: Whether titles join the text, for a corpus that is not there yet.
        extractions: Ready-made extractions by passage key; they take no call.
    """
    with store.transaction(read_only=True) as tx:
        found = corpora.find_corpus(tx, corpus_name)
        tenant_id = found.tenant_id if found else corpora.current_tenant(tx)
    total = _Sum()
    seen: set[bytes] = set()
    with readable(passages) as read:
        for portion in portions(read, most=BATCH, length=text_length):
            refused = [item if isinstance(item, Rejected) else problem(item, seen) for item in portion]
            accepted = [
                item for item, why in zip(portion, refused, strict=True)
                if why is None and isinstance(item, Passage)
            ]  # fmt: skip
            total.rejected += len(portion) - len(accepted)
            with store.transaction(read_only=True) as tx:
                new = _new(tx, found, accepted, titles, extractions or {}, total)
                _add(tx, tenant_id, language.expected_calls(new), settings, total)
    return _estimate(store, tenant_id, found, total, settings)


def _new(
    tx: Transaction,
    corpus: CorpusRow | None,
    passages: list[Passage],
    titles: Titles,
    extractions: Mapping[str, Extraction],
    total: _Sum,
) -> list[Passage]:
    """The passages that a language backend would extract, as it would see them."""
    known = writing.known_passages(tx, corpus.corpus_id, passages) if corpus else {}
    titles = corpus.titles if corpus else titles
    new = []
    for passage in passages:
        ready, there = extractions.get(passage.key), known.get(passage.key)
        current = there is not None and there.content_hash == content_hash(passage, titles, ready)
        if there is not None and current and there.state != "failed":
            total.unchanged += 1
        elif ready is not None:
            total.given += 1
        else:
            new.append(replace(passage, title=passage.title if titles == "on" else ""))
    return new


def _add(
    tx: Transaction,
    tenant_id: int,
    expected: list[tuple[ExpectedCall, ...]],
    settings: LanguageSettings,
    total: _Sum,
) -> None:
    keys = [call.key for of_passage in expected for call in of_passage]
    total.keys |= calls.answered(tx, tenant_id, keys, settings)
    for of_passage in expected:
        total.passages += 1
        asked = [call for call in of_passage if call.key not in total.keys]
        total.answered += bool(of_passage) and not asked
        total.calls += len(asked)
        total.prompt_bytes += sum(call.prompt_bytes for call in asked)
        total.data_bytes += sum(call.data_bytes for call in asked)
        if settings.cache:
            total.keys.update(call.key for call in asked)  # a second identical one would be answered
        total.any_call = next(iter(of_passage), total.any_call)


def _estimate(
    store: Store, tenant_id: int, corpus: CorpusRow | None, total: _Sum, settings: LanguageSettings
) -> Estimate:
    made = Estimate(
        model=total.any_call.model if total.any_call else "",
        passages=total.passages,
        answered=total.answered,
        given=total.given,
        unchanged=total.unchanged,
        rejected=total.rejected,
        calls=0,
        tokens_in=0,
        tokens_out=0,
        cost=Decimal(0),
        basis="",
    )
    if total.any_call is None or not total.calls:
        return made
    with store.transaction(read_only=True) as tx:
        rates, basis = _rates(tx, tenant_id, corpus, total.any_call)
    # Tokens for each byte that is sent, and of the answer for each byte of data.
    asked = rates.tokens_in / rates.bytes_sent
    answered = rates.tokens_out / max(1, rates.bytes_sent - rates.first_calls * total.any_call.prompt_bytes)
    tokens_in = round((total.prompt_bytes + total.data_bytes) * asked)
    tokens_out = round(total.data_bytes * answered)
    tokens_cached = round(tokens_in * rates.tokens_cached / rates.tokens_in)
    price = price_of(made.model, settings.prices)
    return replace(
        made,
        calls=round(total.calls * rates.calls / rates.first_calls),
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        cost=price.cost(tokens_in=tokens_in, tokens_out=tokens_out, tokens_cached=tokens_cached)
        if price
        else None,
        basis=basis,
    )


def _rates(
    tx: Transaction, tenant_id: int, corpus: CorpusRow | None, call: ExpectedCall
) -> tuple[Rates, str]:
    """What calls like this one took, and where that is known from."""
    scopes: list[tuple[int | None, str, int]] = [(None, "all corpora", 1)]
    if corpus:
        scopes = [(corpus.corpus_id, "this corpus", ENOUGH), *scopes]
    for corpus_id, where, enough in scopes:
        rates = calls.extraction_rates(
            tx, tenant_id, corpus_id, model=call.model, prompt_version=call.prompt_version
        )
        mostly_usable = 2 * rates.usable >= rates.first_calls >= enough
        if mostly_usable and rates.bytes_sent and rates.tokens_in:
            return rates, (
                f"what the last {rates.calls} calls for extraction with {call.model} and prompt "
                f"{call.prompt_version} took in {where}"
            )
    size = 1_000 * BYTES_PER_TOKEN
    assumed = Rates(
        calls=1,
        first_calls=1,
        usable=1,
        bytes_sent=call.prompt_bytes + size,
        tokens_in=(call.prompt_bytes + size) // BYTES_PER_TOKEN,
        tokens_out=ANSWER_PER_DATA * size // BYTES_PER_TOKEN,
        tokens_cached=0,
    )
    return assumed, (
        f"assumptions ({BYTES_PER_TOKEN} bytes a token, an answer {ANSWER_PER_DATA} times as long as its "
        f"passage), for the ledger has few usable extractions, or none, with {call.model} and prompt "
        f"{call.prompt_version}: ingest a sample first"
    )
