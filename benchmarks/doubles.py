"""The outside doors of a benchmark: encoder and language backend that hand over what was prepared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from evireform.embedding import Vectors
from evireform.language.rules import RulesLanguage
from evireform.records import Candidate, CorpusRow, ObservedPassage, Reformulation, Selection, SpaceRow


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedQuestion:
    """A question whose models have spoken already.

    ``vector`` has shape ``(d,)`` and ``query_vectors`` ``(l, d)``, one row a residual query;
    ``positions`` are those of the selected candidates, best first.
    """

    text: str
    vector: Vectors
    positions: tuple[int, ...]
    queries: tuple[str, ...]
    query_vectors: Vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedEncoder:
    """`evireform.embedding.Encoder` that looks its vectors up by text."""

    model: str
    dimensions: int
    vectors: Mapping[str, Vectors]
    prompts: Mapping[str, str] = field(default_factory=dict)

    def encode_questions(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.zeros((0, self.dimensions), dtype=np.float32)
        return np.stack([self.vectors[text] for text in texts])

    encode_propositions = encode_passages = encode_questions

    def truncated(self, texts: Sequence[str]) -> list[int]:  # noqa: ARG002
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedLanguage(RulesLanguage):
    """`evireform.language.Language` that repeats prepared choices."""

    questions: Mapping[str, PreparedQuestion]

    def in_corpus(self, corpus: CorpusRow) -> PreparedLanguage:  # noqa: ARG002
        return self

    def select(
        self,
        question: str,
        candidates: Sequence[Candidate],  # noqa: ARG002
        *,
        limit: int,
    ) -> Selection:
        return Selection(positions=self.questions[question].positions[:limit])

    def reformulate(
        self,
        question: str,
        observed: Sequence[ObservedPassage],  # noqa: ARG002
        *,
        limit: int,
    ) -> Reformulation:
        return Reformulation(queries=self.questions[question].queries[:limit])


def doors(questions: Sequence[PreparedQuestion], space: SpaceRow) -> tuple[PreparedEncoder, PreparedLanguage]:
    """Both doors for these questions, whose vectors belong to a vector space."""
    vectors = {q.text: q.vector for q in questions}
    for q in questions:
        vectors.update(zip(q.queries, q.query_vectors, strict=True))
    return (
        PreparedEncoder(
            model=space.model, dimensions=space.dimensions, vectors=vectors, prompts=space.prompts
        ),
        PreparedLanguage(questions={q.text: q for q in questions}),
    )
