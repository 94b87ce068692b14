"""Job scripts: the tasks of a list or a study as an array job of Slurm or PBS, or as a shell script."""
