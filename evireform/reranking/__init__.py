"""Cross-encoders: models that read a question and a passage together and say how well they fit.

`load` opens the one that a name stands for. Importing this package loads no model library.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]


class CrossEncoder(Protocol):
    """What reranking asks of a cross-encoder."""

    @property
    def model(self) -> str:
        """Name recorded with the rankings; two models with one name must give the same scores."""
        ...

    def score(self, question: str, passages: Sequence[str]) -> Scores:
        """How well each passage fits the question, larger is better, shape ``(len(passages),)``.

        A score does not depend on the other passages of the call.
        """
        ...


def load(model: str = "") -> CrossEncoder:
    """The cross-encoder of a name.

    Args:
        model: Empty for the offline default, a folder with ``model.onnx``, or a name or folder for
            ``sentence_transformers.CrossEncoder``.

    Raises:
        ModelUnavailable: its package or file is missing, or a checksum is wrong.
    """
    if not model or (Path(model).expanduser() / "model.onnx").is_file():
        from evireform.reranking.onnx import OnnxCrossEncoder

        return OnnxCrossEncoder(model)
    from evireform.reranking.sentence_transformers import SentenceTransformerCrossEncoder

    return SentenceTransformerCrossEncoder(model)
