"""Files that only their owner can read, written atomically."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from awaken.contracts.errors import StorageError, field

T = TypeVar("T")
_OF_OTHERS = 0o077


class UnusableFile(StorageError):
    """A private file cannot be read, cannot be written, or is not private."""

    code = "unusable_file"
    template = "{message}"
    message: str = field(kw_only=False)


def read(path: str, type_: type[T]) -> T | None:
    """Read and decode a file; None if it does not exist.

    Raises:
        UnusableFile: It cannot be read, or others than its owner can read it.
    """
    try:
        with Path(path).open("rb") as file:
            if os.fstat(file.fileno()).st_mode & _OF_OTHERS:
                raise UnusableFile(f"others can use the file '{path}': chmod 600 it")
            return msgspec.json.decode(file.read(), type=type_)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        problem = f"the file '{path}' cannot be read ({type(error).__name__})"
        raise UnusableFile(problem) from None


def write(path: str, value: Any) -> None:
    """Write or replace a file atomically, readable by its owner only.

    Raises:
        UnusableFile: It cannot be written; the earlier file is unchanged.
    """
    new = ""
    try:
        descriptor, new = tempfile.mkstemp(dir=Path(path).absolute().parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(value))
            file.flush()
            os.fsync(file.fileno())
        Path(new).replace(path)
    except OSError as error:
        with suppress(OSError):
            Path(new).unlink()
        problem = f"the file '{path}' cannot be written ({type(error).__name__})"
        raise UnusableFile(problem) from None
