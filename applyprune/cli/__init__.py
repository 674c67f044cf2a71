"""One verb, one file; errors become exit codes in ``main``, and nowhere else."""
