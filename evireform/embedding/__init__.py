"""Embedding models: one protocol, three implementations (ONNX folder, sentence-transformers, OpenAI).

`load` builds the encoder that the settings name. Importing this package loads no model library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from evireform.settings import EmbeddingSettings

Vectors = NDArray[np.float32]


class Encoder(Protocol):
    """What the jobs ask of an embedding model.

    Every ``encode_*`` returns float32 of shape ``(len(texts), dimensions)`` with rows of L2 norm 1, in
    order; a vector does not depend on the other texts of the call. An empty list gives ``(0, dimensions)``.
    """

    @property
    def model(self) -> str:
        """Name recorded with the vectors; two encoders with one name must give the same vectors."""
        ...

    @property
    def dimensions(self) -> int: ...

    @property
    def prompts(self) -> Mapping[str, str]:
        """Prompt templates that change the vectors (``question``, ``proposition``, ``passage``)."""
        ...

    def encode_questions(self, texts: Sequence[str]) -> Vectors: ...

    def encode_propositions(self, texts: Sequence[str]) -> Vectors: ...

    def encode_passages(self, texts: Sequence[str]) -> Vectors: ...

    def truncated(self, texts: Sequence[str]) -> list[int]:
        """Positions of the texts that are longer than the model's window; empty where it cannot be told."""
        ...


def load(settings: EmbeddingSettings) -> Encoder:
    """The encoder that the settings name.

    Raises:
        ModelUnavailable: its package or file is missing, or its checksum is wrong.
    """
    if settings.backend == "sentence-transformers":
        from evireform.embedding.sentence_transformers import SentenceTransformerEncoder

        return SentenceTransformerEncoder(settings)
    if settings.backend == "openai":
        from evireform.embedding.openai import OpenAIEncoder

        return OpenAIEncoder(settings)
    from evireform.embedding.onnx import OnnxEncoder

    return OnnxEncoder(settings)
