"""Arguments of a kernel in simulated memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tileiras.interpreter import SimulatedMemory


class UploadedArguments:
    """Arrays copied into a memory, and what the kernel is launched with: addresses and scalars."""

    def __init__(self, memory: SimulatedMemory, args: Sequence[int | np.floating | np.ndarray]):
        self.memory = memory
        self.values: list[int] = []
        self.arrays: list[tuple[np.ndarray, int]] = []
        for arg in args:
            if isinstance(arg, np.ndarray):
                address = memory.upload(arg).address
                self.arrays.append((arg, address))
                self.values.append(address)
            elif isinstance(arg, np.floating):
                self.values.append(int(arg.view(f"u{arg.itemsize}")))
            else:
                self.values.append(int(arg))

    def download(self) -> None:
        """Updates the arrays in place."""
        for array, address in self.arrays:
            data = self.memory.read_bytes(address, array.nbytes)
            array[...] = data.view(array.dtype).reshape(array.shape)
