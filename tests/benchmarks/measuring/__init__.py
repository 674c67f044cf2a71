"""How a process is measured, and where: its time, CPU and memory, its requests, its server."""
