"""Decisions about a kernel, computed from its nv_tileaa and written nowhere: passes act on them."""
