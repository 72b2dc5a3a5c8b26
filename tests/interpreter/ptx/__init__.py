"""Tests of the PTX machine."""
