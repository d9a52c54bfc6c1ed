"""People in every state, teams with budgets, and a trail of what they did, for screenshots."""

from datetime import datetime, timedelta
from typing import Any

GIB = 1024**3
NAMES = (
    ("mira", "Mira Okonkwo-Lindqvist", "speech"),
    ("tomas", "Tomás García", "speech"),
    ("yuki", "Yuki Tanaka", "robotics"),
    ("samir", "Samir Haddad", ""),
    ("emil", "Emil Nyström", "robotics"),
)
AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Safari/604.1",
)


def make_people(ada: Any, at: datetime) -> dict[str, Any]:
    """More people around those of the seed; rows by a short name."""
    from tenants.audit.record import asked_from

    with asked_from("10.20.0.4"):
        return _make_people(ada, at)


def _make_people(ada: Any, at: datetime) -> dict[str, Any]:
    from tenants.actions import create_token
    from tenants.audit.record import record
    from tenants.models import Team, User
    from tenants.people import actions, teams
    from tenants.people.models import Session

    root = User.objects.get(username="root")
    vision = Team.objects.get(name="vision")
    budget = {"cpu": 24000, "memory": 96 * GIB, "gpu": 4}
    teams.change(by=root, team=vision, changes={"budget": budget})
    for name in ("speech", "robotics"):
        teams.create(by=root, changes={"name": name})
    empty = teams.create(by=root, changes={"name": "summer school"})
    made: dict[str, Any] = {
        "team-vision": vision,
        "team-speech": Team.objects.get(name="speech"),
        "team-empty": empty,
    }
    for number, (username, name, team) in enumerate(NAMES):
        first, _, last = name.partition(" ")
        person, link = actions.invite(
            by=root,
            given={
                "username": username,
                "first_name": first,
                "last_name": last,
                "email": f"{username}@lab.example",
                "team": Team.objects.filter(name=team).first(),
            },
        )
        if number < 3:
            person.set_password("a long demo password")
            person.last_login = person.last_seen_at = at - timedelta(hours=7 * number, minutes=4)
            person.save()
        made |= {f"person-{username}": person, "join-key": link.key}  # the last one has not joined
    actions.change(by=root, person=made["person-yuki"], changes={"is_active": False})
    actions.change(by=root, person=made["person-mira"], changes={"team": vision})
    for number, agent in enumerate(AGENTS):
        Session.objects.create(
            session_key=f"seed-{number}",
            user=ada,
            expire_date=at + timedelta(days=9),
            user_agent=agent,
            source_address=f"10.20.3.{41 + number}",
            signed_in_at=at - timedelta(days=2 + number),
            last_seen_at=at - timedelta(hours=3 + 20 * number),
        )
    create_token(by=ada, name="my laptop", scope="submit")
    create_token(by=ada, name="dashboard in the corridor", scope="read")
    record(
        by=None,
        verb="sign-in",
        target=ada,
        source_address="203.0.113.77",
        detail={"locked": "for at most 10 minutes"},
        result="refused",
    )
    return made
