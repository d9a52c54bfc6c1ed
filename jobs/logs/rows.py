"""Lines as viewers get them: cleaned, not too long, encoded as a JSON array.

What comes from a pod is encoded for a whole batch at a time, as text, without an object for each line.
"""

import msgspec

from jobs.logs.ansi import CONTROL_BYTES, clean, is_clean
from jobs.pod.protocol.notices import MARK

MAX_LINE_BYTES = 64 * 1024


class Line(msgspec.Struct, gc=False):
    """One line as viewers get it."""

    t: str
    text: str


def first_text(encoded: str) -> str:
    """The text of the first of encoded lines."""
    return msgspec.json.decode(encoded, type=list[Line])[0].text


def encode(lines: list[Line]) -> str:
    return msgspec.json.encode(lines).decode()


def last_state(text: str) -> str:
    """What a terminal shows of a line with carriage returns: the last thing written over it."""
    return text.rstrip("\r").rsplit("\r", 1)[-1] if "\r" in text else text


def plain_lines(data: bytes) -> list[Line]:
    """Whole lines of an archived log, which have no times."""
    text = data.decode("utf-8", "replace")
    text = text.removesuffix("\n")
    return [_capped(Line("", clean(last_state(line)))) for line in text.split("\n")]


def encode_data(data: bytes) -> tuple[list[str], str]:
    """Whole lines behind their times, as rows (escaped for JSON), and as the array of all of them."""
    text = _cleaned(data)
    if _has_long_line(data):
        text = "\n".join(map(_capped_row, text.split("\n")))
    text = _escaped(text)
    rows = text.split("\n")
    return rows, _encode_rows(rows, len(text))


def _cleaned(data: bytes) -> str:
    """Whole lines, each a time, a blank and text, cleaned; without the last line break."""
    text = data.decode("utf-8", "replace")[:-1]
    if data.isascii():
        has_controls = len(data.translate(None, CONTROL_BYTES)) != len(data)
    else:
        has_controls = not is_clean(text)
    if has_controls:
        if "\r" in text:
            text = "\n".join(map(_last_state_after_time, text.split("\n")))
        text = clean(text)
    return text


# What JSON wants escaped and cleaned text may have: line breaks part rows, and of the other controls
# only tabs and the beginning of a colour are left.
_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\t", "\\t"), ("\x1b", "\\u001b"))
_BETWEEN = '","text":"'
_ROW_END = '"},{"t":"'
_FRAME = len('[{"t":""}]') - len(_ROW_END) + 1


def _escaped(text: str) -> str:
    for char, escape in _ESCAPES:
        if char in text:
            text = text.replace(char, escape)
    return text


def _encode_rows(rows: list[str], size: int) -> str:
    """What `encode` makes of lines, from escaped rows: no object for each line, half the time.

    Args:
        size: of the rows together, line breaks between them included.
    """
    array = _joined([row.replace(" ", _BETWEEN, 1) for row in rows])
    if len(array) == size + len(rows) * (len(_BETWEEN) - 1 + len(_ROW_END) - 1) + _FRAME:
        return array
    # A row without a blank has no text.
    return _joined([r.replace(" ", _BETWEEN, 1) if " " in r else r + _BETWEEN for r in rows])


def _joined(rows: list[str]) -> str:
    return f'[{{"t":"{_ROW_END.join(rows)}"}}]'


def _last_state_after_time(line: str) -> str:
    time, _, rest = line.partition(" ")
    return f"{time} {last_state(rest)}"


def _has_long_line(data: bytes) -> bool:
    start = 0
    while len(data) - start > MAX_LINE_BYTES:
        end = data.rfind(b"\n", start, start + MAX_LINE_BYTES)
        if end < 0:
            return True
        start = end + 1
    return False


def _capped_row(row: str) -> str:
    time, blank, text = row.partition(" ")
    return time + blank + _capped(Line(time, text)).text


def _capped(line: Line) -> Line:
    if len(line.text) <= MAX_LINE_BYTES:
        return line
    cut = len(line.text) - MAX_LINE_BYTES
    marker = f" {MARK}{cut} more characters of this line were cut"
    return Line(line.t, line.text[:MAX_LINE_BYTES] + marker)
