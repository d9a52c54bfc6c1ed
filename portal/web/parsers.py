"""How REST reads JSON. Apart from `portal/web/rest.py`, which imports the views that need this first."""

import json
from typing import Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser


class JsonParser(JSONParser):
    """JSON of which every text can be stored, and said again in an answer."""

    def parse(self, *args: Any, **kwargs: Any) -> Any:
        """
        Raises:
            ParseError: no JSON, nested without end, or half a character (a lone surrogate).
        """
        try:
            found = super().parse(*args, **kwargs)
            json.dumps(found, ensure_ascii=False).encode()
        except RecursionError as error:
            raise ParseError("this JSON is nested too deeply") from error
        except UnicodeEncodeError as error:
            raise ParseError("this JSON holds half a character (\\ud800)") from error
        return found
