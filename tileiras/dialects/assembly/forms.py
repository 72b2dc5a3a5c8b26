"""How each operation is written: the table from which printer and parser are made.

A row is (body, types). In the body `$x` stands for an operand, property or region, `$x:kind` for a
property of a kind of `values.NAMED_KINDS`, `<? .. ?>` for a part that is there only with its first
`$x`, and everything else for itself. Properties that the body does not name follow in braces, or
stand at `$DICTIONARY`.
Types are those written behind the colon, then for other values how theirs follows:

    "view -> result; indices=i32"     the types of `view` and `result` are written
    "result; lhs=result"              a value of the same type as another
    "lhs; result=i1(lhs)"             i1 in the shape of another
    "functional"                      `(T, T) -> T` for all operands and results

An operation without a row has that of its class in `CLASS_FORMS`, else all its operands separated
by commas, then the types of all that does not follow.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """The body and the types of an operation."""

    body: str
    types: str


_AXIS = "$axis:int"

CLASS_FORMS: dict[str, Row] = {
    "tileiras.dialects.nv_tileaa.elementwise.UnaryOp": Row("$source", "result; source=result"),
    "tileiras.dialects.nv_tileaa.elementwise.BinaryOp": Row(
        "$lhs, $rhs", "result; lhs=result, rhs=result"
    ),
    "tileiras.dialects.nv_tileaa.elementwise.TernaryOp": Row(
        "$first, $second, $third", "result; first=result, second=result, third=result"
    ),
    "tileiras.dialects.llvm.arithmetic.BinaryOp": Row(
        "$lhs, $rhs", "result; lhs=result, rhs=result"
    ),
    "tileiras.dialects.llvm.arithmetic.CastOp": Row("$operand", "operand to result"),
    "tileiras.dialects.llvm.arithmetic.CompareOp": Row(
        "$predicate $lhs, $rhs", "lhs; rhs=lhs, result=i1(lhs)"
    ),
    "tileiras.dialects.nv_tileaa.memory.TiledLoadBase": Row(
        "$view[$indices] <?from $buffer[$stage] ?><?token = $token ?>", "view -> result"
    ),
    "tileiras.dialects.nv_tileaa.memory.TiledStoreBase": Row(
        "$value, $view[$indices] <?token = $token ?>", "value, view"
    ),
    "tileiras.dialects.nv_tileaa.memory.LoadBase": Row(
        "$pointers <?mask = $mask ?><?other = $other ?><?token = $token ?>",
        "pointers -> result; mask=i1(pointers), other=result",
    ),
    "tileiras.dialects.nv_tileaa.memory.StoreBase": Row(
        "$pointers, $value <?mask = $mask ?><?token = $token ?>",
        "pointers, value; mask=i1(pointers)",
    ),
    "tileiras.dialects.nv_tileaa.async_copy.AsyncCopyBase": Row(
        "$view[$indices] into $buffer[$stage] if $predicate <?token = $token ?>", "view"
    ),
}
"""Rows for all operations of a class, by the class's full name."""

_TILE_CONVERSION = Row("$source", "source to result")
_SIGNED_CONVERSION = Row("$source $signedness", "source to result")
_SIGNED = Row("$lhs, $rhs $signedness", "result; lhs=result, rhs=result")
_SOURCE_TO_RESULT = Row("$source", "source -> result")

