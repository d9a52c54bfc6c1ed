"""`homeport stop` and `homeport delete`."""

from __future__ import annotations

from .exits import OK
from .find import FINAL, find_job, short_id
from .listing import Row
from .sanitize import one_line
from .session import Session


def _shown(job: Row) -> str:
    return f"{one_line(job.get('name', ''))} ({short_id(job)})"


def _found(session: Session, one_of: str) -> list[Row]:
    """The trainings that were named, each once, all found before anything is done to one."""
    rows = [
        find_job(session.rest, word, session.terminal, one_of=one_of)
        for word in session.options.jobs
    ]
    return list({str(row["id"]): row for row in rows}.values())


def stop_jobs(session: Session) -> int:
    """The command `stop`."""
    answers = []
    for job in _found(session, "running"):
        if job.get("state") in FINAL:
            answers.append(job)
            session.terminal.tell(f"{_shown(job)} has ended already: {one_line(job['state'])}.")
            continue
        body = {"reason": session.options.reason}
        answers.append(session.rest.post(f"jobs/{job['id']}/stop/", body))
        session.terminal.tell(f"Stopping {_shown(job)}; it has time to save what it has.")
    if session.output.is_data:
        session.output.data(answers[0] if len(answers) == 1 else answers)
    elif session.output.form == "name":
        for job in answers:
            session.terminal.write(one_line(job.get("id", "")))
    return OK


def delete_jobs(session: Session) -> int:
    """The command `delete`."""
    for job in _found(session, "only"):
        state = one_line(job.get("state", ""))
        question = f"Delete {_shown(job)}, which is {state}, with its logs and artifacts?"
        if not session.options.yes and not session.terminal.confirm(question):
            session.terminal.tell("Not deleted.")
            continue
        session.rest.delete(f"jobs/{job['id']}/")
        session.terminal.tell(f"Deleted {_shown(job)}.")
    return OK
