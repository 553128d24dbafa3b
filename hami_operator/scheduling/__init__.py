"""Values in, decision out: filters, scores, ledger, queue and the cycle; pure."""
