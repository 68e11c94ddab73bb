"""Any cross-encoder that sentence-transformers can load, by hub name or folder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evireform.embedding.vectors import recorded_name
from evireform.errors import ModelUnavailable
from evireform.reranking import Scores
from evireform.wellformed import well_formed


class SentenceTransformerCrossEncoder:
    """`CrossEncoder` over ``sentence_transformers.CrossEncoder``, a pair at a time.

    In a padded batch a score would depend on the others in its last bits.

    Raises:
        ModelUnavailable: the package is missing, or the model cannot be loaded.
    """

    def __init__(self, model: str) -> None:
        try:
            from sentence_transformers import CrossEncoder
        except ImportError as error:
            raise ModelUnavailable(
                f"this cross-encoder needs {error.name}: pip install 'evireform[sentence-transformers]'"
            ) from error
        try:
            self._encoder = CrossEncoder(model)
        except Exception as error:  # the hub, the tokenizer and torch each raise their own kinds
            raise ModelUnavailable(f"the cross-encoder {model!r} cannot be loaded: {error}") from error
        self.model = recorded_name(model)

    def score(self, question: str, passages: Sequence[str]) -> Scores:
        pairs = [(well_formed(question), well_formed(passage)) for passage in passages]
        scores = self._encoder.predict(pairs, batch_size=1, show_progress_bar=False) if pairs else []
        return np.asarray(scores, dtype=np.float64).reshape(len(pairs))
