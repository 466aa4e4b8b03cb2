"""The ids of cases, datasets, variants and evals."""

import re

from awaken.contracts.errors import InvalidValue

_ID = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)


def check_eval_id(what: str, id_: str) -> None:
    """Check the id of a case, a dataset or an eval, which stands in file names and addresses.

    Raises:
        InvalidValue: It is not 1 to 128 letters, digits, dots, hyphens and underscores.
    """
    if not _ID.fullmatch(id_) or set(id_) == {"."}:
        problem = "use 1 to 128 letters, digits, '.', '-' and '_'"
        raise InvalidValue(what=f"{what} {id_!r:.140}", problem=problem)
