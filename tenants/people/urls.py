"""Addresses of people and teams: signing in, the own account, the admin's pages, REST."""

from django.conf import settings
from django.urls import path

from tenants.people import account, api, sign_in, team_views, token_api, views

pages = [
    path("sign-in/", sign_in.sign_in, name="sign-in"),
    path("sign-out/", sign_in.sign_out, name="sign-out"),
    path("account/", account.account, name="account"),
    path("account/password/", account.password_change, name="password-change"),
    path("account/sessions/end/", account.sessions_end, name="sessions-end"),
    path("account/sessions/<uuid:pk>/end/", account.session_end, name="session-end"),
    path("account/tokens/<uuid:pk>/revoke/", account.token_revoke, name="token-revoke"),
    path("join/<slug:key>/", sign_in.join, name="join"),
    path("admin/people/", views.people, name="people"),
    path("admin/people/invite/", views.person_invite, name="person-invite"),
    path("admin/people/<uuid:pk>/", views.person, name="person"),
    path("admin/people/<uuid:pk>/disable/", views.person_disable, name="person-disable"),
    path("admin/people/<uuid:pk>/enable/", views.person_enable, name="person-enable"),
    path("admin/people/<uuid:pk>/reset/", views.person_reset, name="person-reset"),
    path("admin/teams/", team_views.team_list, name="teams"),
    path("admin/teams/<uuid:pk>/", team_views.team_admin, name="team-admin"),
    path("admin/teams/<uuid:pk>/add/", team_views.team_member_add, name="team-member-add"),
    path("admin/teams/<uuid:pk>/remove/", team_views.team_member_remove, name="team-member-remove"),
    path("admin/teams/<uuid:pk>/lead/", team_views.team_lead, name="team-lead"),
    path("admin/teams/<uuid:pk>/delete/", team_views.team_delete, name="team-delete"),
]

if settings.OIDC_ISSUER:
    # allauth's models exist only where it is installed.
    from tenants.people import oidc

    pages += [
        path("oidc/", oidc.begin, name="oidc-begin"),
        path("oidc/callback/", oidc.callback, name="oidc-callback"),
    ]

rest = [
    path("auth/token/", token_api.TokenView.as_view(), name="api-token"),
    path("users/", api.PersonListView.as_view(), name="api-users"),
    path("users/<uuid:pk>/", api.PersonDetailView.as_view(), name="api-user"),
    path("users/<uuid:pk>/reset/", api.PersonResetView.as_view(), name="api-user-reset"),
    path("teams/", api.TeamListView.as_view(), name="api-teams"),
    path("teams/<uuid:pk>/", api.TeamDetailView.as_view(), name="api-team"),
]
