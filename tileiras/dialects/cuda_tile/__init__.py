"""The cuda_tile dialect: tiles and views, no hardware."""

from xdsl.ir import Dialect

from tileiras.dialects.cuda_tile import arithmetic as _arithmetic
from tileiras.dialects.cuda_tile import atomics as _atomics
from tileiras.dialects.cuda_tile import attributes as _attributes
from tileiras.dialects.cuda_tile import bitwise as _bitwise
from tileiras.dialects.cuda_tile import constants as _constants
from tileiras.dialects.cuda_tile import control_flow as _control_flow
from tileiras.dialects.cuda_tile import conversions as _conversions
from tileiras.dialects.cuda_tile import debug_info as _debug_info
from tileiras.dialects.cuda_tile import math as _math
from tileiras.dialects.cuda_tile import memory as _memory
from tileiras.dialects.cuda_tile import mma as _mma
from tileiras.dialects.cuda_tile import reductions as _reductions
from tileiras.dialects.cuda_tile import structure as _structure
from tileiras.dialects.cuda_tile import tiles as _tiles
from tileiras.dialects.cuda_tile import types as _types
from tileiras.dialects.cuda_tile import views as _views
from tileiras.dialects.cuda_tile.arithmetic import *  # noqa: F403
from tileiras.dialects.cuda_tile.atomics import *  # noqa: F403
from tileiras.dialects.cuda_tile.bitwise import *  # noqa: F403
from tileiras.dialects.cuda_tile.control_flow import *  # noqa: F403
from tileiras.dialects.cuda_tile.conversions import *  # noqa: F403
from tileiras.dialects.cuda_tile.math import *  # noqa: F403
from tileiras.dialects.cuda_tile.memory import *  # noqa: F403
from tileiras.dialects.cuda_tile.mma import *  # noqa: F403
from tileiras.dialects.cuda_tile.reductions import *  # noqa: F403
from tileiras.dialects.cuda_tile.structure import *  # noqa: F403
from tileiras.dialects.cuda_tile.tiles import *  # noqa: F403
from tileiras.dialects.cuda_tile.views import *  # noqa: F403
from tileiras.dialects.operations import attributes_of, operations_of

CudaTile = Dialect(
    "cuda_tile",
    operations_of(
        *(_arithmetic, _bitwise, _conversions, _math, _tiles, _control_flow, _reductions, _mma),
        *(_structure, _views, _memory, _atomics),
    ),
    attributes_of(_attributes, _constants, _types, _debug_info),
)
