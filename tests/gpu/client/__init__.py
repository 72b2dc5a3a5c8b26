"""Kernels of the unmodified cuTile Python client, compiled by our `tileiras`."""
