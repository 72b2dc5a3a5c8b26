"""Compares the PTX machine with a GPU, bit by bit (docs/ptx-machine.md)."""
