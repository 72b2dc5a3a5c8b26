"""Lowering to GPU code: targets, instruction atoms, LLVM IR text, PTX and cubin back ends."""
