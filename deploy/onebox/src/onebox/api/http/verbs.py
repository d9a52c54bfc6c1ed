"""The verbs over HTTP: get, list, create, update, patch, delete, deletecollection, scale, bind."""

from __future__ import annotations

from dataclasses import replace

from aiohttp import web

from onebox.api import events_view, patch, protobuf
from onebox.api.http import body as bodies
from onebox.api.http import listing
from onebox.api.http.options import DeleteOptions, delete_options, write_options
from onebox.api.http.reply import (
    Form,
    choose_form,
    encode,
    json_reply,
    raw_reply,
    success_status,
)
from onebox.api.http.target import Target
from onebox.api.registry import Api
from onebox.api.resources import EVENTS_VIEW, Obj, Resource
from onebox.api.reviews import answer
from onebox.api.scale import read_scale, scale_config, scale_of
from onebox.api.status import StatusError, bad_request
from onebox.api.store import clone
from onebox.api.strategy import WriteOptions
from onebox.api.tables import partial, table

USER = web.RequestKey("user", str)
"""Who asks; set by the server once the token is known."""


class Verbs:
    """The verbs on targets; each takes the request and gives the reply or raises StatusError."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def form(self, request: web.Request) -> Form:
        """Choose the form of the reply.

        Raises:
            StatusError: 406.
        """
        accept = request.headers.get("Accept", "")
        return choose_form(accept, request.query.get("includeObject", ""))

    def get(self, request: web.Request, target: Target) -> web.Response:
        """Reply with one object, or its scale."""
        form = self.form(request)
        listing.wait_for(self._api, request.query)
        obj = self._find(target)
        if target.subresource == "scale":
            return json_reply(scale_of(obj))
        return self._reply(target, obj, form)

    def _find(self, target: Target) -> Obj:
        # The events view names its objects as upstream names that group's.
        return self._api.get(target.resource.storage_plural, target.namespace, target.name)

    def _reply(
        self,
        target: Target,
        obj: Obj,
        form: Form,
        status: int = 200,
        options: WriteOptions | None = None,
    ) -> web.Response:
        warnings = options.warnings if options else ()
        if form.kind == "table":
            meta = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            plural = target.resource.storage_plural
            rows = table(plural, [obj], meta, self._api.clock(), form.style)
            return raw_reply(encode(rows), status, warnings)
        if form.kind == "partial":
            return json_reply(partial(obj, form.style.version), status, warnings)
        return raw_reply(listing.object_body(self._api, target, obj), status, warnings)

    def list(self, request: web.Request, target: Target) -> web.Response:
        """Reply with the objects of a kind."""
        form = self.form(request)
        objects, meta = listing.list_objects(self._api, target, request.query)
        return raw_reply(listing.list_body(self._api, target, form, objects, meta))

    def _options(self, request: web.Request, kind: str, *, is_apply: bool = False) -> WriteOptions:
        agent = request.headers.get("User-Agent", "")
        user = request.get(USER, "")
        return write_options(request.query, user, kind, agent=agent, is_apply=is_apply)

    async def create(self, request: web.Request, target: Target) -> web.Response:
        """Create an object, or bind a pod."""
        form = self.form(request)
        options = self._options(request, "CreateOptions")
        resource = target.resource
        if target.subresource == "binding":
            return self._bind(target, _as_object(await bodies.read_json(request)))
        obj, options = await self._read(request, resource, options)
        if resource.namespaced and not target.namespace:
            raise bad_request("an empty namespace may not be set during creation")
        if resource is EVENTS_VIEW:
            obj = events_view.from_view(obj)
        new = self._api.create(
            resource.storage_plural, target.namespace or None, obj, options=options
        )
        return self._reply(target, new, form, 201, options)

    async def review(self, request: web.Request, target: Target) -> web.Response:
        """Answer a question about the client; nothing is kept."""
        options = self._options(request, "CreateOptions")
        obj, options = await self._read(request, target.resource, options)
        asked = self._api.read(target.resource, obj, options)
        return json_reply(answer(target.resource, asked, options.user), 201, options.warnings)

    async def _read(
        self, request: web.Request, resource: Resource, options: WriteOptions
    ) -> tuple[Obj, WriteOptions]:
        """Read an object, and what is to be said about fields that it has twice."""
        obj = await bodies.read_object(request, resource)
        is_json = request.content_type not in (protobuf.MEDIA_TYPE, bodies.YAML)
        if is_json and obj and options.field_validation != "Ignore":
            twice = bodies.duplicate_fields(await bodies.read_bytes(request))
            options = replace(options, duplicates=twice)
        return obj, options

    def _bind(self, target: Target, binding: Obj) -> web.Response:
        meta = binding.get("metadata") or {}
        name = meta.get("name") or target.name
        if target.name and name != target.name:
            raise bad_request("name in URL does not match name in Binding object")
        node = (binding.get("target") or {}).get("name") or ""
        try:
            self._api.bind(target.namespace, name, node, uid=meta.get("uid") or None)
        except StatusError as error:
            raise _of_binding(error) from error
        done = {key: value for key, value in success_status({}).items() if key != "details"}
        return json_reply({**done, "code": 201}, 201)

    async def update(self, request: web.Request, target: Target) -> web.Response:
        """Replace an object, its status or its scale."""
        form = self.form(request)
        options = self._options(request, "UpdateOptions")
        if target.subresource == "scale":
            return self._scale(target, _as_object(await bodies.read_json(request)), options)
        obj, options = await self._read(request, target.resource, options)
        if target.resource is EVENTS_VIEW:
            obj = events_view.from_view(obj)
        new = self._api.update(
            target.resource.storage_plural,
            target.namespace or None,
            target.name,
            obj,
            subresource=target.subresource or None,
            options=options,
        )
        return self._reply(target, new, form, 200, options)

    def _scale(self, target: Target, scale: Obj, options: WriteOptions) -> web.Response:
        replicas, version, uid = read_scale(target.name, scale)
        changed = clone(self._find(target))
        changed["spec"]["replicas"] = replicas
        meta = changed["metadata"]
        meta["resourceVersion"] = version or meta["resourceVersion"]
        meta["uid"] = uid or meta["uid"]
        new = self._api.update(
            target.resource.plural,
            target.namespace,
            target.name,
            changed,
            subresource="scale",
            options=options,
        )
        return json_reply(scale_of(new), 200, options.warnings)

    async def patch(self, request: web.Request, target: Target) -> web.Response:
        """Change an object by a patch; a server-side apply also creates it."""
        form = self.form(request)
        kind = bodies.patch_kind(request)
        options = self._options(request, "PatchOptions", is_apply=kind == "apply")
        content = await bodies.read_bytes(request)
        if kind == "apply":
            return self._apply(target, _as_object(bodies.decode_yaml(content)), form, options)
        changes = bodies.decode(content)
        if target.subresource == "scale":
            return self._patch_scale(target, kind, changes, options)
        if target.resource is EVENTS_VIEW:
            raise bad_request("patch events through api/v1, where they are stored")
        new = self._api.patch(
            target.resource.plural,
            target.namespace or None,
            target.name,
            changes,
            kind=kind,
            subresource=target.subresource or None,
            options=options,
        )
        return self._reply(target, new, form, 200, options)

    def _patch_scale(
        self, target: Target, kind: str, changes: object, options: WriteOptions
    ) -> web.Response:
        scale = patch.apply(
            "merge" if kind == "strategic" else kind,
            target.resource,
            scale_of(self._find(target)),
            changes,
        )
        return self._scale(target, scale, options)

    def _apply(
        self, target: Target, config: Obj, form: Form, options: WriteOptions
    ) -> web.Response:
        if target.resource is EVENTS_VIEW:
            raise bad_request("apply events through api/v1, where they are stored")
        plural, namespace = target.resource.plural, target.namespace or None
        subresource = target.subresource or None
        if subresource == "scale":
            config = scale_config(target.resource, config)
        new, is_created = self._api.apply(
            plural, namespace, target.name, config, subresource=subresource, options=options
        )
        if subresource == "scale":
            return json_reply(scale_of(new), 200, options.warnings)
        return self._reply(target, new, form, 201 if is_created else 200, options)

    async def delete(self, request: web.Request, target: Target) -> web.Response:
        """Delete an object."""
        form = self.form(request)
        options = delete_options(request.query, await bodies.read_delete_options(request))
        obj, gone = self._delete_one(target, options)
        warnings = _delete_warnings(target, options)
        status = 202 if options.waits and not gone else 200
        resource = target.resource
        if gone and not resource.returns_deleted:
            meta = obj["metadata"]
            details = {"name": meta["name"], "group": resource.group, "kind": resource.plural}
            details["uid"] = meta["uid"]
            found = {key: value for key, value in details.items() if value}
            return json_reply(success_status(found), status, warnings)
        return self._reply(target, obj, form, status, WriteOptions(warnings=warnings))

    def _delete_one(self, target: Target, options: DeleteOptions) -> tuple[Obj, bool]:
        """Delete; gives the object, and whether it is gone."""
        plural, namespace = target.resource.storage_plural, target.namespace or None
        obj = self._api.delete(
            plural,
            namespace,
            target.name,
            propagation=options.propagation,
            uid=options.uid,
            resource_version=options.resource_version,
            grace_s=options.grace_s,
            options=WriteOptions(dry_run=options.dry_run),
        )
        left = self._api.find(plural, namespace, target.name)
        if options.dry_run:
            return obj, "deletionTimestamp" not in obj["metadata"]
        return obj, left is None

    async def delete_collection(self, request: web.Request, target: Target) -> web.Response:
        """Delete everything that a selector chooses."""
        form = self.form(request)
        options = delete_options(request.query, await bodies.read_delete_options(request))
        objects, meta = listing.list_objects(self._api, target, request.query)
        deleted = []
        for obj in objects:
            own = obj["metadata"]
            one = Target(target.resource, own.get("namespace", ""), own["name"])
            try:
                deleted.append(self._delete_one(one, options)[0])
            except StatusError as error:
                if error.code != 404:  # Deleting one may have taken another along.
                    raise
        body = listing.list_body(self._api, target, form, deleted, meta)
        return raw_reply(body, 200, _delete_warnings(target, options))


_PRESERVED = (
    "child pods are preserved by default when jobs are deleted; set "
    "propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress "
    "this warning"
)


def _delete_warnings(target: Target, options: DeleteOptions) -> list[str]:
    is_default = options.propagation is None
    return [_PRESERVED] if is_default and target.resource.orphans_by_default else []


def _as_object(value: object) -> Obj:
    if not isinstance(value, dict):
        raise bad_request("the body is no object")
    return value


def _of_binding(error: StatusError) -> StatusError:
    """Name the subresource in a conflict, as upstream does."""
    if error.code != 409:
        return error
    text = error.message.replace(" on pods ", " on pods/binding ", 1)
    return StatusError(409, error.reason, text, {**error.details, "kind": "pods/binding"})
