"""Synthetic passages with their extractions and vectors, to be ingested: what the models would have made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.doubles import PreparedEncoder
from benchmarks.synthetic import DIMENSIONS, MODEL, SyntheticCorpus
from evireform import ingestion
from evireform.embedding import Vectors
from evireform.language.rules import RulesLanguage
from evireform.records import ExtractedProposition, Extraction, Passage
from evireform.store.connection import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Passages of one process.

    ``propositions`` counts all of them; ``extractions`` is by passage key, and ``encoder`` knows the vectors.
    """

    passages: list[Passage]
    extractions: dict[str, Extraction]
    encoder: PreparedEncoder
    propositions: int

    def ingest(self, store: Store, corpus_name: str, passages: Sequence[Passage]) -> None:
        """Write some of the passages.

        Raises:
            RuntimeError: one was there already, or did not go in.
        """
        summary = ingestion.ingest(
            store,
            corpus_name,
            passages,
            encoder=self.encoder,
            language=RulesLanguage(),
            extractions=self.extractions,
        )
        if summary.added < len(passages):
            raise RuntimeError(f"not everything was written: {summary}")


def synthetic_load(propositions: int, *, seed: int, part: int = 0, of: int = 1) -> Load:
    """Every ``of``-th passage, from number ``part`` on, of the synthetic corpus of this size and seed."""
    corpus = SyntheticCorpus(propositions=propositions, seed=seed)
    owners, entities = corpus.incidence
    ends = np.searchsorted(owners, np.arange(propositions + 1)).tolist()
    named = entities.tolist()
    starts = [*corpus.starts.tolist(), propositions]
    every_vector = np.concatenate(list(corpus.vectors()))
    passages: list[Passage] = []
    extractions: dict[str, Extraction] = {}
    vectors: dict[str, Vectors] = {}
    for j in range(part, len(corpus.sizes), of):
        rows = range(starts[j], starts[j + 1])
        texts = [corpus.body(i, named[ends[i] : ends[i + 1]]) for i in rows]
        passage = Passage(key=f"{seed}-{j:08d}", text=" ".join(texts))
        passages.append(passage)
        extractions[passage.key] = Extraction(
            propositions=tuple(
                ExtractedProposition(
                    text=text, entities=tuple(f"Entity {e}" for e in named[ends[i] : ends[i + 1]])
                )
                for i, text in zip(rows, texts, strict=True)
            )
        )
        vectors.update(zip(texts, every_vector[starts[j] : starts[j + 1]], strict=True))
    return Load(
        passages=passages,
        extractions=extractions,
        encoder=PreparedEncoder(model=MODEL, dimensions=DIMENSIONS, vectors=vectors),
        propositions=len(vectors),
    )
