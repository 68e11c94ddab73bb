"""Embedding with a folder that holds an ONNX graph and its tokenizer; offline, without torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evireform.embedding import Vectors
from evireform.embedding.graph import bundled_folder, check, graph_input, open_graph, sha256
from evireform.embedding.prompted import PromptedEncoder
from evireform.embedding.prompts import Template, preset_for
from evireform.embedding.vectors import normalised, readable, stacked
from evireform.errors import ModelUnavailable
from evireform.settings import EmbeddingSettings

DEFAULT_MODEL = "bge-small-en-v1.5-int8"
_FOLDER = "bge_small_en"
_CHECKSUMS = {
    "model.onnx": "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743",
    "tokenizer.json": "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
}
_MAX_WINDOW = 512


class OnnxEncoder(PromptedEncoder):
    """`Encoder` for a transformer in ONNX: one vector a text from its token vectors, L2-normalised.

    Every text is its own run of the graph, without padding. An int8 graph scales its activations by what
    is in the batch, so that in a batch a vector would depend on its neighbours; alone it is the same to
    the last bit whatever the batch and the number of threads. (Another kind of processor may round
    differently.) Throughput comes from running ``settings.threads`` texts at once, one core each.

    Without a model in the settings it is bge-small-en-v1.5 (int8, 384 dimensions, MIT), whose files come
    with the extra ``local`` and are checked by SHA-256. With a folder it is the ``model.onnx`` and
    ``tokenizer.json`` there or in ``onnx/``; the model's name is then the folder's name with a hash of both
    files. Token vectors are pooled as ``1_Pooling/config.json`` says, by the first token without it.

    Raises:
        ModelUnavailable: a package or a file is missing, or a checksum is wrong.
        UsageError: no preset has the name in the settings.
    """

    def __init__(self, settings: EmbeddingSettings) -> None:
        bundled = settings.model in ("", DEFAULT_MODEL)
        folder = bundled_folder(_FOLDER, "embedding") if bundled else _local_folder(settings.model)
        graph, tokenizer = _files(folder)
        if bundled:
            check(folder, _CHECKSUMS, "embedding")
            self._model = DEFAULT_MODEL
        else:
            self._model = f"{folder.name}-{sha256(graph, tokenizer)[:12]}"
        self._preset = preset_for(self._model, name=settings.preset)
        self._window = _window(folder)
        self._pooling = _pooling(folder)
        self._session, self._tokenizer = open_graph(graph, tokenizer)
        self._inputs = {node.name for node in self._session.get_inputs()}
        self._threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="evireform-onnx")
        self._dimensions = len(self._vector("", Template()))

    def _is_truncated(self, text: str) -> bool:
        start, cut = readable(text, self._window)
        return cut or len(self._tokenizer.encode(start)) > self._window

    def _encode(self, texts: Sequence[str], template: Template) -> Vectors:
        run = self._threads.map if len(texts) > 1 else map
        return stacked(run(lambda text: self._vector(text, template), texts), self._dimensions)

    def _vector(self, text: str, template: Template) -> NDArray[np.float32]:
        start, _ = readable(text, self._window)
        encoding = self._tokenizer.encode(template.before + start + template.after)
        given = graph_input(encoding, self._window)
        output = self._session.run(None, {name: given[name] for name in given if name in self._inputs})[0]
        if output.ndim == 3:
            output = output[:, 0] if self._pooling == "first" else output.mean(axis=1)
        return normalised(output[0])


def _local_folder(model: str) -> Path:
    folder = Path(model).expanduser()
    if not folder.is_dir():
        raise ModelUnavailable(
            f"the onnx backend needs a folder with an ONNX model, and {model!r} is none; "
            f"leave the model empty for {DEFAULT_MODEL}"
        )
    return folder.resolve()


def _files(folder: Path) -> tuple[Path, Path]:
    """The graph and the tokenizer of a folder."""
    found = []
    for name in ("model.onnx", "tokenizer.json"):
        places = [folder / name, folder / "onnx" / name]
        file = next((place for place in places if place.is_file()), None)
        if file is None:
            raise ModelUnavailable(f"the model folder {folder.name!r} has no {name}")
        found.append(file)
    return found[0], found[1]


def _config(file: Path) -> dict[str, Any]:
    content = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return content if isinstance(content, dict) else {}


def _window(folder: Path) -> int:
    """Tokens that the model reads of a text, special tokens included."""
    return min(_MAX_WINDOW, int(_config(folder / "config.json").get("max_position_embeddings", _MAX_WINDOW)))


def _pooling(folder: Path) -> Literal["first", "mean"]:
    by_mean = _config(folder / "1_Pooling" / "config.json").get("pooling_mode_mean_tokens", False)
    return "mean" if by_mean else "first"
