"""Which instructions compute a product, and what they ask of its operands."""
