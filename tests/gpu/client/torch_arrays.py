"""Moves arrays between numpy (with ml_dtypes) and torch on the GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

_NOT_IN_NUMPY = {"bfloat16": torch.bfloat16}
"""Types that torch has and numpy only through ml_dtypes; they travel as their bits."""


def to_torch(array: np.ndarray) -> torch.Tensor:
    """A copy on the GPU."""
    special = _NOT_IN_NUMPY.get(array.dtype.name)
    if special is None:
        return torch.from_numpy(array.copy()).cuda()
    return torch.from_numpy(array.view(np.int16).copy()).cuda().view(special)


def to_numpy(tensor: torch.Tensor, dtype: Any) -> np.ndarray:
    """A copy on the host, as `dtype`."""
    host = tensor.detach().cpu()
    if tensor.dtype in _NOT_IN_NUMPY.values():
        return host.view(torch.int16).numpy().view(dtype)
    return host.numpy()
