"""Tile IR bytecode: the container, its tables, and one record per operation."""
