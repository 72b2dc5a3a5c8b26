"""Random damage to texts of every stage: a result or a located error comes out."""
