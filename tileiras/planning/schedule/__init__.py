"""Which operations of a loop run when, and which loads are started how early."""
