"""The base of all cuda_tile operations."""

from abc import ABC

from xdsl.irdl import IRDLOperation


class TileOp(IRDLOperation, ABC):
    """An operation whose own rules can be checked without those of its shape.

    xDSL's `verify_` checks first that operands, results and properties are as many and of the kinds
    that the definition says. The bytecode reader guarantees that, and it is two thirds of the time.
    """

    def verify_(self) -> None:
        """What xDSL calls after its own checks."""
        self.check_semantics()

    def check_semantics(self) -> None:
        """The operation's own rules; raises VerifyException."""
