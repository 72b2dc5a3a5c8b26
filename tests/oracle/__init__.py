"""Agreement with NVIDIA's own tools, run as black boxes (marker `oracle`)."""
