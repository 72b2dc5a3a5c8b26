"""Programs of warp roles: producers that copy, consumers that multiply, warps that store."""
