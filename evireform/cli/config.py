"""Settings from four layers: flags, environment, ``evireform.toml``, defaults; the first that speaks counts.

Every setting has a key (``search.alpha``), which is its place in the file, what ``--set`` takes, and, in
capitals, its variable (``EVIREFORM_SEARCH_ALPHA``).
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_origin, get_type_hints

from evireform.errors import UsageError
from evireform.given import shown
from evireform.settings import (
    AnswerSettings,
    EmbeddingSettings,
    LanguageSettings,
    SearchSettings,
    Settings,
    WorkerSettings,
)
from evireform.wellformed import well_formed

FILE_NAME = "evireform.toml"

_SECTIONS: dict[str, type] = {
    "embedding": EmbeddingSettings,
    "language": LanguageSettings,
    "search": SearchSettings,
    "answer": AnswerSettings,
    "worker": WorkerSettings,
}
_PLACES = ("database_url", "read_url", "home")
"""Where the database is: not part of `Settings`, but given like them."""

_GIVEN = ("where",)
"""What is given with each search, and so is no setting here."""

_LIBPQ = ("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGSERVICE")
"""Variables that point libpq to a server."""

_OTHERS = ("EVIREFORM_DB_PASSWORD", "EVIREFORM_CITUS_PORT", "EVIREFORM_DATA", "EVIREFORM_TEST_")
"""Beginnings of variables that the compose file, the benchmarks and the tests read."""

_PATHS = ("home", "language.prices", "embedding.model")
"""What may name a file, and so hold any byte."""

_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True}
_BOOLEANS |= {"false": False, "no": False, "off": False, "0": False}
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A settings file that was read: where it is, and its tables."""

    path: Path
    values: Mapping[str, Any]


class Configuration(NamedTuple):
    """What the layers come to.

    ``url`` is None for the embedded server and empty for libpq's own environment; ``home`` None is its
    default. ``rules_by_default`` tells that no layer chose a language backend or named a model. ``read_url``
    is empty where no standby answers searches.
    """

    settings: Settings
    url: str | None
    home: Path | None
    rules_by_default: bool
    read_url: str


@cache
def setting_types() -> Mapping[str, type]:
    """Key of every setting to the type of its value (``str`` for a choice)."""
    found: dict[str, type] = {}
    for prefix, kind in (("", Settings), *((f"{name}.", kind) for name, kind in _SECTIONS.items())):
        hints = get_type_hints(kind)
        for field in fields(kind):
            if field.name not in (*_SECTIONS, *_GIVEN):
                hint = hints[field.name]
                found[prefix + field.name] = str if get_origin(hint) else hint
    return found


def variable(key: str) -> str:
    """The environment variable of a setting.

    >>> variable("search.alpha")
    'EVIREFORM_SEARCH_ALPHA'
    """
    return "EVIREFORM_" + key.upper().replace(".", "_")


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """The variables of ours that are for no setting; they count for nothing.

    >>> unknown_variables({"EVIREFORM_SEARCH_K": "3", "EVIREFORM_SEARCH_KK": "3", "PATH": "/bin"})
    ['EVIREFORM_SEARCH_KK']
    """
    known = {variable(key) for key in (*setting_types(), *_PLACES)}
    return sorted(
        name
        for name in environ
        if name.startswith("EVIREFORM_") and name not in known and not name.startswith(_OTHERS)
    )


def load_settings(
    flags: Mapping[str, str], environ: Mapping[str, str], toml: ConfigFile | None
) -> Configuration:
    """Join the layers. Reads nothing but its arguments.

    Args:
        flags: Key to text, as the command line gave it; also ``database_url``, ``read_url`` and ``home``.
        environ: Environment variables. An empty one counts as not set, but for ``EVIREFORM_DATABASE_URL``,
            where it leaves the server to libpq's own variables.
        toml: The settings file, if there is one.

    Raises:
        UsageError: a key is unknown, or a value is not what it should be.
    """
    types = setting_types()
    values: dict[str, Any] = dict(_file_values(toml)) if toml else {}
    if toml and values.get("language.prices"):
        values["language.prices"] = str(toml.path.parent / Path(values["language.prices"]).expanduser())
    for key, kind in types.items():
        if environ.get(variable(key)):
            values[key] = _parsed(environ[variable(key)], kind, key, variable(key))
    for key, text in flags.items():
        if key in types:
            values[key] = _parsed(text, types[key], key, key)
        elif key not in _PLACES:
            raise UsageError(f"there is no setting {shown(key)}: docs/configuration.md lists them")
    rules_by_default = "language.backend" not in values and not values.get("language.model")
    if "language.backend" not in values and values.get("language.model"):
        values["language.backend"] = "openai"
    tables: dict[str, dict[str, Any]] = {name: {} for name in ("", *_SECTIONS)}
    for key in types.keys() & values.keys():
        table, _, name = key.rpartition(".")
        tables[table][name] = values[key]
    sections = {name: kind(**tables[name]) for name, kind in _SECTIONS.items()}
    return Configuration(
        settings=Settings(**sections, **tables[""]),
        url=_url(flags, environ, values),
        home=_home(flags, environ, toml),
        rules_by_default=rules_by_default,
        read_url=_read_url(flags, environ, values),
    )


