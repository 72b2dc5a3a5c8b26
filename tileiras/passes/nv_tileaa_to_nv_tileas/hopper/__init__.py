"""Kernels specialised for Hopper: TMA producers and wgmma consumers."""
