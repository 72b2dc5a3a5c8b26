"""Tests of the bytecode reader and writer."""
