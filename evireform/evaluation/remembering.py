"""An encoder that remembers the vectors of questions, so that the methods of a run share them."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from evireform.embedding import Encoder, Vectors

REMEMBERED = 4_096
"""Texts whose vectors are kept; the one that was not asked for longest goes first."""


class RememberingEncoder:
    """`Encoder` that encodes a question or residual query once.

    Attributes:
        spared_s: Seconds that the remembered vectors took when they were made, over all calls so far. What a
            method costs by itself is the time that passed and what was spared it meanwhile.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._vectors: OrderedDict[str, tuple[NDArray[np.float32], float]] = OrderedDict()
        self.spared_s = 0.0

    @property
    def model(self) -> str:
        return self._encoder.model

    @property
    def dimensions(self) -> int:
        return self._encoder.dimensions

    @property
    def prompts(self) -> Mapping[str, str]:
        return self._encoder.prompts

    def encode_questions(self, texts: Sequence[str]) -> Vectors:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        found = {}
        for text in dict.fromkeys(texts):
            if text in self._vectors:
                self._vectors.move_to_end(text)
                found[text], seconds = self._vectors[text]
                self.spared_s += seconds
        start = time.perf_counter()
        vectors = self._encoder.encode_questions(new)
        took = (time.perf_counter() - start) / max(1, len(new))
        for text, vector in zip(new, vectors, strict=True):
            found[text] = vector
            self._vectors[text] = (vector, took)
        while len(self._vectors) > REMEMBERED:
            self._vectors.popitem(last=False)
        return np.stack([found[text] for text in texts]) if texts else vectors

    def encode_propositions(self, texts: Sequence[str]) -> Vectors:
        return self._encoder.encode_propositions(texts)

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        return self._encoder.encode_passages(texts)

    def truncated(self, texts: Sequence[str]) -> list[int]:
        return self._encoder.truncated(texts)
