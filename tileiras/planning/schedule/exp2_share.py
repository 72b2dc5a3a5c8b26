"""How many powers of 2 of a loop FMA units compute, where special functions are the limit.

Of a loop whose products run beside its threads, the cycles of an SM for an iteration of all CTAs:

    special      powers and other special functions / their rate
    issued       what threads compute / results of all schedulers
    tensor core  multiply-adds / rate of the instructions

Each eighth of the powers that goes to FMA units takes an eighth of their time off the special
functions, and puts the instructions of a polynomial on the schedulers. Threads wait for barriers
and for each other, which the tensor core does not: what they feed is never busy all the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, TensorType
from xdsl.ir import Operation

from tileiras.codegen.target import Feature, GpuTarget, Work
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileas.plan import MMA, Tcgen05Attr, WgmmaAttr
from tileiras.planning.schedule.costs import TileCosts, kind_of_work, multiply_adds

OF = 8
"""Policy: powers are shared in eighths."""
MOST = 4
"""Policy: at most so many eighths."""
BUSY = Fraction(7, 8)
"""Policy: part of the time for which units that threads feed have work."""
GAIN = Fraction(17, 16)
"""Policy: a larger share has to be so much faster than a smaller one."""
BESIDE_WGMMA, BESIDE_TCGEN05 = 160, 64
"""Policy: instructions of a thread in an iteration beside what tiles cost: barriers, descriptors,
moves (counted in SASS of attention on sm_90 and sm_100: 150 to 200, and 60 to 80)."""
POLYNOMIAL = 12
"""Fixed: instructions for a power (`lowering/elementwise/exp2_on_fma`)."""
PACKED_POLYNOMIAL = Fraction(15, 2)
"""Fixed: the same where additions, multiplications and fma take two elements."""
_PACKED = (aa.AddFOp, aa.SubFOp, aa.MulFOp, aa.FmaOp)


@dataclass(frozen=True)
class LoopWork:
    """What an iteration of a loop needs: elements of each kind, cycles of the tensor core."""

    powers: tuple[aa.Exp2Op, ...]
    shared: int
    """Elements of `powers`."""
    special: int
    """Results of special functions, all powers among them."""
    issued: Fraction
    """Instructions of threads."""
    tensor: Fraction


def loop_work(loop: aa.ForOp, target: GpuTarget, threads: int) -> LoopWork | None:
    """The work of a loop; None where its products do not run beside what threads compute."""
    costs = TileCosts(threads, target)
    products = [op for op in _operations(loop) if isinstance(op, aa.ProductOp)]
    if not products or not all(
        isinstance(op.attributes.get(MMA), Tcgen05Attr | WgmmaAttr) for op in products
    ):
        return None
    in_tmem = all(isinstance(op.attributes.get(MMA), Tcgen05Attr) for op in products)
    rate = target.performance.throughput.multiply_adds
    powers: list[aa.Exp2Op] = []
    special, issued = 0, Fraction(threads * (BESIDE_TCGEN05 if in_tmem else BESIDE_WGMMA))
    for op in _operations(loop):
        match op:
            case aa.ReduceOp():
                amount = sum(costs.elements(operand) for operand in op.operands)
                issued += amount * _instructions(op, target)
            case ElementwiseOp():
                amount = costs.elements(op.results[0])
                issued += amount * _instructions(op, target)
                if kind_of_work(op) is Work.SPECIAL:
                    special += amount
                if isinstance(op, aa.Exp2Op) and _may_share(op, amount, threads):
                    powers.append(op)
            case _:
                pass
    shared = sum(costs.elements(op.results[0]) for op in powers)
    tensor = Fraction(sum(map(multiply_adds, products)), rate)
    return LoopWork(tuple(powers), shared, special, issued, tensor)


def _operations(loop: aa.ForOp) -> Iterator[Operation]:
    """The operations of an iteration but those of inner loops and of reductions' bodies."""
    pending = [op for region in loop.regions for block in region.blocks for op in block.ops]
    while pending:
        op = pending.pop(0)
        yield op
        if isinstance(op, aa.IfOp):
            pending[:0] = [o for region in op.regions for block in region.blocks for o in block.ops]


def _may_share(op: aa.Exp2Op, amount: int, threads: int) -> bool:
    """Whether a polynomial gives the op's results, and threads have pairs enough to share."""
    type = op.result.type
    is_single = isinstance(type, TensorType) and isinstance(type.element_type, Float32Type)
    return is_single and op.flush_to_zero is not None and amount >= 2 * OF * threads


def _instructions(op: Operation, target: GpuTarget) -> Fraction:
    """Instructions of a thread for an element."""
    half, packed = Fraction(1, 2), target.has(Feature.F32X2_NATIVE)
    match op:
        case aa.NegFOp():
            return Fraction(0)  # part of what reads it
        case aa.FpToFpOp() if _element(op) in (Float16Type(), BFloat16Type()):
            return half
        case aa.ReduceOp() if packed and any(isinstance(o, aa.AddFOp) for o in op.walk()):
            return half
        case ElementwiseOp() if packed and isinstance(op, _PACKED):
            return half if _element(op) == Float32Type() else Fraction(1)
        case _:
            return Fraction(1)


def _element(op: Operation) -> object:
    type = op.results[0].type
    return type.element_type if isinstance(type, TensorType) else type


def fma_share(work: LoopWork, target: GpuTarget) -> int:
    """Eighths of the powers for FMA units: the fewest with which a loop is as fast as it gets."""
    rates = target.performance.throughput
    polynomial = PACKED_POLYNOMIAL if target.has(Feature.F32X2_NATIVE) else Fraction(POLYNOMIAL)

    def cycles(eighths: int) -> Fraction:
        moved = Fraction(work.shared * eighths, OF)
        special = (work.special - moved) / rates.special
        issued = (work.issued + moved * (polynomial - 1)) / rates.issued
        return max(special / BUSY, issued / BUSY, work.tensor)

    fastest = min(map(cycles, range(MOST + 1)))
    return next(eighths for eighths in range(MOST + 1) if cycles(eighths) <= fastest * GAIN)
