"""Model providers: one file per wire protocol. See `perdure.providers.protocol` for what each one does."""
