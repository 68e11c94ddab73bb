"""What the encoders share: a name, dimensions, and the prompts of a model by kind of text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from evireform.embedding import Vectors
from evireform.embedding.prompts import Preset, Template


class PromptedEncoder(ABC):
    """`Encoder` that puts each text into the template of its kind.

    An implementation sets ``_model``, ``_preset`` and ``_dimensions``, and encodes texts in a template.
    """

    _model: str
    _preset: Preset
    _dimensions: int

    @property
    def model(self) -> str:
        return self._model

    @property
    def dimensions(self) -> int:
        return self._dimensions

    @property
    def prompts(self) -> Mapping[str, str]:
        return self._preset.recorded()

    def encode_questions(self, texts: Sequence[str]) -> Vectors:
        return self._encode(texts, self._preset.question)

    def encode_propositions(self, texts: Sequence[str]) -> Vectors:
        return self._encode(texts, self._preset.proposition)

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        return self._encode(texts, self._preset.passage)

    def truncated(self, texts: Sequence[str]) -> list[int]:
        return [position for position, text in enumerate(texts) if self._is_truncated(text)]

    @abstractmethod
    def _encode(self, texts: Sequence[str], template: Template) -> Vectors: ...

    @abstractmethod
    def _is_truncated(self, text: str) -> bool: ...
