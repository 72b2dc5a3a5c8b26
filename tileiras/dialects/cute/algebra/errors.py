"""The one exception of CuTe's layout algebra."""

from __future__ import annotations


class AlgebraError(ValueError):
    """Layouts were combined against an admissibility condition; the message says which and why.

    The algebra does not know whose fault that is: a verifier or a command that lets text of the
    user through to here turns it into an error of its own.
    """
