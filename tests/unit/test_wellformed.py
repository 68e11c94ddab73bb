"""Text without lone surrogates."""

from __future__ import annotations

import pytest

from evireform.wellformed import well_formed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("東京 😀 a\0b \ufeff", "東京 😀 a\0b \ufeff"),
        ("a\ud800b", "a\ufffdb"),
        ("\udfff\ud800", "\ufffd\ufffd"),
        ("\ud83d\ude00", "😀"),
    ],
)
def test_well_formed(text: str, expected: str) -> None:
    assert well_formed(text) == expected
