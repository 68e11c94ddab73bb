"""A cross-encoder in a folder with an ONNX graph and its tokenizer; offline, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from evireform.embedding.graph import bundled_folder, check, graph_input, open_graph, sha256
from evireform.embedding.vectors import readable
from evireform.reranking import Scores

DEFAULT_MODEL = "ms-marco-MiniLM-L-12-v2-int8"
_FOLDER = "reranker_en"
_CHECKSUMS = {
    "model.onnx": "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
    "tokenizer.json": "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
}
_WINDOW = 512


class OnnxCrossEncoder:
    """`CrossEncoder` for a transformer in ONNX with one output a pair.

    Every pair is its own run without padding: an int8 graph scales its activations by what is in the batch,
    and the tokenizer's own padding to 512 tokens would make it twenty times slower. A pair longer than the
    window is cut at the end of the passage.

    Raises:
        ModelUnavailable: a package or a file is missing, or a checksum is wrong.
    """

    def __init__(self, model: str = "") -> None:
        if model:
            folder = Path(model).expanduser().resolve()
            self.model = f"{folder.name}-{sha256(*(folder / name for name in _CHECKSUMS))[:12]}"
        else:
            folder = bundled_folder(_FOLDER, "cross-encoder")
            check(folder, _CHECKSUMS, "cross-encoder")
            self.model = DEFAULT_MODEL
        self._session, self._tokenizer = open_graph(*(folder / name for name in _CHECKSUMS))
        self._inputs = {node.name for node in self._session.get_inputs()}

    def score(self, question: str, passages: Sequence[str]) -> Scores:
        return np.array([self._score(question, passage) for passage in passages], dtype=np.float64)

    def _score(self, question: str, passage: str) -> float:
        pair = self._tokenizer.encode(readable(question, _WINDOW)[0], readable(passage, _WINDOW)[0])
        given = graph_input(pair, _WINDOW)
        output = self._session.run(None, {name: given[name] for name in given if name in self._inputs})[0]
        return float(np.ravel(output)[0])
