"""Read agents of other libraries, without running code from their files."""
