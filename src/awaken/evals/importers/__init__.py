"""Cases from the files of other tools: the input, and the assertions that our scorers can state.

Belongs here: one module per format, and the table that names them. Does not: storing what was
read. What cannot be carried over is listed, never dropped silently. Start reading at `formats.py`.
"""

from .drafts import ImportedCases, tell_left_out
from .formats import ImportFormat, import_cases

__all__ = ["ImportFormat", "ImportedCases", "import_cases", "tell_left_out"]
