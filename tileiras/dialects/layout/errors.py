"""The one exception of the layout algebra."""

from __future__ import annotations


class LayoutError(ValueError):
    """A layout was built or combined against the laws of the algebra.

    The algebra does not know whose fault that is: a verifier or a pass that lets text of the user
    through to here turns it into a located error of its own.
    """
