"""Instructions of GPUs on tensors with CuTe layouts: copies, products, barriers."""