FORMS: dict[str, Row] = {
    # nv_tileaa: elementwise
    "nv_tileaa.cmpi": Row(
        "$comparison_predicate $signedness, $lhs, $rhs", "lhs; rhs=lhs, result=i1(lhs)"
    ),
    "nv_tileaa.cmpf": Row(
        "$comparison_predicate $comparison_ordering, $lhs, $rhs", "lhs; rhs=lhs, result=i1(lhs)"
    ),
    "nv_tileaa.select": Row(
        "$first, $second, $third", "first, result; second=result, third=result"
    ),
    "nv_tileaa.divi": _SIGNED,
    "nv_tileaa.remi": _SIGNED,
    "nv_tileaa.maxi": _SIGNED,
    "nv_tileaa.mini": _SIGNED,
    "nv_tileaa.shri": _SIGNED,
    "nv_tileaa.fpowi": Row("$lhs, $rhs", "result, rhs; lhs=result"),
    "nv_tileaa.bitcast": _TILE_CONVERSION,
    "nv_tileaa.exti": _SIGNED_CONVERSION,
    "nv_tileaa.trunci": _TILE_CONVERSION,
    "nv_tileaa.fp_to_fp": _TILE_CONVERSION,
    "nv_tileaa.fp_to_int": _SIGNED_CONVERSION,
    "nv_tileaa.int_to_fp": _SIGNED_CONVERSION,
    "nv_tileaa.int_to_ptr": _TILE_CONVERSION,
    "nv_tileaa.ptr_to_int": _TILE_CONVERSION,
    "nv_tileaa.ptr_to_ptr": _TILE_CONVERSION,
    "nv_tileaa.addptr": Row("$lhs, $rhs", "result, rhs; lhs=result"),
    # nv_tileaa: tensors
    "nv_tileaa.splat": _SOURCE_TO_RESULT,
    "nv_tileaa.broadcast": _SOURCE_TO_RESULT,
    "nv_tileaa.reshape": _SOURCE_TO_RESULT,
    "nv_tileaa.unsplat": Row("$source", "source; result=element(source)"),
    "nv_tileaa.permute": Row("$source $permutation:i32", "source -> result"),
    "nv_tileaa.cat": Row("$lhs, $rhs dim $dim:int", "lhs, rhs -> result"),
    "nv_tileaa.extract": Row("$source[$indices]", "source -> result"),
    "nv_tileaa.insert": Row(
        "$source into $destination[$indices]", "source, result; destination=result"
    ),
    "nv_tileaa.pack": _SOURCE_TO_RESULT,
    "nv_tileaa.unpack": _SOURCE_TO_RESULT,
    "nv_tileaa.dot": Row("$lhs, $rhs, $acc <?if $condition ?>", "lhs, rhs -> result; acc=result"),
    "nv_tileaa.dot_scaled": Row(
        "$lhs by $lhs_scale, $rhs by $rhs_scale, $acc <?if $condition ?>",
        "lhs, lhs_scale, rhs, rhs_scale -> result; acc=result",
    ),
    # nv_tileaa: programs and memory
    "nv_tileaa.get_program_id": Row(_AXIS, "; result=i32"),
    "nv_tileaa.get_grid_size": Row(_AXIS, "; result=i32"),
    "nv_tileaa.get_num_programs": Row(_AXIS, "; result=i32"),
    "nv_tileaa.get_cluster_rank": Row("", "; result=i32"),
    "nv_tileaa.get_cluster_place": Row("$size", "; size=i32, row=i32, column=i32"),
    "nv_tileaa.make_memref": Row(
        "$base <?sizes = [$dynamic_shape] ?><?strides = [$dynamic_strides] ?>", "base -> result"
    ),
    "nv_tileaa.block_tile": Row("$memref", "result; memref=memref(result)"),
    "nv_tileaa.tiled_atomic_red": Row(
        "$mode, $value, $view[$indices] <?token = $token ?>", "value, view"
    ),
    "nv_tileaa.atomic_rmw": Row(
        "$mode, $pointers, $value <?mask = $mask ?><?token = $token ?>",
        "pointers, result; value=result, mask=i1(pointers)",
    ),
    "nv_tileaa.atomic_cas": Row(
        "$pointers, $compare, $value <?mask = $mask ?><?token = $token ?>",
        "pointers, result; compare=result, value=result, mask=i1(pointers)",
    ),
    "nv_tileaa.join_mem_tokens": Row("$tokens", ""),
    "nv_tileaa.fence_alias": Row("$token", ""),
    "nv_tileaa.create_mem_token": Row("", ""),
    "nv_tileaa.grid_dependency": Row("$kind <?token = $token ?>", ""),
    "nv_tileaa.print": Row("$format($arguments) <?token = $token ?>", "arguments"),
    "nv_tileaa.assert": Row("$condition, $message", "condition"),
    "nv_tileaa.global": Row("$sym_name:symbol", ""),
    "nv_tileaa.get_global": Row("$symbol", "result"),
    "nv_tileaa.reduce": Row(
        "($arguments) dim $dim identities $identities:numbers $body", "functional"
    ),
    "nv_tileaa.scan": Row(
        "($arguments) dim $dim identities $identities:numbers $body", "functional"
    ),
    "nv_tileaa.yield": Row("$arguments", "arguments"),
    "nv_tileaa.continue": Row("$arguments", "arguments"),
    "nv_tileaa.break": Row("$arguments", "arguments"),
    "nv_tileaa.read_shared": Row("$exchange[$rank, $number]", "result"),
    "nv_tileaa.keep_tiles": Row("", "result"),
    "nv_tileaa.write_kept": Row("$tiles[$index], $value", "tiles, value"),
    "nv_tileaa.read_kept": Row("$tiles[$index]", "tiles -> result"),
    # nv_tileas
    "nv_tileas.alloc_tensor": Row("", "result"),
    "nv_tileas.async_copy": Row(
        "$view[$indices] into $buffer[$stage] if $predicate <?token = $token ?>", "view, buffer"
    ),
    "nv_tileas.read_stage": Row(
        "$view[$indices] from $buffer[$stage] <?token = $token ?>", "view, buffer -> result"
    ),
    "nv_tileas.convert_layout": _SOURCE_TO_RESULT,
    "nv_tileas.scan_total": _SOURCE_TO_RESULT,
    "nv_tileas.mma_dot": Row("$lhs, $rhs, $acc", "lhs, rhs -> result; acc=result"),
    "nv_tileas.mma_scaled_dot": Row(
        "$lhs by $lhs_scale, $rhs by $rhs_scale, $acc",
        "lhs, lhs_scale, rhs, rhs_scale -> result; acc=result",
    ),
    "nv_tileas.fma_dot": Row("$lhs, $rhs, $acc", "lhs, rhs -> result; acc=result"),
    "nv_tileas.wgmma_dot": Row(
        "$lhs, $rhs, $acc <?if $condition ?> <?adds_if = $adds_if ?>",
        "lhs, rhs -> result; acc=result",
    ),
    "nv_tileas.wgmma_dots": Row(
        "$common, [$tiles], [$accs] <?if $condition ?>", "common, tiles, accs; sums=accs"
    ),
    "nv_tileas.dot_wait": Row("$acc <?keeping [$kept] ?>", "result, kept; acc=result"),
    "nv_tileas.smem_transpose": Row("$tile <?running = $running ?>", "functional"),
    "nv_tileas.transpose_warps": Row("$body", ""),
    "nv_tileas.transpose_tile": Row("$tile into $pipeline", "tile"),
    "nv_tileas.create_accumulator": Row("", "result"),
    "nv_tileas.product_warp": Row("$body", ""),
    "nv_tileas.tcgen05_dot": Row("$lhs, $rhs into $accumulator", "lhs, rhs, accumulator"),
    "nv_tileas.tcgen05_dot_scaled": Row(
        "$lhs by $lhs_scale, $rhs by $rhs_scale into $accumulator <?if $condition ?>",
        "lhs, lhs_scale, rhs, rhs_scale, accumulator",
    ),
    "nv_tileas.async.scales_load": Row("$view[$indices] into $pipeline", "view"),
    "nv_tileas.accumulator_scale": Row("$accumulator by $factors", "accumulator, factors"),
    "nv_tileas.create_left_operand": Row("", "result"),
    "nv_tileas.left_operand_store": Row("$tile into $left", "tile, left"),
    "nv_tileas.accumulator_load": Row("$accumulator if $any", "accumulator -> result; any=i1"),
    "nv_tileas.async.pipeline.agent_switch": Row(
        "$DICTIONARY producer $producer consumer $consumer <?store $store ?>", ""
    ),
    "nv_tileas.make_tiled_tma_desc": Row("$view box $box", "view"),
    "nv_tileas.renew_tiled_tma_descs": Row("[$tensor_maps] after [$pipelines]", ""),
    "nv_tileas.async.tiled_tma_load": Row(
        "$view[$indices] into $pipeline using $tensor_map "
        "<?multicast_if = $multicast_if ?><?skip_if = $skip_if ?><?row_size = $row_size ?>",
        "view",
    ),
    "nv_tileas.async.tiled_load": Row("$view[$indices] into $pipeline", "view"),
    "nv_tileas.async.gather_load": Row(
        "$pointers into $pipeline <?mask = $mask ?>", "pointers; mask=i1(pointers)"
    ),
    "nv_tileas.async.tiled_tma_store": Row(
        "$value, $view[$indices] using $tensor_map <?through $buffers ?>", "value, view, buffers"
    ),
    "nv_tileas.async.pipeline.free_pipelines": Row("<?$pipeline ?>", ""),
    "nv_tileas.async.pipeline.create_store_pipeline": Row("<?$buffers ?>", "buffers"),
    "nv_tileas.async.pipeline.store_stage": Row(
        "$pipeline, $view[$indices] using $tensor_map", "view"
    ),
    "nv_tileas.async.pipeline.consumer_wait": Row("$pipeline at $offsets", "functional"),
    "nv_tileas.select_tile": Row(
        "$condition, $first, $second", "result; first=result, second=result"
    ),
    "nv_tileas.read_tile": Row("$tile", "functional"),
    "nv_tileas.async.pipeline.held_tile": Row("$pipeline", "functional"),
    "nv_tileas.uniform": Row("$source", "result; source=result"),
    "nv_tileas.async.pipeline.producer_skip": Row(
        "$pipeline, $lower to $upper step $step <?if $condition ?>",
        "result; lower=result, upper=result, step=result",
    ),
    "nv_tileas.async.pipeline.prologue_fill": Row(
        "$pipeline, $lower to $upper step $step views = [$views] "
        "<?indices = [$indices] ?><?conditions = [$conditions] ?>",
        "lower, views; upper=lower, step=lower",
    ),
    # llvm
    "llvm.fneg": Row("$operand", "result; operand=result"),
    "llvm.select": Row("$condition, $lhs, $rhs", "condition, result; lhs=result, rhs=result"),
    "llvm.global": Row("$sym_name:symbol", ""),
    "llvm.addressof": Row("$global_name:symbol", "result"),
    "llvm.call": Row("$callee:symbol($arguments)", "functional"),
    "llvm.call_intrinsic": Row("$callee($arguments)", "functional"),
    "llvm.inline_asm": Row("$template, $constraints ($arguments)", "functional"),
    "llvm.extractelement": Row("$vector[$index]", "index, vector; result=element(vector)"),
    "llvm.insertelement": Row(
        "$value, $vector[$index]", "index, result; vector=result, value=element(result)"
    ),
    "llvm.shufflevector": Row("$lhs, $rhs $indices", "lhs -> result; rhs=lhs"),
    "llvm.load": Row("$pointer", "pointer -> result"),
    "llvm.store": Row("$value, $pointer", "value, pointer"),
    "llvm.getelementptr": Row("$base[$offset]", "base, offset -> result"),
    "llvm.fence": Row("$scope $ordering:word", ""),
    "llvm.return": Row("<?$value ?>", "value"),
    # nvvm
    "nvvm.read_sreg": Row("$register:register", "; result=i32"),
    "nvvm.shfl": Row("$mode:word $value, $offset", "result; value=result"),
    "nvvm.vote": Row("$mode:word $predicate", "result"),
    "nvvm.redux": Row("$kind:word $value", "result; value=result"),
    "nvvm.mma_sync": Row("$atom $a, $b, $c", "a, b -> result; c=result"),
    "nvvm.mma_tile": Row("$atom $a, $b, $c", "a, b -> result; c=result"),
    "nvvm.mma_scaled_tile": Row(
        "$atom $a by $scale_a, $b by $scale_b, $c", "a, scale_a, b, scale_b -> result; c=result"
    ),
    "nvvm.wgmma": Row(
        "$atom $a, $b <?accumulator = $accumulator ?><?scale_d = $scale_d ?>",
        "a -> result; b=i64, accumulator=result",
    ),
    "nvvm.wgmma_fence": Row("$values", "values; results_=values"),
    "nvvm.wgmma_wait": Row("$values", "values; results_=values"),
    "nvvm.ldmatrix": Row("$pointer", "pointer -> result"),
    "nvvm.guarded_load": Row(
        "$pointers <?if $predicate ?><?else $passthru ?>",
        "pointers, predicate -> result; passthru=result",
    ),
    "nvvm.guarded_store": Row("$value, $pointers <?if $predicate ?>", "value, pointers, predicate"),
    "nvvm.tma_load": Row(
        "$target, $map[$coordinates] barrier $barrier <?multicast = $multicast ?>"
        "<?if $predicate ?>",
        "map; target=shared, barrier=shared",
    ),
    "nvvm.tma_store": Row(
        "$source, $map[$coordinates] <?if $predicate ?>",
        "map; source=shared",
    ),
    "nvvm.mbarrier_arrive": Row("$barrier <?cta = $cta ?><?if $predicate ?>", ""),
    "nvvm.mbarrier_expect_tx": Row("$barrier <?size = $size ?><?if $predicate ?>", ""),
    "nvvm.mbarrier_wait": Row("$barrier, $parity", ""),
}
"""Operation -> row. Operations with a syntax of their own are in `structured`."""

