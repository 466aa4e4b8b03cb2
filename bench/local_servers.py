"""Servers of Postgres and NATS for measurements: those of the tests."""

import trees

trees.find_tests()

from tests.nats_servers.cluster import nats_cluster  # noqa: E402
from tests.postgres.server import new_schema, server  # noqa: E402

__all__ = ["nats_cluster", "new_schema", "server"]
