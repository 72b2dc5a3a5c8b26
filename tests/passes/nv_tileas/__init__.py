"""Tests of the passes that place tensors."""
