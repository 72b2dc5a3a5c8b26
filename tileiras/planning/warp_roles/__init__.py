"""What each role of warps does in a specialised kernel."""
