"""The benchmark table: `python -m benchmarks.table`; the protocol stands in `benchmarks/README.md`."""
