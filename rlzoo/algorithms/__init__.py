"""One file per algorithm, readable top to bottom; base.py is the whole contract."""
