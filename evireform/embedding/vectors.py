"""Steps that the encoders share: texts made fit for a tokenizer, vectors of length one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evireform.embedding import Vectors
from evireform.wellformed import well_formed

_FINGERPRINTED = (".bin", ".json", ".safetensors", ".txt")

CHARACTERS_PER_TOKEN = 32
"""Characters read for each token of a window: several times what any language needs, and a bound."""


def readable(text: str, window: int) -> tuple[str, bool]:
    """The part of a text that a model with ``window`` tokens can reach, and whether something was cut off.

    A tokenizer would read five megabytes only to drop all but the first few thousand characters.
    """
    characters = window * CHARACTERS_PER_TOKEN
    return well_formed(text[:characters]), len(text) > characters


def normalised(vector: NDArray[Any]) -> NDArray[np.float32]:
    """One vector, shape ``(d,)``, divided by its L2 norm (taken in float64), as float32.

    Raises:
        ValueError: a component is not finite, or all are zero.
    """
    wide = np.asarray(vector, dtype=np.float64)
    norm = float(np.sqrt(np.dot(wide, wide)))
    if not np.isfinite(norm):
        raise ValueError("a vector holds a component that is not a finite number")
    if norm == 0.0:
        raise ValueError("a vector is zero everywhere")
    return (wide / norm).astype(np.float32)


def stacked(vectors: Iterable[NDArray[np.float32]], dimensions: int) -> Vectors:
    """Vectors as rows of one array, shape ``(n, dimensions)``; ``(0, dimensions)`` for none."""
    rows = list(vectors)
    return np.stack(rows) if rows else np.empty((0, dimensions), dtype=np.float32)


def fingerprint(files: Iterable[Path]) -> str:
    """SHA-256 over the contents of files in the given order, in hexadecimal."""
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def recorded_name(model: str) -> str:
    """A hub name as it stands; a folder by its name with a hash of its weights and configuration."""
    folder = Path(model).expanduser()
    if not folder.is_dir():
        return model
    folder = folder.resolve()
    files = sorted(file for file in folder.rglob("*") if file.suffix in _FINGERPRINTED)
    return f"{folder.name}-{fingerprint(files)[:12]}"
