"""google-adk with its newer SqliteSessionService (persist variant)."""

from google.adk.sessions.sqlite_session_service import SqliteSessionService

from adapters.adk import ADK


class ADKSqlite(ADK):
    name = "google-adk(SqliteSessionService)"
    store = "SqliteSessionService (aiosqlite)"

    def make_database(self, path):
        return SqliteSessionService(path + ".db")

    async def close_store(self):
        return None


ADAPTER = ADKSqlite
