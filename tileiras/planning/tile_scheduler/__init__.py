"""In which order tile blocks are computed."""
