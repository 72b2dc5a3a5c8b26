"""How operands of products get to where instructions read them, and results to memory."""
