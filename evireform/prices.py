"""What a model's tokens cost: the price file that ships with the package, and a user's own before it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evireform.errors import InputError

_PER = 1_000_000
_MOST = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Money per million tokens: of the prompt, of its part that the provider had cached, of the answer."""

    tokens_in: Decimal
    tokens_cached: Decimal
    tokens_out: Decimal
    as_of: str = ""
    source: str = ""

    def cost(self, *, tokens_in: int, tokens_out: int, tokens_cached: int = 0) -> Decimal:
        """Money for a call. ``tokens_cached`` is a part of ``tokens_in``.

        >>> price = Price(tokens_in=Decimal(2), tokens_cached=Decimal("0.5"), tokens_out=Decimal(8))
        >>> price.cost(tokens_in=1000, tokens_cached=400, tokens_out=100)
        Decimal('0.0022')
        """
        cached = min(tokens_cached, tokens_in)
        money = (
            (tokens_in - cached) * self.tokens_in + cached * self.tokens_cached + tokens_out * self.tokens_out
        )
        return money / _PER

    @property
    def dearest_token(self) -> Decimal:
        """The most that one token can cost."""
        return max(self.tokens_in, self.tokens_cached, self.tokens_out) / _PER


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")

    models: list[str] = Field(min_length=1)
    price_in: Decimal = Field(alias="in", ge=0, le=_MOST, allow_inf_nan=False)
    price_cached: Decimal | None = Field(alias="cached", default=None, ge=0, le=_MOST, allow_inf_nan=False)
    price_out: Decimal = Field(alias="out", ge=0, le=_MOST, allow_inf_nan=False)
    as_of: str = ""
    source: str = ""


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    price: list[_Entry] = []


def price_of(model: str, own_file: str = "") -> Price | None:
    """The price of a model, or None where no entry fits its name: then it is unknown, never nothing.

    Args:
        model: Name as the server knows it.
        own_file: Path of a user's price file; its entries come first. Empty: there is none.

    Raises:
        InputError: a file cannot be read, or is not a price file.
    """
    for entry in _entries(own_file):
        if any(fnmatchcase(model, pattern) for pattern in entry.models):
            return Price(
                tokens_in=entry.price_in,
                tokens_cached=entry.price_in if entry.price_cached is None else entry.price_cached,
                tokens_out=entry.price_out,
                as_of=entry.as_of,
                source=entry.source,
            )
    return None


def _entries(own_file: str) -> Iterator[_Entry]:
    if own_file:
        try:
            text = Path(own_file).expanduser().read_text(encoding="utf-8-sig")
        except OSError as exc:
            raise InputError(f"{own_file} cannot be read: {exc.strerror}", path=own_file) from exc
        except UnicodeDecodeError as exc:
            raise InputError(f"{own_file} is not UTF-8", path=own_file) from exc
        except (RuntimeError, ValueError) as exc:  # nobody's home directory; a path that no system has
            raise InputError(f"{own_file!r} cannot be read: {exc}", path=own_file) from exc
        yield from _read(text, own_file)
    shipped = files("evireform") / "prices.toml"
    yield from _read(shipped.read_text(encoding="utf-8"), "prices.toml")


def _read(text: str, path: str) -> list[_Entry]:
    try:
        return _File.model_validate(tomllib.loads(text, parse_float=Decimal)).price
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"{path} is not a price file: {place}: {first['msg']}", path=path) from exc
    except tomllib.TOMLDecodeError as exc:
        raise InputError(f"{path} is not a TOML file: {exc}", path=path) from exc
    except RecursionError as exc:
        raise InputError(f"{path} is not a price file: it is nested too deep", path=path) from exc
    except (ValueError, ArithmeticError) as exc:  # a number that Python does not read
        raise InputError(
            f"{path} is not a price file: it holds a number that is too long", path=path
        ) from exc
