"""An open compiler for CUDA Tile IR: bytecode or text in, GPU machine code out."""

__version__ = "0.1.0"
