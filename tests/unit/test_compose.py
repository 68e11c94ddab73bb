"""`docker-compose.yml`: valid by the specification's schema, and what its users rely on.

No test starts it: that takes a Docker engine.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
FILE = ROOT / "docker-compose.yml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
DATABASE = COMPOSE["services"]["database"]
INIT = COMPOSE["services"]["init"]
WORKER = COMPOSE["services"]["worker"]


def validate(path: Path) -> subprocess.CompletedProcess[str]:
    """Ask `check-jsonschema`, which carries the Compose specification's own schema."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", path]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_it_is_valid_by_the_compose_specification() -> None:
    assert validate(FILE).returncode == 0


def test_the_schema_finds_a_mistake(tmp_path: Path) -> None:
    broken = tmp_path / "docker-compose.yml"
    broken.write_text(
        FILE.read_text(encoding="utf-8").replace("healthcheck:", "health_check:"), encoding="utf-8"
    )
    finished = validate(broken)
    assert finished.returncode == 1
    assert "health_check" in finished.stdout


def test_the_server_is_postgres_15_or_newer_with_pgvector_of_the_right_age() -> None:
    match = re.fullmatch(r"pgvector/pgvector:0\.(\d+)\.\d+-pg(\d+)-\w+", DATABASE["image"])
    assert match is not None
    assert int(match[1]) >= 8
    assert int(match[2]) >= 15


def test_the_volume_is_named_and_lies_where_postgres_18_keeps_its_data() -> None:
    name, _, target = DATABASE["volumes"][0].partition(":")
    assert name in COMPOSE["volumes"]
    assert target == "/var/lib/postgresql"


def test_the_health_check_asks_the_server_that_clients_reach() -> None:
    command, program, *arguments = DATABASE["healthcheck"]["test"]
    assert (command, program) == ("CMD", "pg_isready")
    assert "--host=127.0.0.1" in arguments
    assert f"--dbname={DATABASE['environment']['POSTGRES_DB']}" in arguments


def test_init_waits_for_a_healthy_server() -> None:
    assert INIT["command"] == ["init"]
    assert INIT["depends_on"] == {"database": {"condition": "service_healthy"}}


def test_workers_have_the_image_and_the_tables_of_init_and_time_to_stop() -> None:
    assert WORKER["image"] == INIT["image"]
    assert "[local]" in INIT["build"]["dockerfile_inline"]
    assert WORKER["command"] == ["worker"]
    assert WORKER["depends_on"] == {"init": {"condition": "service_completed_successfully"}}
    assert {name: WORKER["environment"][name] for name in INIT["environment"]} == INIT["environment"]
    assert WORKER["stop_grace_period"] == "30s"


def test_the_password_is_required_and_written_nowhere() -> None:
    required = re.compile(r"\$\{EVIREFORM_DB_PASSWORD:\?[^}]+\}")
    assert required.fullmatch(DATABASE["environment"]["POSTGRES_PASSWORD"])
    assert required.fullmatch(INIT["environment"]["PGPASSWORD"])
    assert INIT["environment"]["EVIREFORM_DATABASE_URL"] == "postgresql://evireform@database:5432/evireform"


def test_the_server_listens_on_this_machine_alone() -> None:
    assert [port.partition(":")[0] for port in DATABASE["ports"]] == ["127.0.0.1"]


@pytest.mark.parametrize(
    "line", [line for line in INIT["build"]["dockerfile_inline"].splitlines() if "COPY" in line]
)
def test_what_the_image_copies_is_there(line: str) -> None:
    _, *sources, _ = line.split()
    assert [source for source in sources if not (ROOT / source).exists()] == []


NODES = [name for name in COMPOSE["services"] if re.fullmatch(r"citus-(coordinator|worker-\d)", name)]


def test_the_nodes_of_the_cluster_have_pgvector_for_their_own_postgres() -> None:
    # Citus 14.1's plain image is of PostgreSQL 18.
    (dockerfile,) = {COMPOSE["services"][name]["build"]["dockerfile_inline"] for name in NODES}
    assert "FROM citusdata/citus:14.1.0\n" in dockerfile
    assert "postgresql-18-pgvector" in dockerfile


def test_the_cluster_is_started_by_its_profile_alone() -> None:
    of_cluster = {name for name in COMPOSE["services"] if name.startswith("citus-")}
    assert of_cluster == {*NODES, "citus-nodes", "citus-tables"}
    assert [COMPOSE["services"][name]["profiles"] for name in sorted(of_cluster)] == [["citus"]] * 5


def test_only_the_coordinator_can_be_reached_and_only_from_this_machine() -> None:
    ports = {name: COMPOSE["services"][name]["ports"] for name in NODES}
    assert ports == {
        "citus-coordinator": ["127.0.0.1:${EVIREFORM_CITUS_PORT:-5433}:5432"],
        "citus-worker-1": [],
        "citus-worker-2": [],
    }


def test_every_node_has_a_volume_of_its_own_and_is_added_to_the_cluster() -> None:
    volumes = [COMPOSE["services"][name]["volumes"][0].partition(":")[0] for name in NODES]
    assert volumes == NODES
    assert set(NODES) <= set(COMPOSE["volumes"])
    said = " ".join(COMPOSE["services"]["citus-nodes"]["command"])
    assert [name for name in NODES if f"'{name}'" not in said] == []


def test_the_tables_are_distributed_by_the_file_that_ships() -> None:
    service = COMPOSE["services"]["citus-tables"]
    source, target, _ = service["volumes"][0].split(":")
    (file,) = [part.partition("=")[2] for part in service["command"] if part.startswith("--file=")]
    assert (ROOT / file.replace(target, source)).is_file()
