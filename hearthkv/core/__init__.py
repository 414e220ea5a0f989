"""The pure words of HearthKV: keys, namespaces, tiers, errors, settings. No I/O here."""
