"""CuTe: layouts as hierarchical shapes and strides. `algebra` has their mathematics, without IR."""
