"""Extractions that a corpus holds, as ready-made ones for another corpus of the same passages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from evireform.records import CorpusRow, ExtractedProposition, Extraction
from evireform.store import searching
from evireform.store.connection import Store


class StoredExtractions(Mapping[str, Extraction]):
    """Passage key to what was extracted from it, looked up when it is asked for.

    A passage whose extraction failed has its reason as error.
    """

    def __init__(self, store: Store, corpus: CorpusRow) -> None:
        self._store = store
        self._corpus = corpus

    def __getitem__(self, key: str) -> Extraction:
        with self._store.transaction(read_only=True) as tx:
            rows = searching.stored_propositions(tx, self._corpus.corpus_id, key)
        if not rows:
            raise KeyError(key)
        state, reason = rows[0][:2]
        if state == "failed":
            return Extraction(error=reason)
        return Extraction(
            propositions=tuple(
                ExtractedProposition(text=text, entities=forms) for _, _, text, forms in rows if text
            )
        )

    def __iter__(self) -> Iterator[str]:
        after = ""
        while True:
            with self._store.transaction(read_only=True) as tx:
                rows = searching.passage_texts(tx, self._corpus.corpus_id, after=after, fetch=1_000)
            if not rows:
                return
            yield from (key for key, _, _ in rows)
            after = rows[-1][0]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return True
