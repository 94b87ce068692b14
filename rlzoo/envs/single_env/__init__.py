"""Single environments: wrappers, Monitor, registration and `check_env`."""
