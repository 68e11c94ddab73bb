"""The ledger: every model call with what it took, and its answer for the next identical one."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, get_args

from evireform.budget import Meter, parse_budget
from evireform.errors import PermissionMissing, UsageError
from evireform.prices import price_of
from evireform.records import CorpusRow, CostReport, CostRow, ModelCall
from evireform.store import corpora
from evireform.wellformed import well_formed

if TYPE_CHECKING:
    from evireform.settings import LanguageSettings
    from evireform.store.connection import Store, Transaction

_log = logging.getLogger(__name__)

CostGroup = Literal["corpus", "passage", "question", "model", "purpose", "day", "round"]
"""What costs can be told apart by."""

_LATEST = 10_000
"""Calls that an estimate learns from."""


class Calls:
    """`evireform.language.Ledger` in the database, for one run. Every method may be called from many threads.

    What is found, permitted and recorded of one call must come from one thread.

    Args:
        store: The database.
        settings: Model, prices, cache and budget.

    Raises:
        UsageError: the budget is in money, and the model has no known price.
        InputError: the price file cannot be read.
    """

    def __init__(self, store: Store, settings: LanguageSettings) -> None:
        self._store = store
        self._settings = settings
        self.price = price_of(settings.model, settings.prices)
        self._meter = self._budgeted()
        self._refused = False

    @property
    def caches(self) -> bool:
        return self._settings.cache

    def _budgeted(self) -> Meter | None:
        if not self._settings.budget:
            return None
        budget = parse_budget(self._settings.budget)
        if budget.unit == "tokens":
            return Meter(budget)
        if self.price is None:
            raise UsageError(
                f"the price of {self._settings.model!r} is not known, so no budget in money can be held: "
                "write 100 tokens or 0.1k for a budget in tokens, or give its price in a file "
                "(language.prices)"
            )
        return Meter(budget, per_token=self.price.dearest_token)

    def find(self, corpus: CorpusRow, key: str) -> str | None:
        """The answer to an identical call, or None.

        Raises:
            DatabaseError: the server refused to look.
        """
        if not self._settings.cache:
            return None
        parameters = {"tenant_id": corpus.tenant_id, "key": key, "days": self._settings.cache_days}
        with self._store.transaction(read_only=True) as tx:
            rows = tx.run("find_answer", parameters)
        return rows[0][0] if rows else None

    def permit(self, tokens: int) -> None:
        """Ask leave for a call of about this many tokens, in and out.

        Raises:
            BudgetSpent: it would go beyond the budget.
        """
        if self._meter:
            self._meter.reserve(tokens)

    def record(self, corpus: CorpusRow, call: ModelCall, *, key: str, answer: str | None) -> ModelCall:
        """Write a call down, in a transaction of its own. Never raises; a failure is logged as a warning,
        unless the store is closed: then Ctrl-C gave the call up. That the role may not write is said once.

        A call that was answered from the ledger took no tokens, and its answer is kept once. That of a call
        that a deletion overtook is not kept: it may quote what is gone.
        """
        if call.cached:
            call, answer = replace(call, tokens_in=0, tokens_out=0, tokens_cached=0), None
        call = replace(call, cost=self._cost(call))
        if self._meter:
            self._settle(self._meter, call)
        if self._refused:
            return call
        try:
            with self._store.transaction() as tx:
                tx.run("share_log", {"corpus_id": corpus.corpus_id})
                call_id = insert_call(tx, corpus, call, key=key, answer=answer)
        except PermissionMissing as error:
            if not self._refused:
                _log.warning(
                    "model calls are missing in the ledger, and not kept for later: %s", error.problem
                )
            self._refused = True
            return call
        except Exception as error:
            # Whatever it is, the model has answered, and the answer is worth more than its account.
            level = logging.DEBUG if self._store.closed else logging.WARNING
            _log.log(level, "a call of %s (%s) is missing in the ledger: %s", call.model, call.purpose, error)
            return call
        return replace(call, call_id=call_id)

    def _cost(self, call: ModelCall) -> Decimal | None:
        if call.cached:
            return Decimal(0)
        if self.price is None or call.tokens_in is None or call.tokens_out is None:
            return None
        return self.price.cost(
            tokens_in=call.tokens_in, tokens_out=call.tokens_out, tokens_cached=call.tokens_cached or 0
        )

    @staticmethod
    def _settle(meter: Meter, call: ModelCall) -> None:
        if call.tokens_in is not None or call.tokens_out is not None:
            meter.settle(tokens=(call.tokens_in or 0) + (call.tokens_out or 0), money=call.cost)
        elif call.error:
            meter.settle(tokens=0, money=Decimal(0))
        else:  # answered by a server that does not count
            meter.settle(tokens=None, money=None)


def insert_call(tx: Transaction, corpus: CorpusRow, call: ModelCall, *, key: str, answer: str | None) -> int:
    """A call into the ledger, its texts as the database can hold them. Returns its id."""
    values = {field.name: getattr(call, field.name) for field in fields(call) if field.name != "call_id"}
    values |= {
        "tenant_id": corpus.tenant_id,
        "corpus_id": corpus.corpus_id,
        "corpus_name": corpus.name,
        "deletions": corpus.deletions,
        "parameters": json.dumps(dict(call.parameters)),
        "error": _kept(call.error),
        "key": key,
        "answer": None if answer is None else _kept(answer),
    }
    return int(tx.run("insert_call", values)[0][0])


def link_calls(tx: Transaction, calls: Sequence[ModelCall], question_id: int) -> None:
    """Calls of a search to its row in the log. Calls that are not in the ledger are passed over."""
    call_ids = [call.call_id for call in calls if call.call_id is not None]
    if call_ids:
        tx.run("link_calls", {"call_ids": call_ids, "question_id": question_id})


def answered(tx: Transaction, tenant_id: int, keys: Sequence[str], settings: LanguageSettings) -> set[str]:
    """Which calls a ledger with these settings would answer itself."""
    if not settings.cache or not keys:
        return set()
    parameters = {"tenant_id": tenant_id, "keys": list(keys), "days": settings.cache_days}
    return {row[0] for row in tx.run("answered_keys", parameters)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What earlier extractions took, repairs and failures included.

    ``first_calls`` is ``calls`` without the repairs; ``usable`` those of them about passages that had a
    usable answer in the end.
    """

    calls: int
    first_calls: int
    usable: int
    bytes_sent: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int


