"""PTX that ptxas takes, and PTX that it refuses."""

from __future__ import annotations

GOOD = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
{
  ret;
}
"""
BAD = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
{
  .reg .b32 %r<2>;
  .loc 1 42 7
  add.s32 %r1, %r1, %r7;
  ret;
}
.file 1 "dir/kernel.py"
"""