def find_file(folder: Path, given: Path | None = None) -> ConfigFile | None:
    """The settings file that was given, else the nearest in a folder and those above it.

    Raises:
        UsageError: it cannot be read, or is not TOML.
    """
    places = [given] if given else [above / FILE_NAME for above in (folder, *folder.parents)]
    path = next((place for place in places if given or place.is_file()), None)
    if path is None:
        return None
    place = given or Path(os.path.relpath(path, folder))
    try:
        return ConfigFile(path, tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as exc:
        raise UsageError(f"{place} cannot be read: {exc.strerror}") from exc
    except ValueError as exc:  # not UTF-8, or not TOML; the latter names line and column
        raise UsageError(f"{place} is not a TOML file: {exc}") from exc


def _file_values(toml: ConfigFile) -> Iterator[tuple[str, Any]]:
    types = setting_types()
    for name, content in toml.values.items():
        table = content if name in _SECTIONS and isinstance(content, dict) else {name: content}
        prefix = f"{name}." if table is content else ""
        for key, value in table.items():
            kind = str if not prefix and key in _PLACES else types.get(prefix + key)
            if kind is None:
                raise UsageError(
                    f"{toml.path.name} has an unknown key {prefix + key!r}: docs/configuration.md lists them"
                )
            if kind is float and type(value) is int:
                value = float(value)
            if type(value) is not kind:
                raise UsageError(f"{prefix + key} in {toml.path.name} must be {_KINDS[kind]}")
            yield prefix + key, value


def _parsed(text: str, kind: type, key: str, origin: str) -> Any:
    if key not in _PATHS and well_formed(text) != text:
        raise UsageError(f"{origin} is not valid UTF-8")
    try:
        return _BOOLEANS[text.strip().lower()] if kind is bool else kind(text)
    except (KeyError, ValueError):
        raise UsageError(f"{origin} must be {_KINDS[kind]}, not {shown(text)}") from None


def _url(flags: Mapping[str, str], environ: Mapping[str, str], values: Mapping[str, Any]) -> str | None:
    """The flag for either place decides; then a URL of any layer; then libpq's own variables."""
    if "database_url" in flags and "home" in flags:
        raise UsageError("give either a database URL or the home of the embedded server, not both")
    if "home" in flags:
        return None
    for url in (flags.get("database_url"), environ.get("EVIREFORM_DATABASE_URL"), values.get("database_url")):
        if url is not None:
            return _checked(url)
    return "" if any(environ.get(name) for name in _LIBPQ) else None


def _read_url(flags: Mapping[str, str], environ: Mapping[str, str], values: Mapping[str, Any]) -> str:
    """Its flag decides; a flag for another database leaves out what lower layers say of theirs."""
    if "read_url" in flags:
        return _checked(flags["read_url"])
    if "database_url" in flags or "home" in flags:
        return ""
    return _checked(environ.get("EVIREFORM_READ_URL") or values.get("read_url", ""))


def _checked(url: str) -> str:
    """Refuse a URL with an unescaped password: libpq would take a part of it for the host, and say it."""
    if "\0" in url:
        raise UsageError("the database URL has a NUL character")
    if well_formed(url) != url:
        raise UsageError("the database URL is not valid UTF-8: write the %-escapes of its bytes")
    before_query = url.partition("?")[0]
    account, _, place = before_query.partition("://")[2].partition("@")
    if "://" in url and ("@" in place or (place and "/" in account)):
        raise UsageError(
            "the database URL has an @ or / where none may be: write %40 or %2F for one in a password"
        )
    return url


def _home(flags: Mapping[str, str], environ: Mapping[str, str], toml: ConfigFile | None) -> Path | None:
    """A relative path in the file is relative to the file."""
    in_file = toml.values.get("home", "") if toml else ""
    given = flags["home"] if "home" in flags else environ.get("EVIREFORM_HOME") or in_file
    if "\0" in given or ("home" in flags and not given):
        raise UsageError(f"home must be a folder, not {given!r}")
    if toml and given and given is in_file:
        return toml.path.parent / Path(given).expanduser()
    return Path(given) if given else None
