"""Vectors on the wire: binary arrays for parameters."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg import Connection
from psycopg.adapt import Dumper
from psycopg.pq import Format


class _RealsDumper(Dumper):
    """A numpy array of any shape as a flat ``real[]``, five times as fast as the text of vectors."""

    format = Format.BINARY
    oid = 1021  # real[]

    def dump(self, obj: NDArray[np.float32]) -> bytes:
        cells = np.empty(obj.size, dtype=[("bytes", ">i4"), ("value", ">f4")])
        cells["bytes"] = 4
        cells["value"] = obj.reshape(-1)
        # One dimension, no NULLs, elements of type real, length, first subscript.
        return struct.pack("!iiIii", 1, 0, 700, obj.size, 1) + cells.tobytes()


class HalfVectors(bytes):
    """Vectors as the database's ``halfvec[]``, ready for the wire (see `half_vectors`)."""


class _HalfVectorsDumper(Dumper):
    format = Format.BINARY
    oid = 0  # the statement's cast says it: each database numbers the type anew

    def dump(self, obj: HalfVectors) -> bytes:
        return obj


def take_arrays(connection: Connection[Any]) -> None:
    """Let parameters of this connection be numpy arrays, each a flat ``real[]``, and `HalfVectors`."""
    connection.adapters.register_dumper(np.ndarray, _RealsDumper)
    connection.adapters.register_dumper(HalfVectors, _HalfVectorsDumper)


def half_vectors(vectors: NDArray[np.float32], *, type_oid: int) -> HalfVectors:
    """Vectors as one binary array: as fast to insert as by COPY, which row-level security refuses.

    Args:
        vectors: Shape ``(n, d)``.
        type_oid: Number of the type ``halfvec`` in this database.

    Raises:
        ValueError: a value is not finite as a 16-bit float.
    """
    count, dimensions = vectors.shape
    half = vectors.astype(">f2")
    if not np.isfinite(half).all():
        raise ValueError("vectors hold a value that is not finite as a 16-bit float")
    cell = [("bytes", ">i4"), ("dimensions", ">i2"), ("unused", ">i2"), ("vector", ">f2", (dimensions,))]
    cells = np.zeros(count, dtype=cell)
    cells["bytes"] = 4 + 2 * dimensions
    cells["dimensions"] = dimensions
    cells["vector"] = half
    return HalfVectors(struct.pack("!iiIii", 1, 0, type_oid, count, 1) + cells.tobytes())
