"""What a line of the log leaves out."""

import logging


class KnownCause(logging.Filter):
    """Leaves out the traceback of what is answered as a refusal: a full disk, no database."""

    def filter(self, record: logging.LogRecord) -> bool:
        from portal.web import refusals  # needs Django, which sets up logging first

        error = record.exc_info[1] if record.exc_info else None
        if refusals.find(error) is not None:
            record.msg, record.args = f"{record.getMessage()}: {error}", ()
            record.exc_info = record.exc_text = None
        return True


class OneLine(logging.Filter):
    """Leaves out the traceback: for refusals that anybody can cause as often as they like."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.exc_info = None
        record.exc_text = None
        return True
