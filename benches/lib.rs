//! Benchmarks of nerzoo: `cargo bench -p nerzoo-benches`.
