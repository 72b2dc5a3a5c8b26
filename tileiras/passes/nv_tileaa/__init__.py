"""Passes on nv_tileaa: before anything has a place."""
