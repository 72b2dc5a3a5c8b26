"""Lowering to GPU code: target records, instruction atoms, LLVM IR text, PTX and cubin back ends."""
