"""Threads, registers and shared memory: what a kernel needs, and what it gets."""
