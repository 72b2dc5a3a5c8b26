"""Shared memory of a simulated thread block, which notices races."""

from __future__ import annotations

import numpy as np

FIRST_ADDRESS = 1 << 20
LAST_ADDRESS = 1 << 24
NOBODY, SEVERAL = -1, -2


class SharedMemory:
    """Bytes, and for each who last wrote and read it since which barrier."""

    def __init__(self, threads: int):
        self.threads = threads
        self.epoch = 0
        self.data = np.zeros(0, np.uint8)
        self.written = np.zeros(0, bool)
        self.writer = np.zeros(0, np.int64)
        self.write_epoch = np.zeros(0, np.int64)
        self.reader = np.zeros(0, np.int64)
        self.read_epoch = np.zeros(0, np.int64)

    def allocate(self, size: int) -> int:
        """Room for `size` bytes; returns the address."""
        start = -(-len(self.data) // 1024) * 1024
        for name in ("data", "written", "writer", "write_epoch", "reader", "read_epoch"):
            old = getattr(self, name)
            grown = np.full(start + size, -1 if "epoch" in name else 0, old.dtype)
            grown[: len(old)] = old
            setattr(self, name, grown)
        return FIRST_ADDRESS + start

    def holds(self, addresses: np.ndarray) -> bool:
        """Whether addresses are ours."""
        return bool(np.all((addresses >= FIRST_ADDRESS) & (addresses < LAST_ADDRESS)))

    def barrier(self) -> None:
        """Everything before is visible to everybody after."""
        self.epoch += 1

    def _places(self, addresses: np.ndarray, size: int) -> np.ndarray:
        places = addresses.astype(np.int64)[:, None] - FIRST_ADDRESS + np.arange(size)
        if places.size and (places.min() < 0 or places.max() >= len(self.data)):
            raise RuntimeError("access outside of the shared memory of the block")
        return places

    def load(self, threads: np.ndarray, addresses: np.ndarray, size: int) -> np.ndarray:
        """`size` bytes at each address for each thread."""
        places = self._places(addresses, size)
        if not self.written[places].all():
            raise RuntimeError("read of shared memory that nobody has written")
        foreign = self.writer[places] != threads[:, None]
        if np.any(foreign & (self.write_epoch[places] == self.epoch)):
            raise RuntimeError("race: read of what another thread wrote since the last barrier")
        owners = np.broadcast_to(threads[:, None], places.shape).ravel()
        flat = places.ravel()
        first = np.full(len(self.data), NOBODY)
        first[flat] = owners
        several = np.zeros(len(self.data), bool)
        several[flat[first[flat] != owners]] = True
        stale = self.read_epoch[flat] != self.epoch
        several[flat[~stale & (self.reader[flat] != owners)]] = True
        self.reader[flat] = np.where(several[flat], SEVERAL, owners)
        self.read_epoch[flat] = self.epoch
        return self.data[places]

    def store(self, threads: np.ndarray, addresses: np.ndarray, data: np.ndarray) -> None:
        """Writes rows of bytes."""
        places = self._places(addresses, data.shape[1])
        owners = np.broadcast_to(threads[:, None], places.shape)
        was_read = (self.read_epoch[places] == self.epoch) & (self.reader[places] != owners)
        if np.any(was_read):
            raise RuntimeError("race: write to what another thread read since the last barrier")
        was_written = (self.write_epoch[places] == self.epoch) & (self.writer[places] != owners)
        if np.any(was_written):
            raise RuntimeError("race: two threads wrote one byte since the last barrier")
        if len(np.unique(places)) != places.size:
            raise RuntimeError("race: two threads write one byte at once")
        self.data[places] = data
        self.written[places] = True
        self.writer[places] = owners
        self.write_epoch[places] = self.epoch

    def forget(self, addresses: np.ndarray, size: int) -> None:
        """From here on nothing may be read there until it has been written again."""
        self.written[self._places(addresses, size)] = False
