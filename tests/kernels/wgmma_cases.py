"""Products that are compiled and run: every family, placement, swizzle and repeat once or more."""

from __future__ import annotations

from tests.kernels.wgmma_product import Product

PRODUCTS = (
    Product("m64n256k16_f32_f16", 64, "k", "mn"),
    Product("m64n128k16_f32_f16", 128, "k", "k"),
    Product("m64n64k16_f32_f16", 64, "mn", "mn"),
    Product("m64n128k16_f32_f16", 64, "mn", "k", reps_m=2),
    Product("m64n64k16_f16_f16", 64, "k", "k", reps_m=2),
    Product("m64n64k16_f32_bf16", 64, None, "mn"),
    Product("m64n128k16_f32_f16", 64, None, "mn", reps_m=2),
    Product("m64n64k16_f32_f16", 64, "k", "mn", swizzle=64),
    Product("m64n64k16_f32_f16", 64, "mn", "mn", swizzle=32),
    Product("m64n32k16_f32_f16", 32, "k", "k", swizzle=32),
    Product("m64n32k16_f32_f16", 64, "k", "mn", swizzle=64),
    Product("m64n16k16_f32_f16", 32, "mn", "mn", swizzle=32),
    Product("m64n128k16_f32_f16", 32, "k", "k", swizzle=64),
    Product("m64n64k8_f32_tf32", 16, swizzle=64),
    Product("m64n64k8_f32_tf32", 8, swizzle=32),
    Product("m64n128k32_f32_e4m3", 64, swizzle=64),
    Product("m64n128k32_s32_s8", 32, swizzle=32),
    Product("m64n128k8_f32_tf32", 32),
    Product("m64n64k8_f32_tf32", 64, None),
    Product("m64n128k32_f32_e4m3", 128),
    Product("m64n64k32_f32_e5m2_e4m3", 128, reps_m=2),
    Product("m64n64k32_f16_e4m3_e5m2", 128, None),
    Product("m64n128k32_s32_s8", 128),
    Product("m64n32k32_s32_s8_u8", 64, None, swizzle=64),
)


def name_of(product: Product) -> str:
    """A test's name."""
    a = product.a_major or "registers"
    return f"{product.atom}-k{product.k}-{a}-{product.b_major}-{product.swizzle}-x{product.reps_m}"
