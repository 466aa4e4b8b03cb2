"""How many connections the server has, and how many one process takes."""

from awaken.contracts.storage.inspection import ConnectionBudget

from .connection import connect_direct
from .server import PostgresServer

OWN_SESSIONS = 2
"""Besides the pool: one for the signals between processes, one for the leases."""
_COUNT = """
SELECT current_setting('max_connections')::int
    - current_setting('superuser_reserved_connections')::int,
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')
"""


async def read_budget(server: PostgresServer) -> ConnectionBudget:
    """Ask the server itself."""
    connection = await connect_direct(server)
    try:
        allowed, used = await connection.fetchrow(_COUNT)
    finally:
        connection.terminate()
    own = OWN_SESSIONS if server.has_direct else OWN_SESSIONS + server.pool_size
    # Without the session that counted.
    return ConnectionBudget(allowed=allowed, used=used - 1, per_process=own)
