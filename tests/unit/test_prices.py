"""The price file of the package, a user's own before it, and what a call costs by them."""

from __future__ import annotations

import re
import tomllib
from decimal import Decimal
from importlib.resources import files
from pathlib import Path

import pytest

from evireform.errors import InputError
from evireform.prices import Price, price_of

SHIPPED = tomllib.loads((files("evireform") / "prices.toml").read_text(encoding="utf-8"))["price"]


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text('[[price]]\nmodels = ["gpt-4.1", "house-*"]\nin = 1\nout = 0.1\n', encoding="utf-8")
    return path


def test_a_shipped_price_is_found_by_name() -> None:
    price = price_of("gpt-4.1-mini")
    assert price is not None
    assert (price.tokens_in, price.tokens_cached, price.tokens_out) == (
        Decimal("0.4"), Decimal("0.1"), Decimal("1.6"),
    )  # fmt: skip


def test_a_dated_name_has_the_price_of_its_own_model_and_not_of_a_larger_one() -> None:
    assert price_of("gpt-4.1-mini-2025-04-14") == price_of("gpt-4.1-mini")
    assert price_of("gpt-4.1-mini") != price_of("gpt-4.1")


@pytest.mark.parametrize("model", ["qwen2.5-coder-1.5b", "", "GPT-4.1", "gpt-4.1-mini-turbo"])
def test_an_unknown_model_has_no_price(model: str) -> None:
    assert price_of(model) is None


@pytest.mark.parametrize("entry", SHIPPED, ids=lambda entry: entry["models"][0])
def test_every_shipped_price_says_when_it_held_and_where_it_stands(entry: dict[str, str]) -> None:
    assert re.fullmatch(r"20\d\d-\d\d", entry["as_of"])
    assert entry["source"].startswith("https://")


def test_a_file_of_ones_own_comes_first(own: Path) -> None:
    price = price_of("gpt-4.1", str(own))
    assert price is not None
    assert price.tokens_out == Decimal("0.1")


def test_a_file_of_ones_own_adds_models_by_pattern(own: Path) -> None:
    assert price_of("house-7b", str(own)) == price_of("house-70b", str(own)) != price_of("house-7b")


def test_shipped_prices_stay_beside_a_file_of_ones_own(own: Path) -> None:
    assert price_of("gpt-4o", str(own)) == price_of("gpt-4o")


def test_cached_tokens_cost_as_others_where_no_price_is_given_for_them(own: Path) -> None:
    price = price_of("house-7b", str(own))
    assert price is not None
    assert price.cost(tokens_in=10, tokens_cached=10, tokens_out=0) == Decimal("0.00001")


def test_tokens_from_the_providers_cache_are_a_part_of_the_prompt() -> None:
    price = Price(tokens_in=Decimal(2), tokens_cached=Decimal("0.5"), tokens_out=Decimal(8))
    # 600 x 2 + 400 x 0.5 + 100 x 8 = 2200 millionths
    assert price.cost(tokens_in=1_000, tokens_cached=400, tokens_out=100) == Decimal("0.0022")


def test_a_server_that_claims_more_cached_than_it_was_sent_is_not_paid_for_it() -> None:
    price = Price(tokens_in=Decimal(2), tokens_cached=Decimal(1), tokens_out=Decimal(0))
    assert price.cost(tokens_in=10, tokens_cached=99, tokens_out=0) == Decimal("0.00001")


def test_the_dearest_token() -> None:
    price = Price(tokens_in=Decimal(2), tokens_cached=Decimal("0.5"), tokens_out=Decimal(8))
    assert price.dearest_token == Decimal("0.000008")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[price]\n", "is not a TOML file"),
        ('[[price]]\nmodels = ["a"]\nin = 1\n', r"is not a price file: price\.0\.out: Field required"),
        ('[[price]]\nmodels = ["a"]\nin = -1\nout = 1\n', r"price\.0\.in: .*greater than or equal to 0"),
        ('[[price]]\nmodels = ["a"]\nin = nan\nout = 1\n', r"price\.0\.in: .*finite"),
        ('[[price]]\nmodels = ["a"]\nin = 1\nout = 1\nper = 1000\n', r"price\.0\.per: Extra inputs"),
        ("[[price]]\nmodels = []\nin = 1\nout = 1\n", r"price\.0\.models"),
        ("[gpt]\nin = 1\n", "gpt: Extra inputs"),
    ],
)
def test_a_file_that_is_none_is_refused_with_the_place(own: Path, text: str, message: str) -> None:
    own.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        price_of("a", str(own))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml cannot be read: No such file"):
        price_of("a", str(tmp_path / "none.toml"))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("a\0b", "null byte"),
        ("~nobody-of-this-name/prices.toml", "home directory"),
        ("x" * 5_000, "too long"),
    ],
    ids=["NUL", "home", "long"],
)
def test_a_path_that_cannot_be_is_refused(path: str, message: str) -> None:
    with pytest.raises(InputError, match=f"cannot be read: .*{message}"):
        price_of("a", path)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ("9" * 5_000, "a number that is too long"),
        ("1e99999999999999999999", "a number that is too long"),
        ("1e400", r"price\.0\.in: .*less than or equal to 1000000000"),
        ("[" * 5_000 + "]" * 5_000, "nested too deep"),
        ("1979-05-27", r"price\.0\.in"),
        ("true", r"price\.0\.in"),
    ],
    ids=["5,000 digits", "exponent", "dear", "nested", "date", "truth"],
)
def test_what_is_no_price_is_refused(own: Path, number: str, message: str) -> None:
    own.write_text(f'[[price]]\nmodels = ["a"]\nin = {number}\nout = 1\n', encoding="utf-8")
    with pytest.raises(InputError, match=message):
        price_of("a", str(own))


def test_a_byte_order_mark_is_no_part_of_a_price_file(own: Path) -> None:
    price = price_of("house-7b", str(own))
    own.write_bytes(b"\xef\xbb\xbf" + own.read_bytes())
    assert price_of("house-7b", str(own)) == price is not None


def test_a_file_that_is_not_utf_8_is_named(own: Path) -> None:
    own.write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"prices\.toml is not UTF-8"):
        price_of("a", str(own))
