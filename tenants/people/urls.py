"""Addresses of people and teams: signing in, the own account, the admin's pages, REST."""

from django.urls import path

from tenants.people import account, sign_in, token_api

pages = [
    path("sign-in/", sign_in.sign_in, name="sign-in"),
    path("sign-out/", sign_in.sign_out, name="sign-out"),
    path("account/", account.account, name="account"),
    path("account/password/", account.password_change, name="password-change"),
    path("account/sessions/end/", account.sessions_end, name="sessions-end"),
    path("account/sessions/<uuid:pk>/end/", account.session_end, name="session-end"),
    path("account/tokens/<uuid:pk>/revoke/", account.token_revoke, name="token-revoke"),
]

rest = [
    path("auth/token/", token_api.TokenView.as_view(), name="api-token"),
]
