"""Rules that many kinds share: names, labels, metadata, amounts, and how a refusal is worded."""
