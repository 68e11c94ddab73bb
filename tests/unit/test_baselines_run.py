"""`evireform.baselines.run`: an outside system's rankings as a method."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evireform.errors import UsageError
from evireform.evaluation.method import by_name
from evireform.formats.runs import write_run
from evireform.records import Question
from evireform.settings import SearchSettings

BENCH: Any = SimpleNamespace(depth=2, once=lambda _, make: make())


def test_rankings_are_those_of_the_file_as_deep_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "theirs.run"
    write_run(path, {"q1": [("a b", 3.0), ("c", 2.0), ("d", 1.0)]}, tag="theirs")
    method = by_name(f"run@file={path}", SearchSettings())
    first, second = method.rank(BENCH, [Question(key="q1", text="?"), Question(key="q2", text="?")])
    assert first.passages == (("a b", 3.0), ("c", 2.0))
    assert (second.passages, second.reason) == ((), "the run does not hold the question")
    assert method.settings["file"] == "theirs.run"


def test_another_content_of_the_file_is_another_setting(tmp_path: Path) -> None:
    path = tmp_path / "theirs.run"
    digests = set()
    for score in (1.0, 2.0):
        write_run(path, {"q1": [("a", score)]}, tag="theirs")
        digests.add(by_name(f"run@file={path}", SearchSettings()).settings["sha256"])
    assert len(digests) == 2


def test_a_run_that_is_not_there_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match=r"there is no run 'none\.run'"):
        by_name("run@file=none.run", SearchSettings())


def test_a_run_without_a_file_says_how_to_name_one() -> None:
    with pytest.raises(UsageError, match="run@file=PATH"):
        by_name("run", SearchSettings()).rank(BENCH, [])
