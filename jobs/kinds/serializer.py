"""What the bodies by which workloads are asked for have in common, whatever their kind."""

from django.utils.translation import gettext_lazy as _

from portal.web.fields import Body, Name


class SpecSerializer(Body):
    """A body whose checked value is the spec itself.

    Its context has the `tenant` that it is for, the `user` who asks and the `catalog`; the OpenAPI
    document needs none.
    """

    hides_missing = False

    name = Name(label=_("Name"))
