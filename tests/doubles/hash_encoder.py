"""An encoder without a model: a text's vector is the sum of random signs drawn from its words."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence

import numpy as np

from evireform.embedding import Vectors


class HashEncoder:
    """Deterministic `Encoder`: texts that share words are similar, whatever the process or the batch.

    The inner product of two texts is about the share of words that they have in common, give or take
    ``1 / sqrt(dimensions)``. Word order, case and repetition do not matter.

    Attributes:
        encoded: Every text that was encoded, in order, for tests that count the work.
        window: Words beyond which `truncated` names a text; the vector still reads them all.
    """

    def __init__(self, dimensions: int = 64, *, model: str = "", window: int = 512) -> None:
        self.dimensions = dimensions
        self.model = model or f"hash-{dimensions}"
        self.prompts: Mapping[str, str] = {}
        self.window = window
        self.encoded: list[str] = []

    def encode_questions(self, texts: Sequence[str]) -> Vectors:
        return self._encode(texts)

    def encode_propositions(self, texts: Sequence[str]) -> Vectors:
        return self._encode(texts)

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        return self._encode(texts)

    def truncated(self, texts: Sequence[str]) -> list[int]:
        return [position for position, text in enumerate(texts) if len(text.split()) > self.window]

    def _encode(self, texts: Sequence[str]) -> Vectors:
        self.encoded.extend(texts)
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            words = set(re.findall(r"\w+", text.casefold())) or {""}
            total = sum((self._signs(word) for word in words), np.zeros(self.dimensions))
            total = total if total.any() else self._signs("")
            vectors[row] = total / np.linalg.norm(total)
        return vectors

    def _signs(self, word: str) -> np.ndarray:
        digest = hashlib.shake_256(word.encode("utf-8", "surrogatepass")).digest(-(-self.dimensions // 8))
        bits = np.unpackbits(np.frombuffer(digest, dtype=np.uint8))[: self.dimensions]
        return bits * 2.0 - 1.0
