"""What the product is measured with: benchmarks, and mutants that its tests have to notice."""
