"""A PostgreSQL server with pgvector in a directory of its own, for those who have none.

Processes of one user share it: the first starts it, the last stops it. See `EmbeddedServer`. The parts:
`binaries` (where the programs are), `account` (which system user runs them), `cluster` (one data directory
and its server), `server` (who uses it). `docs/embedded.md` tells it to people.
"""

from evireform.embedded.server import EmbeddedServer, default_home

__all__ = ["EmbeddedServer", "default_home"]
