"""kapp and kapply: what each row of the benchmark also runs with, if their builds succeed.

Each is a Go module of its own, because the two need different versions of the same libraries.
"""