def extraction_rates(
    tx: Transaction, tenant_id: int, corpus_id: int | None, *, model: str, prompt_version: str
) -> Rates:
    """What the last extractions with a model and a prompt took: of one corpus, or (None) of all."""
    row = tx.run(
        "extraction_rates",
        {
            "tenant_id": tenant_id,
            "corpus_id": corpus_id,
            "model": model,
            "prompt_version": prompt_version,
            "fetch": _LATEST,
        },
    )[0]
    return Rates(
        calls=row[0],
        first_calls=row[1],
        usable=row[6],
        bytes_sent=row[2],
        tokens_in=row[3],
        tokens_out=row[4],
        tokens_cached=row[5],
    )


def costs(
    tx: Transaction, *, corpus: str | None = None, by: str = "corpus", since: datetime | None = None
) -> CostReport:
    """What the tenant's model calls took, by group. Calls of deleted corpora count, under their names.

    Args:
        tx: An open transaction.
        corpus: Only calls of corpora of this name; None takes all.
        by: One of `CostGroup`.
        since: Only calls from then on; without a time zone it is in UTC.

    Raises:
        UsageError: ``by`` is no group, or no corpus can have this name.
    """
    if corpus is not None:
        corpora.check_name(corpus)
    if by not in get_args(CostGroup):
        raise UsageError(f"costs are told apart by {', '.join(get_args(CostGroup))}, not by {by!r}")
    if since is not None and since.tzinfo is None:
        since = since.replace(tzinfo=UTC)
    found = tx.run(
        "costs", {"tenant_id": corpora.current_tenant(tx), "by": by, "corpus": corpus, "since": since}
    )
    rows = tuple(
        CostRow(
            corpus=row[0],
            group=row[1],
            question=row[2],
            calls=row[3],
            cached=row[4],
            failed=row[5],
            tokens_in=row[6],
            tokens_out=row[7],
            tokens_cached=row[8],
            cost=_known(row[9], row[10]),
            unpriced=row[10],
            latency_s=row[11],
        )
        for row in found
    )
    return CostReport(
        by=by,
        corpus=corpus or "",
        since=since.isoformat() if since else "",
        rows=rows,
        total=_total(rows),
    )


def _total(rows: Sequence[CostRow]) -> CostRow:
    known = [row.cost for row in rows if row.cost is not None]
    unpriced = sum(row.unpriced for row in rows)
    return CostRow(
        group="",
        calls=sum(row.calls for row in rows),
        cached=sum(row.cached for row in rows),
        failed=sum(row.failed for row in rows),
        tokens_in=sum(row.tokens_in for row in rows),
        tokens_out=sum(row.tokens_out for row in rows),
        tokens_cached=sum(row.tokens_cached for row in rows),
        cost=_known(sum(known, Decimal(0)), unpriced),
        unpriced=unpriced,
        latency_s=sum(row.latency_s for row in rows),
    )


def _known(cost: Decimal | None, unpriced: int) -> Decimal | None:
    """Nothing beside what is not known is not known, in whatever groups it was summed."""
    return None if unpriced and not cost else cost


def _kept(text: str) -> str:
    """Text from outside as the ledger can hold it: what it cannot stands as U+FFFD."""
    return well_formed(text.replace("\0", "\ufffd"))
