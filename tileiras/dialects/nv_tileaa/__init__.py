"""The nv_tileaa dialect: tensors, typed pointers, explicit memory tokens; no layout, no thread."""

from xdsl.ir import Dialect

from tileiras.dialects.nv_tileaa import arithmetic as _arithmetic
from tileiras.dialects.nv_tileaa import async_copy as _async_copy
from tileiras.dialects.nv_tileaa import control_flow as _control_flow
from tileiras.dialects.nv_tileaa import conversions as _conversions
from tileiras.dialects.nv_tileaa import dot_scaled as _dot_scaled
from tileiras.dialects.nv_tileaa import exchange as _exchange
from tileiras.dialects.nv_tileaa import math as _math
from tileiras.dialects.nv_tileaa import memory as _memory
from tileiras.dialects.nv_tileaa import multimem as _multimem
from tileiras.dialects.nv_tileaa import schedule as _schedule
from tileiras.dialects.nv_tileaa import tensors as _tensors
from tileiras.dialects.nv_tileaa import types as _types
from tileiras.dialects.nv_tileaa.arithmetic import *  # noqa: F403
from tileiras.dialects.nv_tileaa.async_copy import *  # noqa: F403
from tileiras.dialects.nv_tileaa.control_flow import *  # noqa: F403
from tileiras.dialects.nv_tileaa.conversions import *  # noqa: F403
from tileiras.dialects.nv_tileaa.dot_scaled import *  # noqa: F403
from tileiras.dialects.nv_tileaa.dot_scaled import DotScaledOp
from tileiras.dialects.nv_tileaa.exchange import *  # noqa: F403
from tileiras.dialects.nv_tileaa.math import *  # noqa: F403
from tileiras.dialects.nv_tileaa.memory import *  # noqa: F403
from tileiras.dialects.nv_tileaa.multimem import *  # noqa: F403
from tileiras.dialects.nv_tileaa.tensors import *  # noqa: F403
from tileiras.dialects.nv_tileaa.tensors import DotOp
from tileiras.dialects.nv_tileaa.types import *  # noqa: F403
from tileiras.dialects.operations import attributes_of, operations_of

_CHAPTERS = (
    *(_arithmetic, _async_copy, _control_flow, _conversions, _dot_scaled, _exchange, _math),
    *(_memory, _multimem, _tensors, _types),
)
NvTileAA = Dialect("nv_tileaa", operations_of(*_CHAPTERS), attributes_of(*_CHAPTERS, _schedule))

ProductOp = DotOp | DotScaledOp
"""Matrix products, for `isinstance`."""
