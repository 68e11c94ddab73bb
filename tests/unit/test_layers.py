"""Imports point down only: edge, face, jobs, doors, maths, words.

Every import counts, also one inside a function or for type checkers alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import evireform

PACKAGE = Path(evireform.__file__).parent

LAYERS = {
    "edge": {"cli", "__main__"},
    "face": {"__init__", "database"},
    "jobs": {
        "answering", "auditing", "baselines", "entities", "evaluation", "exporting", "generations",
        "importing", "ingestion", "parallel", "retrieval", "spaces",
    },
    "doors": {"embedded", "embedding", "formats", "language", "prices", "reranking", "sample", "store"},
    "maths": {"bootstrap", "coverage", "measures", "propagation", "readout", "seeds"},
    "words": {
        "budget", "canonical", "errors", "filters", "given", "records", "settings", "support", "version",
        "wellformed",
    },
}  # fmt: skip
HEIGHT = {room: -depth for depth, rooms in enumerate(LAYERS.values()) for room in rooms}
FILES = sorted(PACKAGE.rglob("*.py"))


def room_of(module: tuple[str, ...]) -> str:
    """The room of a dotted name such as ``("evireform", "store", "schema")``."""
    return module[1] if len(module) > 1 else "__init__"


def imported(tree: ast.AST, module: tuple[str, ...], *, is_package: bool) -> Iterator[tuple[str, int]]:
    """The rooms of evireform that a module imports, each with its line."""
    package = module if is_package else module[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            source = (*base, *(node.module.split(".") if node.module else ()))
            names = [(*source, alias.name) for alias in node.names]
        else:
            continue
        for name in names:
            if name[0] == "evireform":
                room = room_of(name)
                yield (room if room in HEIGHT else "__init__"), node.lineno


def module_of(path: Path) -> tuple[str, ...]:
    parts = ("evireform", *path.relative_to(PACKAGE).with_suffix("").parts)
    return parts[:-1] if parts[-1] == "__init__" else parts


def upward(source: str, module: tuple[str, ...], *, is_package: bool = False) -> list[str]:
    """The imports of a module that point up."""
    own = room_of(module)
    return [
        f"line {line}: {own} imports {room}"
        for room, line in imported(ast.parse(source), module, is_package=is_package)
        if HEIGHT[room] > HEIGHT[own]
    ]


def test_every_room_has_a_layer() -> None:
    there = {path.stem if path.is_file() else path.name for path in PACKAGE.iterdir()}
    rooms = {
        name for name in there if (PACKAGE / f"{name}.py").is_file() or any((PACKAGE / name).glob("**/*.py"))
    }
    assert rooms <= HEIGHT.keys()


@pytest.mark.parametrize("path", FILES, ids=lambda path: ".".join(module_of(path)))
def test_imports_point_down(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert upward(source, module_of(path), is_package=path.name == "__init__.py") == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import evireform.ingestion", ["line 1: store imports ingestion"]),
        ("from evireform import database", ["line 1: store imports database"]),
        ("from evireform import connect", ["line 1: store imports __init__"]),
        ("from .. import retrieval", ["line 1: store imports retrieval"]),
        ("from ..cli import main", ["line 1: store imports cli"]),
        ("def f():\n    from evireform.evaluation import evaluate", ["line 2: store imports evaluation"]),
        ("from evireform import embedding, errors\nfrom . import schema\nimport json", []),
    ],
)
def test_an_import_that_points_up_is_found(source: str, expected: list[str]) -> None:
    assert upward(source, ("evireform", "store", "writing")) == expected


def test_an_import_from_a_package_of_its_own_is_no_step_up() -> None:
    assert upward("from .schema import corpus", ("evireform", "store"), is_package=True) == []


def test_docs_draw_the_same_rooms() -> None:
    drawn = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    diagram = drawn.split("```")[1]
    rooms = {room for rooms in LAYERS.values() for room in rooms if not room.startswith("__")}
    assert sorted(room for room in rooms if room not in diagram) == []
