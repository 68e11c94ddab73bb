"""Vectors in the binary format of COPY: what evireform is measured against."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_TRAILER = b"\xff\xff"


def as_copy(
    *, corpus_id: int, space_id: int, tenant_id: int, item_ids: Sequence[int], vectors: NDArray[np.float32]
) -> bytes:
    """Rows of `embedding` as one binary COPY stream.

    Args:
        corpus_id: Corpus of every row.
        space_id: Vector space of every row.
        tenant_id: Tenant of every row.
        item_ids: Proposition or passage of each vector, length ``n``.
        vectors: Shape ``(n, d)``.

    Raises:
        ValueError: the lengths differ, or a value is not finite as a 16-bit float.
    """
    count, dimensions = vectors.shape
    if count != len(item_ids):
        raise ValueError(f"{len(item_ids)} item_ids for {count} vectors")
    half = vectors.astype(">f2")
    if not np.isfinite(half).all():
        raise ValueError("vectors hold a value that is not finite as a 16-bit float")
    row = np.dtype(
        [
            ("fields", ">i2"),
            *(part for name in ("corpus", "space", "item", "tenant")
              for part in ((f"{name}_bytes", ">i4"), (name, ">i8"))),
            ("vector_bytes", ">i4"), ("dimensions", ">i2"), ("unused", ">i2"),
            ("vector", ">f2", (dimensions,)),
        ]
    )  # fmt: skip
    rows = np.zeros(count, dtype=row)
    rows["fields"] = 5
    values = (("corpus", corpus_id), ("space", space_id), ("item", item_ids), ("tenant", tenant_id))
    for name, value in values:
        rows[f"{name}_bytes"] = 8
        rows[name] = value
    rows["vector_bytes"] = 4 + 2 * dimensions
    rows["dimensions"] = dimensions
    rows["vector"] = half
    return _COPY_HEADER + rows.tobytes() + _COPY_TRAILER
