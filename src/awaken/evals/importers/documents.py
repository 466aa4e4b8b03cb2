"""JSON and YAML documents of other tools, read with limits."""

from typing import Any

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.evals.errors import InvalidDataset
from awaken.services.document_files import decode_document


def read_document(data: bytes, name: str) -> Any:
    """Read a document; JSON if the name says so, else YAML.

    Raises:
        InvalidDataset: It is neither, too large, or endless by its aliases.
    """
    try:
        return decode_document(data, name)
    except InvalidSpec as error:
        raise InvalidDataset(what="the file", problem=error.problem) from error
