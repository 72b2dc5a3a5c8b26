"""How tiles may be cut into parts."""
