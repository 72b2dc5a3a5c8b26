"""Instruction atoms: matrix instructions as rows of data, checked when they are made."""
