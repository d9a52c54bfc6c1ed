"""The table of permissions: what each role may do, of one tenant and as a filter of rows."""

import pytest
from django.core.exceptions import PermissionDenied

from tenants import policy
from tenants.models import ApiToken, Team, Tenant, User
from tests.factories import make_tenant, make_user

pytestmark = pytest.mark.django_db
ROLES = {"alice": {policy.OWNER}, "lee": {policy.LEAD}, "root": {policy.ADMIN}, "bob": set()}


@pytest.fixture
def tenant() -> Tenant:
    """Of alice, whose team lee leads; bob is in it and no more, root is an admin."""
    team = Team.objects.create(name="vision")
    tenant = make_tenant("alice")
    tenant.team = team
    tenant.save()
    team.leads.add(make_user("lee"))
    make_user("bob", team=team)
    make_user("root", role="admin")
    return tenant


def user(name: str) -> User:
    return User.objects.get(username=name)


@pytest.mark.parametrize("verb", policy.ALLOWED)
def test_a_verb_is_for_its_roles_in_every_form(tenant: Tenant, verb: str) -> None:
    for name, roles in ROLES.items():
        person = user(name)
        expected = bool(policy.ALLOWED[verb] & roles)
        assert policy.may(person, verb, tenant) == expected
        assert (verb in policy.allowed(person, tenant, verb)) == expected
        assert Tenant.objects.filter(policy.tenants(person, verb)).exists() == expected
        without_owner = policy.ALLOWED[verb] & (roles - {policy.OWNER})
        assert Team.objects.filter(policy.teams(person, verb)).exists() == bool(without_owner)
        assert person.may(verb) == bool(without_owner)
        if not expected:
            with pytest.raises(PermissionDenied):
                policy.require(person, verb, tenant)


def test_a_token_without_its_scope_makes_no_admin(tenant: Tenant) -> None:
    root = user("root")
    root.token_scope = ApiToken.Scope.SUBMIT
    assert not policy.allowed(root, tenant, *policy.ALLOWED)
    assert not Tenant.objects.visible_to(root).exists()


def test_whoever_sees_a_thing_may_open_what_is_shared() -> None:
    # Lists show the button without a look at each row's tenant.
    assert policy.ALLOWED["see"] <= policy.ALLOWED["open_shared"]
