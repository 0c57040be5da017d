"""How quick evaluation is beside what one would write instead: `python -m tests.benchmarks`."""
