"""Container images without a container engine: layers of files, put together in the OCI format."""
