"""Why a message failed: classified, redacted, and kept in the ledger."""
