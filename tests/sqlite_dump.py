"""The content of an SQLite store as a reader of the file sees it.

Records are packed, so a search in the raw bytes of the file alone would miss their text.
"""

import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

from awaken.contracts.errors import CorruptRecord
from awaken.stores.sql.blobs import unseal


def dump_sqlite(path: Path) -> bytes:
    """Everything in the file and in those beside it: its bytes, and each record unpacked."""
    found = [it.read_bytes() for it in path.parent.glob(f"{path.name}*")]
    with closing(sqlite3.connect(path)) as file:
        tables = file.execute("select name from sqlite_master where type = 'table'").fetchall()
        for (table,) in tables:
            for row in file.execute(f'select * from "{table}"'):
                found += [_unpack(it) for it in row if isinstance(it, bytes)]
    return b"\n".join(found)


def _unpack(value: bytes) -> bytes:
    body = value[:-4]
    try:
        return unseal(body + zlib.crc32(body).to_bytes(4, "big"), "a value")
    except (CorruptRecord, zlib.error):
        return value
