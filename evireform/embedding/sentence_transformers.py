"""Embedding with any model that sentence-transformers can load, by hub name or folder."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from evireform.embedding import Vectors
from evireform.embedding.prompted import PromptedEncoder
from evireform.embedding.prompts import Template, preset_for
from evireform.embedding.vectors import normalised, readable, recorded_name, stacked
from evireform.errors import ModelUnavailable
from evireform.settings import EmbeddingSettings

DEFAULT_MODEL = "BAAI/bge-m3"
ACCELERATOR_BATCH = 32
"""Texts in one run on an accelerator, where runs of one text would waste it."""

_BRINGS_ITS_OWN_CODE = frozenset({"nvidia/NV-Embed-v2"})
_UNBOUNDED_WINDOW = 32_768


class SentenceTransformerEncoder(PromptedEncoder):
    """`Encoder` over ``sentence_transformers.SentenceTransformer``, with the prompts of a named preset.

    On a CPU every text is a run of its own: a vector is then the same to the last bit whatever else was in
    the call. In padded batches all-MiniLM-L6-v2 differed by up to 1.5e-7 a component, even with equal
    padding, since the matrix products round by their shape; runs of one text halved its speed (49 against
    99 sentences a second and core). On an accelerator texts go in batches of `ACCELERATOR_BATCH` and
    vectors carry that kind of rounding, in the precision of the model. ``settings.threads`` becomes the
    number of threads of torch, which is one for the whole process.

    A hub name is recorded as it stands. A folder is recorded by its name with a hash of its weights and
    configuration. Code that comes with a model is run for NV-Embed-v2 only, under its hub name.

    Raises:
        ModelUnavailable: the package is missing, or the model cannot be loaded.
        UsageError: no preset has the name in the settings.
    """

    def __init__(self, settings: EmbeddingSettings) -> None:
        name = settings.model or DEFAULT_MODEL
        self._preset = preset_for(name, name=settings.preset)
        self._transformer = _load(name, settings.threads)
        self._model = recorded_name(name)
        self._window = int(self._transformer.max_seq_length or _UNBOUNDED_WINDOW)
        self._batch_size = 1 if self._transformer.device.type == "cpu" else ACCELERATOR_BATCH
        self._dimensions = len(self._transformer.encode("", prompt="", show_progress_bar=False))

    def _is_truncated(self, text: str) -> bool:
        start, cut = readable(text, self._window)
        tokens = self._transformer.tokenizer(start, truncation=False, verbose=False)["input_ids"]
        return cut or len(tokens) > self._window

    def _encode(self, texts: Sequence[str], template: Template) -> Vectors:
        # The part before the text goes in as the model's prompt, because some models (NV-Embed-v2,
        # GritLM) leave its tokens out of the mean; an empty one keeps a default of the model away.
        vectors = self._transformer.encode(
            [readable(text, self._window)[0] + template.after for text in texts],
            prompt=template.before,
            batch_size=self._batch_size,
            show_progress_bar=False,
        )
        return stacked((normalised(vector) for vector in vectors), self._dimensions)


def _load(name: str, threads: int) -> Any:
    try:
        torch = import_module("torch")
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise ModelUnavailable(
            f"the sentence-transformers backend needs {error.name}: "
            "pip install 'evireform[sentence-transformers]'"
        ) from error
    torch.set_num_threads(threads)
    try:
        return SentenceTransformer(name, trust_remote_code=name in _BRINGS_ITS_OWN_CODE)
    except Exception as error:  # the hub, the tokenizer and torch each raise their own kinds
        raise ModelUnavailable(f"the embedding model {name!r} cannot be loaded: {error}") from error
