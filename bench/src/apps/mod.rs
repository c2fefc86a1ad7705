//! Programs that thinc-bench shows itself, as X clients of their own process: `thinc-bench app NAME`.
