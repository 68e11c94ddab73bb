"""Statements of a search: each function runs one, and hands on its rows as records or arrays."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evireform.errors import CorpusNotFound
from evireform.records import Candidate, ObservedPassage, Titles
from evireform.store import corpora
from evireform.store.filtering import UNFILTERED, Allowed
from evireform.store.statements import WIDEST

if TYPE_CHECKING:
    from evireform.records import CorpusRow, SpaceRow
    from evireform.store.connection import Transaction

Row = tuple[Any, ...]

WIDE_SAMPLE = 10
"""Rows that an index of signs brings for each that is wanted: recall of the best is in docs/spaces.md."""

LEAST_SAMPLE = 200
"""Fewest rows that an index of signs brings: what it costs does not depend on so few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A proposition that a residual query found, best first."""

    proposition_id: int
    similarity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedRow:
    """A seed with the passage that owns it and every entity that it names."""

    proposition_id: int
    passage_id: int
    passage_key: str
    passage_size: int
    ordinal: int
    text: str
    entity_ids: tuple[int, ...]
    degrees: tuple[int, ...]
    max_weights: tuple[float, ...]
    displays: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Postings:
    """Passages that name one entity: ids, ``n_je`` and ``|P_j|``, each of shape ``(n,)``."""

    passage_ids: NDArray[np.int64]
    counts: NDArray[np.float64]
    sizes: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextPassage:
    """A passage as a reader reads it, its title also where the reader does not see it, and for each of its
    propositions the character range in its text where that is known."""

    passage: ObservedPassage
    title: str
    spans: tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """A ranked passage as it is shown, with the propositions that earned a part of its score."""

    passage_key: str
    title: str
    text: str
    metadata: Mapping[str, Any]
    propositions: tuple[tuple[int, int, str, tuple[int, int] | None, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Rows by question, and whether the exact scan had to complete a short answer of the index."""

    rows: list[list[Row]]
    repeated: bool


