"""What planning decides, as data."""
