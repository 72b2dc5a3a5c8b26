"""Which rule converts which operation: the table of all cuda_tile operations."""

from __future__ import annotations

from xdsl.ir import Operation

from tileiras.passes.cuda_tile_to_nv_tileaa.control_flow import CONTROL_FLOW_RULES
from tileiras.passes.cuda_tile_to_nv_tileaa.converter import Rule
from tileiras.passes.cuda_tile_to_nv_tileaa.elementwise import ELEMENTWISE_RULES
from tileiras.passes.cuda_tile_to_nv_tileaa.memory import MEMORY_RULES
from tileiras.passes.cuda_tile_to_nv_tileaa.multimem import MULTIMEM_RULES
from tileiras.passes.cuda_tile_to_nv_tileaa.printing import PRINTING_RULES
from tileiras.passes.cuda_tile_to_nv_tileaa.tensors import TENSOR_RULES

RULES: dict[type[Operation], Rule] = {
    **ELEMENTWISE_RULES,
    **TENSOR_RULES,
    **CONTROL_FLOW_RULES,
    **MEMORY_RULES,
    **MULTIMEM_RULES,
    **PRINTING_RULES,
}
