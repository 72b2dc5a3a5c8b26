"""Passes of nv_tileas: places are chosen, what is left is how to use them."""