VALUE_TYPES: dict[str, str] = {
    "token": "token",
    "tokens": "token",
    "result_token": "token",
    "indices": "i32",
    "stage": "i32",
    "dynamic_shape": "i32",
    "dynamic_strides": "i32",
    "predicate": "i1",
    "condition": "i1",
    "multicast_if": "i1",
    "row_size": "i32",
    "skip_if": "i1",
    "adds_if": "i1",
    "conditions": "i1",
    "pipeline": "pipeline",
    "tensor_map": "tensor_map",
    "coordinates": "i32",
    "barrier": "shared",
}
"""Types of operands and results that follow from their names, unless a row says otherwise."""

INLINE_TYPES = ("indices", "dynamic_shape", "dynamic_strides")
"""Operands that are i32, or have their type beside them: `%view[%i, %rows : tensor<64xi32>]`."""

INBOUNDS = "inbounds"
"""The property of accesses that is left out where it promises nothing."""

RESULT_TYPES: dict[str, str] = {
    "nv_tileaa.create_mem_token": "token",
    "nv_tileaa.join_mem_tokens": "token",
    "nv_tileaa.fence_alias": "token",
    "nv_tileaa.grid_dependency": "token",
    "nv_tileaa.print": "token",
    "nv_tileas.async.pipeline.create_pipeline": "pipeline",
    "nv_tileas.make_tiled_tma_desc": "tensor_map",
}
"""Types of the value `result` of some operations."""

DEFAULTS: dict[str, str] = {
    "rounding_mode": "nearest_even",
    "overflow": "none",
    "ordering": "weak",
    "order": "weak",
    "scope": "",
}
"""Values of required enumerations and strings that are left out."""

PROPERTY_KINDS: dict[str, str] = {"inbounds": "i1", "base_align": "long"}
"""Kinds of properties in braces that their class does not tell."""