def nearest(
    tx: Transaction,
    statement: str,
    space: SpaceRow,
    vectors: NDArray[np.float32],
    *,
    limit: int,
    order: Callable[[Row], tuple[Any, ...]],
    parameters: Mapping[str, Any] | None = None,
    allowed: Allowed | None = None,
) -> Found:
    """The ``limit`` nearest rows of each vector, in a total order whatever the index did.

    The statement fetches a little more than the limit. When equal similarities run past what it fetched,
    it is repeated with more, so that ties at the limit are broken by ``order`` and never by chance. When
    the ANN index brings fewer rows than the space holds, it is repeated by exact scan. An index that holds
    the signs of wide vectors brings `WIDE_SAMPLE` times as many, of which the statement takes the nearest.

    Args:
        tx: An open transaction.
        statement: Name of a statement whose first columns are vector number, item id, similarity.
        space: The vector space to search.
        vectors: Shape ``(q, d)``.
        limit: Rows wanted for each vector.
        order: What ranks rows of equal similarity.
        parameters: Further parameters of the statement.
        allowed: What a filter leaves to search, for statements that take one. Few are compared one by one.

    Raises:
        VectorSpaceMismatch: the space was dropped meanwhile.
    """
    if not len(vectors):
        return Found(rows=[], repeated=False)
    fetch = limit + max(8, limit // 10)
    exact, repeated = tx.exact or not space.indexed or (allowed is not None and allowed.few), False
    given = np.asarray(vectors, dtype=np.float32)
    while True:
        sample = fetch
        if not exact and space.dimensions > WIDEST:
            sample = max(LEAST_SAMPLE, WIDE_SAMPLE * fetch)
        if not exact and allowed is not None:
            sample = max(sample, allowed.breadth)
        raw = tx.run(
            statement,
            {
                "corpus_id": space.corpus_id,
                "space_id": space.space_id,
                "vectors": given,
                "dimensions": space.dimensions,
                "fetch": fetch,
                "sample": sample,
                **(UNFILTERED if allowed is None else allowed.parameters(exact=exact)),
                **(parameters or {}),
            },
            dimensions=space.dimensions,
            exact=exact,
        )
        grouped: list[list[Row]] = [[] for _ in vectors]
        for row in raw:
            grouped[row[0]].append(row)
        for rows in grouped:
            rows.sort(key=lambda row: (-row[2], *order(row)))
        if not exact and any(len(rows) < limit for rows in grouped):
            exact = repeated = True
            continue
        if not all(grouped):
            corpora.require_space(tx, space)
        tied = [rows for rows in grouped if len(rows) >= limit and rows[-1][2] == rows[limit - 1][2]]
        if tied and not exact:
            exact = True  # the index loses some of hundreds of equal vectors, and may stop early
            continue
        if any(len(rows) >= fetch for rows in tied):
            fetch *= 4
            continue
        return Found(rows=[rows[:limit] for rows in grouped], repeated=repeated)


def candidates(
    tx: Transaction,
    space: SpaceRow,
    vectors: NDArray[np.float32],
    *,
    limit: int,
    with_entities: bool,
    titles: Titles,
    allowed: Allowed | None = None,
) -> tuple[list[list[Candidate]], bool]:
    """The nearest propositions of each question with positive similarity, and whether a scan was repeated.

    With a filter, the nearest of those that it allows.
    """
    found = nearest(
        tx,
        "candidates",
        space,
        vectors,
        limit=limit,
        order=lambda row: (row[4], row[6]),
        parameters={"with_entities": with_entities},
        allowed=allowed,
    )
    lists = [
        [
            Candidate(
                proposition_id=row[1],
                similarity=row[2],
                passage_id=row[3],
                passage_key=row[4],
                title=row[5] if titles == "on" else "",
                ordinal=row[6],
                text=row[7],
                entities=tuple(row[8] or ()),
            )
            for row in rows
            if row[2] > 0
        ]
        for rows in found.rows
    ]
    return lists, found.repeated


def residual_hits(
    tx: Transaction,
    space: SpaceRow,
    vectors: NDArray[np.float32],
    *,
    limit: int,
    allowed: Allowed | None = None,
) -> tuple[list[list[Hit]], bool]:
    """The nearest propositions of each residual query with positive similarity, of those that are allowed."""
    found = nearest(
        tx,
        "residual_hits",
        space,
        vectors,
        limit=limit,
        order=lambda row: (row[3], row[4]),
        allowed=allowed,
    )
    lists = [
        [Hit(proposition_id=row[1], similarity=row[2]) for row in rows if row[2] > 0] for rows in found.rows
    ]
    return lists, found.repeated


def passage_hits(
    tx: Transaction, space: SpaceRow, vectors: NDArray[np.float32], *, limit: int
) -> tuple[list[list[tuple[str, float]]], bool]:
    """Keys and similarities of the nearest passages of each question, best first."""
    found = nearest(tx, "passage_hits", space, vectors, limit=limit, order=lambda row: (row[3],))
    return [[(row[3], row[2]) for row in rows] for rows in found.rows], found.repeated


def stored_propositions(
    tx: Transaction, corpus_id: int, passage_key: str
) -> list[tuple[str, str, str, tuple[str, ...]]]:
    """State and reason of a passage with each of its propositions and the surface forms that it names.

    One row with an empty proposition for a passage that has none; no row where there is no such passage.
    """
    rows = tx.run("stored_propositions", {"corpus_id": corpus_id, "passage_key": passage_key})
    return [(row[0], row[1], row[2] or "", tuple(row[3])) for row in rows]


def passage_texts(tx: Transaction, corpus_id: int, *, after: str, fetch: int) -> list[tuple[str, str, str]]:
    """Key, title and text of the next passages behind a key, in key order."""
    rows = tx.run("passage_texts", {"corpus_id": corpus_id, "after": after, "fetch": fetch})
    return [(row[0], row[1], row[2]) for row in rows]


def observed_passages(
    tx: Transaction,
    corpus_id: int,
    passage_ids: Sequence[int],
    *,
    titles: Titles,
) -> dict[int, ObservedPassage]:
    """Whole passages by id; one that vanished since is missing."""
    rows = tx.run(
        "observed_passages",
        {
            "corpus_id": corpus_id,
            "passage_ids": list(passage_ids),
        },
    )
    return {
        row[0]: ObservedPassage(
            passage_key=row[1],
            title=row[2] if titles == "on" else "",
            text=row[3],
            propositions=tuple((body, tuple(entities)) for body, entities in row[4] or ()),
        )
        for row in rows
    }


def context_passages(
    tx: Transaction,
    corpus_id: int,
    passage_keys: Sequence[str],
    *,
    titles: Titles,
    allowed: Allowed | None = None,
) -> dict[str, ContextPassage]:
    """Whole passages by key; one that vanished since, or is no longer allowed, is missing."""
    rows = tx.run("context_passages", {"corpus_id": corpus_id, "passage_keys": list(passage_keys)})
    if allowed is not None:
        kept = set(allowed.among(row[4] for row in rows).tolist())
        rows = [row for row in rows if row[4] in kept]
    return {
        row[0]: ContextPassage(
            passage=ObservedPassage(
                passage_key=row[0],
                title=row[1] if titles == "on" else "",
                text=row[2],
                propositions=tuple((body, tuple(entities)) for body, _, _, entities in row[3] or ()),
            ),
            title=row[1],
            spans=tuple(None if start is None else (start, end) for _, start, end, _ in row[3] or ()),
        )
        for row in rows
    }


def seeds(tx: Transaction, corpus_id: int, proposition_ids: Sequence[int]) -> dict[int, SeedRow]:
    """Seeds by id with every entity that they name; one that vanished since is missing."""
    rows = tx.run("seeds", {"corpus_id": corpus_id, "proposition_ids": list(proposition_ids)})
    return {
        row[0]: SeedRow(
            proposition_id=row[0],
            passage_id=row[1],
            passage_key=row[2],
            passage_size=row[3],
            ordinal=row[4],
            text=row[5],
            entity_ids=tuple(row[6] or ()),
            degrees=tuple(row[7] or ()),
            max_weights=tuple(row[8] or ()),
            displays=tuple(row[9] or ()),
        )
        for row in rows
    }


def neighbourhood(tx: Transaction, corpus_id: int, entity_ids: Sequence[int]) -> dict[int, Postings]:
    """Every passage that names each entity."""
    parameters = {"corpus_id": corpus_id, "entity_ids": list(entity_ids)}
    return _postings(tx.run("neighbourhood", parameters)) if entity_ids else {}


def hub_counts(
    tx: Transaction, corpus_id: int, entity_ids: Sequence[int], passage_ids: Sequence[int]
) -> dict[int, Postings]:
    """The passages among ``passage_ids`` that name each hub."""
    parameters = {
        "corpus_id": corpus_id,
        "entity_ids": list(entity_ids),
        "passage_ids": list(passage_ids),
    }
    return _postings(tx.run("hub_counts", parameters))


def _postings(rows: Sequence[Row]) -> dict[int, Postings]:
    return {
        row[0]: Postings(
            passage_ids=np.array(row[1], dtype=np.int64),
            counts=np.array(row[2], dtype=np.float64),
            sizes=np.array(row[3], dtype=np.float64),
        )
        for row in rows
    }


def passage_keys(tx: Transaction, corpus_id: int, passage_ids: Sequence[int]) -> dict[int, str]:
    """Keys by passage id."""
    rows = tx.run("passage_keys", {"corpus_id": corpus_id, "passage_ids": list(passage_ids)})
    return {row[0]: row[1] for row in rows}


def winners(
    tx: Transaction,
    corpus_id: int,
    passage_ids: Sequence[int],
    *,
    entity_ids: Sequence[int],
    proposition_ids: Sequence[int],
) -> dict[int, Winner]:
    """The ranked passages by id, with the propositions that are seeds or name an entity of a seed."""
    if not passage_ids:
        return {}
    rows = tx.run(
        "winners",
        {
            "corpus_id": corpus_id,
            "passage_ids": list(passage_ids),
            "entity_ids": list(entity_ids),
            "proposition_ids": list(proposition_ids),
        },
    )
    return {
        row[0]: Winner(
            passage_key=row[1],
            title=row[2],
            text=row[3],
            metadata=row[4],
            propositions=tuple(
                (
                    proposition_id,
                    ordinal,
                    body,
                    None if start is None else (start, end),
                    tuple(entities),
                )
                for proposition_id, ordinal, body, start, end, entities in row[5] or ()
            ),
        )
        for row in rows
    }


def insert_question_log(
    tx: Transaction,
    corpus: CorpusRow,
    entry: Mapping[str, Any],
    *,
    passage_keys: Collection[str],
    proposition_ids: Collection[int],
) -> tuple[int, bool]:
    """Write one search to the log.

    Args:
        tx: An open transaction.
        corpus: The corpus as it was when the search began.
        entry: The columns of the row; lists and mappings become JSON.
        passage_keys: Every passage that the search had in hand, each once.
        proposition_ids: Every proposition that it found.

    Returns:
        The id of the row, and whether it holds the question alone, because a passage was deleted meanwhile.

    Raises:
        CorpusNotFound: the corpus was deleted meanwhile.
    """
    encoded = {
        name: json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
        for name, value in entry.items()
    }
    tx.run("share_log", {"corpus_id": corpus.corpus_id})
    rows = tx.run(
        "insert_question_log",
        {
            **encoded,
            "corpus_id": corpus.corpus_id,
            "tenant_id": corpus.tenant_id,
            "deletions": corpus.deletions,
            "passage_keys": list(passage_keys),
            "proposition_ids": list(proposition_ids),
        },
    )
    if not rows:
        raise CorpusNotFound("the corpus was deleted meanwhile", name=corpus.name)
    return rows[0][0], rows[0][1]


def question_log_entry(tx: Transaction, corpus_id: int, question_id: int) -> Row | None:
    """One logged search, or None."""
    rows = tx.run("question_log_entry", {"corpus_id": corpus_id, "question_id": question_id})
    return rows[0] if rows else None


def propositions_by_place(
    tx: Transaction, corpus_id: int, places: Sequence[tuple[str, int, str]]
) -> dict[tuple[str, int, str], int]:
    """Proposition ids by (passage key, ordinal, text); one that is gone or says something else is missing."""
    rows = tx.run(
        "propositions_by_place",
        {
            "corpus_id": corpus_id,
            "passage_keys": [key for key, _, _ in places],
            "ordinals": [ordinal for _, ordinal, _ in places],
            "bodies": [text for _, _, text in places],
        },
    )
    return {(row[0], row[1], row[2]): row[3] for row in rows}
