"""LLVM IR: the builder that lowerings use, the whitelist of intrinsics, and the text printer."""
