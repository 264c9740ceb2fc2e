"""The resource: models, parsing, defaults, validation, and the CRD generated from them. No I/O but in `render`."""
