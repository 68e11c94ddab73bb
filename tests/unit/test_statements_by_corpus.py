"""Every statement says which corpus it is about, for every table that is distributed by corpus.

A distributed database runs such a statement on the one node that holds the corpus; and whoever forgot it
would read every corpus. The statements are parsed by PostgreSQL's own grammar.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import sqlalchemy as sa
from pglast import ast, parse_sql

from evireform.store.schema import metadata
from evireform.store.statements import script, statement, statements

CITUS = script("citus")
REFERENCE = re.findall(r"create_reference_table\('(\w+)'\)", CITUS)
DISTRIBUTED = re.findall(r"create_distributed_table\('(\w+)', 'corpus_id'", CITUS)
LOCAL = ["model_call", "worker"]
"""Stays on the coordinator: rows of the ledger outlive their corpus, and a worker serves all corpora."""

EXCEPTIONS = {
    "audit_orphans": "looks in every table for rows whose corpus is gone: it runs on every node",
    "queues": "asks which corpora have a queue at all; passages are claimed corpus by corpus (claim_queued)",
}
"""Statements that read the distributed tables of more than one corpus, and why."""

VIEWS = {
    "costs": "reads the ledger, which is not distributed, by the view call_cost",
}
"""Statements that read a view, which says itself what it joins."""

_PARAMETER = re.compile(r"%\((\w+)\)s")


@dataclass
class Scope:
    """The tables of one FROM list by alias, within those around it, and what says of which corpus each is."""

    outer: Scope | None = None
    tables: dict[str, str] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    equal: list[tuple[str, str]] = field(default_factory=list)

    def is_known(self, alias: str) -> bool:
        """Whether the corpus of an alias is a parameter, or that of another alias whose is."""
        if alias not in self.tables and alias not in self.known:
            return self.outer is not None and self.outer.is_known(alias)
        before = -1
        while len(self.known) != before:
            before = len(self.known)
            for one, other in self.equal:
                for this, that in ((one, other), (other, one)):
                    elsewhere = (
                        that not in self.tables and self.outer is not None and self.outer.is_known(that)
                    )
                    if that in self.known or elsewhere:
                        self.known.add(this)
        return alias in self.known


def of_corpus(node: Any) -> str | None:
    """The alias of a column ``corpus_id``, empty where it has none; None for everything else."""
    if isinstance(node, ast.TypeCast):
        return of_corpus(node.arg)
    if not isinstance(node, ast.ColumnRef):
        return None
    names = [part.sval for part in node.fields if isinstance(part, ast.String)]
    return (names[0] if len(names) > 1 else "") if names and names[-1] == "corpus_id" else None


def is_parameter(node: Any) -> bool:
    return is_parameter(node.arg) if isinstance(node, ast.TypeCast) else isinstance(node, ast.ParamRef)


def members(node: ast.Node) -> Iterator[Any]:
    for name in node:
        value = getattr(node, name)
        yield from value if isinstance(value, tuple) else (value,)


class Reader:
    """Walks through a statement and notes the distributed tables whose corpus it does not say."""

    def __init__(self) -> None:
        self.unsaid: list[str] = []
        self.named: set[str] = set()
        self.relations: set[str] = set()

    def read(self, text: str) -> Reader:
        for raw in parse_sql(text):
            self.walk(raw.stmt, None)
        return self

    def walk(self, node: Any, scope: Scope | None) -> None:
        if isinstance(node, tuple):
            for one in node:
                self.walk(one, scope)
        elif isinstance(node, ast.WithClause):
            self.named |= {one.ctename for one in node.ctes}
            self.walk(node.ctes, scope)
        elif isinstance(node, ast.SelectStmt | ast.UpdateStmt | ast.DeleteStmt | ast.InsertStmt):
            self.query(node, scope)
        elif isinstance(node, ast.Node):
            for one in members(node):
                self.walk(one, scope)

    def query(self, node: Any, outer: Scope | None) -> None:
        scope = Scope(outer=outer)
        if node.withClause is not None:
            self.walk(node.withClause, outer)
        for source in getattr(node, "fromClause", None) or getattr(node, "usingClause", None) or ():
            self.source(source, scope)
        if not isinstance(node, ast.SelectStmt):
            self.source(node.relation, scope)
        if not isinstance(node, ast.InsertStmt):
            self.condition(node.whereClause, scope)
        if isinstance(node, ast.InsertStmt):
            self.insert(node, scope)
        for name in node:
            if name not in ("withClause", "relation"):
                self.walk(getattr(node, name), scope)
        self.unsaid += [
            table
            for alias, table in scope.tables.items()
            if table in DISTRIBUTED and not scope.is_known(alias)
        ]

    def source(self, node: Any, scope: Scope) -> None:
        """A table, or what stands for one; of the latter the corpus is known: it is looked at by itself."""
        if isinstance(node, ast.JoinExpr):
            self.source(node.larg, scope)
            left = set(scope.tables) | scope.known
            self.source(node.rarg, scope)
            right = (set(scope.tables) | scope.known) - left
            if any(column.sval == "corpus_id" for column in node.usingClause or ()):
                scope.equal += [(one, other) for one in left for other in right]
            self.condition(node.quals, scope)
        elif isinstance(node, ast.RangeVar):
            alias = node.alias.aliasname if node.alias else node.relname
            if node.relname in self.named:
                scope.known.add(alias)
            else:
                self.relations.add(node.relname)
                scope.tables[alias] = node.relname
        elif getattr(node, "alias", None) is not None:
            scope.known.add(node.alias.aliasname)

    def condition(self, node: Any, scope: Scope) -> None:
        """The equalities of a condition that hold for every row."""
        if isinstance(node, ast.BoolExpr) and node.boolop.name == "AND_EXPR":
            for one in node.args:
                self.condition(one, scope)
        elif (
            isinstance(node, ast.A_Expr)
            and [part.sval for part in node.name] == ["="]
            and node.kind.name == "AEXPR_OP"
        ):
            for this, that in ((node.lexpr, node.rexpr), (node.rexpr, node.lexpr)):
                alias = of_corpus(this)
                if alias is None:
                    continue
                aliases = [alias] if alias else list(scope.tables)
                if is_parameter(that):
                    scope.known |= set(aliases)
                elif of_corpus(that):
                    scope.equal += [(one, str(of_corpus(that))) for one in aliases]

    def insert(self, node: ast.InsertStmt, scope: Scope) -> None:
        """What a row is written with is its corpus: a parameter, or the corpus of a table that is read."""
        columns = [column.name for column in node.cols]
        select = node.selectStmt
        inner = Scope(outer=scope)
        for source in select.fromClause or ():
            self.source(source, inner)
        self.condition(select.whereClause, inner)
        rows = select.valuesLists or (tuple(target.val for target in select.targetList),)
        place = columns.index("corpus_id") if "corpus_id" in columns else None
        if place is not None and all(self.is_said(row[place], inner) for row in rows):
            scope.known |= set(scope.tables)

    def is_said(self, value: Any, scope: Scope) -> bool:
        alias = of_corpus(value)
        if alias is None:
            return is_parameter(value)
        return all(scope.is_known(one) for one in ([alias] if alias else scope.tables))


def text_of(name: str) -> str:
    """A statement with numbered parameters, as the server gets it."""
    numbers: dict[str, int] = {}
    text = statement(name, dimensions=384 if "{d}" in statements()[name] else None)
    numbered = _PARAMETER.sub(lambda found: f"${numbers.setdefault(found[1], len(numbers) + 1)}", text)
    return numbered.replace("%%", "%")


@pytest.mark.parametrize("name", sorted(statements().keys() - EXCEPTIONS.keys()))
def test_a_statement_says_of_which_corpus_every_distributed_table_is(name: str) -> None:
    assert Reader().read(text_of(name)).unsaid == []


@pytest.mark.parametrize("name", sorted(EXCEPTIONS))
def test_an_exception_is_one(name: str) -> None:
    assert Reader().read(text_of(name)).unsaid != []


def test_only_known_views_are_read() -> None:
    read = {name: Reader().read(text_of(name)).relations for name in statements()}
    others = {
        name: sorted(relations - metadata.tables.keys())
        for name, relations in read.items()
        if {one for one in relations - metadata.tables.keys() if not one.startswith("pg_")}
    }
    assert others.keys() - {"migration"} == VIEWS.keys()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT FROM passage", ["passage"]),
        ("SELECT FROM passage WHERE corpus_id = $1", []),
        ("SELECT FROM passage AS p WHERE $1 = p.corpus_id AND p.passage_id = 7", []),
        ("SELECT FROM passage WHERE corpus_id = $1 OR passage_id = 7", ["passage"]),
        ("SELECT FROM passage WHERE corpus_id <> $1", ["passage"]),
        ("SELECT FROM passage WHERE corpus_id = 7 + passage_id", ["passage"]),
        ("SELECT FROM passage WHERE NOT corpus_id = $1", ["passage"]),
        ("SELECT FROM passage AS p JOIN mention AS m USING (corpus_id) WHERE p.corpus_id = $1", []),
        ("SELECT FROM passage AS p JOIN mention AS m USING (form) WHERE p.corpus_id = $1", ["mention"]),
        ("SELECT FROM passage AS p, mention AS m WHERE p.corpus_id = m.corpus_id", ["mention", "passage"]),
        ("SELECT FROM corpus JOIN passage USING (corpus_id) WHERE corpus.name = $1", ["passage"]),
        (
            "SELECT (SELECT count(*) FROM entity AS e WHERE e.corpus_id = p.corpus_id)"
            " FROM passage AS p WHERE p.corpus_id = $1",
            [],
        ),
        ("SELECT (SELECT count(*) FROM entity) FROM passage WHERE passage.corpus_id = $1", ["entity"]),
        ("WITH gone AS (SELECT corpus_id FROM passage) SELECT FROM gone", ["passage"]),
        ("DELETE FROM mention WHERE entity_id = $1", ["mention"]),
        ("DELETE FROM mention WHERE corpus_id = $1", []),
        ("UPDATE entity SET degree = 0 FROM mention AS m WHERE m.corpus_id = $1", ["entity"]),
        (
            "UPDATE entity SET degree = 0 FROM mention AS m"
            " WHERE m.corpus_id = $1 AND entity.corpus_id = m.corpus_id",
            [],
        ),
        ("INSERT INTO entity (corpus_id, canonical) VALUES ($1, $2)", []),
        ("INSERT INTO entity (corpus_id, canonical) VALUES (7, $2)", ["entity"]),
        ("INSERT INTO entity (canonical) SELECT form FROM mention WHERE corpus_id = $1", ["entity"]),
        ("INSERT INTO entity (corpus_id) SELECT corpus_id FROM mention WHERE corpus_id = $1", []),
        ("INSERT INTO entity (corpus_id) SELECT corpus_id FROM mention", ["entity", "mention"]),
    ],
)
def test_the_reader_finds_what_is_not_said(text: str, expected: list[str]) -> None:
    assert sorted(Reader().read(text).unsaid) == expected


def test_every_table_lies_somewhere() -> None:
    assert sorted([*REFERENCE, *DISTRIBUTED, *LOCAL]) == sorted(metadata.tables)


@pytest.mark.parametrize("table", DISTRIBUTED)
def test_a_table_is_distributed_after_those_that_it_refers_to(table: str) -> None:
    before = DISTRIBUTED[: DISTRIBUTED.index(table)]
    for key in metadata.tables[table].foreign_key_constraints:
        referred = key.referred_table.name
        assert referred in (*REFERENCE, *before)
        assert referred in REFERENCE or "corpus_id" in key.column_keys


@pytest.mark.parametrize("table", [*REFERENCE, *LOCAL])
def test_nothing_else_refers_to_a_distributed_table(table: str) -> None:
    referred = {key.referred_table.name for key in metadata.tables[table].foreign_key_constraints}
    assert referred <= set(REFERENCE)


@pytest.mark.parametrize("table", DISTRIBUTED)
def test_whatever_is_unique_in_a_distributed_table_is_so_within_a_corpus(table: str) -> None:
    unique = [
        {column.name for column in one.columns}
        for one in (*metadata.tables[table].constraints, *metadata.tables[table].indexes)
        if isinstance(one, sa.PrimaryKeyConstraint | sa.UniqueConstraint) or getattr(one, "unique", False)
    ]
    assert unique != []
    assert [columns for columns in unique if "corpus_id" not in columns] == []


def test_the_file_for_citus_is_sql() -> None:
    statements_of_file = parse_sql(CITUS.replace(":'schema'", "'evireform'"))
    assert len(statements_of_file) == CITUS.count("create_") + 8
