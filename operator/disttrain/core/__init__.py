"""The pure core: (job, world, now) in, plan out. No I/O, no clock, no Kubernetes client."""
