"""docs/evaluation.md: it names every format, method and study there is, and its examples work."""

from __future__ import annotations

import re
import shlex
import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer.main

from evireform.cli import app
from evireform.evaluation import method as methods
from evireform.evaluation import studies
from evireform.evaluation.method import Ranked
from evireform.formats.datasets import FORMATS
from evireform.records import Question
from evireform.settings import SearchSettings

DOCS = (Path(__file__).resolve().parent.parent.parent / "docs" / "evaluation.md").read_text(encoding="utf-8")


def first_column(heading: str) -> list[str]:
    """What the table under a heading names in code in its first column."""
    section = DOCS.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `([^`]+)`", section, re.MULTILINE)


def test_every_format_is_described() -> None:
    assert sorted(first_column("Formats that are read")[1:]) == sorted(FORMATS)


def test_every_method_is_described() -> None:
    assert sorted(first_column("Methods")) == sorted(methods.names())


def test_every_study_is_described() -> None:
    assert sorted(first_column("Studies")[1:]) == sorted(studies.NAMES)


def commands() -> list[list[str]]:
    blocks = re.findall(r"^```sh\n(.*?)^```", DOCS, re.DOTALL | re.MULTILINE)
    return [shlex.split(line)[1:] for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_has_its_options(words: list[str]) -> None:
    name, *rest = words
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    with command.make_context(name, rest) as context:
        assert context.params


def test_the_example_is_a_whole_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    [example] = re.findall(r"^```python\n(.*?)^```", DOCS, re.DOTALL | re.MULTILINE)
    module: Any = types.ModuleType("fusion")
    monkeypatch.setitem(sys.modules, "fusion", module)
    exec(compile(example, "docs/evaluation.md", "exec"), module.__dict__)
    rankings = {"dense": ("a", "b", "c"), "bm25": ("b", "d")}

    def ranked_by(name: str, _: SearchSettings) -> Any:
        ranked = Ranked(passages=tuple((key, 1.0) for key in rankings[name]))
        return SimpleNamespace(rank=lambda _, questions: [ranked] * len(questions))

    monkeypatch.setattr(module, "by_name", ranked_by)
    fusion = module.method(SearchSettings())
    bench = SimpleNamespace(depth=3, settings=SearchSettings())
    [one] = fusion.rank(bench, [Question(key="q", text="?")])
    assert [key for key, _ in one.passages] == ["b", "a", "d"]
    assert one.passages[0][1] == pytest.approx(1 / 62 + 1 / 61)
    assert methods.assigned(fusion, "fusion@k=5", ["k=5"]).settings == {"k": 5}
