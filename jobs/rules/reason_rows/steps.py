"""Next steps that several reasons name."""

READ_LOG = "Read the end of its log."
WAIT = "No action needed; it starts automatically."
TELL_ADMIN = "Tell your admin."
RESUME = "Resume it to go on; a program that saves checkpoints continues from the latest one."
