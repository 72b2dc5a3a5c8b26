"""Which values share a layout, and which one."""
