"""Embedding by any server that speaks the OpenAI protocol."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evireform.embedding import Vectors
from evireform.embedding.prompted import PromptedEncoder
from evireform.embedding.prompts import Template, preset_for
from evireform.embedding.vectors import normalised, stacked
from evireform.errors import ModelCallFailed, ModelUnavailable
from evireform.settings import EmbeddingSettings
from evireform.wellformed import well_formed

if TYPE_CHECKING:
    from openai.types import CreateEmbeddingResponse

DEFAULT_MODEL = "text-embedding-3-small"
MAX_CHARACTERS = 24_000
"""Characters sent of one text: about 6,000 tokens of English, below the usual limit of 8,191."""

_BATCH_TEXTS = 128
_BATCH_CHARACTERS = 400_000
_RETRIES = 4


class OpenAIEncoder(PromptedEncoder):
    """`Encoder` over an embeddings endpoint; vectors are L2-normalised here, whatever the server does.

    ``OPENAI_API_KEY`` and ``OPENAI_BASE_URL`` count as they do for the ``openai`` package, which also
    repeats requests that fail in passing. Whether a vector depends on its batch is up to the server.
    `truncated` names the texts that are longer than `MAX_CHARACTERS`; the server's own window is not known.

    Raises:
        ModelUnavailable: there is no API key.
        UsageError: no preset has the name in the settings.
    """

    def __init__(self, settings: EmbeddingSettings) -> None:
        from openai import OpenAI, OpenAIError

        self._model = settings.model or DEFAULT_MODEL
        self._preset = preset_for(self._model, name=settings.preset)
        self._asked_dimensions = settings.dimensions
        self._dimensions = settings.dimensions
        try:
            self._client = OpenAI(
                base_url=settings.base_url or None, timeout=settings.timeout_s, max_retries=_RETRIES
            )
        except OpenAIError as error:
            raise ModelUnavailable(
                "the openai embedding backend has no API key: set OPENAI_API_KEY "
                "(to any value for a server that asks for none)"
            ) from error

    @property
    def dimensions(self) -> int:
        """Length of the vectors; where it was not asked for, one short text is encoded to find out.

        Raises:
            ModelCallFailed: the server gave no usable answer.
        """
        if not self._dimensions:
            self._request(["dimensions"])
        return self._dimensions

    def _is_truncated(self, text: str) -> bool:
        return len(text) > MAX_CHARACTERS

    def _encode(self, texts: Sequence[str], template: Template) -> Vectors:
        """Vectors of the texts in their template.

        Raises:
            ModelCallFailed: the server refused, or its answer does not fit the question.
        """
        # A server refuses an empty text; a space stands for it.
        given = [template.before + (_sent(text) or " ") + template.after for text in texts]
        vectors = list(chain.from_iterable(self._request(batch) for batch in _batches(given)))
        return stacked(vectors, len(vectors[0]) if vectors else self.dimensions)

    def _request(self, batch: list[str]) -> list[NDArray[np.float32]]:
        from openai import OpenAIError

        extra: dict[str, Any] = {"dimensions": self._asked_dimensions} if self._asked_dimensions else {}
        try:
            # Floats, not base64: every server that speaks the protocol has them.
            response = self._client.embeddings.create(
                model=self._model, input=batch, encoding_format="float", **extra
            )
        except (
            OpenAIError,
            ValueError,
            OverflowError,
        ) as error:  # the latter two: a body that cannot be read
            raise ModelCallFailed(
                f"the embeddings server gave no usable answer for {self._model!r} "
                f"({len(batch)} texts, the longest of {max(map(len, batch))} characters): {error}",
                purpose="embed",
                attempts=_RETRIES + 1,
            ) from error
        try:
            vectors = _checked(response, len(batch), self._dimensions)
        except ValueError as error:
            raise ModelCallFailed(
                f"the embeddings server gave no usable answer for {self._model!r}: {error}", purpose="embed"
            ) from error
        self._dimensions = len(vectors[0])
        return vectors


def _sent(text: str) -> str:
    return well_formed(text[:MAX_CHARACTERS])


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    """Texts in order, in lists that stay below both limits of a request."""
    batch: list[str] = []
    characters = 0
    for text in texts:
        if batch and (len(batch) == _BATCH_TEXTS or characters + len(text) > _BATCH_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch


def _checked(response: CreateEmbeddingResponse, count: int, dimensions: int) -> list[NDArray[np.float32]]:
    """The vectors of a response in the order of the texts, each of norm 1.

    Args:
        response: What the library read; it does not check the server's answer.
        count: Texts that were sent.
        dimensions: Length that every vector must have; 0 where the first one decides.

    Raises:
        ValueError: the response does not hold one good vector for each text; the message says why.
    """
    items: Any = getattr(response, "data", None)
    if not isinstance(items, list) or len(items) != count:
        found = len(items) if isinstance(items, list) else "no"
        raise ValueError(f"{count} texts were sent and {found} vectors came back")
    components_at = {getattr(item, "index", None): getattr(item, "embedding", None) for item in items}
    if components_at.keys() != set(range(count)):
        raise ValueError("the indices of its vectors are not those of the texts")
    vectors: list[NDArray[np.float32]] = []
    for index in range(count):
        components = components_at[index]
        if not isinstance(components, list) or not all(_is_number(value) for value in components):
            raise ValueError(f"vector {index} is not a list of finite numbers")
        dimensions = dimensions or len(components)
        if len(components) != dimensions:
            raise ValueError(f"vector {index} has {len(components)} dimensions instead of {dimensions}")
        vectors.append(normalised(np.array(components, dtype=np.float64)))
    return vectors


def _is_number(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return type(value) is int and abs(value) < 2**53
