"""Filters as they are typed and as a program writes them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evireform.errors import UsageError
from evireform.filters import Condition, conditions, intervals, parse, restored


@pytest.mark.parametrize(
    ("text", "name", "operator", "values"),
    [
        ("year=2020", "year", "=", (2020,)),
        ("year>=2020", "year", ">=", (2020,)),
        ("year < 2021", "year", "<", (2021,)),
        ("year<=-1.5e3", "year", "<=", (-1500.0,)),
        ("lang=en, de", "lang", "=", ("en", "de")),
        ("date>=2024-01-01", "date", ">=", ("2024-01-01",)),
        ("public=true", "public", "=", (True,)),
        ("public=false,maybe", "public", "=", (False, "maybe")),
        ('code="2020"', "code", "=", ("2020",)),
        ('code="a, \\"b\\"",007', "code", "=", ('a, "b"', "007")),
        ('code=""', "code", "=", ("",)),
        ("code=a=b", "code", "=", ("a=b",)),
        ("two words=Łódź, or not", "two words", "=", ("Łódź", "or not")),
        ("n=1.", "n", "=", ("1.",)),
        ("n=NaN,Infinity", "n", "=", ("NaN", "Infinity")),
    ],
)
def test_a_condition_as_it_is_typed(text: str, name: str, operator: Any, values: tuple[Any, ...]) -> None:
    (parsed,) = parse([text])
    assert parsed == Condition(name=name, operator=operator, values=values)
    assert [type(value) for value in parsed.values] == [type(value) for value in values]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("year", "'year' is no condition"),
        ("=2020", "'=2020' is no condition"),
        ("", "'' is no condition"),
        ("year!=2020", "there is no !=; say which values are wanted"),
        ("year==2020", "compare with one of =, <, <=, >, >="),
        ("year=>2020", "compare with one of =, <, <=, >, >="),
        ("year<>2020", "compare with one of =, <, <=, >, >="),
        ("year=", "a value is missing"),
        ("lang=en,", "a value is missing"),
        ("lang=en,,de", "a value is missing"),
        ('lang="en', "a double quote or comma stands where none may be"),
        ('lang="en"x', "a double quote or comma stands where none may be"),
        ('lang="\\x"', "what is quoted takes the escapes of JSON"),
        ("year>2020,2021", "year> takes one number or one text"),
        ("public>true", "public> takes one number or one text"),
        ("n=1e999", "numbers that a 64-bit float can hold"),
        (f"n={'9' * 400}", "numbers that a 64-bit float can hold"),
        (f"n={'9' * 5000}", "numbers that a 64-bit float can hold"),
        (f"n=-{'9' * 5000}", "numbers that a 64-bit float can hold"),
        (f"n={'x' * 501}", "texts of up to 500 characters"),
        (f"{'n' * 101}=1", "a name of 1 to 100 characters"),
        ('n="\\u0000"', "holds what no text can"),
        ('n="\\ud800"', "holds what no text can"),
    ],
)
def test_what_is_no_condition_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem.replace("?", r"\?")):
        parse([text])


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ("year=2020", "a mapping of names to values"),
        (["year=2020"], "a mapping of names to values"),
        (5, "a mapping of names to values"),
        (True, "a mapping of names to values"),
        (str, "a mapping of names to values"),
        ({10**5000: 1}, "not a very long int"),
        ({"year": Fraction(10**400)}, "numbers that a 64-bit float can hold"),
        ({"year": None}, "not with None"),
        ({"year": {"": 1}}, "compares with =, <, <=, >, >=, not ''"),
        ({"year": {}}, "the filter on 'year' compares with nothing"),
        ({"year": {">": [1, 2]}}, "takes one number or one text"),
        ({"year": {">": []}}, "takes one number or one text"),
        ({"year": [[1]]}, r"not with \[1\]"),
        ({"year": math.nan}, "numbers that a 64-bit float can hold"),
        ({"year": 10**400}, "numbers that a 64-bit float can hold"),
        ({"": 1}, "a name of 1 to 100 characters"),
        ({1: 1}, "a name of 1 to 100 characters"),
    ],
)
def test_what_is_no_filter_is_refused(where: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        conditions(where)


def test_a_mapping_says_what_the_command_line_says() -> None:
    where = {"year": {">=": 2020, "<": 2024.5}, "lang": ["en", "de"], "public": True, "code": "7"}
    assert conditions(where) == parse(["year>=2020", "year<2024.5", "lang=en,de", "public=true", 'code="7"'])


@pytest.mark.parametrize(
    ("value", "plain"),
    [(np.int64(7), 7), (np.float64(0.5), 0.5), (np.float32(0.5), 0.5), (np.str_("a"), "a")],
)
def test_a_number_of_numpy_is_one_of_python(value: Any, plain: Any) -> None:
    (condition,) = conditions({"n": [value]})
    assert condition.values == (plain,)
    assert isinstance(condition.values[0], type(plain))


def test_the_longest_whole_numbers_are_not_rounded() -> None:
    (condition,) = parse(["n=-" + "1" * 309])
    assert condition.values == (-int("1" * 309),)


def test_a_long_filter_is_brief_in_messages() -> None:
    (condition,) = conditions({"n": [*range(10_000)]})
    assert condition.brief() == "n=0,1,2,3,4 and 9,995 more"
    with pytest.raises(UsageError) as caught:
        conditions([f"n={n}" for n in range(10_000)])  # type: ignore[arg-type]
    assert len(str(caught.value)) < 200
    with pytest.raises(UsageError) as caught:
        parse(["n=" + ",".join(["x"] * 10_000) + ","])
    assert len(str(caught.value)) < 200


def test_no_filter_is_no_condition() -> None:
    assert conditions(None) == conditions({}) == conditions(()) == ()


def test_a_list_of_no_values_is_a_condition_that_nothing_meets() -> None:
    found = conditions({"lang": []})
    assert (len(found), intervals(found)) == (1, [])


def test_texts_lie_between_a_text_and_its_successor() -> None:
    found = [(i["low"], i["high"][:2]) for i in intervals(parse(["x=b", "x>b", "x>=b", "x<b", "x<=b"]))]
    end = "\U0010ffff" * 2
    assert found == [("b", "b\x01"), ("b\x01", end), ("b", end), ("", "b"), ("", "b\x01")]


def test_numbers_lie_between_a_number_and_its_neighbour() -> None:
    found = [(i["least"], i["most"]) for i in intervals(parse(["x=1", "x>1", "x>=1", "x<1", "x<=1"]))]
    assert found == [
        (1.0, 1.0),
        (1.0000000000000002, math.inf),
        (1.0, math.inf),
        (-math.inf, 0.9999999999999999),
        (-math.inf, 1.0),
    ]


def test_every_value_is_an_interval_of_its_condition() -> None:
    found = [(i["condition"], i["name"], i["kind"]) for i in intervals(parse(["a=1,x,true", "b<2"]))]
    assert found == [(0, "a", "number"), (0, "a", "text"), (0, "a", "boolean"), (1, "b", "number")]


values = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
)


@given(st.lists(values, min_size=1, max_size=4))
def test_a_condition_is_written_as_it_is_read(several: list[Any]) -> None:
    one = Condition(name="some name", values=tuple(several))
    assert parse([str(one)]) == (one,)


def test_a_condition_outlives_the_log() -> None:
    row = {"name": "year", "operator": ">=", "values": [2020]}
    assert restored([row]) == parse(["year>=2020"])
